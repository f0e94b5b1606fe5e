# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Hundreds wait for a remote that does not answer: whoever needs nothing of it goes on."""

import os
import signal
import subprocess
import sys
import time

import pytest

from harness.processes import is_alive, run, wait_until
from harness.trees import random_bytes, write_file

WAITERS = 250
AT_ONCE = 7

#: Lets many threads do one thing to a file each: the way, the folder, the number of files.
CROWD = """
import mmap, os, sys, threading, zlib
way, folder, count = sys.argv[1], sys.argv[2], int(sys.argv[3])

def pages(path):
    return os.pread(os.open(path, os.O_RDONLY), 1, 0)

def direct(path):
    memory = mmap.mmap(-1, 4096)
    return os.preadv(os.open(path, os.O_RDONLY | os.O_DIRECT), [memory], 0)

def mapped(path):
    memory = mmap.mmap(os.open(path, os.O_RDONLY), 0, prot=mmap.PROT_READ)
    memory.madvise(mmap.MADV_RANDOM)
    return zlib.crc32(memory)

act = {"pages": pages, "direct": direct, "mapped": mapped, "stat": os.stat}[way]
def run(path):
    try: act(path)
    except OSError: pass
threads = [threading.Thread(target=run, args=[f"{folder}/f{number}"]) for number in range(count)]
for thread in threads: thread.start()
print("started", flush=True)
"""


@pytest.fixture
def crowded(instance, client, proxy, seed):
    """A mount that holds one file in its disk cache, and knows others by name and attributes, or by name only."""
    proxy.refuse_metadata()
    client.put_object(Bucket="bucket", Key="cached", Body=random_bytes(seed, 1 << 20))
    for number in range(WAITERS):
        client.put_object(Bucket="bucket", Key=f"crowd/f{number}", Body=bytes(8192))
    mount = instance.mount("s3://bucket", None, "metadata_age=600s", "kernel_age=0s")
    assert open(mount / "cached", "rb").read() == random_bytes(seed, 1 << 20)
    write_file(mount / "crowd/own", b"mine")
    assert len(os.listdir(mount / "crowd")) == WAITERS + 1
    return mount


def read_from_the_disk_cache(mount, seed):
    """Reads a file past the kernel's page cache, in a process of its own, as the mount may not answer."""
    program = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
sys.stdout.buffer.write(os.pread(file, 1 << 20, 0))
"""
    command = [sys.executable, "-c", program, mount / "cached"]
    assert subprocess.run(command, stdout=subprocess.PIPE, timeout=AT_ONCE, check=True).stdout == random_bytes(seed, 1 << 20)


@pytest.mark.limit(120)
@pytest.mark.parametrize("way", ["pages", "direct", "mapped", "stat"])
def test_hundreds_who_wait_do_not_stop_the_others(instance, crowded, proxy, seed, way):
    if way == "stat":
        rule = proxy.rule("hold", times="all", method="HEAD")
    else:
        for number in range(WAITERS):
            os.stat(crowded / f"crowd/f{number}")
        rule = proxy.rule("hold", times="all", method="GET", path="/bucket/crowd/")
    pid = crowded.pid
    begin = time.monotonic()
    crowd = subprocess.Popen(
        [sys.executable, "-c", CROWD, way, crowded / "crowd", str(WAITERS)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert crowd.stdout.readline() == b"started\n"
    rule.wait()
    wait_until(lambda: waiting_threads(crowd.pid) >= WAITERS, 20, "all to wait")
    read_from_the_disk_cache(crowded, seed)
    run(["stat", "-f", crowded.path], timeout=AT_ONCE)
    run(["stat", crowded / "cached"], timeout=AT_ONCE)
    # Names of the same folder too.
    run(["stat", crowded / "crowd/own"], timeout=AT_ONCE)
    run(["ls", crowded / "crowd"], timeout=AT_ONCE)
    run(["bash", "-c", f"echo new > '{crowded / 'new'}' && cat '{crowded / 'new'}'"], timeout=AT_ONCE)
    # Who asks for attributes is told after ten seconds that nobody answers.
    are_waiting = way != "stat" or time.monotonic() - begin < 10
    assert crowd.poll() is None or not are_waiting, "nobody waited any more"
    crowd.kill()
    assert crowd.wait(AT_ONCE) < 0 or not are_waiting
    # Readahead that nobody waits for is still under way.
    crowded.unmount(timeout=AT_ONCE)
    wait_until(lambda: not is_alive(pid), AT_ONCE, "the end of the mount's process")


@pytest.mark.limit(120)
def test_names_are_told_while_many_files_are_read_on_a_slow_line(instance, client, proxy, seed):
    """What all of them need takes minutes: more requests than there are connections, each for as much as can be."""
    readers = 24
    body = random_bytes(seed, 32 << 20)
    for number in range(readers):
        client.put_object(Bucket="bucket", Key=f"f{number}", Body=body)
    client.put_object(Bucket="bucket", Key="folder/file", Body=b"here")
    mount = instance.mount("s3://bucket")
    os.listdir(mount.path)
    proxy.limit(down=256 << 10)
    crowd = [
        subprocess.Popen(["cat", mount / f"f{number}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for number in range(readers)
    ]
    try:
        wait_until(lambda: all(waiting_threads(child.pid, 0) for child in crowd), 20, "all to wait")
        for name in ["folder/file", "folder/none", "elsewhere/none"]:
            result = run(["ls", mount / name], check=False)
            expected = "" if name == "folder/file" else "No such file"
            assert expected in result.stderr and (result.returncode == 0) == (not expected), result.stderr
        assert all(child.poll() is None for child in crowd), "nobody read any more"
    finally:
        proxy.limit()
        ends = [child.wait(60) for child in crowd]
    assert ends == [0] * readers


def waiting_threads(pid, others=1):
    """How many threads of a process wait in the kernel for a file system, beside the one that waits for them."""
    count = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/stat") as file:
            count += file.read().rsplit(")", 1)[1].split()[0] in "DS"
    return count - others


@pytest.mark.limit(120)
def test_a_disk_that_stands_still_does_not_stop_those_who_need_nothing_of_it(make_instance, instance, proxy, client, seed):
    """The cache lies on a file system whose server is stopped: threads wait for it, and nobody is told that they do."""
    readers = 40
    for number in range(readers):
        client.put_object(Bucket="bucket", Key=f"crowd/f{number}", Body=bytes(8192))
    disk = make_instance(proxy.url, "disk").mount("s3://bucket/disk")
    mount = instance.mount("s3://bucket/crowd", None, f"cache_dir={disk.path}/cache", "kernel_age=0s", "quiet_period=600s")
    write_file(mount / "own", b"mine")
    for number in range(readers):
        assert open(mount / f"f{number}", "rb").read() == bytes(8192)
    for folder, _, names in os.walk(f"{disk.path}/cache"):
        for name in names:
            with open(f"{folder}/{name}", "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    os.kill(disk.pid, signal.SIGSTOP)
    crowd = subprocess.Popen(
        [sys.executable, "-c", CROWD, "direct", mount.path, str(readers)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert crowd.stdout.readline() == "started\n"
        for _ in range(20):
            assert run(["cat", mount / "own"], timeout=AT_ONCE).stdout == "mine"
        assert crowd.poll() is None
    finally:
        os.kill(disk.pid, signal.SIGCONT)
    assert crowd.wait(timeout=30) == 0
