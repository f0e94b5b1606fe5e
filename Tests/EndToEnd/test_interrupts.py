# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The remote does not answer: who is killed dies at once, a signal that kills nobody disturbs nobody, the mount can go.

A request for names or attributes is given up by itself after ten seconds, one for content after thirty: what the
tests want at once has to come before that.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

from harness.mounts import is_mounted
from harness.processes import is_alive, run, wait_until
from harness.trees import write_file
from test_plain_http_servers import age, make_web, mount_web, web_instance  # noqa: F401

AT_ONCE = 7

#: Looks at names with a timer running, whose handler lets calls be restarted; prints the error of a call that failed.
TIMER = """
import os, signal, sys
def handle(*_): sys.stderr.write("tick\\n")
signal.signal(signal.SIGALRM, handle)
signal.siginterrupt(signal.SIGALRM, False)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
what, path = sys.argv[1:]
try:
    if what == "stat": os.stat(path)
    if what == "list": os.listdir(path)
    if what == "open": open(path, "rb").close()
    if what == "read": open(path, "rb").read()
except OSError as problem:
    print("failed", problem.errno)
else:
    print("answered")
finally:
    signal.setitimer(signal.ITIMER_REAL, 0)
"""


@pytest.fixture
def known(instance, client, proxy):
    """A mount that knows a folder's names and nothing else of them."""
    proxy.refuse_metadata()
    client.put_object(Bucket="bucket", Key="folder/file", Body=b"x" * 8192)
    client.put_object(Bucket="bucket", Key="folder/more/file", Body=b"y")
    mount = instance.mount("s3://bucket")
    os.listdir(mount / "folder")
    return mount


@pytest.mark.parametrize("what", ["stat", "open", "read", "list"])
def test_a_timer_whose_handler_restarts_calls_disturbs_nothing(known, proxy, what):
    proxy.limit(latency=1000)
    path = known / "folder/more" if what == "list" else known / "folder/file"
    result = run([sys.executable, "-c", TIMER, what, path])
    assert result.stdout == "answered\n"
    # Without a tick during the call nothing was tried.
    assert result.stderr.count("tick") >= 1


#: What hangs: the command, relative to the folder, and the first request that it cannot go on without.
COMMANDS = {
    "cat": (["cat", "file"], {"method": "GET", "path": "/bucket/folder/file"}),
    "dd": (["dd", "if=file", "of=/dev/null", "iflag=direct", "bs=4096"], {"method": "GET", "path": "/bucket/folder/file"}),
    "cp": (["cp", "file", "/dev/null"], {"method": "GET", "path": "/bucket/folder/file"}),
    "stat": (["stat", "file"], {"method": "HEAD"}),
    "ls": (["ls", "-l", "more"], {"method": "GET", "path": "/bucket"}),
}


# dd has a handler for SIGINT.
KILLS = [(name, number) for name in COMMANDS for number in ("INT", "TERM", "KILL") if (name, number) != ("dd", "INT")]


@pytest.mark.parametrize(("name", "number"), KILLS, ids=[f"{name}-{number}" for name, number in KILLS])
def test_who_is_killed_dies_at_once(known, proxy, name, number):
    words, pattern = COMMANDS[name]
    number = signal.Signals[f"SIG{number}"]
    rule = proxy.rule("hold", times="all", **pattern)
    process = subprocess.Popen(words, cwd=known / "folder", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    rule.wait()
    process.send_signal(number)
    assert process.wait(AT_ONCE) == -number
    # The one who comes next is not held up by what was given up.
    rule.release()
    rule.remove()
    assert run(words, cwd=known / "folder", check=False).returncode == 0


def test_who_waits_for_the_next_page_of_a_listing_dies_at_once(instance, server, proxy):
    os.makedirs(os.path.join(server.root, "bucket/many"))
    for number in range(1100):
        write_file(os.path.join(server.root, f"bucket/many/f{number:04}"), b"")
    mount = instance.mount("s3://bucket")
    rule = proxy.rule("hold", times="all", method="GET", query="continuation-token")
    process = subprocess.Popen(["ls", "-f", "many"], cwd=mount.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    rule.wait()
    # The names of the first page have been given out by then, and ls waits for more.
    time.sleep(1)
    assert process.poll() is None
    process.kill()
    assert process.wait(AT_ONCE) == -signal.SIGKILL
    rule.release()
    rule.remove()
    assert len(os.listdir(mount / "many")) == 1100


@pytest.mark.parametrize("words", [["stat", "file"], ["dd", "if=young", "iflag=direct"], ["dd", "if=file", "iflag=direct"]],
                         ids=["stat", "whole", "range"])
def test_who_waits_for_a_web_server_dies_at_once(make_web, web_instance, make_proxy, words):  # noqa: F811
    web = make_web("nginx-json")
    write_file(os.path.join(web.root, "file"), b"x" * 8192)
    age(web.root)
    write_file(os.path.join(web.root, "young"), b"x" * 8192)
    proxy = make_proxy(web.address)
    mount = mount_web(web_instance, proxy.url + "/")
    if words[0] == "dd":
        os.stat(mount / words[1].removeprefix("if="))
    path = "/young" if words[1] == "if=young" else "/file"
    rule = proxy.rule("hold", times="all", method="HEAD" if words[0] == "stat" else "GET", path=path)
    process = subprocess.Popen(words, cwd=mount.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    rule.wait()
    process.kill()
    assert process.wait(AT_ONCE) == -signal.SIGKILL


def test_a_kill_counts_after_signals_that_did_not(known, proxy):
    rule = proxy.rule("hold", times="all", method="HEAD")
    process = subprocess.Popen([sys.executable, "-c", TIMER, "stat", known / "folder/file"], stdout=subprocess.PIPE)
    rule.wait()
    # The kernel tells of the first tick only.
    time.sleep(0.5)
    assert process.poll() is None
    process.kill()
    assert process.wait(AT_ONCE) == -signal.SIGKILL


def test_a_thread_that_waits_keeps_no_process(known, proxy):
    rule = proxy.rule("hold", times="all", method="HEAD")
    program = "import os, sys, threading; threading.Thread(target=os.stat, args=sys.argv[1:]).start(); input(); os._exit(3)"
    process = subprocess.Popen([sys.executable, "-c", program, known / "folder/file"], stdin=subprocess.PIPE)
    rule.wait()
    process.stdin.write(b"\n")
    process.stdin.flush()
    assert process.wait(AT_ONCE) == 3


def test_who_waits_with_others_may_leave(known, proxy):
    rule = proxy.rule("hold", times=1, method="GET", path="/bucket/folder/file")
    readers = [subprocess.Popen(["cat", known / "folder/file"], stdout=subprocess.PIPE) for _ in range(3)]
    rule.wait()
    for reader in readers[:2]:
        reader.send_signal(signal.SIGINT)
        assert reader.wait(AT_ONCE) == -signal.SIGINT
    assert readers[2].poll() is None
    rule.release()
    assert readers[2].communicate(timeout=20)[0] == b"x" * 8192


@pytest.mark.parametrize("flags", [[], ["iflag=direct"]], ids=["pages", "direct"])
def test_a_signal_ends_a_mount_whose_reads_hang(known, proxy, flags):
    rule = proxy.rule("hold", times="all", method="GET", path="/bucket/folder/file")
    pid = known.pid
    reader = subprocess.Popen(["dd", "of=/dev/null", f"if={known / 'folder/file'}", *flags], stderr=subprocess.PIPE)
    rule.wait()
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not is_alive(pid), AT_ONCE, "the end of the mount's process")
    assert reader.wait(AT_ONCE) == 1
    wait_until(lambda: not is_mounted(known.path), what="the end of the mount")


@pytest.mark.parametrize("command", ["moorage", "fusermount3"])
def test_readahead_that_nobody_waits_for_does_not_hold_up_an_unmount(known, proxy, command):
    rule = proxy.rule("hold", times="all", method="GET", path="/bucket/folder/file")
    pid = known.pid
    reader = subprocess.Popen(["cat", known / "folder/file"], stdout=subprocess.PIPE)
    rule.wait()
    reader.kill()
    assert reader.wait(AT_ONCE) == -signal.SIGKILL
    if command == "moorage":
        known.unmount(timeout=AT_ONCE)
    else:
        run(["fusermount3", "-u", known.path], timeout=AT_ONCE)
    assert not is_mounted(known.path)
    wait_until(lambda: not is_alive(pid), 20, "the end of the mount's process")


def test_a_remote_that_swallows_everything_hangs_neither_ls_nor_df(known, proxy):
    proxy.mode("blackhole")
    run(["df", known.path], timeout=AT_ONCE)
    # Ten seconds for a request; then the remote counts as away, and nothing waits any more.
    assert "Input/output error" in run(["ls", known / "folder/more"], timeout=30, check=False).stderr
    assert "Input/output error" in run(["ls", "-l", known / "folder"], timeout=AT_ONCE, check=False).stderr
    run(["df", known.path], timeout=AT_ONCE)
