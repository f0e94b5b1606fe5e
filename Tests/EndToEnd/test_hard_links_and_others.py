# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Files with several names, where others change the bucket, people decide about uploads, or the network is away."""

import os
import stat
import time

import pytest

from harness.posix import exchange
from harness.processes import wait_until
from harness.trees import all_keys, write_file

DENIED = "<Error><Code>AccessDenied</Code></Error>"


def read(path):
    with open(path, "rb") as file:
        return file.read()


def objects(client):
    keys = [key for key in all_keys(client, "bucket") if not key.endswith("/")]
    return {key: client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in keys}


def shown(mount):
    return {name: read(mount / name) for name in os.listdir(mount.path)}


def pause(instance):
    instance.run("uploads", "pause", "--all")


def settle(instance):
    instance.run("uploads", "resume", "--all")
    instance.flush()


@pytest.fixture
def linked(mount, instance):
    """`f` and `g` are one file, at the remote by both names."""
    write_file(mount / "f", b"first")
    os.link(mount / "f", mount / "g")
    instance.flush()
    return mount


def refresh(instance, mount):
    instance.run("cache", "refresh", mount.path)


# MARK: what others do

def test_a_file_is_written_by_the_name_that_others_left(linked, instance, client):
    os.link(linked / "f", linked / "h")
    instance.flush()
    client.delete_object(Bucket="bucket", Key="f")
    refresh(instance, linked)
    assert sorted(os.listdir(linked.path)) == ["g", "h"] and read(linked / "g") == b"first"
    with open(linked / "g", "r+b") as file:
        file.write(b"SECOND")
    os.chmod(linked / "h", 0o640)
    assert shown(linked) == {"g": b"SECOND", "h": b"SECOND"}
    instance.flush()
    assert objects(client) == {"g": b"SECOND", "h": b"SECOND"}


def test_a_name_that_others_took_away_is_gone(linked, instance, client):
    os.mkdir(linked / "d")
    os.link(linked / "f", linked / "d/h")
    instance.flush()
    for key in ("g", "d/h"):
        client.delete_object(Bucket="bucket", Key=key)
    refresh(instance, linked)
    assert os.listdir(linked / "d") == [] and not os.path.exists(linked / "g")
    assert not os.path.exists(linked / "d/h")
    wait_until(lambda: os.stat(linked / "f").st_nlink == 1)
    os.rmdir(linked / "d")
    instance.flush()
    os.mkdir(linked / "d")
    write_file(linked / "d/h", b"new")
    write_file(linked / "f", b"second")
    instance.flush()
    assert objects(client) == {"f": b"second", "d/h": b"new"}


def test_a_copy_that_is_moved_is_not_lost_with_the_first(linked, instance, client):
    """Its object is not deleted before it is there by the new name."""
    linked.unmount()
    instance.drop_cache()
    mount = linked.mount_again()
    assert os.stat(mount / "g").st_nlink == 2
    pause(instance)
    os.rename(mount / "g", mount / "h")
    client.delete_object(Bucket="bucket", Key="f")
    settle(instance)
    assert objects(client) == {"h": b"first"}


def test_a_name_moves_while_the_file_is_written(linked, instance, client):
    with open(linked / "f", "r+b") as file:
        file.write(b"x")
        file.flush()
        os.rename(linked / "g", linked / "h")
        instance.flush()
        assert objects(client) == {"f": b"first", "h": b"first"}
    instance.flush()
    assert objects(client) == {"f": b"xirst", "h": b"xirst"}


def test_a_copy_moves_where_listings_tell_no_attributes(linked, instance, client, proxy):
    proxy.refuse_metadata()
    linked.unmount()
    instance.drop_cache()
    mount = linked.mount_again()
    os.mkdir(mount / "d")
    os.rename(mount / "g", mount / "d/h")
    os.rename(mount / "d", mount / "e")
    exchange(mount / "e/h", mount / "f")
    instance.flush()
    assert objects(client) == {"f": b"first", "e/h": b"first"} and os.stat(mount / "e/h").st_nlink == 2
    write_file(mount / "f", b"second")
    instance.flush()
    assert objects(client) == {"f": b"second", "e/h": b"second"}


def test_a_mount_that_is_read_only_changes_nothing(linked, instance, client):
    linked.unmount()
    instance.drop_cache()
    mount = instance.mount("s3://bucket", linked.path, "ro")
    client.put_object(Bucket="bucket", Key="f", Body=b"theirs")
    refresh(instance, mount)
    assert read(mount / "f") == b"theirs"
    instance.flush()
    assert instance.pending_files() == 0 and objects(client)["g"] == b"first"


def test_the_first_name_moves_while_another_is_looked_for(instance, client, proxy):
    """What the remote says of the name that it had is no reason to ask a person."""
    client.put_object(Bucket="bucket", Key="f", Body=b"first")
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == ["f"]
    pause(instance)
    os.link(mount / "f", mount / "g")
    mount.unmount()
    instance.drop_cache()
    proxy.refuse_metadata()
    held = proxy.rule("hold", method="HEAD", path="/bucket/f", times=1)
    instance.run("uploads", "resume", "--all")
    wait_until(lambda: held.matched() == 1, 20, "the flusher to look for the file")
    mount = mount.mount_again()
    os.rename(mount / "f", mount / "e")
    wait_until(lambda: set(all_keys(client, "bucket")) == {"e"}, 30, "the file by its new name")
    held.remove()
    instance.flush()
    assert objects(client) == {"e": b"first", "g": b"first"}


# MARK: what people decide

@pytest.fixture
def conflict(linked, instance, client):
    """The file was changed here, and by others by its first name."""
    pause(instance)
    write_file(linked / "f", b"second")
    client.put_object(Bucket="bucket", Key="f", Body=b"theirs")
    settle(instance)
    wait_until(lambda: read(linked / "f") == b"theirs")
    return linked


def test_a_conflict_ends_with_theirs(conflict, instance, client):
    instance.run("uploads", "resolve", "--keep", "theirs", conflict / "f")
    assert read(conflict / "g") == b"second"
    with open(conflict / "g", "r+b") as file:
        file.write(b"third!")
    instance.flush()
    wait_until(lambda: read(conflict / "f") == b"theirs")
    assert objects(client) == {"f": b"theirs", "g": b"third!"}


def test_a_conflict_ends_with_ours(conflict, instance, client):
    os.link(conflict / "f", conflict / "h")
    assert read(conflict / "h") == b"theirs"
    instance.run("uploads", "resolve", "--keep", "mine", conflict / "f")
    instance.flush()
    assert objects(client) == {"f": b"second", "g": b"second", "h": b"theirs"}
    assert stat.S_IMODE(os.stat(conflict / "h").st_mode) == 0o644 and read(conflict / "h") == b"theirs"


def test_a_new_file_that_is_cancelled_stays_by_its_other_name(mount, instance, client):
    pause(instance)
    write_file(mount / "f", b"first")
    os.link(mount / "f", mount / "g")
    instance.run("uploads", "cancel", mount / "f")
    wait_until(lambda: os.listdir(mount.path) == ["g"])
    settle(instance)
    assert objects(client) == {"g": b"first"} and read(mount / "g") == b"first"


@pytest.mark.parametrize("synced", [True, False])
def test_what_was_written_anew_and_then_linked_outlives_a_cancel(mount, instance, client, synced):
    write_file(mount / "f", b"first")
    instance.flush()
    pause(instance)
    with open(mount / "f", "wb") as file:
        file.write(b"second")
        if synced:
            file.flush()
            os.fsync(file.fileno())
    os.link(mount / "f", mount / "g")
    instance.run("uploads", "cancel", mount / "f")
    wait_until(lambda: read(mount / "f") == b"first")
    assert read(mount / "g") == b"second"
    settle(instance)
    assert objects(client) == {"f": b"first", "g": b"second"}


@pytest.mark.parametrize("name", ["f", "g"])
def test_a_rename_that_is_cancelled_gives_the_name_back(linked, instance, client, name):
    pause(instance)
    os.rename(linked / name, linked / "e")
    instance.run("uploads", "cancel", linked / "e")
    wait_until(lambda: sorted(os.listdir(linked.path)) == ["f", "g"])
    settle(instance)
    assert objects(client) == {"f": b"first", "g": b"first"}
    write_file(linked / "g", b"second")
    instance.flush()
    assert objects(client) == {"f": b"second", "g": b"second"}


def test_a_copy_that_is_refused_holds_up_no_other(linked, instance, client, proxy):
    denied = proxy.rule("respond", method="PUT", field="x-amz-copy-source", times="all", status=403, body=DENIED)
    os.link(linked / "f", linked / "h")
    instance.run("flush", "--timeout", "5", check=False)
    assert denied.matched() > 0
    write_file(linked / "f", b"second")
    instance.run("flush", "--timeout", "10", check=False)
    assert objects(client)["f"] == b"second"
    proxy.clear()
    instance.run("uploads", "retry", "--all")
    instance.flush()
    assert set(objects(client).values()) == {b"second"}


# MARK: who waits for the remote

@pytest.mark.parametrize("what", ["close", "fsync", "folder", "flush"])
def test_the_remote_has_a_file_by_all_names(instance, client, what):
    instance.configure(quiet_period="10m")
    options = {"close": ["close=remote"], "fsync": ["fsync=remote"], "folder": ["fsync=remote"], "flush": []}
    mount = instance.mount("s3://bucket", None, *options[what])
    os.mkdir(mount / "d")
    write_file(mount / "f", b"first")
    os.link(mount / "f", mount / "d/g")
    instance.flush()
    with open(mount / "d/g", "r+b") as file:
        file.write(b"SECOND")
        file.flush()
        if what == "fsync":
            os.fsync(file.fileno())
            assert objects(client) == {"f": b"SECOND", "d/g": b"SECOND"}
    if what == "folder":
        descriptor = os.open(mount / "d", os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
    elif what == "flush":
        instance.run("flush", mount / "d")
    assert objects(client) == {"f": b"SECOND", "d/g": b"SECOND"}


# MARK: what is known here

def test_a_listing_tells_of_them_after_a_remount(linked):
    linked.unmount()
    mount = linked.mount_again()
    found = {entry.name: entry.stat(follow_symlinks=False).st_nlink for entry in os.scandir(mount.path)}
    assert found == {"f": 2, "g": 2}


def test_a_pinned_name_is_read_offline(linked, instance, proxy):
    os.mkdir(linked / "d")
    os.rename(linked / "g", linked / "d/g")
    instance.flush()
    linked.unmount()
    instance.drop_cache()
    mount = linked.mount_again()
    instance.run("pin", mount / "d")
    wait_until(lambda: '"bytes_present" : 5' in instance.run("pins", "--json").stdout, 20)
    os.stat(mount / "f"), os.stat(mount / "d/g")
    proxy.offline()
    try:
        assert read(mount / "d/g") == b"first"
    finally:
        proxy.online()


def test_the_first_name_is_removed_offline(linked, instance, client, proxy):
    """Also where the folder of the other was not looked at."""
    os.mkdir(linked / "d")
    os.rename(linked / "g", linked / "d/g")
    instance.flush()
    linked.unmount()
    instance.drop_cache()
    mount = linked.mount_again()
    assert sorted(os.listdir(mount.path)) == ["d", "f"] and os.stat(mount / "f").st_nlink == 2
    proxy.offline()
    try:
        os.unlink(mount / "f")
    finally:
        proxy.online()
    instance.flush()
    assert objects(client) == {"d/g": b"first"}
    wait_until(lambda: os.path.exists(mount / "d/g"))
    assert read(mount / "d/g") == b"first"


def test_a_link_to_a_symbolic_one_takes_the_place_of_a_folder(mount, instance):
    os.symlink("target", mount / "s")
    os.link(mount / "s", mount / "t", follow_symlinks=False)
    os.mkdir(mount / "d")
    exchange(mount / "t", mount / "d")
    assert os.readlink(mount / "d") == "target" and os.lstat(mount / "s").st_nlink == 2
    instance.flush()


def test_many_names_of_one_file(mount, instance, client):
    write_file(mount / "f", b"first")
    for number in range(200):
        os.link(mount / "f", mount / f"g{number}")
    instance.flush()
    assert len(objects(client)) == 201
    started = time.monotonic()
    os.unlink(mount / "f")
    for number in range(0, 200, 2):
        os.unlink(mount / f"g{number}")
    print(f"removed in {time.monotonic() - started:.2f} s")
    write_file(mount / "g1", b"second")
    instance.flush()
    assert set(objects(client).values()) == {b"second"} and len(objects(client)) == 100
