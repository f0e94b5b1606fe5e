# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""fsync=remote, close=remote and staging_limit: calls that wait for uploads."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from harness.disks import SmallDisk, needs_root
from harness.processes import is_alive, wait_until
from harness.trees import random_bytes

MIB = 1 << 20


def body(client, key):
    """An object's content; None when there is none."""
    try:
        return client.get_object(Bucket="bucket", Key=key)["Body"].read()
    except client.exceptions.NoSuchKey:
        return None


class Call:
    """Something that blocks, in a thread of its own, and its outcome."""

    def __init__(self, action):
        self.outcome = None
        self.thread = threading.Thread(target=self._run, args=(action,), daemon=True)
        self.thread.start()

    def _run(self, action):
        try:
            action()
            self.outcome = "done"
        except OSError as problem:
            self.outcome = errno.errorcode[problem.errno]

    def wait(self, timeout=60):
        self.thread.join(timeout)
        assert self.outcome, f"it did not end within {timeout} s"
        return self.outcome


def test_fsync_returns_when_the_content_is_at_the_remote(instance, client):
    """The long quiet period shows that the wait is what has it sent."""
    instance.configure(quiet_period="3600s")
    mount = instance.mount("s3://bucket", None, "fsync=remote")
    descriptor = os.open(mount / "a", os.O_RDWR | os.O_CREAT)
    for text in (b"first", b"second, and longer", b"third"):
        os.pwrite(descriptor, text, 0)
        os.ftruncate(descriptor, len(text))
        os.fsync(descriptor)
        assert body(client, "a") == text
        assert os.pread(descriptor, 100, 0) == text
    os.pwrite(descriptor, b"T", 0)
    os.fdatasync(descriptor)
    assert body(client, "a") == b"Third"
    os.pwrite(descriptor, b"last", 0)
    os.close(descriptor)
    assert body(client, "a") == b"Third"
    instance.flush()
    assert body(client, "a") == b"lastd"
    synchronous = os.open(mount / "s", os.O_WRONLY | os.O_CREAT | os.O_DSYNC)
    os.write(synchronous, b"at once")
    assert body(client, "s") == b"at once"
    os.close(synchronous)


def test_fsync_of_a_folder_waits_for_what_is_in_it(instance, client):
    instance.configure(quiet_period="3600s", fsync="remote")
    mount = instance.mount("s3://bucket")
    os.mkdir(mount / "d")
    for name in ("d/a", "d/b", "other"):
        with open(mount / name, "wb") as file:
            file.write(name.encode())
    folder = os.open(mount / "d", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)
    assert [body(client, name) for name in ("d/a", "d/b", "other")] == [b"d/a", b"d/b", None]


def test_close_returns_when_the_content_is_at_the_remote(instance, client):
    instance.configure(quiet_period="3600s")
    mount = instance.mount("s3://bucket", None, "close=remote")
    data = random_bytes(1, 3 * MIB)
    first, second = (os.open(mount / "a", os.O_WRONLY | os.O_CREAT) for _ in range(2))
    os.pwrite(first, data, 0)
    os.close(first)
    # Another writer is left, whose close it is.
    assert body(client, "a") is None
    os.close(second)
    assert body(client, "a") == data
    with open(mount / "b", "wb") as file:
        file.write(b"b")
    assert body(client, "b") == b"b"
    assert instance.pending_files() == 0


@pytest.mark.parametrize("option", ("fsync=remote", "close=remote"))
def test_a_wait_lasts_as_long_as_the_upload(option, instance, client, proxy):
    mount = instance.mount("s3://bucket", None, option)
    held = proxy.rule("hold", method="PUT", path="/bucket/a", times=1)
    descriptor = os.open(mount / "a", os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"content")
    call = Call(lambda: os.fsync(descriptor) if option.startswith("fsync") else os.close(descriptor))
    held.wait()
    # Longer than what a handle has to come back after its flush, and than a quiet period.
    call.thread.join(1.5)
    assert call.outcome is None
    held.release()
    assert call.wait() == "done"
    assert body(client, "a") == b"content"


def test_a_wait_outlives_a_flusher_that_is_killed(instance, client, proxy):
    mount = instance.mount("s3://bucket", None, "fsync=remote")
    held = proxy.rule("hold", method="PUT", path="/bucket/a", times=1)
    with open(mount / "a", "wb", buffering=0) as file:
        file.write(b"content")
        call = Call(lambda: os.fsync(file.fileno()))
        held.wait()
        instance.kill_flusher()
        held.release()
        assert call.wait() == "done"
        assert body(client, "a") == b"content"


def test_a_wait_goes_with_a_file_that_is_moved(instance, client, proxy):
    """A flusher that is killed meanwhile is asked again, for the name that the file has by then."""
    instance.configure(quiet_period="600s")
    mount = instance.mount("s3://bucket", None, "close=remote")
    assert os.listdir(mount.path) == []
    proxy.offline()
    # A program of its own: what this one starts would inherit the descriptor, close it, and wait as well.
    writer = subprocess.Popen([sys.executable, "-c", "import sys; open(sys.argv[1], 'w').write('content')", mount / "a"])
    wait_until(lambda: any(upload["path"] == "a" for upload in instance.uploads()), 30, "the file to wait")
    wait_until(instance.flusher_pid, 30, "a flusher")
    os.rename(mount / "a", mount / "b")
    instance.kill_flusher()
    # It is asked for the old name first.
    time.sleep(2)
    assert writer.poll() is None
    proxy.online()
    assert writer.wait(60) == 0
    assert body(client, "b") == b"content"


WRITER = "import os, sys; f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT); os.write(f, b'x'); os.fsync(f)"


def test_who_waits_can_be_killed_and_nothing_is_lost(instance, client, proxy):
    mount = instance.mount("s3://bucket", None, "fsync=remote")
    held = proxy.rule("hold", method="PUT", path="/bucket/a", times=1)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, mount / "a"])
    held.wait()
    writer.send_signal(signal.SIGKILL)
    assert writer.wait(20) == -signal.SIGKILL
    held.release()
    instance.flush()
    assert body(client, "a") == b"x"


@pytest.mark.parametrize("option", ("fsync=remote", "close=remote"))
def test_what_needs_a_person_is_an_error(option, instance, client, proxy):
    mount = instance.mount("s3://bucket", None, option)
    text = "<Error><Code>InvalidRequest</Code><Message>no</Message></Error>"
    refusal = proxy.rule("respond", times="all", method="PUT", path="/bucket/a", status=400, body=text)
    descriptor = os.open(mount / "a", os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"content")
    if option.startswith("fsync"):
        assert Call(lambda: os.fsync(descriptor)).wait() == "EIO"
        os.close(descriptor)
    else:
        assert Call(lambda: os.close(descriptor)).wait() == "EIO"
    refusal.remove()
    assert body(client, "a") is None
    with open(mount / "a", "rb") as file:
        assert file.read() == b"content"
    instance.run("uploads", "retry", mount / "a")
    instance.flush()
    assert body(client, "a") == b"content"


@pytest.mark.parametrize("is_seen", (False, True), ids=("unseen", "seen"))
@pytest.mark.parametrize("option", ("fsync=remote", "close=remote"))
def test_a_conflict_is_an_error_and_both_are_kept(option, is_seen, instance, client):
    client.put_object(Bucket="bucket", Key="a", Body=b"old")
    mount = instance.mount("s3://bucket", None, option)
    descriptor = os.open(mount / "a", os.O_RDWR)
    if is_seen:
        assert os.pread(descriptor, 3, 0) == b"old"
        client.put_object(Bucket="bucket", Key="a", Body=b"their")
        instance.run("cache", "refresh", mount.path)
        wait_until(lambda: open(mount / "a", "rb").read() == b"their", 20, "the remote's version")
    os.pwrite(descriptor, b"our", 0)
    if not is_seen:
        client.put_object(Bucket="bucket", Key="a", Body=b"their")
    if option.startswith("fsync"):
        assert Call(lambda: os.fsync(descriptor)).wait() == "EIO"
        os.close(descriptor)
    else:
        assert Call(lambda: os.close(descriptor)).wait() == "EIO"
    instance.flush()
    keys = [item["Key"] for item in client.list_objects_v2(Bucket="bucket")["Contents"]]
    assert len(keys) == 2 and body(client, "a") == b"their"
    assert body(client, next(key for key in keys if key != "a")) == b"our"


def test_a_mount_ends_though_somebody_waits(instance, client, proxy):
    mount = instance.mount("s3://bucket", None, "fsync=remote")
    held = proxy.rule("hold", method="PUT", path="/bucket/a", times=1)
    descriptor = os.open(mount / "a", os.O_WRONLY | os.O_CREAT)
    os.write(descriptor, b"x")
    call = Call(lambda: os.fsync(descriptor))
    held.wait()
    process = mount.pid
    os.kill(process, signal.SIGTERM)
    assert call.wait() in ("ENOTCONN", "ECONNABORTED", "EIO")
    held.release()
    try:
        os.close(descriptor)
    except OSError as problem:
        assert problem.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    # Until it has ended its mount may be there, cut off.
    wait_until(lambda: not is_alive(process), 20, "the end of the mount")
    mount = mount.mount_again()
    instance.flush()
    assert body(client, "a") == b"x"


def staged(instance):
    """What the staging files of an instance take on the disk."""
    sizes = []
    for base, _, files in os.walk(instance.directory("state")):
        if os.path.basename(base) == "staging":
            for name in files:
                try:
                    sizes.append(os.stat(os.path.join(base, name)).st_blocks * 512)
                except FileNotFoundError:
                    pass
    return sum(sizes)


def test_writers_wait_for_uploads_at_the_staging_limit(instance, client):
    mount = instance.mount("s3://bucket", None, "staging_limit=16M", "staging_wait=100s")
    data, most = random_bytes(2, 4 * MIB), 0
    for number in range(12):
        with open(mount / f"f{number}", "wb") as file:
            file.write(data)
        most = max(most, staged(instance))
    assert 8 * MIB < most <= 17 * MIB
    instance.flush()
    for number in range(12):
        assert body(client, f"f{number}") == data


@needs_root
def test_writers_wait_for_uploads_when_the_disk_is_full(make_instance, proxy, client, folder, stack):
    """Twice what the disk has room for, on a line that takes two seconds for each file."""
    disk = SmallDisk(os.path.join(folder, "small"), "48m")
    stack.callback(disk.unmount)
    instance = make_instance(proxy.url)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_STATE_DIR"] = os.path.join(disk.path, "state")
    mount = instance.mount("s3://bucket", None, "staging_wait=100s")
    proxy.limit(up=4 * MIB)
    data = random_bytes(4, 8 * MIB)
    for number in range(12):
        with open(mount / f"f{number}", "wb") as file:
            file.write(data)
    # Nothing that is closed can make room for what no disk has: that is said at once.
    instance.flush()
    with pytest.raises(OSError) as problem, open(mount / "huge", "wb") as file:
        os.posix_fallocate(file.fileno(), 0, 64 * MIB)
    assert problem.value.errno == errno.ENOSPC
    for number in range(12):
        assert body(client, f"f{number}") == data


@needs_root
@pytest.mark.parametrize("flusher", [False, True])
def test_a_kill_while_a_writer_waits_for_room_loses_nothing(make_instance, proxy, client, folder, stack, flusher):
    """The disk is full of complete files that cannot be sent, and a further one waits, when the processes are killed."""
    disk = SmallDisk(os.path.join(folder, "small"), "48m")
    stack.callback(disk.unmount)
    instance = make_instance(proxy.url)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_STATE_DIR"] = os.path.join(disk.path, "state")
    mount = instance.mount("s3://bucket", None, "staging_wait=100s")
    assert os.listdir(mount.path) == []
    proxy.offline()
    data = random_bytes(5, 8 * MIB)
    for number in range(4):
        with open(mount / f"f{number}", "wb") as file:
            file.write(data)
    program = "import sys; open(sys.argv[1], 'wb').write(bytes(8 << 20))"
    writer = subprocess.Popen([sys.executable, "-c", program, mount / "late"], stderr=subprocess.DEVNULL)
    wait_until(lambda: disk_is_full(disk), 20, "a full disk")
    with pytest.raises(subprocess.TimeoutExpired):
        writer.wait(2)
    if flusher:
        instance.kill_flusher()
    mount.kill()
    assert writer.wait(20) != 0
    proxy.online()
    mount.mount_again()
    instance.flush()
    for number in range(4):
        assert body(client, f"f{number}") == data
    assert body(client, "late") in (None, bytes(len(body(client, "late") or b""))), "something else than was written"


def disk_is_full(disk):
    """Whether there is no more room than the journal's own."""
    status = os.statvfs(disk.path)
    return status.f_bavail * status.f_frsize < 9 * MIB


def test_at_the_staging_limit_writers_get_an_error_in_the_end_and_nothing_is_lost(instance, client, proxy):
    mount = instance.mount("s3://bucket", None, "staging_limit=16M", "staging_wait=0.5s")
    # What the folder holds must be known before the network goes away.
    assert os.listdir(mount.path) == []
    proxy.offline()
    data = random_bytes(3, MIB)
    outcomes = []
    for number in range(18):
        with open(mount / f"f{number}", "wb", buffering=0) as file:
            try:
                outcomes.append(file.write(data))
            except OSError as problem:
                outcomes.append(errno.errorcode[problem.errno])
    whole = [number for number, outcome in enumerate(outcomes) if outcome == MIB]
    assert whole == list(range(len(whole))) and len(whole) >= 12
    assert set(outcomes[len(whole):]) == {"ENOSPC"}
    assert instance.status()["volumes"][0]["staging"]["bytes"] == staged(instance) >= len(whole) * MIB
    # Without a flusher that could tell it is looked at.
    mount.unmount()
    instance.kill_flusher()
    status = instance.status()
    assert not status["flusher"]["running"]
    assert status["volumes"][0]["staging"]["bytes"] == staged(instance) >= len(whole) * MIB
    mount = mount.mount_again()
    # What is written over and holes need no room.
    descriptor = os.open(mount / "f0", os.O_WRONLY)
    os.ftruncate(descriptor, 0)
    os.close(descriptor)
    proxy.online()
    instance.flush()
    for number in whole[1:]:
        assert body(client, f"f{number}") == data
    with open(mount / "f0", "wb") as file:
        file.write(data)
    instance.flush()
    assert body(client, "f0") == data
