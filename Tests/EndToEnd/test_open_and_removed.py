# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A file that lost its name while it was open is read to its end, whatever becomes of the name at the remote."""

import errno
import os
import shutil
import signal
import time

import pytest

from harness.held import expect_held, expect_remote, reasons, waiting
from harness.processes import wait_until
from harness.trees import random_bytes, write_file

MIB = 1 << 20
# Nothing is kept of what is read, nor fetched: what a reader needs has to be at the remote.
NO_CACHE = "cache_size=0"


def put(client, key, seed, size=6 * MIB):
    """Puts an object that no read brings as a whole; returns its content."""
    data = random_bytes(seed, size)
    client.put_object(Bucket="bucket", Key=key, Body=data)
    return data


def content(client, key):
    return client.get_object(Bucket="bucket", Key=key)["Body"].read()


def read_all(descriptor, size):
    """All of an open file, in pieces that do not follow each other and of which the kernel has none."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    pieces = {}
    offsets = list(range(0, size, 256 << 10))
    for offset in offsets[::2] + offsets[1::2]:
        pieces[offset] = os.pread(descriptor, 256 << 10, offset)
    return b"".join(pieces[offset] for offset in offsets)


@pytest.fixture
def opened(instance, client, seed):
    """A mount that keeps nothing, `a` in it opened, and its content, of which the first bytes were read."""
    data = put(client, "a", seed)
    mount = instance.mount("s3://bucket", None, NO_CACHE)
    descriptor = os.open(mount / "a", os.O_RDONLY)
    assert os.pread(descriptor, 10, 0) == data[:10]
    yield mount, descriptor, data
    try:
        os.close(descriptor)
    except OSError as problem:
        assert problem.errno in (errno.EBADF, errno.ENOTCONN)


def test_a_removed_file_is_read_to_its_end(instance, client, opened):
    mount, descriptor, data = opened
    os.unlink(mount / "a")
    expect_held(instance, "a", "open")
    # Longer than a deletion takes.
    time.sleep(2)
    assert content(client, "a") == data
    assert "open" in instance.run("uploads", "why", mount / "a").stdout
    assert read_all(descriptor, len(data)) == data
    os.close(descriptor)
    expect_remote(client)


def test_a_file_whose_name_another_one_took_is_read_to_its_end(instance, client, opened):
    mount, descriptor, data = opened
    write_file(mount / "new", b"another one")
    os.rename(mount / "new", mount / "a")
    expect_held(instance, "a", "open")
    with open(mount / "a", "rb") as file:
        assert file.read() == b"another one"
    assert read_all(descriptor, len(data)) == data
    os.close(descriptor)
    expect_remote(client, "a")
    wait_until(lambda: content(client, "a") == b"another one", 60, "the new content at the remote")


def test_a_file_made_anew_waits_for_those_who_read_the_old_one(instance, client, opened):
    mount, descriptor, data = opened
    os.unlink(mount / "a")
    expect_held(instance, "a", "open")
    write_file(mount / "a", b"made anew")
    expect_held(instance, "a", "open")
    with open(mount / "a", "rb") as file:
        assert file.read() == b"made anew"
    assert read_all(descriptor, len(data)) == data
    os.close(descriptor)
    wait_until(lambda: content(client, "a") == b"made anew", 60, "the new content at the remote")
    assert instance.conflicts() == 0


def test_a_file_written_anew_is_read_as_it_is(instance, client, opened):
    """As on a local disk: it is the same file, so that nothing of the old content is to be seen any more."""
    mount, descriptor, _ = opened
    new = random_bytes(1, MIB)
    write_file(mount / "a", new)
    assert read_all(descriptor, 2 * MIB) == new
    instance.flush()
    assert content(client, "a") == new
    assert read_all(descriptor, 2 * MIB) == new


def test_a_part_written_anew_is_read_as_it_is(instance, client, opened):
    mount, descriptor, data = opened
    with open(mount / "a", "r+b") as file:
        file.seek(3 * MIB)
        file.write(b"changed")
    expected = data[:3 * MIB] + b"changed" + data[3 * MIB + 7:]
    instance.flush()
    assert content(client, "a") == expected
    assert read_all(descriptor, len(data)) == expected


def test_other_files_do_not_wait(instance, client, opened):
    mount, _, _ = opened
    os.unlink(mount / "a")
    expect_held(instance, "a", "open")
    for number in range(20):
        write_file(mount / f"other{number}", b"x" * number)
    expect_remote(client, "a", *(f"other{number}" for number in range(20)))
    assert reasons(instance, "a") == ["open"]


def test_who_is_killed_holds_nothing(instance, client, opened):
    mount, _, _ = opened
    os.unlink(mount / "a")
    expect_held(instance, "a", "open")
    mount.kill()
    instance.run("uploads", "list")
    expect_remote(client)


def test_a_deletion_that_waits_outlives_the_flusher(instance, client, opened):
    mount, descriptor, data = opened
    os.unlink(mount / "a")
    expect_held(instance, "a", "open")
    instance.kill_flusher()
    expect_held(instance, "a", "open")
    assert read_all(descriptor, len(data)) == data
    os.close(descriptor)
    expect_remote(client)


def test_the_mount_stops_while_it_holds_something(instance, client, opened):
    """It answers no more, as on a machine that was suspended, and holds what it held."""
    mount, descriptor, data = opened
    os.unlink(mount / "a")
    expect_held(instance, "a", "open")
    pid = mount.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        time.sleep(2)
        assert content(client, "a") == data
    finally:
        os.kill(pid, signal.SIGCONT)
    assert read_all(descriptor, len(data)) == data


@pytest.mark.parametrize("is_read", [True, False])
def test_a_file_that_is_all_here_holds_nothing(instance, mount, client, seed, is_read):
    data = put(client, "a", seed)
    descriptor = os.open(mount / "a", os.O_RDONLY)
    if is_read:
        assert read_all(descriptor, len(data)) == data
    os.unlink(mount / "a")
    # What is not here is fetched.
    expect_remote(client)
    assert read_all(descriptor, len(data)) == data
    os.close(descriptor)


def test_what_is_fetched_of_a_removed_file_stays_in_a_small_cache(instance, client, seed):
    """Others that are read through the same small cache do not take its place."""
    data = put(client, "a", seed)
    other = put(client, "other", seed + 1, 40 * MIB)
    mount = instance.mount("s3://bucket", None, "cache_size=30M")
    descriptor = os.open(mount / "a", os.O_RDONLY)
    os.unlink(mount / "a")
    expect_remote(client, "other")
    for _ in range(2):
        with open(mount / "other", "rb") as file:
            assert file.read() == other
        # The cache is trimmed every few seconds.
        time.sleep(4)
    assert read_all(descriptor, len(data)) == data
    os.close(descriptor)


def test_a_file_moved_while_it_is_open_is_read_to_its_end(instance, client, opened):
    mount, descriptor, data = opened
    os.rename(mount / "a", mount / "b")
    instance.flush()
    expect_remote(client, "b")
    assert read_all(descriptor, len(data)) == data
    # By now what the reader sees is another object.
    os.unlink(mount / "b")
    expect_held(instance, "b", "open")
    assert read_all(descriptor, len(data)) == data
    os.close(descriptor)
    expect_remote(client)


def test_a_file_moved_and_removed_at_once_is_read_to_its_end(instance, client, opened):
    mount, descriptor, data = opened
    os.rename(mount / "a", mount / "b")
    os.unlink(mount / "b")
    expect_held(instance, "a", "open")
    assert read_all(descriptor, len(data)) == data
    os.close(descriptor)
    expect_remote(client)


def test_a_file_in_a_folder_that_is_removed_is_read_to_its_end(instance, client, seed):
    data = put(client, "d/e/f", seed)
    client.put_object(Bucket="bucket", Key="d/other", Body=b"x")
    mount = instance.mount("s3://bucket", None, NO_CACHE)
    descriptor = os.open(mount / "d/e/f", os.O_RDONLY)
    os.rename(mount / "d", mount / "moved")
    shutil.rmtree(mount / "moved")
    expect_held(instance, "d/e/f", "open")
    os.makedirs(mount / "d/e")
    write_file(mount / "d/e/new", b"new")
    wait_until(lambda: content_or_none(client, "d/e/new") == b"new", 60, "a new file in a new folder of the old name")
    assert read_all(descriptor, len(data)) == data
    os.close(descriptor)
    instance.flush()
    expect_remote(client, *[key for key in ("d/", "d/e/", "d/e/new")])


def content_or_none(client, key):
    try:
        return content(client, key)
    except client.exceptions.NoSuchKey:
        return None


def test_what_cannot_be_held_or_looked_at_is_told(instance, client, seed):
    """The file with the locks is one that neither the mount nor the flusher opens."""
    data = put(client, "a", seed)
    mount = instance.mount("s3://bucket", None, NO_CACHE)
    volumes = instance.directory("state/volumes")
    place = os.path.join(volumes, os.listdir(volumes)[0], "held.lock")
    os.symlink("/dev/null", place)
    descriptor = os.open(mount / "a", os.O_RDONLY)
    os.unlink(mount / "a")
    expect_held(instance, "a", "open")
    assert "cannot be found out" in waiting(instance, "a")[0]["detail"]
    assert os.pread(descriptor, 4096, 0) == data[:4096]
    os.unlink(place)
    expect_remote(client)
    with pytest.raises(OSError) as problem:
        read_all(descriptor, len(data))
    assert problem.value.errno == errno.ESTALE
    os.close(descriptor)
