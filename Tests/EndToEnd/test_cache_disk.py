# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The cache's disk is full, fails, cannot be written or goes away: reads go on past the cache, and status says so."""

import contextlib
import errno
import os
import shutil
import signal

import pytest

from harness import injection
from harness.disks import SmallDisk, needs_root
from harness.injection import ENDLESS, Injection
from harness.processes import kill, wait_until
from harness.trees import random_bytes, read_here_and_there

MIB = 1 << 20
needs_injection = pytest.mark.skipif(injection.missing() is not None, reason=str(injection.missing()))
pytestmark = pytest.mark.limit(180)


@pytest.fixture
def instance(make_instance, server):
    return make_instance(server.url)


@pytest.fixture
def contents(client, seed):
    contents = {f"f{number}": random_bytes(seed + number, size) for number, size in enumerate((5_000, 3 * MIB, 9 * MIB))}
    for name, data in contents.items():
        client.put_object(Bucket="bucket", Key=name, Body=data)
    return contents


@pytest.fixture
def small(instance, folder, stack):
    """A disk of a few MiB for the cache."""
    disk = SmallDisk(os.path.join(folder, "small"), "8m")
    stack.callback(disk.unmount)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_CACHE_DIR"] = os.path.join(disk.path, "cache")
    return disk


def read_all(mount, contents):
    for name, data in contents.items():
        with open(mount / name, "rb") as file:
            assert file.read() == data, name


def cache_of(instance):
    (volume,) = instance.status()["volumes"]
    return volume["cache"]


def warning(instance):
    return cache_of(instance)["warning"]


def assert_warned(instance, part):
    """Both forms of the status tell what is wrong."""
    wait_until(lambda: warning(instance), 20, "a warning")
    assert part in warning(instance)
    assert part in instance.run("status").stdout


@needs_root
def test_a_full_disk_is_read_past_until_there_is_room(instance, small, contents, seed):
    instance.configure(cache_free="0")
    filler = os.path.join(small.path, "filler")
    mount = instance.mount("s3://bucket")
    with open(filler, "wb") as file:
        file.write(bytes(4 * MIB))
    read_all(mount, contents)
    read_here_and_there(mount, contents, seed)
    assert_warned(instance, "No space left on device")
    assert cache_of(instance)["uncached_reads"] > 0
    os.unlink(filler)
    small.remount("size=64m")
    wait_until(lambda: read_here_and_there(mount, contents, seed, 5) or not warning(instance), 40, "the end of the warning")
    read_here_and_there(mount, contents, seed + 1)
    before = cache_of(instance)["uncached_reads"]
    for name in contents:
        os.utime(mount / name)
    mount.unmount()
    mount = mount.mount_again()
    read_all(mount, contents)
    assert cache_of(instance)["uncached_reads"] <= before and warning(instance) is None


@needs_root
def test_room_that_is_to_stay_free_stays_free(instance, small, contents, seed):
    small.remount("size=32m")
    instance.configure(cache_free="16M")
    mount = instance.mount("s3://bucket")
    read_all(mount, contents)
    wait_until(lambda: shutil.disk_usage(small.path).free >= 16 * MIB, 30, "room")
    with open(os.path.join(small.path, "filler"), "wb") as file:
        file.write(bytes(18 * MIB))
    assert_warned(instance, "cache_free")
    read_here_and_there(mount, contents, seed)
    assert shutil.disk_usage(small.path).free > 0
    os.unlink(os.path.join(small.path, "filler"))
    wait_until(lambda: not warning(instance), 20, "the end of the warning")


@needs_injection
@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("calls", [["pread"], ["pwrite"], ["pread", "pwrite", "open", "rename", "mkdir"]], ids=len)
def test_a_disk_that_fails_is_read_past(instance, folder, contents, seed, calls, every):
    log = os.path.join(folder, "steps")
    places = [os.path.join(instance.directory("cache"), "volumes")]
    fault = Injection(log, "mount", places, action="fail", last=ENDLESS, every=every, code=errno.EIO, calls=calls)
    instance.environment |= fault.settings
    mount = instance.mount("s3://bucket")
    read_all(mount, contents)
    read_here_and_there(mount, contents, seed)
    # Where no folder can be made it may end above that of the blocks.
    hits = [call for call, path in fault.hits() if "/blocks" in path or every == 1 and call == "mkdir"]
    assert hits, "nothing failed: the test proves nothing"
    if every == 1:
        assert cache_of(instance)["uncached_reads"] > 0
        assert_warned(instance, "Input/output error")


@needs_root
def test_a_cache_that_cannot_be_written_is_still_read(instance, small, contents, seed):
    small.remount("size=64m")
    instance.configure(cache_free="0")
    mount = instance.mount("s3://bucket")
    with open(mount / "f1", "rb") as file:
        assert file.read() == contents["f1"]
    mount.unmount()
    # It has files of the cache open, and would end by itself only when it was idle for long.
    kill(instance.running_flusher(), signal.SIGTERM)
    wait_until(lambda: remounts(small, "ro"), 60, "nobody to write any more")
    mount = mount.mount_again()
    read_here_and_there(mount, {"f1": contents["f1"]}, seed)
    assert cache_of(instance)["uncached_reads"] == 0, "what is there is read from there"
    read_all(mount, contents)
    read_here_and_there(mount, contents, seed)
    assert_warned(instance, "Read-only file system")
    mount.unmount()
    small.remount("rw")
    mount = mount.mount_again()
    read_all(mount, contents)
    assert warning(instance) is None


def remounts(disk, options):
    try:
        disk.remount(options)
        return True
    except Exception:
        return False


def test_a_folder_that_is_deleted_is_made_again(instance, contents, seed):
    mount = instance.mount("s3://bucket")
    read_all(mount, contents)
    descriptors = {name: os.open(mount / name, os.O_RDONLY | os.O_DIRECT) for name in contents}
    try:
        instance.drop_cache()
        for name, descriptor in descriptors.items():
            for offset in range(0, len(contents[name]), 777_777):
                assert os.pread(descriptor, 5000, offset) == contents[name][offset:offset + 5000]
    finally:
        for descriptor in descriptors.values():
            os.close(descriptor)
    read_here_and_there(mount, contents, seed)
    assert warning(instance) is None
    files = [name for base, _, names in os.walk(instance.directory("cache")) for name in names if "/blocks/" in base]
    assert len(files) == len(contents), "nothing is kept any more"


def becomes_a_file(folder):
    """Whether a file could be put in a folder's place: a flusher that runs may make the folder again meanwhile."""
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(FileExistsError), open(folder, "x"):
        return True
    return False


@pytest.mark.parametrize("when", ["before", "mounted"])
def test_something_else_where_the_folder_was(instance, contents, seed, when):
    """A file in place of the folder: nothing can be made below it, not even by root."""
    mount = instance.mount("s3://bucket")
    if when == "before":
        mount.unmount()
    wait_until(lambda: becomes_a_file(instance.directory("cache")), 20, "a file where the folder was")
    if when == "before":
        mount = mount.mount_again()
    read_all(mount, contents)
    read_here_and_there(mount, contents, seed)
    assert_warned(instance, "Not a directory")
    os.unlink(instance.directory("cache"))
    wait_until(lambda: read_here_and_there(mount, contents, seed, 3) or not warning(instance), 40, "the end of the warning")
