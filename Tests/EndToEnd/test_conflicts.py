# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The remote changed under a pending local edit: both versions exist afterwards, nothing is overwritten."""

import errno
import mmap
import os
import re
import socket

import pytest

from harness.processes import wait_until
from harness.trees import all_keys, random_bytes, write_file

MIB = 1 << 20


@pytest.fixture
def ready(instance, client):
    """A mount with a remote file in it, and uploads that wait for a flush."""
    client.put_object(Bucket="bucket", Key="notes.txt", Body=b"base")
    instance.configure(quiet_period="10m")
    mount = instance.mount("s3://bucket")
    assert open(mount / "notes.txt", "rb").read() == b"base"
    return mount


def bodies(client):
    return {key: client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in all_keys(client, "bucket")}


def conflict_key(found, original="notes", extension=".txt"):
    """The name of the copy, in the form that Docs/Semantics.md tells: NAME (conflict DATE TIME HOST).EXT."""
    host = re.escape(socket.gethostname().split(".")[0][:40])
    form = rf"{original} \(conflict \d{{4}}-\d\d-\d\d \d\d\.\d\d\.\d\d {host}\){re.escape(extension)}"
    copies = [key for key in found if "conflict" in key]
    assert len(copies) == 1 and re.fullmatch(form, copies[0]), found.keys()
    return copies[0]


def test_both_edits_are_kept(instance, ready, client):
    write_file(ready / "notes.txt", b"ours")
    assert instance.pending_files() == 1, "the edit is remote already: the test proves nothing"
    client.put_object(Bucket="bucket", Key="notes.txt", Body=b"theirs")
    instance.flush()
    found = bodies(client)
    copy = conflict_key(found)
    assert found == {"notes.txt": b"theirs", copy: b"ours"}
    assert instance.conflicts() == 1
    wait_until(lambda: sorted(os.listdir(ready.path)) == sorted(found), 20, "both names in the mount")
    assert open(ready / "notes.txt", "rb").read() == b"theirs"
    assert open(ready / copy, "rb").read() == b"ours"


def test_both_creations_are_kept(instance, ready, client):
    write_file(ready / "new.txt", b"ours")
    assert instance.pending_files() == 1, "the file is remote already: the test proves nothing"
    client.put_object(Bucket="bucket", Key="new.txt", Body=b"theirs")
    instance.flush()
    found = bodies(client)
    assert found == {"notes.txt": b"base", "new.txt": b"theirs", conflict_key(found, "new"): b"ours"}
    assert instance.conflicts() == 1


def test_an_edit_of_a_file_that_the_remote_deleted_is_kept(instance, ready, client):
    write_file(ready / "notes.txt", b"ours")
    assert instance.pending_files() == 1, "the edit is remote already: the test proves nothing"
    client.delete_object(Bucket="bucket", Key="notes.txt")
    instance.flush()
    assert list(bodies(client).values()) == [b"ours"]


@pytest.mark.parametrize("origin", ["remote", "uploaded"])
def test_a_write_to_an_open_file_that_the_remote_replaced_is_kept(instance, ready, client, origin):
    """Its name is another file's by then."""
    if origin == "remote":
        client.put_object(Bucket="bucket", Key="open.txt", Body=b"0123456789")
        wait_until(lambda: os.path.exists(ready / "open.txt"), 20, "the file to show up")
    else:
        write_file(ready / "open.txt", b"0123456789")
    file = os.open(ready / "open.txt", os.O_RDWR)
    instance.flush()
    assert bodies(client)["open.txt"] == b"0123456789"
    assert os.pread(file, 10, 0) == b"0123456789"
    client.put_object(Bucket="bucket", Key="open.txt", Body=b"theirs")
    wait_until(lambda: open(ready / "open.txt", "rb").read() == b"theirs", 20, "the remote's version in the mount")
    os.pwrite(file, b"ours", 3)
    assert os.pread(file, 10, 0) == b"012ours789"
    os.close(file)
    assert instance.pending_files() == 1, "the edit is remote already: the test proves nothing"
    instance.flush()
    found = bodies(client)
    assert found == {"notes.txt": b"base", "open.txt": b"theirs", conflict_key(found, "open"): b"012ours789"}
    assert instance.conflicts() == 1


def replace(instance, client, mount, key, body=b"theirs"):
    """Others replace an object, and somebody sees that here."""
    client.put_object(Bucket="bucket", Key=key, Body=body)
    instance.run("cache", "refresh", mount.path)
    wait_until(lambda: open(mount / key, "rb").read() == body, 20, "the remote's version in the mount")


def write_again(file, body, place):
    """Writes to an open file, whatever its name is by now, and completes it."""
    again = os.open(f"/proc/self/fd/{file.fileno()}", os.O_RDWR)
    try:
        return os.pwrite(again, body, place)
    finally:
        os.close(again)


def test_an_open_file_that_was_replaced_before_anybody_looked_is_kept(instance, ready, client):
    """Nobody saw its upload arrive, and the bytes that are not written again are in the local file alone."""
    write_file(ready / "open.txt", b"0123456789")
    with open(ready / "open.txt", "rb") as file:
        # Its local file is open by that.
        write_again(file, b"0", 0)
        instance.flush()
        replace(instance, client, ready, "open.txt")
        # The second change is one of the copy.
        for n in range(2):
            write_again(file, b"our%d" % n, 3)
            instance.flush()
            found = bodies(client)
            copy = conflict_key(found, "open")
            assert found == {"notes.txt": b"base", "open.txt": b"theirs", copy: b"012our%d789" % n}
    assert instance.conflicts() == 1


def test_both_who_have_the_old_and_the_new_one_open_go_on(instance, ready, client):
    """Each by its own name, at once and at the remote."""
    write_file(ready / "open.txt", b"0123456789")
    with open(ready / "open.txt", "r+b", buffering=0) as old:
        instance.flush()
        replace(instance, client, ready, "open.txt")
        with open(ready / "open.txt", "r+b", buffering=0) as new:
            os.pwrite(old.fileno(), b"ours", 3)
            os.pwrite(new.fileno(), b"new!", 0)
            names = [name for name in os.listdir(ready.path) if name.startswith("open")]
            seen = {open(ready / name, "rb").read() for name in names}
            assert seen == {b"012ours789", b"new!rs"} and open(ready / "open.txt", "rb").read() == b"new!rs"
            assert sorted(names)[1:] == ["open.txt"] and conflict_key(names, "open")
    instance.flush()
    found = bodies(client)
    copy = conflict_key(found, "open")
    assert found == {"notes.txt": b"base", "open.txt": b"new!rs", copy: b"012ours789"} and instance.conflicts() == 1


@pytest.mark.parametrize("size", [0, 5, 20])
def test_an_open_file_that_was_replaced_is_cut(instance, ready, client, size):
    write_file(ready / "open.txt", b"0123456789")
    with open(ready / "open.txt", "r+b", buffering=0) as file:
        instance.flush()
        replace(instance, client, ready, "open.txt")
        os.ftruncate(file.fileno(), size)
    instance.flush()
    found = bodies(client)
    ours = b"0123456789\0\0\0\0\0\0\0\0\0\0"[:size]
    assert found == {"notes.txt": b"base", "open.txt": b"theirs", conflict_key(found, "open"): ours}


def test_a_large_write_to_an_open_file_that_was_replaced_is_whole(instance, ready, client):
    """The kernel sends one write(2) as several requests at once; each of them waits until all of the file is copied."""
    content = bytearray(random_bytes(1, 40 * MIB))
    write_file(ready / "open.txt", bytes(content))
    file = os.open(ready / "open.txt", os.O_RDWR | os.O_DIRECT)
    instance.flush()
    replace(instance, client, ready, "open.txt")
    memory = mmap.mmap(-1, 16 * MIB)
    memory[:] = content[8 * MIB : 24 * MIB] = random_bytes(2, 16 * MIB)
    assert os.pwritev(file, [memory], 8 * MIB) == 16 * MIB
    os.close(file)
    instance.flush()
    found = bodies(client)
    assert found[conflict_key(found, "open")] == content and found["open.txt"] == b"theirs"


def test_pages_written_to_an_open_file_that_was_replaced_are_kept(instance, ready, client):
    content = bytearray(random_bytes(3, 4 * MIB))
    write_file(ready / "open.txt", bytes(content))
    with open(ready / "open.txt", "r+b", buffering=0) as file:
        instance.flush()
        replace(instance, client, ready, "open.txt")
        with mmap.mmap(file.fileno(), 4 * MIB) as memory:
            for place in range(0, 4 * MIB, 8192):
                memory[place : place + 4] = content[place : place + 4] = b"page"
            memory.flush()
    instance.flush()
    found = bodies(client)
    assert found[conflict_key(found, "open")] == content and found["open.txt"] == b"theirs"


def test_a_write_to_an_open_file_that_was_replaced_and_is_not_whole_here_is_refused(instance, ready, client):
    """Most of it was at the remote alone, and nobody can have that any more."""
    client.put_object(Bucket="bucket", Key="open.txt", Body=random_bytes(4, 24 * MIB))
    wait_until(lambda: os.path.exists(ready / "open.txt"), 20, "the file to show up")
    with open(ready / "open.txt", "rb") as file:
        write_again(file, b"ours", 0)
        instance.flush()
        replace(instance, client, ready, "open.txt")
        with pytest.raises(OSError) as problem:
            write_again(file, b"more", 0)
        assert problem.value.errno == errno.ESTALE
    instance.flush()
    assert bodies(client) == {"notes.txt": b"base", "open.txt": b"theirs"} and instance.conflicts() == 0


def test_an_open_file_whose_object_was_deleted_just_after_its_upload_is_kept(instance, ready, client):
    """What was sent is not in the cache yet."""
    write_file(ready / "open.txt", b"0123456789")
    with open(ready / "open.txt", "r+b", buffering=0) as file:
        instance.flush()
        client.delete_object(Bucket="bucket", Key="open.txt")
        os.pwrite(file.fileno(), b"ours", 3)
    instance.flush()
    assert bodies(client) == {"notes.txt": b"base", "open.txt": b"012ours789"}


def test_a_deletion_does_not_destroy_a_version_it_never_saw(instance, ready, client):
    os.unlink(ready / "notes.txt")
    assert instance.pending_files() == 1, "the deletion is remote already: the test proves nothing"
    client.put_object(Bucket="bucket", Key="notes.txt", Body=b"theirs")
    instance.flush()
    assert bodies(client) == {"notes.txt": b"theirs"}
    wait_until(lambda: os.listdir(ready.path) == ["notes.txt"], 20, "the remote's version in the mount")
    assert open(ready / "notes.txt", "rb").read() == b"theirs"


def test_a_rename_does_not_overwrite_a_target_it_never_saw(instance, ready, client):
    client.put_object(Bucket="bucket", Key="source", Body=b"source")
    wait_until(lambda: os.path.exists(ready / "source"), 20, "the source to show up")
    os.rename(ready / "source", ready / "notes.txt")
    assert instance.pending_files() > 0, "the rename is remote already: the test proves nothing"
    client.put_object(Bucket="bucket", Key="notes.txt", Body=b"theirs")
    instance.flush()
    found = bodies(client)
    assert found == {"notes.txt": b"theirs", conflict_key(found): b"source"}


def test_a_mode_does_not_overwrite_content(instance, ready, client):
    os.chmod(ready / "notes.txt", 0o600)
    assert instance.pending_files() == 1, "the mode is remote already: the test proves nothing"
    client.put_object(Bucket="bucket", Key="notes.txt", Body=b"theirs")
    instance.flush()
    assert bodies(client) == {"notes.txt": b"theirs"}


@pytest.mark.limit(120)
@pytest.mark.parametrize("protocol", ["s3-multipart", "ietf-resumable"])
def test_a_big_upload_that_is_overtaken_becomes_a_copy(instance, proxy, client, seed, protocol):
    instance.configure(upload_protocol=protocol, part_size="5M")
    client.put_object(Bucket="bucket", Key="big.bin", Body=b"base")
    mount = instance.mount("s3://bucket")
    assert open(mount / "big.bin", "rb").read() == b"base"
    data = random_bytes(seed, 20 * MIB)
    proxy.limit(up=4 * MIB)
    write_file(mount / "big.bin", data)
    wait_until(lambda: proxy.body_bytes() > 2 * MIB, 30, "the upload to be under way")
    proxy.limit(up=MIB)
    assert instance.in_flight(), "nothing was in flight"
    client.put_object(Bucket="bucket", Key="big.bin", Body=b"theirs")
    proxy.limit()
    instance.flush()
    found = bodies(client)
    assert found == {"big.bin": b"theirs", conflict_key(found, "big", ".bin"): data}
    assert client.list_multipart_uploads(Bucket="bucket").get("Uploads", []) == []


def test_edits_of_two_instances_are_both_kept(make_instance, proxy, server, client):
    client.put_object(Bucket="bucket", Key="notes.txt", Body=b"base")
    mounts = []
    for name in ("one", "two"):
        instance = make_instance(proxy.url, name)
        instance.configure(quiet_period="10m")
        mounts.append(instance.mount("s3://bucket"))
        assert open(mounts[-1] / "notes.txt", "rb").read() == b"base"
    for mount, body in zip(mounts, (b"first", b"second")):
        write_file(mount / "notes.txt", body)
    for mount in mounts:
        assert mount.instance.pending_files() == 1, "the edit is remote already: the test proves nothing"
        mount.instance.flush()
    found = bodies(client)
    assert found == {"notes.txt": b"first", conflict_key(found): b"second"}


@pytest.mark.parametrize("is_sent", [True, False])
@pytest.mark.parametrize("by", ["open", "truncate"])
def test_what_is_cut_by_a_name_that_others_took_is_theirs(instance, proxy, client, by, is_sent):
    """The kernel still takes the name for the file that became a conflict copy, and has it looked up anew."""
    client.put_object(Bucket="bucket", Key="a", Body=b"base")
    instance.configure(quiet_period="10m", kernel_age="60s", metadata_age="60s")
    mount = instance.mount("s3://bucket")
    write_file(mount / "a", b"our edit")
    number = os.stat(mount / "a").st_ino
    client.put_object(Bucket="bucket", Key="a", Body=b"theirs, which is longer")
    held = None if is_sent else proxy.rule("hold", method="PUT", path="conflict")
    instance.run("uploads", "now", mount / "a")
    wait_until(lambda: instance.conflicts() == 1, 20, "the conflict")
    if held:
        held.wait()
    else:
        instance.flush()
    assert os.stat(mount / "a").st_ino == number, "the kernel has looked already: the test proves nothing"
    if by == "open":
        write_file(mount / "a", b"new")
    else:
        os.truncate(mount / "a", 6)
    if held:
        held.release()
    instance.flush()
    found = bodies(client)
    copies = [key for key in found if "conflict" in key]
    assert len(copies) == 1 and found[copies[0]] == b"our edit"
    assert found["a"] == (b"new" if by == "open" else b"theirs")
