# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Who waits for a remote that does not answer gets a signal at once, and harms nobody who waits for the same.

A read waits in the kernel for pages that it asked for ahead: a signal that kills ends that, others come after it.
"""

import os
import signal
import subprocess
import sys

import pytest

PROGRAM = """
import os, signal, sys
class Interrupted(Exception): pass
def handle(*_): raise Interrupted
signal.signal(signal.SIGALRM, handle)
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[3]))
try:
    os.stat(sys.argv[2]) if sys.argv[1] == "stat" else os.listdir(sys.argv[2])
except Interrupted:
    print("interrupted")
else:
    print("answered")
"""


def start(what, path, seconds):
    return subprocess.Popen([sys.executable, "-c", PROGRAM, what, path, str(seconds)], stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("what", ["stat", "list"])
def test_a_signal_ends_the_waiting(instance, proxy, client, what):
    client.put_object(Bucket="bucket", Key="folder/file", Body=b"x" * 8192)
    mount = instance.mount("s3://bucket")
    os.listdir(mount.path if what == "list" else mount / "folder")
    rules = {"stat": {"method": "HEAD"}, "list": {"method": "GET", "path": "/bucket"}}
    rule = proxy.rule("hold", times=1, **rules[what])
    path = mount / "folder" if what == "list" else mount / "folder/file"
    process = start(what, path, 1)
    rule.wait()
    assert process.communicate(timeout=8)[0] == "interrupted\n"
    # The one who comes next is not held up by what was given up.
    rule.release()
    assert start(what, path, 60).communicate(timeout=20)[0] == "answered\n"


def test_who_reads_with_others_may_leave(instance, proxy, client):
    client.put_object(Bucket="bucket", Key="file", Body=b"x" * 8192)
    mount = instance.mount("s3://bucket")
    os.stat(mount / "file")
    rule = proxy.rule("hold", times=1, method="GET", path="/bucket/file")
    readers = [subprocess.Popen(["cat", mount / "file"], stdout=subprocess.PIPE) for _ in range(3)]
    rule.wait()
    for reader in readers[:2]:
        reader.send_signal(signal.SIGINT)
        assert reader.wait(8) == -signal.SIGINT
    assert readers[2].poll() is None
    rule.release()
    assert readers[2].communicate(timeout=20)[0] == b"x" * 8192
