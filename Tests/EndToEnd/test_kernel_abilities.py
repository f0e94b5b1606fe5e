# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What the kernel does by itself, or sends at once, because the mount lets it.

The mount's process is stopped meanwhile: what is answered all the same, the kernel has answered, and what it asks for waits
and can be counted.
"""

import concurrent.futures
import contextlib
import functools
import mmap
import os
import signal
import subprocess
import time

import pytest

from harness.mounts import is_mounted
from harness.processes import Failure, run, wait_until
from harness.trees import random_bytes

MIB = 1 << 20
COUNT = 8
#: For what is to happen, and to see that something does not happen.
PATIENCE, MOMENT = 10, 0.5
LONG = ("metadata_age=1h", "kernel_age=1h")
CONNECTIONS = "/sys/fs/fuse/connections"
LIMIT = 120
pytestmark = pytest.mark.limit(LIMIT)
needs_counts = pytest.mark.skipif(os.geteuid() != 0 and not is_mounted(CONNECTIONS), reason="needs fusectl, or root to mount it")


def content(path):
    with open(path) as file:
        return file.read()


def stands_still(pid):
    # A thread may end while it is looked at.
    with contextlib.suppress(OSError):
        threads = os.listdir(f"/proc/{pid}/task")
        return all(content(f"/proc/{pid}/task/{thread}/stat").rsplit(")", 1)[1].split()[0] == "T" for thread in threads)


@contextlib.contextmanager
def stopped(mount):
    """The mount's process stands still, with all of its threads."""
    pid = mount.pid
    # Wakes it in any case: whoever waits for a mount that is stopped cannot be ended, be it a run of tests that was killed.
    script = f'read -t {LIMIT}; kill -CONT "$0"'
    with subprocess.Popen(["bash", "-c", script, str(pid)], stdin=subprocess.PIPE, start_new_session=True) as guard:
        os.kill(pid, signal.SIGSTOP)
        try:
            wait_until(lambda: stands_still(pid), PATIENCE, "all threads to stand still", interval=0.001)
            yield
        finally:
            os.kill(pid, signal.SIGCONT)
            guard.stdin.close()


@contextlib.contextmanager
def begun(mount, act, *words):
    """A call in a thread that begins while the mount stands still; what it waits for comes when the block ends or fails."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool, stopped(mount):
        yield pool.submit(act, *words)


def expect_alone(mount, act, *words):
    """Returns what a call does that needs the kernel only."""
    with begun(mount, act, *words) as answer:
        wait_until(answer.done, PATIENCE, "the kernel to answer by itself")
    return answer.result()


def expect_asked(mount, act, *words):
    """Returns what a call does that cannot end before the mount answers."""
    with begun(mount, act, *words) as answer:
        assert not concurrent.futures.wait([answer], MOMENT).done, "the kernel has answered by itself"
    return answer.result()


def times_dropped():
    """How often the kernel was made to forget all files (drop_caches), as by benchmarks, or forgot some for want of memory."""
    return [line for line in content("/proc/vmstat").splitlines() if line.startswith(("drop_", "pgsteal_", "slabs_"))]


def undisturbed(test):
    """Begins a test again when it failed while the kernel was made to forget what it is about."""

    @functools.wraps(test)
    def again(**words):
        for attempt in range(5):
            before = times_dropped()
            try:
                return test(**words)
            except Failure:
                if times_dropped() == before or attempt == 4: raise

    return again


@contextlib.contextmanager
def mounted(instance, *options):
    mount = instance.mount("s3://bucket", None, *options)
    try:
        yield mount
    finally:
        mount.unmount()
        instance.drop_cache()


def read_by(expect, mount):
    """Reads a file that is opened while the mount still answers."""
    with open(mount / "file", "rb", buffering=0) as file:
        return expect(mount, os.pread, file.fileno(), MIB, 0)


def listings(proxy):
    return len(proxy.requests("GET list"))


def put_versions(client, seed):
    """Puts the first of two of the same length; returns both and how to put the second."""
    first, second = random_bytes(seed, MIB), random_bytes(seed + 1, MIB)
    client.put_object(Bucket="bucket", Key="file", Body=first)
    return first, second, lambda: client.put_object(Bucket="bucket", Key="file", Body=second)


@undisturbed
def test_pages_are_kept_until_a_refresh_finds_another_version(instance, proxy, client, seed):
    first, second, change = put_versions(client, seed)
    with mounted(instance, *LONG) as mount:
        assert read_by(expect_asked, mount) == first
        assert read_by(expect_alone, mount) == first
        before = listings(proxy)
        instance.run("cache", "refresh", mount / "file")
        assert read_by(expect_alone, mount) == first
        assert listings(proxy) > before, "the refresh asked nobody: the test proves nothing"
        change()
        assert read_by(expect_alone, mount) == first
        instance.run("cache", "refresh", mount / "file")
        assert read_by(expect_asked, mount) == second
        assert read_by(expect_alone, mount) == second


@undisturbed
def test_pages_are_kept_until_another_version_is_seen_with_age(instance, proxy, client, seed):
    first, second, change = put_versions(client, seed)
    with mounted(instance, "metadata_age=1s", "kernel_age=0s") as mount:
        assert read_by(expect_asked, mount) == first
        number, before = os.stat(mount / "file").st_ino, listings(proxy)
        wait_until(lambda: os.stat(mount / "file") and listings(proxy) > before, PATIENCE, "a listing of the same version")
        assert read_by(expect_alone, mount) == first
        change()
        wait_until(lambda: os.stat(mount / "file").st_ino != number, PATIENCE, "the new version")
        assert read_by(expect_asked, mount) == second
        assert read_by(expect_alone, mount) == second


def sizes(folder, names):
    return [os.stat(os.path.join(folder, name)).st_size for name in names]


def listed(folder, is_long):
    """The names, looked at one by one as `ls -l` does or not at all."""
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries if not is_long or entry.stat(follow_symlinks=False))


# What comes with names alone fills the kernel's smallest buffer, a page, no more than half.
@undisturbed
@pytest.mark.parametrize("is_long, count", [(False, 10), (True, 300)])
def test_a_listing_leaves_attributes_with_the_kernel(instance, client, is_long, count):
    names = [f"f{number:03}" for number in range(count)]
    for number, name in enumerate(names):
        client.put_object(Bucket="bucket", Key=f"folder/{name}", Body=bytes(number))
    for ages, expect in [(LONG, expect_alone), (("kernel_age=0s",), expect_asked)]:
        with mounted(instance, *ages) as mount:
            assert listed(mount / "folder", is_long) == names
            assert expect(mount, sizes, mount / "folder", names) == list(range(count))


def is_missing(path):
    with contextlib.suppress(FileNotFoundError):
        os.stat(path)
        return False
    return True


@undisturbed
def test_the_kernel_keeps_that_a_name_does_not_exist(instance, client):
    client.put_object(Bucket="bucket", Key="folder/file", Body=b"")
    with mounted(instance, *LONG) as mount:
        # It is kept no longer than the listing is believed that lacks the name.
        assert os.listdir(mount / "folder") == ["file"]
        assert is_missing(mount / "folder/missing")
        assert expect_alone(mount, is_missing, mount / "folder/missing")
        # A name that nobody has looked for it does not know.
        assert expect_asked(mount, is_missing, mount / "folder/other")
        assert expect_alone(mount, is_missing, mount / "folder/other")


@pytest.fixture
def mount(instance):
    """Of which the kernel asks for no attributes meanwhile."""
    return instance.mount("s3://bucket", None, *LONG)


@pytest.fixture
def waiting(folder, stack, mount):
    """Tells how many requests the mount has not answered."""
    base = CONNECTIONS
    if not is_mounted(base):
        base = os.path.join(folder, "connections")
        os.mkdir(base)
        run(["mount", "-t", "fusectl", "none", base])
        stack.callback(run, ["umount", base])
    path = os.path.join(base, str(os.minor(os.stat(mount.path).st_dev)), "waiting")
    return lambda: int(content(path))


def expect_requests(mount, waiting, expected, act, *words):
    """Returns what a call does that sends so many requests before it has an answer to any."""
    # The kernel tells of the end of files a moment after close(2).
    wait_until(lambda: waiting() == 0, PATIENCE, "all to be answered")
    with begun(mount, act, *words) as answer:
        wait_until(lambda: waiting() >= expected, PATIENCE, f"{expected} requests")
        time.sleep(MOMENT)
        assert waiting() == expected
    return answer.result()


@pytest.fixture
def big(client, seed):
    data = random_bytes(seed, COUNT * MIB)
    client.put_object(Bucket="bucket", Key="big", Body=data)
    return data


@needs_counts
@pytest.mark.parametrize("access, expected", [(os.O_RDWR, COUNT), (os.O_RDONLY, 1)], ids=["writer", "reader"])
def test_direct_reads_are_large_and_those_of_writers_sent_at_once(big, mount, waiting, stack, access, expected):
    """What readers ask for in one call the mount has the kernel send bit by bit, which is faster."""
    descriptor = os.open(mount / "big", access | os.O_DIRECT)
    stack.callback(os.close, descriptor)
    memory = stack.enter_context(mmap.mmap(-1, len(big)))
    # The remote's bytes, then those that are cached.
    for _ in range(2):
        memory[:] = bytes(len(big))
        assert expect_requests(mount, waiting, expected, os.preadv, descriptor, [memory], 0) == len(big)
        assert memory[:] == big


def want(descriptor, size):
    """Has the kernel read ahead in as many steps as it takes at least."""
    for offset in range(0, COUNT * size, size):
        os.posix_fadvise(descriptor, offset, size, os.POSIX_FADV_WILLNEED)


@needs_counts
def test_reading_ahead_waits_for_no_answer(big, mount, waiting, stack):
    descriptor = os.open(mount / "big", os.O_RDONLY)
    stack.callback(os.close, descriptor)
    # No more at a time than the kernel reads ahead for anybody, in one request.
    expect_requests(mount, waiting, COUNT, want, descriptor, MIB // 8)
    assert os.pread(descriptor, len(big), 0) == big
