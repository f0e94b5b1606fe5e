# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A disk that fails a sync: what it was for is never called safe later, and is not sent unasked.

strace lets a call on a chosen file fail once, as the kernel does: it reports a failed write-back to one sync, drops the
bytes, and calls the next sync a success.
"""

import contextlib
import errno
import glob
import os
import shlex
import shutil
import signal
import struct
import subprocess

import pytest

from harness.processes import wait_until
from harness.trees import random_bytes


def needs():
    """What these tests need and do not find; printed with the skip."""
    if not shutil.which("strace"):
        return "needs strace"
    if os.geteuid() != 0:
        return "needs root, to attach to a running process"
    probe = subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True)
    return None if probe.returncode == 0 else "needs ptrace(2)"


pytestmark = [pytest.mark.limit(120), pytest.mark.skipif(needs() is not None, reason=str(needs()))]


class Faults:
    """What is to fail in a process, and how often it did."""

    def __init__(self, log):
        self.log = log

    def count(self, call):
        """How often that call failed."""
        with open(self.log, errors="replace") as file:
            return sum(1 for line in file if call in line and "INJECTED" in line)


class Tracer:
    """An strace to be, started before any file is open.

    A process that begins with open files of ours closes them, and each close(2) of a file completes it.
    """

    def __init__(self, folder):
        self.log = os.path.join(folder, "strace.out")
        waiting = ["bash", "-c", 'read -r line; eval "exec $line"']
        self.child = subprocess.Popen(waiting, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    @contextlib.contextmanager
    def failing(self, pid, paths, *rules):
        """Lets calls of a process on some files fail while it lasts; a rule is CALL or CALL:when=N.

        CALL:delay_enter=TIME lets it begin so much later instead.
        """
        calls = ",".join(rule.split(":")[0] for rule in rules)
        command = ["strace", "-f", "-p", str(pid), "-o", self.log, "-e", f"trace={calls}"]
        for rule in rules:
            call, _, when = rule.partition(":")
            command += ["-e", f"inject={call}:" + (when if when.startswith("delay") else "error=EIO" + (f":{when}" if when else ""))]
        for path in paths:
            command += ["-P", path]
        self.child.stdin.write(shlex.join(command) + "\n")
        self.child.stdin.flush()
        line = self.child.stderr.readline()
        while " attached" not in line:
            assert line, "strace could not attach"
            line = self.child.stderr.readline()
        yield Faults(self.log)
        self.end()

    def end(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
            self.child.communicate(timeout=20)


@pytest.fixture
def tracer(folder, stack):
    tracer = Tracer(folder)
    stack.callback(tracer.end)
    return tracer


def staging(instance):
    """The files with bytes that are not remote, by name."""
    (found,) = glob.glob(os.path.join(instance.directory("state"), "volumes", "*", "staging"))
    paths = {name: os.path.join(found, name) for name in os.listdir(found)}
    return {name: path for name, path in paths.items() if size(path) > 0}


def size(path):
    """Of a file in staging; empty ones were made ahead, and go when no file has come for them."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0


def begin(instance, path, data):
    """Creates a file and writes to it; returns its descriptor and the file with its bytes."""
    before = set(staging(instance))
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC, 0o644)
    os.write(descriptor, data)
    (new,) = set(staging(instance)) - before
    return descriptor, staging(instance)[new]


def refused(path, flags=os.O_RDONLY):
    """Whether fsync of a new handle fails."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
        return False
    except OSError as error:
        assert error.errno == errno.EIO
        return True
    finally:
        os.close(descriptor)


def held(instance):
    """The paths of the uploads that wait for a person because of the disk."""
    uploads = [upload for upload in instance.uploads() if upload["state"] == "attention"]
    assert all("the disk failed to write it" in upload["error"] for upload in uploads)
    return sorted(upload["path"] for upload in uploads)


def is_kept(pid):
    """Whether the tracer keeps the thread that syncs closed files."""
    for task in glob.glob(f"/proc/{pid}/task/*"):
        with contextlib.suppress(FileNotFoundError), open(f"{task}/comm") as name, open(f"{task}/stat") as stat:
            if name.read().strip() == "group-sync":
                return stat.read().rsplit(")", 1)[1].split()[0] == "t"
    return False


def content(client, key):
    with contextlib.suppress(client.exceptions.NoSuchKey):
        return client.get_object(Bucket="bucket", Key=key)["Body"].read()


def test_what_fsync_failed_for_is_not_called_safe_later(instance, mount, client, tracer, seed):
    data = random_bytes(seed, 50_000)
    descriptor, file = begin(instance, mount / "f", data)
    with tracer.failing(mount.pid, [file], "fdatasync:when=1") as faults:
        with pytest.raises(OSError) as caught:
            os.fsync(descriptor)
        assert faults.count("fdatasync") >= 1, "nothing failed: the test proves nothing"
    assert caught.value.errno == errno.EIO
    with pytest.raises(OSError):
        os.fsync(descriptor)
    assert refused(mount / "f")
    os.close(descriptor)
    assert refused(mount / "f") and refused(mount / "f", os.O_RDWR)
    instance.run("flush", "--timeout", "20", check=False)
    assert held(instance) == ["f"] and content(client, "f") is None
    assert os.getxattr(mount / "f", "user.moorage.state") == b"attention"
    assert "1 need attention" in instance.run("status").stdout
    mount.unmount()
    mount = mount.mount_again()
    assert refused(mount / "f") and held(instance) == ["f"]
    with open(mount / "f", "wb") as anew:
        anew.write(data[::-1])
        anew.flush()
        os.fsync(anew.fileno())
    instance.flush()
    assert content(client, "f") == data[::-1]


def test_a_closed_file_that_the_disk_failed_to_write_is_sent_when_a_person_says_so(instance, mount, client, tracer, seed):
    data = random_bytes(seed, 50_000)
    good, _ = begin(instance, mount / "good", data)
    bad, file = begin(instance, mount / "bad", data)
    with tracer.failing(mount.pid, [file], "fdatasync:when=1") as faults:
        os.close(good)
        os.close(bad)
        wait_until(lambda: faults.count("fdatasync"), 20, "the group sync")
    wait_until(lambda: held(instance) == ["bad"], 20, "the failure to be told")
    wait_until(lambda: content(client, "good") == data, 20, "the other file")
    assert content(client, "bad") is None and refused(mount / "bad")
    instance.run("uploads", "now", "--all", check=False)
    assert held(instance) == ["bad"], "`now` is no consent"
    upload = next(upload for upload in instance.uploads() if upload["path"] == "bad")
    instance.run("uploads", "retry", upload["id"])
    instance.flush()
    assert content(client, "bad") == data


def test_an_error_of_the_whole_disk_condemns_only_the_files_that_had_it(instance, mount, client, tracer, seed):
    data = {f"f{number:02}": random_bytes(seed + number, 3000) for number in range(120)}
    files = {name: begin(instance, mount / name, bytes) for name, bytes in data.items()}
    places = [os.path.dirname(files["f17"][1]), files["f17"][1]]
    # The sync of the first file is kept in its last step, the folder's, so that those that are closed meanwhile make up
    # one sync of many files, with the bad one among them, however long closing them takes.
    with tracer.failing(mount.pid, places, "fsync:delay_enter=2s:when=1", "syncfs:when=1", "fdatasync:when=1") as faults:
        os.close(files["f00"][0])
        wait_until(lambda: is_kept(mount.pid), 20, "the sync of the first file")
        for descriptor in [files["f17"][0], *(files[name][0] for name in files if name not in ("f00", "f17"))]:
            os.close(descriptor)
        wait_until(lambda: faults.count("fdatasync") and faults.count("syncfs"), 20, "the group sync")
    wait_until(lambda: instance.pending_files() == 1, 30, "the other files")
    assert held(instance) == ["f17"]
    for name, bytes in data.items():
        assert content(client, name) == (None if name == "f17" else bytes)


def salt(log):
    """What names the journal's log: it changes when a new one is begun."""
    with open(log, "rb") as file:
        header = file.read(32)
    return struct.unpack(">2I", header[16:24]) if len(header) == 32 else None


def test_a_log_that_the_disk_failed_to_write_is_not_built_upon(instance, mount, tracer, seed):
    """What a failed sync of the log lost would be a hole in it, behind which power loss loses everything."""
    descriptor, file = begin(instance, mount / "f", random_bytes(seed, 5000))
    other, _ = begin(instance, mount / "other", random_bytes(seed, 6000))
    log = os.path.join(os.path.dirname(os.path.dirname(file)), "journal.sqlite-wal")
    os.fsync(other)
    before = salt(log)
    with tracer.failing(mount.pid, [log], "fdatasync:when=1") as faults:
        with pytest.raises(OSError) as caught:
            os.fsync(descriptor)
        assert faults.count("fdatasync") >= 1, "nothing failed: the test proves nothing"
    assert caught.value.errno == errno.EIO
    assert refused(mount / "f")
    os.write(other, b"more")
    os.fsync(other)
    assert salt(log) != before, "the old log goes on behind its hole"
    os.close(other)
    os.close(descriptor)
    instance.flush()


def test_a_folder_is_synced_when_its_names_are_on_the_disk(instance, mount, tracer):
    """fsync of a folder fails when the disk does, and succeeds only when all is written once more."""
    (log,) = glob.glob(os.path.join(instance.directory("state"), "volumes", "*", "journal.sqlite-wal"))
    os.mkdir(mount / "d")
    descriptor = os.open(mount / "d", os.O_RDONLY)
    os.fsync(descriptor)
    before = salt(log)
    os.rename(mount / "d", mount / "e")
    with tracer.failing(mount.pid, [log], "fdatasync:when=1+") as faults:
        for _ in range(2):
            with pytest.raises(OSError):
                os.fsync(descriptor)
        assert faults.count("fdatasync") >= 2, "nothing failed: the test proves nothing"
    os.fsync(descriptor)
    assert salt(log) != before
    os.close(descriptor)
