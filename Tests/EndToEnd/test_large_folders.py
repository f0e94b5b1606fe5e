# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Folders of many files: what they cost, and that nothing of them is wrong."""

import os
import stat


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
    count = 1500
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
