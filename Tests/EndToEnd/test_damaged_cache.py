# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The cache is deleted, cut short or overwritten while files are read from it: right bytes or an error, never others."""

import json
import os
import random

import pytest

from harness.trees import all_keys, write_file

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


def catalog_files(instance):
    """The catalog's file and its log; the third one, which processes share as memory, is no data."""
    found = []
    for base, _, names in os.walk(instance.directory("cache")):
        found += [os.path.join(base, file) for file in names if file in ("catalog.sqlite", "catalog.sqlite-wal")]
    return found


def scramble(path):
    """Overwrites all but the beginning of a file with noise: it still looks like a database."""
    size = os.stat(path).st_size
    with open(path, "r+b") as file:
        file.seek(min(size, 200))
        file.write(random.Random(size).randbytes(max(0, size - 200)))


def zero(path):
    """Overwrites a file with zeros from the beginning."""
    size = os.stat(path).st_size
    with open(path, "r+b") as file:
        file.write(b"\0" * size)


@pytest.mark.parametrize("when, damage", [("mounted", scramble), ("mounted", zero), ("mounted", empty), ("remounted", zero)])
def test_damage_of_the_catalog_shows_nothing_wrong(direct, client, when, damage):
    objects = {f"d{i % 5}/f{i}": f"content {i}".encode() for i in range(60)}
    for key, body in objects.items():
        client.put_object(Bucket="bucket", Key=key, Body=body)
    direct.configure(metadata_age="1s")
    mount = direct.mount("s3://bucket")

    def seen():
        found = {}
        for base, _, names in os.walk(mount.path, onerror=fail):
            for name in names:
                path = os.path.join(base, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, mount.path)] = file.read()
        return found

    def fail(problem):
        raise problem

    assert seen() == objects
    if when == "remounted":
        mount.unmount()
    paths = catalog_files(direct)
    assert paths
    for path in paths:
        damage(path)
    if when == "remounted":
        mount = mount.mount_again()
    with open(mount / "d1/new", "wb") as file:
        file.write(b"new")
    assert seen() == objects | {"d1/new": b"new"}
    direct.flush()
    assert seen() == objects | {"d1/new": b"new"}
    assert client.get_object(Bucket="bucket", Key="d1/new")["Body"].read() == b"new"
    mount.unmount()


def test_an_open_file_can_be_changed_after_the_cache_was_deleted(direct, client):
    """What the catalog forgot is asked for again, also where the change begins from an open file and not from a name."""
    for name in ("written", "cut", "chmod"):
        client.put_object(Bucket="bucket", Key=f"d/{name}", Body=b"old content")
    # Nothing but the changes themselves is to look at the folder again.
    direct.configure(metadata_age="100s", kernel_age="100s")
    mount = direct.mount("s3://bucket")
    files = {name: os.open(mount / f"d/{name}", os.O_RDWR) for name in ("written", "cut", "chmod")}
    try:
        direct.drop_cache()
        os.pwrite(files["written"], b"new", 0)
        os.ftruncate(files["cut"], 3)
        os.fchmod(files["chmod"], 0o600)
    finally:
        for descriptor in files.values():
            os.close(descriptor)
    direct.flush()
    assert client.get_object(Bucket="bucket", Key="d/written")["Body"].read() == b"new content"
    assert client.get_object(Bucket="bucket", Key="d/cut")["Body"].read() == b"old"
    assert client.head_object(Bucket="bucket", Key="d/chmod")["Metadata"]["mode"] == str(0o100600)
    assert direct.conflicts() == 0
    mount.unmount()


@pytest.mark.parametrize("name", ["file", "renamed"])
def test_a_file_that_was_sent_while_it_was_open_is_known_without_the_cache(direct, client, name):
    """What became of the content that this mount sent is no matter of the cache: who has it open goes on with it."""
    direct.configure(quiet_period="1s")
    mount = direct.mount("s3://bucket")
    files = {}
    for how in ("write", "cut", "chmod"):
        write_file(mount / f"{how} file", b"content")
        files[how] = os.open(mount / f"{how} file", os.O_RDWR)
    direct.flush()
    if name != "file":
        for how in files:
            os.rename(mount / f"{how} file", mount / f"{how} {name}")
        direct.flush()
    direct.drop_cache()
    os.pwrite(files["write"], b", more of it", 7)
    os.ftruncate(files["cut"], 4)
    os.fchmod(files["chmod"], 0o600)
    assert [os.pread(file, 100, 0) for file in files.values()] == [b"content, more of it", b"cont", b"content"]
    for file in files.values():
        os.close(file)
    direct.flush()
    found = {key: client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in all_keys(client, "bucket")}
    assert found == {f"write {name}": b"content, more of it", f"cut {name}": b"cont", f"chmod {name}": b"content"}
    assert client.head_object(Bucket="bucket", Key=f"chmod {name}")["Metadata"]["mode"] == str(0o100600)
    assert direct.conflicts() == 0


def test_verify_finds_what_is_damaged_and_drops_it(direct, client, seed):
    """Mounted or not; the next read fetches what was dropped, and verify is content then."""
    data = {name: random.Random(f"{seed}{name}").randbytes(SIZE) for name in ("a/f", "b/f")}
    for name, body in data.items():
        client.put_object(Bucket="bucket", Key=name, Body=body)
    mount = direct.mount("s3://bucket")

    def verify(*words, check=True):
        result = direct.run("cache", "verify", "--json", *words, check=check)
        (volume,) = json.loads(result.stdout)["volumes"]
        return volume, result.returncode

    def read():
        for name, body in data.items():
            descriptor = os.open(mount / name, os.O_RDONLY | os.O_DIRECT)
            assert b"".join(os.pread(descriptor, 1 << 20, offset) for offset in range(0, SIZE, 1 << 20)) == body
            os.close(descriptor)

    for when in ("mounted", "unmounted"):
        read()
        volume, status = verify()
        assert (volume["files"], volume["damaged_blocks"], status) == (2, 0, 0)
        assert volume["sound_bytes"] == 2 * SIZE
        if when == "unmounted":
            mount.unmount()
        for path in cached_files(direct):
            with open(path, "r+b") as file:
                for offset in (5, SIZE // 2):
                    file.seek(offset)
                    file.write(bytes([data["a/f"][offset] ^ 1, data["b/f"][offset] ^ 2]))
        volume, status = verify(mount / "a", check=False)
        assert (volume["files"], volume["damaged_blocks"], status) == (1, 2, 1)
        assert direct.run("cache", "verify", "s3://bucket", check=False).returncode == 1
        assert verify()[0]["damaged_blocks"] == 0, "what is wrong is dropped"
    stray = cached_files(direct)[0]
    os.truncate(stray, 100)
    assert verify(check=False)[0]["damaged_files"] == 1 and not os.path.exists(stray)
    mount = mount.mount_again()
    read()
    assert verify()[0]["sound_bytes"] == 2 * SIZE


def test_the_cache_is_shown_and_cleared(direct, client):
    def ask(*words):
        (volume,) = json.loads(direct.run("cache", *words, "--json").stdout)["volumes"]
        return volume

    client.put_object(Bucket="bucket", Key="f", Body=b"x" * SIZE)
    mount = direct.mount("s3://bucket", None, "cache_size=50MiB")
    with open(mount / "f", "rb") as file:
        assert file.read() == b"x" * SIZE
    shown = ask("show")
    assert shown["remote"] == "s3://bucket" and shown["limit"] == 50 << 20 and shown["cleared"] == 0
    assert SIZE <= shown["bytes"] < 1.1 * SIZE
    assert ask("show", mount.path) == shown
    cleared = ask("clear", "s3://bucket")
    assert cleared["cleared"] >= SIZE and cleared["bytes"] < SIZE / 10
    assert ask("show")["bytes"] < SIZE / 10
    with open(mount / "f", "rb") as file:
        assert read_past_the_kernel(file.fileno(), 0, SIZE) == b"x" * SIZE
    refused = direct.run("cache", "show", "/nowhere/near", check=False)
    assert refused.returncode == 1 and "not in a volume" in refused.stderr
