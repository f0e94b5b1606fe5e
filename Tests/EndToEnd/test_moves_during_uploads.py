# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Names that move, change or go while their upload is on its way: the remote ends as the tree is, nothing comes back.

Each case is run with the request held back (the remote has nothing yet) and with the answer held back (the remote
has the object, and we do not know it yet).
"""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness.posix import exchange
from harness.processes import shell, wait_until
from harness.trees import all_keys, write_file


@pytest.fixture(params=["hold", "hold-response"])
def fault(request):
    return request.param


@pytest.fixture
def quick(instance):
    """A mount whose uploads start at once."""
    instance.configure(quiet_period="0s")
    return instance.mount("s3://bucket")


class Held:
    """An upload that is stopped half-way."""

    def __init__(self, proxy, fault, client, key, method="PUT"):
        self.rule = proxy.rule(fault, method=method, path="/bucket/" + key)
        self.client, self.key = client, key
        self.commits = fault == "hold-response"

    def wait(self, exists=True):
        self.rule.wait()
        if self.commits:
            wait_until(lambda: (self.key in all_keys(self.client, "bucket")) == exists, 20, "the remote to have acted")

    def release(self):
        self.rule.release()


def bodies(client):
    keys = [key for key in all_keys(client, "bucket") if not key.endswith("/")]
    return {key: client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in keys}


def tree(mount):
    """All names below a mount, folders with a slash."""
    found = set()
    for base, folders, files in os.walk(mount.path):
        for name in folders:
            found.add(os.path.relpath(os.path.join(base, name), mount.path) + "/")
        for name in files:
            found.add(os.path.relpath(os.path.join(base, name), mount.path))
    return found


def assert_same(mount, client, contents, folders=()):
    """The mount shows this now, after the flush, and after a remount without a cache; the remote has it too."""
    names = set(contents) | set(folders)
    assert tree(mount) == names
    mount.instance.flush()
    assert tree(mount) == names
    assert bodies(client) == contents
    assert mount.instance.conflicts() == 0
    mount.unmount()
    mount.instance.drop_cache()
    again = mount.mount_again()
    assert tree(again) == names
    for name, body in contents.items():
        with open(again / name, "rb") as file:
            assert file.read() == body


def test_renamed(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "a")
    write_file(quick / "a", b"one")
    held.wait()
    os.rename(quick / "a", quick / "b")
    held.release()
    assert_same(quick, client, {"b": b"one"})


def test_changed_and_renamed(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "a")
    write_file(quick / "a", b"one" * 10_000)
    held.wait()
    write_file(quick / "a", b"two")
    os.rename(quick / "a", quick / "b")
    os.chmod(quick / "b", 0o600)
    held.release()
    assert_same(quick, client, {"b": b"two"})


def test_patched_and_renamed_twice(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "a")
    write_file(quick / "a", b"0123456789")
    held.wait()
    with open(quick / "a", "r+b") as file:
        file.seek(3)
        file.write(b"xx")
    os.rename(quick / "a", quick / "b")
    os.rename(quick / "b", quick / "c")
    held.release()
    assert_same(quick, client, {"c": b"012xx56789"})


def test_removed(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "a")
    write_file(quick / "a", b"one")
    held.wait()
    os.unlink(quick / "a")
    held.release()
    assert_same(quick, client, {})


def test_removed_and_made_anew(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "a")
    write_file(quick / "a", b"one")
    held.wait()
    os.unlink(quick / "a")
    write_file(quick / "a", b"two")
    held.release()
    assert_same(quick, client, {"a": b"two"})


def test_renamed_and_made_anew(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "a")
    write_file(quick / "a", b"one")
    held.wait()
    os.rename(quick / "a", quick / "b")
    write_file(quick / "a", b"two")
    held.release()
    assert_same(quick, client, {"a": b"two", "b": b"one"})


def test_renamed_away_and_back(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "a")
    write_file(quick / "a", b"one")
    held.wait()
    os.rename(quick / "a", quick / "b")
    os.rename(quick / "b", quick / "a")
    held.release()
    assert_same(quick, client, {"a": b"one"})


def test_replaced_by_a_rename(quick, proxy, client, fault):
    write_file(quick / "new", b"new")
    quick.instance.flush()
    held = Held(proxy, fault, client, "a")
    write_file(quick / "a", b"one")
    held.wait()
    os.rename(quick / "new", quick / "a")
    held.release()
    assert_same(quick, client, {"a": b"new"})


def test_a_file_becomes_a_folder(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "a")
    write_file(quick / "a", b"one")
    held.wait()
    os.unlink(quick / "a")
    os.mkdir(quick / "a")
    write_file(quick / "a/b", b"two")
    held.release()
    assert_same(quick, client, {"a/b": b"two"}, {"a/"})


def test_the_folder_is_renamed(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "d/a")
    os.mkdir(quick / "d")
    write_file(quick / "d/a", b"one")
    write_file(quick / "d/b", b"two")
    held.wait()
    os.rename(quick / "d", quick / "e")
    held.release()
    assert_same(quick, client, {"e/a": b"one", "e/b": b"two"}, {"e/"})


def test_the_old_folder_is_never_seen_again(instance, proxy, client):
    """The remote shows the old name as long as the upload to it is not undone; the mount must not."""
    instance.configure(quiet_period="0s", metadata_age="0s", kernel_age="0s")
    mount = instance.mount("s3://bucket")
    # The flusher finds out what the server can do with objects that it deletes at once.
    write_file(mount / "f", b"first")
    os.mkdir(mount / "first")
    instance.flush()
    os.rmdir(mount / "first")
    os.unlink(mount / "f")
    instance.flush()
    held = Held(proxy, "hold", client, "d/a")
    gone = proxy.rule("hold", method="DELETE", times="all")
    os.mkdir(mount / "d")
    write_file(mount / "d/a", b"one")
    held.wait()
    os.rename(mount / "d", mount / "e")
    held.release()
    wait_until(lambda: "d/a" in all_keys(client, "bucket"), 20, "the upload to the old name")
    for _ in range(20):
        assert os.listdir(mount.path) == ["e"]
        assert not os.path.exists(mount / "d")
        time.sleep(0.05)
    gone.remove()
    assert_same(mount, client, {"e/a": b"one"}, {"e/"})


def test_the_folder_is_emptied_and_removed(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "d/a")
    os.mkdir(quick / "d")
    write_file(quick / "d/a", b"one")
    held.wait()
    os.unlink(quick / "d/a")
    os.rmdir(quick / "d")
    held.release()
    assert_same(quick, client, {})


def test_the_folder_is_renamed_and_made_anew(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "d/a")
    os.mkdir(quick / "d")
    write_file(quick / "d/a", b"one")
    held.wait()
    os.rename(quick / "d", quick / "e")
    os.mkdir(quick / "d")
    write_file(quick / "d/a", b"two")
    held.release()
    assert_same(quick, client, {"d/a": b"two", "e/a": b"one"}, {"d/", "e/"})


def folder_made(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "d/")
    os.mkdir(quick / "d")
    held.wait()
    return held


def test_a_folder_removed_while_it_is_made(quick, proxy, client, fault):
    held = folder_made(quick, proxy, client, fault)
    os.rmdir(quick / "d")
    time.sleep(0.5)
    held.release()
    assert_same(quick, client, {})


def test_a_folder_renamed_while_it_is_made(quick, proxy, client, fault):
    held = folder_made(quick, proxy, client, fault)
    os.rename(quick / "d", quick / "e")
    time.sleep(0.5)
    held.release()
    assert_same(quick, client, {}, {"e/"})


def test_a_folder_becomes_a_file_while_it_is_made(quick, proxy, client, fault):
    held = folder_made(quick, proxy, client, fault)
    os.rmdir(quick / "d")
    write_file(quick / "d", b"file")
    time.sleep(0.5)
    held.release()
    assert_same(quick, client, {"d": b"file"})


def test_a_folder_made_anew_while_it_is_deleted(quick, proxy, client, fault):
    os.mkdir(quick / "d")
    quick.instance.flush()
    held = Held(proxy, fault, client, "d/", "DELETE")
    os.rmdir(quick / "d")
    held.wait(exists=False)
    os.mkdir(quick / "d")
    write_file(quick / "d/a", b"two")
    time.sleep(0.5)
    held.release()
    assert_same(quick, client, {"d/a": b"two"}, {"d/"})


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_lost_answers_about_folders(quick, proxy, client, method):
    proxy.rule("drop-response", method=method, path="/bucket/d/", times=2)
    os.mkdir(quick / "d")
    time.sleep(0.5)
    os.rename(quick / "d", quick / "e")
    time.sleep(0.5)
    os.rmdir(quick / "e")
    assert_same(quick, client, {})


def test_made_anew_while_it_is_deleted(quick, proxy, client, fault):
    write_file(quick / "a", b"one")
    quick.instance.flush()
    held = Held(proxy, fault, client, "a", "DELETE")
    os.unlink(quick / "a")
    held.wait(exists=False)
    write_file(quick / "a", b"two")
    held.release()
    assert_same(quick, client, {"a": b"two"})


def test_renamed_while_it_is_copied(quick, proxy, client, fault):
    client.put_object(Bucket="bucket", Key="a", Body=b"remote")
    wait_until(lambda: os.path.exists(quick / "a"), 20, "the remote file to show up")
    held = Held(proxy, fault, client, "b")
    os.rename(quick / "a", quick / "b")
    held.wait()
    os.rename(quick / "b", quick / "c")
    held.release()
    assert_same(quick, client, {"c": b"remote"})


def test_a_link_is_read_while_it_moves(quick, proxy, client):
    """What the mount did not know of it is at its old name until the copy is made, and then at the new one."""
    client.put_object(Bucket="bucket", Key="a/link", Body=b"target", Metadata={"mode": str(0o120777)})
    wait_until(lambda: os.path.islink(quick / "a/link"), 20, "the remote link to show up")
    link = os.open(quick / "a/link", os.O_PATH | os.O_NOFOLLOW)
    try:
        held = proxy.rule("hold", method="GET", path="/bucket/a/link")
        with ThreadPoolExecutor() as threads:
            reading = threads.submit(os.readlink, "", dir_fd=link)
            try:
                held.wait()
                os.rename(quick / "a", quick / "b")
                quick.instance.flush()
                assert "a/link" not in all_keys(client, "bucket")
            finally:
                held.release()
            assert reading.result(20) == "target"
    finally:
        os.close(link)


def test_two_files_swap_names(quick, proxy, client, fault):
    write_file(quick / "a", b"one")
    write_file(quick / "b", b"two")
    quick.instance.flush()
    held = Held(proxy, fault, client, "a")
    os.rename(quick / "a", quick / "t")
    os.rename(quick / "b", quick / "a")
    os.rename(quick / "t", quick / "b")
    held.wait()
    os.chmod(quick / "a", 0o600)
    held.release()
    assert_same(quick, client, {"a": b"two", "b": b"one"})


def test_a_mode_changes_during_the_upload(quick, proxy, client, fault):
    held = Held(proxy, fault, client, "a")
    write_file(quick / "a", b"one")
    held.wait()
    os.chmod(quick / "a", 0o751)
    held.release()
    quick.instance.flush()
    quick.unmount()
    quick.instance.drop_cache()
    again = quick.mount_again()
    assert os.stat(again / "a").st_mode & 0o777 == 0o751


def test_a_file_takes_the_place_of_the_folder_it_was_in(instance, client):
    for key in ("d/a", "d/x/b", "e/a"):
        client.put_object(Bucket="bucket", Key=key, Body=key.encode())
    instance.configure(quiet_period="1m")
    mount = instance.mount("s3://bucket")
    shell("mv d/a t; mv d/x/b b; rmdir d/x d; mv t d; mv e/a t; rmdir e; mv t e; echo more >> e", cwd=mount.path)
    instance.flush(timeout=30)
    assert bodies(client) == {"d": b"d/a", "b": b"d/x/b", "e": b"e/amore\n"}


def append(mount, name):
    with open(mount / name, "ab") as file:
        file.write(b"+")


def cut(mount, name):
    os.truncate(mount / name, 3)


@pytest.mark.parametrize("change", [append, cut])
@pytest.mark.parametrize("is_changed_first", [False, True])
def test_the_only_copy_of_bytes_stays_at_the_remote(instance, proxy, client, change, is_changed_first):
    """What was renamed and changed, and cannot be sent: the object that its bytes came from is kept until it is."""
    client.put_object(Bucket="bucket", Key="a", Body=b"0123456789")
    instance.configure(quiet_period="0s")
    mount = instance.mount("s3://bucket")
    for name in ("a", "b"):
        for _ in range(100):
            proxy.rule("respond", status=403, method="PUT", path="/bucket/" + name)
    if is_changed_first:
        change(mount, "a")
        wait_until(lambda: instance.uploads()[0]["attempts"] > 0, 20, "the upload to be refused")
        os.rename(mount / "a", mount / "b")
    else:
        os.rename(mount / "a", mount / "b")
        change(mount, "b")

    def refused():
        uploads = {upload["path"]: upload for upload in instance.uploads()}
        return uploads["b"]["attempts"] > 1 and any(w["reason"] == "dependency" for w in uploads["a"]["waiting"])

    wait_until(refused, 30, "the upload to be refused, and the deletion to wait for it")
    assert bodies(client) == {"a": b"0123456789"}
    instance.run("uploads", "cancel", mount / "b")
    wait_until(lambda: instance.uploads() == [], 20, "nothing to be pending")
    assert tree(mount) == {"a"} and bodies(client) == {"a": b"0123456789"}
    proxy.clear()
    os.rename(mount / "a", mount / "b")
    change(mount, "b")
    assert_same(mount, client, {"b": b"0123456789+" if change is append else b"012"})


@pytest.mark.parametrize("size", [0, 1, 100_000])
def test_open_and_exchanged(quick, proxy, client, fault, size):
    """A file whose upload ends under the name that it has left is still the file that somebody has open."""
    write_file(quick / "a", b"1" * 100_001)
    write_file(quick / "b", b"2" * 50_000)
    quick.instance.flush()
    held = Held(proxy, fault, client, "a")
    os.truncate(quick / "a", size)
    held.wait()
    exchange(quick / "a", quick / "b")
    descriptor = os.open(quick / "b", os.O_WRONLY)
    held.release()
    quick.instance.flush()
    os.pwrite(descriptor, b"3", size)
    os.close(descriptor)
    assert_same(quick, client, {"a": b"2" * 50_000, "b": b"1" * size + b"3"})
