# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The disk of the cache fails to read or to write for a while, below its file system: nobody reads a wrong byte, or an error."""

import contextlib
import os
import random

import pytest

from harness.bad_disk import BadDisk, bad_disk_needs
from harness.processes import run, wait_until
from harness.settings import scaled
from harness.trees import random_bytes, read_here_and_there, write_file

KINDS = ("ext4", "xfs")
MIB = 1 << 20
pytestmark = [
    pytest.mark.limit(3600), pytest.mark.skipif(bad_disk_needs(*KINDS) is not None, reason=str(bad_disk_needs(*KINDS)))
]


def forget_pages(disk):
    """What the kernel has of the disk's files, and of the disk, is to come from below.

    No sync(2), which waits for the disks of other tests, that fail meanwhile."""
    run(["sync", "-f", disk.path], check=False)
    paths = [os.path.join(base, name) for base, _, names in os.walk(disk.path) for name in names]
    for path in [*paths, disk.image]:
        descriptor = os.open(path, os.O_RDONLY)
        with contextlib.suppress(OSError):  # Of an earlier failure.
            os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


@pytest.mark.parametrize("call, rate, error", [("read", 0.3, "EIO"), ("write", 0.2, "EIO"), ("write", 1.0, "ENOSPC")])
@pytest.mark.parametrize("kind", KINDS)
def test_files_are_read_past_a_disk_that_fails(kind, call, rate, error, server, make_instance, client, folder, stack, seed):
    disk = BadDisk(folder, 512 << 20, kind=kind, call=call, rate=rate, error=error)
    stack.callback(disk.end)
    instance, choice = make_instance(server.url), random.Random(seed)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_CACHE_DIR"] = os.path.join(disk.path, "cache")
    instance.configure(cache_free="0")
    contents = {f"f{number}": random_bytes(seed + number, number * MIB // 2 + 1000) for number in range(8)}
    for name, data in contents.items():
        client.put_object(Bucket="bucket", Key=name, Body=data)
    mount = instance.mount("s3://bucket")
    for round in range(scaled(3)):
        read_here_and_there(mount, contents, choice.random(), 20, 200_000)
        forget_pages(disk)
        disk.fail()
        read_here_and_there(mount, contents, choice.random(), 60, 200_000)
        if rate < 1:
            run(["sync", "-f", disk.path], check=False)
        written = f"written {round}"
        contents[written] = random_bytes(seed - round, 700_000)
        write_file(mount / written, contents[written])
        read_here_and_there(mount, contents, choice.random(), 20, 200_000)
        instance.flush()
        disk.heal()
        read_here_and_there(mount, contents, choice.random(), 20, 200_000)
        # Its file system may have stopped for good; a start of the machine mends it.
        instance.abandon()
        disk.unmount()
        disk.mount()
        mount = mount.mount_again()
        wait_until(lambda: sorted(os.listdir(mount.path)) == sorted(contents), 20, "all names")
        for name, data in contents.items():
            with open(mount / name, "rb") as file:
                assert file.read() == data, name
    assert disk.errors() > 0, "nothing failed: the test proves nothing"
    assert {name: client.get_object(Bucket="bucket", Key=name)["Body"].read() for name in contents} == contents
