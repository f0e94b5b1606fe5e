# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Processes of the product that die say, or have said of them, by what; nothing is lost."""

import glob
import os
import signal
import subprocess

import pytest

from harness import injection
from harness.injection import Injection
from harness.instance import detach
from harness.processes import is_alive, wait_until
from harness.trees import all_keys, write_file


@pytest.mark.skipif(injection.missing() is not None, reason=str(injection.missing()))
def test_a_mount_that_dies_while_it_starts_is_said_to_by_what(instance, folder):
    path = instance.directory("mnt/0")
    os.makedirs(path)

    def die():
        death = Injection(os.path.join(folder, "steps"), "mount", [instance.directory("state")], action="kill", first=3)
        words = ["mount", "s3://bucket", path, "-o", f"endpoint={instance.endpoint}"]
        result = instance.run(*words, env=death.settings, check=False)
        assert result.returncode == 1 and death.hits(), result.stderr
        return result.stderr

    text = "moorage: mount: s3://bucket: its process was ended by SIGKILL (9) before the mount was ready"
    assert die() == text + "\n"
    # A log is named where there is something to read in it.
    [log] = glob.glob(os.path.join(instance.directory("run"), "mount-*.log"))
    with open(log, "w") as file:
        file.write("what happened before\n")
    assert die() == f"{text}; see {log}\n"
    assert os.listdir(instance.mount("s3://bucket", path).path) == []


class ForegroundMount:
    """A mount whose process is a child of the test's, which sees how it ends; its messages go to a file."""

    def __init__(self, instance, remote, folder, stack):
        path = instance.directory("mnt/0")
        os.makedirs(path)
        self.log = os.path.join(folder, "foreground.log")
        words = ["mount", remote, path, "-o", f"endpoint={instance.endpoint}", "--foreground"]
        with open(self.log, "wb") as log:
            # The runtime would write a backtrace, which takes a while.
            environment = instance.environment | {"SWIFT_BACKTRACE": "enable=no"}
            self.process = subprocess.Popen([instance.binary, *words], stderr=log, env=environment, start_new_session=True)
        stack.callback(self.process.kill)
        self.mount = instance.adopt(remote, path)
        wait_until(lambda: os.path.ismount(path) or self.process.poll() is not None, 20, "the mount")

    def end(self):
        """How it ended, and what it said of pages."""
        status = self.process.wait(20)
        detach(self.mount.path)
        return status, lost_pages(self.log)


def lost_pages(log):
    with open(log, errors="replace") as file:
        return [line.rstrip("\n") for line in file if "a page of" in line]


def line_about(path):
    return (f"moorage: a page of {path} cannot be had (SIGBUS): its disk fails or is full, or somebody cut the file; "
            "ending, what was acknowledged is in the journal and goes on at the next start")


def cut_bandwidth(instance):
    """Takes the page of the file that all processes map."""
    path = instance.directory("state/bandwidth")
    os.truncate(path, 0)
    return path


def test_a_mount_that_loses_a_page_says_of_which_file_and_loses_nothing(instance, client, folder, stack):
    client.put_object(Bucket="bucket", Key="remote", Body=b"theirs")
    dying = ForegroundMount(instance, "s3://bucket", folder, stack)
    instance.run("policy", "set", "metered=yes")
    write_file(dying.mount / "local", b"ours")
    path = cut_bandwidth(instance)
    with pytest.raises(OSError):
        # Bytes that come from the remote are counted there.
        with open(dying.mount / "remote", "rb") as file:
            file.read()
    assert dying.end() == (-signal.SIGBUS, [line_about(path)])
    mount = dying.mount.mount_again()
    assert all_keys(client, "bucket").keys() == {"remote"}, "all was sent before: the test proves nothing"
    for name, content in (("local", b"ours"), ("remote", b"theirs")):
        with open(mount / name, "rb") as file:
            assert file.read() == content
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="local")["Body"].read() == b"ours"


def test_a_flusher_that_loses_a_page_says_of_which_file_and_another_goes_on(instance, mount, client):
    instance.run("policy", "set", "metered=yes")
    write_file(mount / "local", b"ours")
    mount.unmount()
    flusher = instance.running_flusher()
    path = cut_bandwidth(instance)
    instance.run("flush", "--timeout", "20", check=False)
    wait_until(lambda: not is_alive(flusher), 20, "the flusher's end")
    assert lost_pages(os.path.join(instance.directory("run"), "flusher.log")) == [line_about(path)]
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="local")["Body"].read() == b"ours"


def test_a_signal_that_somebody_sends_is_no_lost_page(instance, folder, stack):
    dying = ForegroundMount(instance, "s3://bucket", folder, stack)
    dying.process.send_signal(signal.SIGBUS)
    assert dying.end() == (-signal.SIGBUS, [])
