# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""On one disk with the state, what is cached gives way to what is written."""

import os

import pytest

from harness.disks import SmallDisk, needs_root
from harness.trees import random_bytes

MIB = 1 << 20
pytestmark = [needs_root, pytest.mark.limit(120)]


@pytest.fixture
def disk(make_instance, server, folder, stack):
    """A disk for all that an instance has."""
    disk = SmallDisk(os.path.join(folder, "small"), "128m")
    stack.callback(disk.unmount)
    instance = make_instance(server.url)
    stack.callback(instance.abandon)
    for name in ("CACHE", "STATE"):
        path = os.path.join(disk.path, name.lower())
        os.mkdir(path, 0o700)
        instance.environment[f"MOORAGE_{name}_DIR"] = path
    disk.instance = instance
    return disk


def free(disk):
    status = os.statvfs(disk.path)
    return status.f_bavail * status.f_frsize


@pytest.fixture
def full(disk, client, seed):
    """A mount whose cache has taken what it may of the disk, and nothing that is sent before it is asked for."""
    names = [f"f{number}" for number in range(16)]
    for number, name in enumerate(names):
        client.put_object(Bucket="bucket", Key=name, Body=random_bytes(seed + number, 8 * MIB))
    disk.instance.configure(cache_free="20M", quiet_period="1h")
    mount = disk.instance.mount("s3://bucket")
    for name in names:
        with open(mount / name, "rb") as file:
            while file.read(MIB):
                pass
    # However fast it came.
    assert 8 * MIB < free(disk) < 40 * MIB
    return mount


def test_a_file_larger_than_what_is_free_is_written(disk, full, seed):
    content = random_bytes(seed, 80 * MIB)
    with open(full / "large", "wb", buffering=0) as file:
        for offset in range(0, len(content), MIB):
            assert file.write(content[offset:offset + MIB]) == MIB
        os.fsync(file.fileno())
    with open(full / "large", "rb") as file:
        assert file.read() == content
    disk.instance.run("flush")
    full.unmount()


def test_a_file_is_made_when_the_last_byte_is_taken(disk, full, seed):
    filler = os.path.join(disk.path, "filler")
    with open(filler, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65_536))
        except OSError:
            pass
    for number in range(20):
        with open(full / f"new{number}", "wb", buffering=0) as file:
            assert file.write(b"x" * 100_000) == 100_000
    for number in range(20):
        with open(full / f"new{number}", "rb") as file:
            assert file.read() == b"x" * 100_000
    disk.instance.run("flush")
    full.unmount()
