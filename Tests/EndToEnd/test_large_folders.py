# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Folders of many files: what they cost, and that nothing of them is wrong."""

import glob
import json
import os
import stat

import pytest

from harness.generated_bucket import GeneratedBucket
from harness.processes import run
from harness.settings import scaled


def put(client, key, body=b"", **metadata):
    client.put_object(Bucket="bucket", Key=key, Body=body, Metadata={name: str(value) for name, value in metadata.items()})


def listed(path):
    """Mode, owner, time and size of each name, as `ls -l` asks for them."""
    with os.scandir(path) as entries:
        names = [entry.name for entry in entries]
    statuses = {name: os.lstat(os.path.join(path, name)) for name in names}
    assert len(statuses) == len(names)
    return {name: (it.st_mode, it.st_uid, it.st_mtime_ns, it.st_size) for name, it in statuses.items()}


def test_attributes_come_with_the_listing(server, client, make_instance):
    """`moorage serve` lists with metadata, as MinIO does: nothing has to be asked for each file."""
    count = 1010  # more than a page
    for index in range(count):
        put(client, f"many/f{index:04}", b"x" * (index % 7), mode=0o100600 + index % 8, uid=index, mtime=f"{10**9 + index}.5")
    put(client, "many/link", b"f0001", mode=0o120777)
    client.put_object(Bucket="bucket", Key="many/plain", Body=b"")
    mount = make_instance(server.url).mount("s3://bucket")
    os.stat(mount / "many")
    before = server.stats()["requests"].get("HEAD", 0)
    found = listed(mount / "many")
    assert server.stats()["requests"].get("HEAD", 0) == before
    assert len(found) == count + 2
    for index in range(count):
        expected = (0o100600 + index % 8, index, (10**9 + index) * 10**9 + 500_000_000, index % 7)
        assert found[f"f{index:04}"] == expected
    assert stat.S_ISLNK(found["link"][0]) and os.readlink(mount / "many/link") == "f0001"
    assert found["plain"][:2] == (stat.S_IFREG | 0o644, os.getuid())


def count_names(path):
    """What `find` counts, which looks at no file."""
    return int(run(["sh", "-c", 'find "$1" -type f | wc -l', "sh", path], timeout=300).stdout)


def resident(pid):
    """The memory of a process without the pages of files, in bytes, now."""
    with open(f"/proc/{pid}/status") as file:
        return int(next(line for line in file if line.startswith("RssAnon:")).split()[1]) * 1024


@pytest.mark.limit(300)
def test_a_bucket_of_many_objects_takes_little(make_instance, stack):
    """The catalog stays under 400 bytes an object, and the memory grows by little more than the names of the open folder."""
    count = scaled(60_000)
    bucket = GeneratedBucket(1, count)
    stack.callback(bucket.stop)
    instance = make_instance(bucket.url)
    mount = instance.mount("s3://bucket")
    assert bucket.requests["GET"] <= 3
    before = resident(mount.pid)
    for _ in range(2):
        assert count_names(mount.path) == count
    # 33 to 41 MB were seen: most of it is what allocators keep, by how many threads ran at once.
    assert resident(mount.pid) - before < (48 << 20) + count * 100
    pattern = os.path.join(instance.directory("cache"), "volumes", "*", "catalog.sqlite*")
    assert sum(os.path.getsize(path) for path in glob.glob(pattern)) < count * 400
    # The folder has no marker, of which one HEAD tells; nothing is asked for the files.
    assert bucket.requests["HEAD"] <= 2


def test_a_remote_is_listed_without_mounting_it(server, client, make_instance, stack):
    instance = make_instance(server.url)
    for key in ["a", "d/x", "d/e/y z", "é"]:
        put(client, key, b"12")
    lines = [line.split(" ", 2) for line in instance.run("list", "s3://bucket", "-o", f"endpoint={server.url}").stdout.splitlines()]
    assert [(size, key) for size, _, key in lines] == [("2", "a"), ("2", "é"), ("-", "d/")]
    assert all(time.startswith("20") and time.endswith("Z") for size, time, _ in lines if size != "-")
    document = json.loads(instance.run("list", "s3://bucket", "--json", "-o", f"endpoint={server.url}").stdout)
    assert [(entry["key"], entry["size"]) for entry in document["entries"]] == [("a", 2), ("é", 2), ("d/", None)]
    assert document["entries"][0]["etag"].startswith('"') and document["entries"][0]["modified"].endswith("Z")
    absent = instance.run("list", "s3://nosuchbucket", "--json", "-o", f"endpoint={server.url}", check=False)
    assert absent.returncode == 1 and absent.stdout == ""
    empty = instance.run("list", "s3://bucket/none/", "--json", "-o", f"endpoint={server.url}").stdout
    assert json.loads(empty) == {"entries": []}
    below = instance.run("list", "s3://bucket/d", "--recursive", "-o", f"endpoint={server.url}").stdout
    assert [line.split(" ", 2)[2] for line in below.splitlines()] == ["e/y z", "x"]
    missing = instance.run("list", "s3://nosuchbucket", "-o", f"endpoint={server.url}", check=False)
    assert missing.returncode == 1 and missing.stderr.startswith("moorage: list: s3://nosuchbucket: ")
    bucket = GeneratedBucket(1, 2500)
    stack.callback(bucket.stop)
    listed = instance.run("list", "s3://bucket/d00000", "-o", f"endpoint={bucket.url}").stdout.splitlines()
    assert len(listed) == 2500 and listed[-1].endswith(" object-00002499")
    pages = json.loads(instance.run("list", "s3://bucket/d00000", "--json", "-o", f"endpoint={bucket.url}").stdout)
    assert [entry["key"] for entry in pages["entries"]] == [line.split(" ", 2)[2] for line in listed]


@pytest.mark.parametrize("takes_time", [True, False])
def test_a_listing_without_metadata_costs_a_request_a_file_or_none(make_instance, stack, takes_time):
    count = 1500
    bucket = GeneratedBucket(1, count, metadata=False)
    stack.callback(bucket.stop)
    options = ["use_server_modtime"] if takes_time else []
    mount = make_instance(bucket.url).mount("s3://bucket", None, *options)
    for _ in range(2):
        found = listed(mount / "d00000")
        assert len(found) == count
        assert {it[2] for it in found.values()} == {1_767_225_600 * 10**9}
        # Once a version; the folder's marker is asked for, too.
        asked = bucket.requests["HEAD"]
        assert asked <= 2 if takes_time else count <= asked <= count + 2
