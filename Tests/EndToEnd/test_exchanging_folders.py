# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""RENAME_EXCHANGE of folders, with folders and with files, whatever of them the remote has already."""

import errno
import os

import pytest

from harness.posix import exchange
from harness.processes import wait_until
from harness.trees import all_keys, write_file

STATES = ("remote", "pending", "mixed")


def put(client, tree):
    for path, content in tree.items():
        client.put_object(Bucket="bucket", Key=path, Body=content)


def write(mount, tree):
    for path, content in tree.items():
        os.makedirs(os.path.dirname(mount / path), exist_ok=True)
        write_file(mount / path, content)


def contents(mount):
    found = {}
    for base, folders, files in os.walk(mount.path):
        relative = os.path.relpath(base, mount.path)
        if not folders and not files:
            found[relative + "/"] = None
        for name in files:
            with open(os.path.join(base, name), "rb") as file:
                found[os.path.normpath(os.path.join(relative, name))] = file.read()
    return found


def objects(client):
    keys = [key for key in all_keys(client, "bucket") if not key.endswith("/")]
    return {key: client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in keys}


ONE = {"one/a": b"1a", "one/b": b"1b", "one/sub/c": b"1c"}
TWO = {"two/b": b"2b", "two/sub": b"2sub", "two/deep/er/d": b"2d"}
AFTER = {
    "two/a": b"1a", "two/b": b"1b", "two/sub/c": b"1c",
    "one/b": b"2b", "one/sub": b"2sub", "one/deep/er/d": b"2d",
}  # fmt: skip


def fill(client, instance, state):
    """Both trees as the remote alone, the mount alone, or each half has them."""
    remote = {"remote": ONE | TWO, "pending": {}, "mixed": ONE}[state]
    put(client, remote)
    instance.run("policy", "set", "low-data=on")
    mount = instance.mount("s3://bucket")
    write(mount, {path: content for path, content in (ONE | TWO).items() if path not in remote})
    return mount


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("ending", ["live", "remounted", "killed"])
def test_folders_take_each_others_place(client, instance, state, ending):
    mount = fill(client, instance, state)
    inodes = {name: os.stat(mount / name).st_ino for name in ("one", "two")}
    with open(mount / "one/b", "rb") as held:
        exchange(mount / "one", mount / "two")
        assert held.read() == b"1b"
    assert {name: os.stat(mount / name).st_ino for name in ("two", "one")} == {"two": inodes["one"], "one": inodes["two"]}
    assert contents(mount) == AFTER
    if ending == "remounted":
        mount.unmount()
        mount = mount.mount_again()
    elif ending == "killed":
        mount.kill()
        mount = mount.mount_again()
    assert contents(mount) == AFTER
    instance.run("policy", "set", "low-data=auto")
    instance.flush()
    assert objects(client) == AFTER
    assert contents(mount) == AFTER


@pytest.mark.parametrize("state", STATES)
def test_a_folder_and_a_file_take_each_others_place(client, instance, state):
    mount = fill(client, instance, state)
    exchange(mount / "one", mount / "two/sub")
    expected = {"one": b"2sub", "two/sub/a": b"1a", "two/sub/b": b"1b", "two/sub/sub/c": b"1c"}
    expected |= {path: content for path, content in TWO.items() if path != "two/sub"}
    assert contents(mount) == expected
    assert os.stat(mount / "two").st_nlink == 4 and os.stat(mount.path).st_nlink == 3
    exchange(mount / "two/sub", mount / "one")
    assert contents(mount) == ONE | TWO
    exchange(mount / "one", mount / "two/sub")
    instance.run("policy", "set", "low-data=auto")
    instance.flush()
    assert objects(client) == expected


def test_what_is_in_each_other_does_not_change_places(client, instance):
    mount = fill(client, instance, "mixed")
    for old, new in [("one", "one/sub"), ("one/sub", "one"), ("one/sub/c", "one"), ("two", "two/deep/er")]:
        with pytest.raises(OSError) as failure:
            exchange(mount / old, mount / new)
        assert failure.value.errno == errno.EINVAL, (old, new)
    with pytest.raises(OSError) as failure:
        exchange(mount / "one", mount / "nothing")
    assert failure.value.errno == errno.ENOENT
    assert contents(mount) == ONE | TWO


def test_writers_go_on_in_a_folder_that_was_exchanged(client, instance):
    mount = fill(client, instance, "mixed")
    with open(mount / "two/b", "r+b") as file:
        exchange(mount / "one", mount / "two")
        file.write(b"3b")
    assert contents(mount) == AFTER | {"one/b": b"3b"}
    os.mkdir(mount / "one/new")
    write_file(mount / "two/new", b"new")
    instance.run("policy", "set", "low-data=auto")
    instance.flush()
    wait_until(lambda: objects(client) == AFTER | {"one/b": b"3b", "two/new": b"new"}, 20, "all to be remote")
    assert "one/new/" in all_keys(client, "bucket")
