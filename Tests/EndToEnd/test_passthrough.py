# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Read-only mounts of root hand whole cached files to the kernel, where the cache's disk can clone files."""

import contextlib
import mmap
import os
import subprocess
import sys
import time

import pytest

from harness.disks import LoopDisk, loop_disk_needs
from harness.processes import wait_until
from harness.trees import random_bytes

MIB = 1 << 20
KERNEL = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
needs = loop_disk_needs("xfs") or ("needs Linux 6.9" if KERNEL < (6, 9) else None)
pytestmark = [pytest.mark.limit(120), pytest.mark.skipif(needs is not None, reason=str(needs))]

#: Lengths: one that ends within a page, one of whole pages, one that is looked at when it is opened.
SIZES = {"odd": 9 * MIB + 1234, "even": 8 * MIB, "small": 70_001}


@pytest.fixture
def contents(client, seed):
    contents = {name: random_bytes(seed + number, size) for number, (name, size) in enumerate(SIZES.items())}
    for name, data in contents.items():
        client.put_object(Bucket="bucket", Key=name, Body=data)
    return contents


@pytest.fixture
def disk(instance, folder, stack):
    disk = LoopDisk(folder, 400 * MIB, "xfs")
    stack.callback(disk.unmount)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_CACHE_DIR"] = os.path.join(disk.path, "cache")
    # All of the disk is less than what is to stay free of any.
    instance.configure(cache_free="0")
    return disk


def read(path):
    with open(path, "rb") as file:
        return file.read()


def bytes_read_by(pid):
    """What a process got of read(2) and the like, in bytes."""
    with open(f"/proc/{pid}/io") as file:
        return int(file.read().split()[1])


def is_read_by_the_kernel(mount, file, size):
    """Whether reading an open file past the kernel's memory comes by the mount's process."""
    before = bytes_read_by(mount.pid)
    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    assert sum(len(os.pread(file.fileno(), MIB, at)) for at in range(0, size + MIB, MIB)) == size
    return bytes_read_by(mount.pid) - before < size / 2


@pytest.fixture
def warm(instance, disk, contents):
    """A read-only mount that finds all files in its cache."""
    mount = instance.mount("s3://bucket", None, "ro", "metadata_age=1s", "kernel_age=0s")
    for name, data in contents.items():
        assert read(mount / name) == data
    mount.unmount()
    return mount.mount_again()


def cache_files(disk):
    for folder, _, names in os.walk(os.path.join(disk.path, "cache")):
        for name in names:
            if len(name) == 32 and "/blocks/" in folder:
                yield os.path.join(folder, name)


def test_the_kernel_reads_whole_cached_files_by_itself(warm, contents, server):
    before = server.stats()["body_bytes_sent"].get("GET", 0)
    for name, data in contents.items():
        with open(warm / name, "rb") as file:
            # What was not looked at since the start is compared with its checksums first; a small file at once.
            assert is_read_by_the_kernel(warm, file, len(data)) == (name == "small"), name
            assert read(warm / name) == data
    for name, data in contents.items():
        # The kernel closes files a moment after close(2).
        wait_until(lambda: opened_by_the_kernel(warm, name, len(data)), 20, f"{name} to be read by the kernel")
        with open(warm / name, "rb") as file:
            assert file.read() == data, name
            assert os.pread(file.fileno(), 100, len(data) - 10) == data[-10:]
            assert os.pread(file.fileno(), 100, len(data)) == b"" and os.pread(file.fileno(), 9, len(data) + 5000) == b""
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as memory:
                assert memory[:] == data
        direct = os.open(warm / name, os.O_RDONLY | os.O_DIRECT)
        with mmap.mmap(-1, 8192) as memory:
            assert os.preadv(direct, [memory], 4096) == 8192 and memory[:] == data[4096:12288]
            # The disk would not take this, the mount does, cached or not.
            with memoryview(memory) as view, view[3:1003] as part:
                assert os.preadv(direct, [part], 777) == 1000 and part == data[777:1777]
        os.close(direct)
    # Listings at most.
    assert server.stats()["body_bytes_sent"]["GET"] - before < MIB // 4


def opened_by_the_kernel(mount, name, size):
    with open(mount / name, "rb") as file:
        return is_read_by_the_kernel(mount, file, size)


class MemoryGroup:
    """A control group that counts the kernel's pages that its processes brought to memory."""

    def __init__(self, name):
        with open("/proc/self/cgroup") as file:
            groups = {kinds: place for _, kinds, place in (line.rstrip("\n").split(":", 2) for line in file)}
        # Version 1 has a hierarchy for memory, version 2 one for all.
        place, self.row = ("/sys/fs/cgroup/memory", "cache") if "memory" in groups else ("/sys/fs/cgroup", "file")
        self.path = os.path.join(place + groups["memory" if "memory" in groups else ""], name)
        os.mkdir(self.path)
        if not os.path.exists(os.path.join(self.path, "memory.stat")):
            self.remove()
            raise OSError("no memory controller")

    def start(self, *command):
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, preexec_fn=self._enter)

    def _enter(self):
        with open(os.path.join(self.path, "cgroup.procs"), "w") as file:
            file.write(str(os.getpid()))

    def cached(self):
        with open(os.path.join(self.path, "memory.stat")) as file:
            return int(dict(line.split() for line in file)[self.row])

    def remove(self):
        os.rmdir(self.path)


@pytest.fixture
def group(folder, stack):
    try:
        group = MemoryGroup(f"moorage-e2e-{os.getpid()}-{os.path.basename(folder)}")
    except (OSError, KeyError) as error:
        pytest.skip(f"needs a control group of its own: {error}")
    stack.callback(group.remove)
    return group


#: Reads a file and has it open until its standard input ends.
READER = """
import sys
with open(sys.argv[1], "rb") as file:
    print(len(file.read()), flush=True)
    sys.stdin.read()
"""


def test_pages_that_the_next_open_does_without_go_at_the_close(warm, contents, group):
    """Who reads a file again would wait until the kernel has dropped what the first read left of it in memory."""
    size = len(contents["even"])
    with group.start(sys.executable, "-c", READER, warm / "even") as reader:
        assert int(reader.stdout.readline()) == size
        # It is open: its pages stay. The kernel counts some of them a moment later.
        wait_until(lambda: group.cached() >= size, 20, "the pages to be counted")
        before = group.cached()
        reader.stdin.close()
    wait_until(lambda: group.cached() < before - size / 2, 20, "the pages to go")
    assert opened_by_the_kernel(warm, "even", size)


def test_pages_of_what_the_mount_goes_on_reading_stay(instance, disk, contents):
    mount = instance.mount("s3://bucket", None, "ro", "kernel_age=0s")
    assert read(mount / "even") == contents["even"]
    before = bytes_read_by(mount.pid)
    # They would go in the background.
    time.sleep(0.5)
    assert read(mount / "even") == contents["even"]
    assert bytes_read_by(mount.pid) - before < len(contents["even"]) / 2


def test_what_happens_to_the_cache_hurts_nobody_who_reads(warm, contents, disk):
    """The files are changed, cut and deleted under the kernel's hands."""
    for name in contents:
        read(warm / name)
    for name, data in contents.items():
        wait_until(lambda: opened_by_the_kernel(warm, name, len(data)), 20, f"{name} to be read by the kernel")
    with contextlib.ExitStack() as stack:
        files = {name: stack.enter_context(open(warm / name, "rb")) for name in contents}
        for number, path in enumerate(cache_files(disk)):
            with open(path, "r+b") as file:
                file.write(bytes(50_000))
                if number % 2: file.truncate(40_000)
            os.unlink(path)
        for name, data in contents.items():
            assert is_read_by_the_kernel(warm, files[name], len(data)), name
            assert os.pread(files[name].fileno(), len(data) + 1, 0) == data
    # Nor anybody who comes later.
    for name, data in contents.items():
        assert read(warm / name) == data


def test_damage_before_is_found_first(warm, contents, disk, instance):
    warm.unmount()
    for path in cache_files(disk):
        with open(path, "r+b") as file:
            file.seek(40_000)
            byte = file.read(1)
            file.seek(40_000)
            file.write(bytes([byte[0] ^ 1]))
    mount = warm.mount_again()
    for _ in range(3):
        for name, data in contents.items():
            with open(mount / name, "rb") as file:
                assert file.read() == data, name


def test_files_open_in_both_ways_and_versions(warm, contents, client, seed):
    """An open file that goes by the mount keeps others from the kernel; a new version is another file to it."""
    size = SIZES["odd"]
    with open(warm / "odd", "rb") as first:
        assert first.read() == contents["odd"]
        with open(warm / "odd", "rb") as second:
            assert not is_read_by_the_kernel(warm, second, size)
    wait_until(lambda: opened_by_the_kernel(warm, "odd", size), 20, "the file to be read by the kernel")
    with open(warm / "odd", "rb") as old:
        assert is_read_by_the_kernel(warm, old, size)
        new = random_bytes(seed + 9, 5 * MIB)
        client.put_object(Bucket="bucket", Key="odd", Body=new)
        wait_until(lambda: os.stat(warm / "odd").st_size == len(new), 20, "the new version")
        assert read(warm / "odd") == new
        assert os.pread(old.fileno(), size, 0) == contents["odd"]
        assert read(warm / "odd") == new


def test_what_can_be_written_to_is_read_by_the_mount(instance, disk, contents):
    """Whoever has a file open must see what is written to it."""
    mount = instance.mount("s3://bucket", None, "kernel_age=0s")
    for _ in range(3):
        for name, data in contents.items():
            with open(mount / name, "rb") as file:
                assert file.read() == data
                if name == "even": assert not is_read_by_the_kernel(mount, file, len(data))
        mount.unmount()
        mount = mount.mount_again()


def test_what_this_mount_fetched_is_read_by_the_mount(instance, disk, contents):
    """It becomes a file for the kernel with the next mount: only at its first open an object is looked at."""
    mount = instance.mount("s3://bucket", None, "ro", "metadata_age=1s", "kernel_age=0s")
    for _ in range(3):
        assert read(mount / "even") == contents["even"]
        with open(mount / "even", "rb") as file:
            assert not is_read_by_the_kernel(mount, file, SIZES["even"])
    mount.unmount()
    again = mount.mount_again()
    assert read(again / "even") == contents["even"]
    wait_until(lambda: opened_by_the_kernel(again, "even", SIZES["even"]), 20, "the file to be read by the kernel")


def test_doctor_looks_at_the_cache_of_a_volume_that_has_its_own(instance, folder, stack, contents):
    disk = LoopDisk(folder, 400 * MIB, "xfs")
    stack.callback(disk.unmount)
    stack.callback(instance.abandon)
    instance.mount("s3://bucket", None, "ro", f"cache_dir={disk.path}/own", "cache_free=0").unmount()
    told = [line for line in instance.run("doctor", check=False).stdout.splitlines() if "FUSE passthrough" in line]
    own = [line for line in told if f"read-only mounts, cache in {disk.path}/own" in line]
    assert len(told) == 2 and len(own) == 1, told
    assert own[0].startswith("ok ") and "are read by the kernel" in own[0]
