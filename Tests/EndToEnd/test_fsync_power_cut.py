# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""fsync is honest: the disk that holds the state loses everything that was not forced out."""

import contextlib
import os
import random
import shutil
import subprocess
import sys
import time

import pytest

from harness.processes import kill, run, wait_until
from harness.settings import scaled
from harness.trees import random_bytes, sha256_of_object

WRITER = """
import os, sys, time
root, seed, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
sys.path.insert(0, sys.argv[4])
from harness.trees import random_bytes
for number in range(first, first + 100000):
    data = random_bytes(seed * 1000003 + number, 1000 + number * 997 % 60000)
    synced = number % 3 != 2
    path = os.path.join(root, f"{'synced' if synced else 'loose'}-{number:05}")
    with open(path, "wb") as file:
        file.write(data[:len(data) // 2])
        if number % 6 == 0:
            file.flush()
            os.fsync(file.fileno())
        file.write(data[len(data) // 2:])
        if synced:
            file.flush()
            os.fsync(file.fileno())
    print(number, int(synced), flush=True)
    time.sleep(0.004)
"""


def needs():
    """What this test needs and does not find; printed with the skip."""
    if os.geteuid() != 0:
        return "needs root for a loop device"
    if not os.path.exists("/dev/loop-control"):
        return "needs /dev/loop-control"
    missing = [tool for tool in ("xfs_io", "mkfs.ext4", "losetup") if not find_tool(tool)]
    return f"needs {' '.join(missing)}" if missing else None


def find_tool(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class LoopDisk:
    """An ext4 file system on a file, which can lose its power."""

    def __init__(self, folder, size):
        self.image = os.path.join(folder, "disk.img")
        self.path = os.path.join(folder, "disk")
        os.makedirs(self.path)
        run(["truncate", "-s", str(size), self.image])
        run([find_tool("mkfs.ext4"), "-q", "-F", self.image])
        self.mount()

    def mount(self):
        run(["mount", "-o", "loop", self.image, self.path])

    def cut_power(self):
        run([find_tool("xfs_io"), "-x", "-c", "shutdown", self.path])

    def unmount(self):
        for _ in range(50):
            if run(["umount", self.path], check=False).returncode == 0 or not os.path.ismount(self.path):
                return
            time.sleep(0.1)
        run(["umount", "-l", self.path], check=False)


def expected(seed, number):
    return random_bytes(seed * 1000003 + number, 1000 + number * 997 % 60000)


@pytest.mark.limit(300)
@pytest.mark.skipif(needs() is not None, reason=str(needs()))
def test_what_fsync_acknowledged_survives_power_loss(server, proxy, make_instance, folder, stack, seed, client):
    instance = make_instance(proxy.url, "instance")
    disk = LoopDisk(folder, 256 << 20)
    stack.callback(disk.unmount)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_STATE_DIR"] = os.path.join(disk.path, "state")
    generator = random.Random(seed)
    acknowledged = {}
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == []
    for _ in range(scaled(3)):
        proxy.offline()
        first = len(acknowledged)
        acknowledged |= write_until_power_cut(mount, disk, seed, first, generator)
        new = [number for number, synced in acknowledged.items() if number >= first and synced]
        assert len(new) >= 3, "nothing was acknowledged before the cut: the test proves nothing"
        kill(mount.pid)
        instance.abandon()
        disk.unmount()
        disk.mount()
        forget_boot(instance)
        mount = mount.mount_again()
        for number in new:
            with open(mount / f"synced-{number:05}", "rb") as file:
                assert file.read() == expected(seed, number), f"synced-{number:05} after the cut"
        assert instance.pending_files() >= len(new)
        proxy.online()
        instance.flush()
    check_remote(client, acknowledged, seed)


def write_until_power_cut(mount, disk, seed, first, generator):
    """Runs the writer, cuts the power after a random number of files and returns what it acknowledged before."""
    folder = os.path.dirname(os.path.abspath(__file__))
    command = [sys.executable, "-c", WRITER, mount.path, str(seed), str(first), folder]
    writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    output = "".join(writer.stdout.readline() for _ in range(generator.randrange(6, 150)))
    time.sleep(generator.random() * 0.05)
    disk.cut_power()
    writer.kill()
    output += writer.communicate(timeout=20)[0]
    lines = [line.split() for line in output.splitlines() if len(line.split()) == 2]
    return {int(number): synced == "1" for number, synced in lines}


def forget_boot(instance):
    """Makes the journals believe that the machine has booted since: what power loss means."""
    for base, _, names in os.walk(instance.environment["MOORAGE_STATE_DIR"]):
        if "journal.sqlite" in names:
            statement = "UPDATE meta SET value = 'another boot' WHERE key LIKE 'boot%'"
            run(["sqlite3", os.path.join(base, "journal.sqlite"), statement])


def check_remote(client, acknowledged, seed):
    """Every synced file is remote and whole; no other file is remote in a form nobody closed."""
    remote = {}
    for page in client.get_paginator("list_objects_v2").paginate(Bucket="bucket"):
        for item in page.get("Contents", []):
            remote[item["Key"]] = client.get_object(Bucket="bucket", Key=item["Key"])["Body"].read()
    for number, synced in acknowledged.items():
        if synced:
            assert remote.get(f"synced-{number:05}") == expected(seed, number), f"synced-{number:05} at the remote"
    for key, data in remote.items():
        number = int(key.rsplit("-", 1)[1].split()[0])
        whole = expected(seed, number)
        allowed = [whole, whole[: len(whole) // 2]] if number % 6 == 0 else [whole]
        assert data in allowed, f"{key} is torn: {len(data)} of {len(whole)} bytes, {data.count(0)} zeros"


@pytest.mark.limit(120)
@pytest.mark.skipif(needs() is not None, reason=str(needs()))
def test_power_loss_after_an_upload_does_not_bring_older_content_back(server, proxy, make_instance, folder, stack, client):
    """The remote has the newer content, the answer to that was not seen, and the disk is as of some sync before."""
    instance = make_instance(proxy.url, "instance")
    disk = LoopDisk(folder, 256 << 20)
    stack.callback(disk.unmount)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_STATE_DIR"] = os.path.join(disk.path, "state")
    instance.configure(quiet_period="0s")
    older, newer = b"older " * 1000, b"newer " * 2000
    mount = instance.mount("s3://bucket")
    file = os.open(mount / "f", os.O_CREAT | os.O_WRONLY)
    os.write(file, older)
    os.fsync(file)
    other = os.open(mount / "other", os.O_CREAT | os.O_WRONLY)
    # No group sync is due any more.
    time.sleep(1.5)
    lost = proxy.rule("hold-response", method="PUT", path="/bucket/f")
    os.pwrite(file, newer, 0)
    os.close(file)
    wait_until(lambda: content(client, "f") == newer, 30, "the upload")
    # Makes the log durable, but no bytes of the file.
    os.write(other, b"x")
    os.fsync(other)
    disk.cut_power()
    assert lost.matched() == 1, "the answer was there: the test proves nothing"
    os.close(other)
    kill(mount.pid)
    instance.abandon()
    lost.remove()
    disk.unmount()
    disk.mount()
    forget_boot(instance)
    mount = mount.mount_again()
    instance.flush()
    assert content(client, "f") == newer and instance.conflicts() == 0
    with open(mount / "f", "rb") as file:
        assert file.read() == newer


def content(client, key):
    with contextlib.suppress(client.exceptions.NoSuchKey):
        return client.get_object(Bucket="bucket", Key=key)["Body"].read()


@pytest.mark.limit(120)
def test_what_close_acknowledged_survives_sigkill(server, proxy, instance, client, seed):
    """No power loss here: closed files survive the death of mount and flusher without any fsync."""
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == []
    proxy.offline()
    for number in range(100):
        with open(mount / f"f{number:03}", "wb") as file:
            file.write(expected(seed, number))
    assert instance.pending_files() >= 100
    instance.kill_flusher()
    mount.kill()
    mount = mount.mount_again()
    for number in range(100):
        with open(mount / f"f{number:03}", "rb") as file:
            assert file.read() == expected(seed, number)
    proxy.online()
    instance.flush()
    for number in range(100):
        assert client.get_object(Bucket="bucket", Key=f"f{number:03}")["Body"].read() == expected(seed, number)


@pytest.mark.limit(120)
def test_a_file_open_for_writing_at_the_kill_is_never_torn_at_the_remote(server, proxy, instance, client, seed):
    """A rewrite that was not closed does not replace the remote object by a part of itself."""
    old = random_bytes(seed, 3_000_000)
    client.put_object(Bucket="bucket", Key="f", Body=old)
    mount = instance.mount("s3://bucket")
    descriptor = os.open(mount / "f", os.O_RDWR)
    os.pwrite(descriptor, b"x" * 10_000, 500_000)
    # The kill leaves the descriptor dead: closing it may fail.
    kill(mount.pid)
    try:
        os.close(descriptor)
    except OSError:
        pass
    instance.abandon()
    mount = mount.mount_again()
    instance.flush()
    new = old[:500_000] + b"x" * 10_000 + old[510_000:]
    assert client.get_object(Bucket="bucket", Key="f")["Body"].read() in (old, new)
    assert sha256_of_object(client, "bucket", "f")
