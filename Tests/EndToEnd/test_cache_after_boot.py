# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What was read is on the local disk after the machine has started again, and what a power cut took is fetched again."""

import os

import pytest

from harness.disks import LoopDisk, loop_disk_needs
from harness.processes import run
from harness.reboot import forget_boot
from harness.trees import random_bytes

MIB = 1 << 20
needs = loop_disk_needs("ext4", "xfs")
pytestmark = [pytest.mark.limit(120), pytest.mark.skipif(needs is not None, reason=str(needs))]

#: What the answers for names and attributes take at most.
NAMES = 64 << 10


@pytest.fixture
def contents(client, seed):
    contents = {f"f{number}": random_bytes(seed + number, size) for number, size in enumerate((5_000, 3 * MIB + 7, 9 * MIB))}
    for name, data in contents.items():
        client.put_object(Bucket="bucket", Key=name, Body=data)
    return contents


@pytest.fixture(params=["ext4", "xfs"])
def disk(request, instance, folder, stack):
    """A disk for the cache alone."""
    disk = LoopDisk(folder, 400 * MIB, request.param)
    stack.callback(disk.unmount)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_CACHE_DIR"] = os.path.join(disk.path, "cache")
    # All of the disk is less than what is to stay free of any.
    instance.configure(cache_free="0")
    return disk


def start_again(instance, disk):
    """Nothing of the disk is in memory, and the volume is as after a boot."""
    instance.abandon()
    disk.unmount()
    disk.mount()
    forget_boot(instance)


def received_for(server, mount, contents, *names):
    before = server.stats()["body_bytes_sent"].get("GET", 0)
    for name in names or contents:
        with open(mount / name, "rb") as file:
            assert file.read() == contents[name], name
    return server.stats()["body_bytes_sent"].get("GET", 0) - before


def test_what_was_read_is_there_after_a_boot(instance, server, disk, contents):
    mount = instance.mount("s3://bucket")
    assert received_for(server, mount, contents) >= sum(map(len, contents.values()))
    mount.unmount()
    start_again(instance, disk)
    assert received_for(server, mount.mount_again(), contents) < NAMES


def test_what_the_disk_had_at_a_power_cut_is_kept_and_the_rest_fetched_again(instance, server, disk, contents):
    mount = instance.mount("s3://bucket")
    kept = ("f0", "f1")
    received_for(server, mount, contents, *kept)
    run(["sync", "-f", disk.path])
    received_for(server, mount, contents, "f2")
    disk.cut_power()
    start_again(instance, disk)
    mount = mount.mount_again()
    assert received_for(server, mount, contents, *kept) < NAMES
    received_for(server, mount, contents, "f2")
    assert received_for(server, mount, contents) < NAMES
