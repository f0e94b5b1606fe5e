# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""An object that changes at the remote during a read: old bytes or ESTALE, never a mixture."""

import concurrent.futures
import errno
import os
import random
import time

import pytest

from harness.settings import scaled

PAGE = 4096


def content(version, pages):
    """Every page carries its version and its place."""
    return b"".join(f"{version:012}:{page:08};".encode() * (PAGE // 22) + b"." * (PAGE % 22) for page in range(pages))


def version_of(data, first_page):
    """The version that all pages of `data` carry; fails on a mixture, zeros or a page in a wrong place."""
    versions = set()
    assert len(data) % PAGE == 0, f"a short read of {len(data)}"
    for index in range(len(data) // PAGE):
        page = data[index * PAGE:(index + 1) * PAGE]
        version = page[:12]
        assert page == (version + f":{first_page + index:08};".encode()) * (PAGE // 22) + b"." * (PAGE % 22)
        versions.add(int(version))
    assert len(versions) == 1, f"a mixture of versions {versions}"
    return versions.pop()


class Replacer:
    """Replaces objects from another thread; each version has a length of its own."""

    def __init__(self, client, seed):
        self.client = client
        self.generator = random.Random(seed)
        self.version = 0
        self.lengths = {}
        self.pool = concurrent.futures.ThreadPoolExecutor(1)

    def replace(self, key):
        """Starts to replace an object and returns what to wait for."""
        self.version += 1
        pages = self.generator.randrange(100, 400)
        self.lengths[self.version] = pages
        body = content(self.version, pages)
        return self.pool.submit(self.client.put_object, Bucket="bucket", Key=key, Body=body)


def read_while_replaced(path, generator, lengths, replace):
    """Reads one open file in random pieces, replacing it at a random one; returns `whole` or `stale`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        seen = set()
        offset = generator.choice([0, 0, generator.randrange(0, 99)])
        pieces = generator.randrange(1, 6)
        while True:
            pieces -= 1
            if pieces == 0:
                replacement = replace()
                if generator.random() < 0.5:
                    replacement.result(30)
                else:
                    time.sleep(generator.choice([0, 0, 0.01, 0.03]))
            pages = generator.choice([1, 3, 16, 32])
            data = os.pread(descriptor, pages * PAGE, offset * PAGE)
            if not data:
                break
            seen.add(version_of(data, offset))
            assert len(seen) == 1, f"one open file gave the versions {seen}"
            offset += len(data) // PAGE
        if seen:
            assert offset == lengths[seen.pop()], "the end of the file belongs to another version"
        return "whole"
    except OSError as problem:
        if problem.errno != errno.ESTALE:
            raise
        return "stale"
    finally:
        os.close(descriptor)


@pytest.mark.limit(240)
@pytest.mark.parametrize("cache", ["10G", "0"])
def test_no_read_mixes_versions(server, make_instance, seed, cache):
    instance = make_instance(server.url)
    instance.configure(metadata_age="0s", kernel_age="0s")
    keys = ["a", "b", "c"]
    replacer = Replacer(server.client(), seed)
    for key in keys:
        replacer.replace(key).result()
    mount = instance.mount("s3://bucket", None, f"cache_size={cache}", "block_size=64k")
    generator = random.Random(seed + 1)
    outcomes = {"whole": 0, "stale": 0, "open": 0}
    rounds = 0
    while rounds < scaled(500):
        key = generator.choice(keys)
        running = []

        def replace():
            running.append(replacer.replace(key))
            return running[-1]

        try:
            outcomes[read_while_replaced(mount / key, generator, replacer.lengths, replace)] += 1
            # A file that was read before its turn came does not count.
            rounds += len(running)
        except OSError as problem:
            assert problem.errno == errno.ESTALE, problem
            outcomes["open"] += 1
        for one in running:
            one.result(30)
    print(outcomes, "versions:", replacer.version)
    assert outcomes["stale"] > 0, "no reader noticed a change: the test proves nothing"
    assert outcomes["open"] < scaled(50), "files were hardly read"


@pytest.mark.limit(60)
def test_a_change_between_two_requests_of_one_read(instance, mount, proxy, client):
    """The first half is read, the object is replaced, the second half is not in any cache."""
    pages = 24 * 256
    client.put_object(Bucket="bucket", Key="big", Body=content(1, pages))
    with open(mount / "big", "rb", buffering=0) as file:
        assert version_of(file.read(PAGE), 0) == 1
        client.put_object(Bucket="bucket", Key="big", Body=content(2, pages))
        offset = pages - 512
        try:
            data = os.pread(file.fileno(), 64 * PAGE, offset * PAGE)
            assert version_of(data, offset) == 1
        except OSError as problem:
            assert problem.errno == errno.ESTALE


@pytest.mark.limit(60)
def test_an_answer_with_a_strange_etag_is_refused(instance, mount, proxy, client):
    """A server that ignores If-Match and sends another version's bytes is found out by its ETag."""
    pages = 16 * 256
    client.put_object(Bucket="bucket", Key="big", Body=content(1, pages))
    assert os.path.getsize(mount / "big") == pages * PAGE
    proxy.rule("set-field", method="GET", path="/bucket/big", times="all", name="ETag", value='"another"')
    with pytest.raises(OSError) as problem:
        open(mount / "big", "rb").read(PAGE)
    assert problem.value.errno in (errno.ESTALE, errno.EIO)


@pytest.mark.limit(90)
@pytest.mark.parametrize("fault", ["truncate", "cut-response", "status"])
def test_a_broken_answer_never_gives_wrong_bytes(instance, mount, proxy, client, fault):
    data = content(7, 1024)
    client.put_object(Bucket="bucket", Key="big", Body=data)
    assert os.path.getsize(mount / "big") == len(data)
    if fault == "status":
        rule = proxy.rule("respond", method="GET", path="/bucket/big", status=503, times=2)
    else:
        rule = proxy.rule(fault, method="GET", path="/bucket/big", after=100_000, times=2)
    try:
        with open(mount / "big", "rb") as file:
            assert file.read() == data
    except OSError as problem:
        assert problem.errno == errno.EIO and fault == "truncate", "what was only interrupted must be asked again"
    assert rule.matched() >= 1
    rule.remove()
    assert open(mount / "big", "rb").read() == data


def move_at_the_remote(client, old, new):
    """Renames a folder as other clients do: copies, then deletes, one object after another."""
    listed = client.list_objects_v2(Bucket="bucket", Prefix=old).get("Contents", [])
    for item in listed:
        target = new + item["Key"].removeprefix(old)
        client.copy_object(Bucket="bucket", Key=target, CopySource={"Bucket": "bucket", "Key": item["Key"]})
    for item in listed:
        client.delete_object(Bucket="bucket", Key=item["Key"])


@pytest.mark.limit(90)
@pytest.mark.parametrize("marker", [True, False])
def test_a_folder_renamed_at_the_remote_confuses_nothing(server, make_instance, client, marker):
    instance = make_instance(server.url)
    instance.configure(metadata_age="0s", kernel_age="0s")
    for folder in ("d", "other"):
        if marker:
            client.put_object(Bucket="bucket", Key=folder + "/", Metadata={"mode": str(0o040750)})
        for name in ("a", "b", "sub/c"):
            client.put_object(Bucket="bucket", Key=f"{folder}/{name}", Body=f"{folder} {name}".encode())
    mount = instance.mount("s3://bucket")
    tree = {name: open(mount / f"d/{name}").read() for name in ("a", "b", "sub/c")}
    assert not os.path.exists(mount / "e")
    number = os.stat(mount / "d/a").st_ino
    with open(mount / "d/a") as file:
        inside = os.open(mount / "d", os.O_RDONLY | os.O_DIRECTORY)
        move_at_the_remote(client, "d/", "e/")
        assert sorted(os.listdir(mount.path)) == ["e", "other"]
        assert not os.path.exists(mount / "d/a")
        assert {name: open(mount / f"e/{name}").read() for name in tree} == tree
        assert sorted(os.listdir(mount / "e")) == ["a", "b", "sub"]
        # What was read before is in the cache, and a file under a new name is another one.
        assert file.read() == tree["a"]
        assert os.stat(mount / "e/a").st_ino != number
        os.close(inside)
    # Another folder takes the old name, with names that the first one had, too.
    move_at_the_remote(client, "other/", "d/")
    assert sorted(os.listdir(mount.path)) == ["d", "e"]
    for name in tree:
        assert open(mount / f"d/{name}").read() == f"other {name}"
        assert open(mount / f"e/{name}").read() == tree[name]
    if marker:
        assert os.stat(mount / "d").st_mode == os.stat(mount / "e").st_mode == 0o040750
    # Nothing of it is taken for a change made here.
    assert instance.pending_files() == 0
    with open(mount / "d/a", "w") as file:
        file.write("changed here")
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="d/a")["Body"].read() == b"changed here"
    assert client.get_object(Bucket="bucket", Key="e/a")["Body"].read() == b"d a"
    assert instance.conflicts() == 0


@pytest.mark.limit(60)
def test_a_name_that_is_not_there_is_asked_for_once(server, make_instance, client):
    client.put_object(Bucket="bucket", Key="d/a", Body=b"1")
    instance = make_instance(server.url)
    mount = instance.mount("s3://bucket", None, "metadata_age=1000s", "kernel_age=0s")
    assert os.listdir(mount / "d") == ["a"]
    before = server.stats()["requests"]
    for _ in range(20):
        assert not os.path.exists(mount / "d/b") and not os.path.exists(mount / "d/a.bak")
    after = server.stats()["requests"]
    assert after.get("HEAD", 0) == before.get("HEAD", 0) and after["GET"] - before["GET"] <= 1
