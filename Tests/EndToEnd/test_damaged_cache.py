# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The cache is deleted, cut short or overwritten while files are read from it: right bytes or an error, never others."""

import os
import random

import pytest

SIZE = 5 << 20


@pytest.fixture
def direct(make_instance, server):
    """An instance without the proxy between."""
    return make_instance(server.url)


def cached_files(instance, name="blocks"):
    """The files of the block cache that hold something."""
    found = []
    for base, _, names in os.walk(instance.directory("cache")):
        if f"/{name}" in base:
            found += [os.path.join(base, file) for file in names]
    return [path for path in found if os.stat(path).st_blocks > 0]


def read_past_the_kernel(descriptor, offset, count):
    """Reads what the file system answers, not what the kernel remembers."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    return os.pread(descriptor, count, offset)


def cut(path):
    os.truncate(path, 100_000)


def empty(path):
    os.truncate(path, 0)


def overwrite(path):
    with open(path, "r+b") as file:
        file.seek(SIZE // 2)
        file.write(b"\0" * 8192)


def remove(path):
    os.unlink(path)


@pytest.mark.parametrize("damage", [cut, empty, overwrite, remove], ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("when", ["open", "remounted"])
def test_damage_of_the_block_cache_is_never_read(direct, client, seed, damage, when):
    data = random.Random(seed).randbytes(SIZE)
    client.put_object(Bucket="bucket", Key="f", Body=data)
    mount = direct.mount("s3://bucket")
    with open(mount / "f", "rb") as file:
        assert file.read() == data
    descriptor = os.open(mount / "f", os.O_RDONLY) if when == "open" else None
    try:
        if descriptor is None:
            mount.unmount()
        files = cached_files(direct)
        assert files, "nothing is cached, so nothing can be damaged"
        for path in files:
            damage(path)
        if descriptor is None:
            mount = mount.mount_again()
            descriptor = os.open(mount / "f", os.O_RDONLY)
        for offset in (0, SIZE // 2, SIZE - 65_536, 99_000):
            count = min(65_536, SIZE - offset)
            assert read_past_the_kernel(descriptor, offset, count) == data[offset:offset + count], f"at {offset}"
    finally:
        os.close(descriptor)
