# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Several mounts of one volume share a cache folder: each reads what another has fetched, also where it cannot write."""

import os
import random
import subprocess
import threading

import pytest

from harness.disks import needs_root
from harness.processes import run
from harness.trees import random_bytes

KIB = 1 << 10
MIB = 1 << 20
pytestmark = pytest.mark.limit(120)


@pytest.fixture
def contents(client, seed):
    contents = {f"f{number}": random_bytes(seed + number, 4 * MIB) for number in range(3)}
    for name, data in contents.items():
        client.put_object(Bucket="bucket", Key=name, Body=data)
    return contents


def make_pair(make_instance, server, second_cache=None):
    """Two instances with states of their own, the second with the first one's cache folder, or what is given."""
    first, second = make_instance(server.url), make_instance(server.url)
    second.environment["MOORAGE_CACHE_DIR"] = second_cache or first.directory("cache")
    for instance in (first, second):
        instance.configure(cache_free="0")
    return first, second


def received(server):
    return server.stats()["body_bytes_sent"].get("GET", 0)


def read_here_and_there(mount, contents, seed, count=150):
    choice = random.Random(seed)
    files = {name: os.open(mount / name, os.O_RDONLY | os.O_DIRECT) for name in contents}
    try:
        for _ in range(count):
            name = choice.choice(sorted(contents))
            offset = choice.randrange(len(contents[name]))
            assert os.pread(files[name], 40_000, offset) == contents[name][offset:offset + 40_000], name
    finally:
        for descriptor in files.values():
            os.close(descriptor)


def read_whole(mount, contents):
    for name, data in contents.items():
        with open(mount / name, "rb") as file:
            assert file.read() == data


def cache_of(instance):
    (volume,) = instance.status()["volumes"]
    return volume["cache"]


def test_what_one_mount_fetched_the_other_reads(make_instance, server, contents):
    first, second = make_pair(make_instance, server)
    one, two = first.mount("s3://bucket", None, "ro"), second.mount("s3://bucket", None, "ro")
    read_whole(one, contents)
    before = received(server)
    read_whole(two, contents)
    assert received(server) - before < 100 * KIB
    one.unmount()
    read_whole(two, contents)


def test_mounts_that_read_at_once_do_not_disturb_each_other(make_instance, server, contents, seed):
    pair = make_pair(make_instance, server)
    mounts = [instance.mount("s3://bucket", None, "ro") for instance in pair]
    both_at_once(mounts, contents, seed)
    for instance, mount in zip(pair, mounts):
        mount.unmount()
        assert cache_of(instance)["damaged_blocks"] == 0, "what the other writes is taken for damage"


@needs_root
def test_a_cache_that_only_the_other_can_write_to(make_instance, server, contents, folder, stack, seed):
    view = os.path.join(folder, "view")
    first, second = make_pair(make_instance, server, view)
    os.makedirs(view)
    run(["mount", "--bind", first.directory("cache"), view])
    stack.callback(subprocess.run, ["umount", "-l", view], check=False)
    stack.callback(second.abandon)
    run(["mount", "-o", "remount,bind,ro", view])
    one = first.mount("s3://bucket", None, "ro")
    read_whole(one, {"f0": contents["f0"]})
    two = second.mount("s3://bucket", None, "ro")
    before = received(server)
    read_here_and_there(two, {"f0": contents["f0"]}, seed, 40)
    # A file that is open already gets what the other fetches later.
    descriptor = os.open(two / "f1", os.O_RDONLY | os.O_DIRECT)
    assert os.pread(descriptor, 100, 0) == contents["f1"][:100]
    read_whole(one, contents)
    after = received(server)
    assert os.pread(descriptor, 50_000, 2 * MIB) == contents["f1"][2 * MIB:2 * MIB + 50_000]
    read_here_and_there(two, contents, seed, 60)
    os.close(descriptor)
    assert received(server) - after < 200 * KIB and after - before < 9 * MIB
    read_whole(two, contents)


@pytest.mark.parametrize("sizes", [("4K", "1M"), ("1M", "32K")], ids="-".join)
def test_mounts_with_different_block_sizes_share_what_they_fetch(make_instance, server, client, contents, seed, sizes):
    """Each file has the blocks of who made it, and neither mount throws away what the other has."""
    small = {f"s{number}": random_bytes(seed + 10 + number, 300_000) for number in range(6)}
    for name, data in small.items():
        client.put_object(Bucket="bucket", Key=name, Body=data)
    contents = contents | small
    pair = make_pair(make_instance, server)
    mounts = [
        instance.mount("s3://bucket", None, "ro", f"block_size={size}") for instance, size in zip(pair, sizes)
    ]
    own = [{name: contents[name] for name in names} for names in (["f0", "s0", "s1"], ["f1", "s2", "s3"])]
    before = received(server)
    for mount, names in zip(mounts, own):
        read_whole(mount, names)
    total = sum(len(data) for names in own for data in names.values())
    assert received(server) - before < total + 100 * KIB
    # What the other has fetched is read from the same file, whatever its blocks, in turn and at once.
    before = received(server)
    known = own[0] | own[1]
    for _ in range(2):
        for mount in mounts:
            read_whole(mount, known)
            read_here_and_there(mount, known, seed, 60)
    assert received(server) - before < 100 * KIB, "what was fetched is fetched again"
    both_at_once(mounts, contents, seed)
    # Two that miss the same at the same moment may both fetch it, with what each reads ahead.
    rest = sum(len(data) for name, data in contents.items() if name not in known)
    assert received(server) - before < 3 * rest
    before = received(server)
    for number, (instance, mount) in enumerate(zip(pair, mounts)):
        read_whole(mount, contents)
        mount.unmount()
        assert cache_of(instance)["damaged_blocks"] == 0, "what the other writes is taken for damage"
        again = mount.mount_again()
        read_here_and_there(again, contents, seed + number)
    assert received(server) - before < 2 * rest


def both_at_once(mounts, contents, seed):
    """Reads in both mounts at the same time."""
    problems = []

    def reader(mount, seed):
        try:
            read_here_and_there(mount, contents, seed)
            read_whole(mount, contents)
        except BaseException as problem:
            problems.append(repr(problem))

    threads = [threading.Thread(target=reader, args=(mount, seed + number)) for number in range(2) for mount in mounts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
