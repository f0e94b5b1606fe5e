# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Extended attributes: as on a local disk, kept with the objects, carried along by tools, and shared with s3fs."""

import base64
import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import urllib.parse

import pytest

from harness.bucket import ACCESS_KEY, SECRET_KEY, s3_client
from harness.instance import Instance
from harness.posix import USER, as_user, attempt, changed_times, make, volume, write
from harness.processes import wait_until
from harness.trees import random_bytes

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
CAPACITY = 1700


@pytest.fixture(scope="module")
def posix(binary):
    with volume(binary) as made:
        yield made


def all_of(path):
    return {name: os.getxattr(path, name, follow_symlinks=False) for name in os.listxattr(path, follow_symlinks=False)}


def encoded(attributes):
    """The field as s3fs writes it."""
    pairs = {name: base64.b64encode(value).decode() for name, value in sorted(attributes.items())}
    return urllib.parse.quote(json.dumps(pairs, separators=(",", ":")), safe="/-._~")


def decoded(field):
    pairs = json.loads(urllib.parse.unquote(field))
    return {name: base64.b64decode(value) for name, value in pairs.items()}


def objects(posix):
    return s3_client(posix.server.url)


def field_of(posix, key):
    return objects(posix).head_object(Bucket="bucket", Key=key)["Metadata"].get("xattr")


@contextlib.contextmanager
def holding(posix):
    """Nothing is uploaded by itself meanwhile: the mount tells the flusher so when it is made."""
    for quiet_period in ("1h", "0.2s"):
        posix.instance.configure(quiet_period=quiet_period)
        posix.mount.unmount()
        posix.mount.mount_again()
        if quiet_period == "1h":
            yield


# MARK: as on a local disk


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_setting_reading_listing_and_removing(posix, kind):
    def case():
        make(kind, "x")
        results = [os.listxattr("x"), attempt(os.getxattr, "x", "user.a"), attempt(os.removexattr, "x", "user.a")]
        for name, value in (("user.a", b"1"), ("user.b", b""), ("user.c", bytes(range(256))), ("user.a", b"two")):
            results += [attempt(os.setxattr, "x", name, value), sorted(os.listxattr("x")), os.getxattr("x", name)]
        for flags, name in ((os.XATTR_CREATE, "user.a"), (os.XATTR_CREATE, "user.d"), (os.XATTR_REPLACE, "user.e"), (os.XATTR_REPLACE, "user.a")):
            results += [attempt(os.setxattr, "x", name, b"flags", flags), attempt(os.getxattr, "x", name)]
        results += [attempt(os.removexattr, "x", "user.b"), attempt(os.removexattr, "x", "user.b"), sorted(os.listxattr("x"))]
        return results

    posix.compare(case)


def test_names_and_values_that_cannot_be(posix):
    def case():
        make("file", "x")
        values = [("user.", b"1"), ("user." + "n" * 250, b"1"), ("user." + "n" * 251, b"1"), ("user.a", bytes(70_000)), ("strange.a", b"1"), ("", b"1")]
        return [attempt(os.setxattr, "x", name, value) for name, value in values], [len(name) for name in os.listxattr("x")]

    posix.compare(case)


def test_lengths_that_are_asked_for_and_buffers_that_are_too_small(posix):
    libc = ctypes.CDLL(None, use_errno=True)

    def ask(call, *arguments):
        result = call(*arguments)
        return result if result >= 0 else errno_name()

    def errno_name():
        return os.strerror(ctypes.get_errno())

    def case():
        make("file", "x")
        os.setxattr("x", "user.a", b"12345")
        os.setxattr("x", "user.b", b"")
        results = []
        for size in (0, 4, 5, 6, 14):
            buffer = ctypes.create_string_buffer(64)
            results += [ask(libc.getxattr, b"x", b"user.a", buffer, size), buffer.raw[:8]]
            results.append(ask(libc.listxattr, b"x", None if size == 0 else buffer, size))
        return results

    posix.compare(case)


def test_links_and_special_files_have_none_of_users(posix):
    def case():
        results = []
        for kind in ("symlink", "fifo", "socket"):
            make(kind, kind)
            results += [
                attempt(os.setxattr, kind, "user.a", b"1", 0, follow_symlinks=False),
                attempt(os.getxattr, kind, "user.a", follow_symlinks=False),
                attempt(os.removexattr, kind, "user.a", follow_symlinks=False),
                os.listxattr(kind, follow_symlinks=False),
            ]
        return results

    posix.compare(case)


@needs_root
def test_who_may_read_and_change_them(posix):
    def case():
        results = []
        for name, mode in (("open", 0o666), ("read", 0o644), ("closed", 0o600)):
            write(name)
            os.chmod(name, mode)
            os.setxattr(name, "user.a", b"root")
            os.setxattr(name, "trusted.a", b"root")
            os.setxattr(name, "security.a", b"root")
        os.mkdir("sticky")
        os.chmod("sticky", 0o1777)

        def user():
            found = []
            for name in ("open", "read", "closed", "sticky"):
                found += [attempt(os.getxattr, name, "user.a"), attempt(os.getxattr, name, "trusted.a")]
                found += [attempt(os.setxattr, name, "user.b", b"u"), attempt(os.setxattr, name, "trusted.b", b"u")]
                found += [attempt(os.getxattr, name, "security.a"), attempt(os.setxattr, name, "security.b", b"u")]
                found += [sorted(os.listxattr(name)), attempt(os.removexattr, name, "user.a")]
            return found

        results.append(as_user(USER, user))
        return results, [sorted(os.listxattr(name)) for name in ("open", "read", "closed", "sticky")]

    posix.compare(case)


def test_they_change_the_time_of_change_only(posix):
    def case():
        results = []
        for kind in ("file", "directory"):
            make(kind, kind)
            for action in (lambda: os.setxattr(kind, "user.a", b"1"), lambda: os.removexattr(kind, "user.a")):
                results.append(changed_times([kind, "."], action))
        return results

    posix.compare(case)


def test_of_an_open_file_and_a_removed_one(posix):
    def case():
        results = []
        with open("x", "w+b") as file:
            file.write(b"1")
            os.setxattr(file.fileno(), "user.a", b"open")
            file.flush()
            results += [os.getxattr("x", "user.a"), attempt(os.rename, "x", "y"), os.getxattr("y", "user.a")]
            os.unlink("y")
            results += [attempt(os.setxattr, file.fileno(), "user.b", b"gone"), sorted(os.listxattr(file.fileno()))]
        return results

    posix.compare(case)


def test_acls_and_capabilities_are_not_supported(posix):
    path = posix.mount / "plain"
    write(path)
    for name in ("security.capability", "security.selinux", "system.posix_acl_access"):
        assert attempt(os.getxattr, path, name) == "ENOTSUP"
    if os.geteuid() == 0:
        assert attempt(os.setxattr, path, "security.capability", bytes(20)) in ("ENOTSUP", "EINVAL")
    assert os.listxattr(path) == []


# MARK: with the object


def test_there_is_room_for_what_an_object_may_hold(posix):
    path = posix.mount / "full"
    write(path)
    os.setxattr(path, "user.small", b"1")
    sizes = [size for size in range(1000, 1500) if len(encoded({"user.small": b"1", "user.big": bytes(size)})) <= CAPACITY]
    for size in (max(sizes) + 1, 4000, 65_536):
        assert attempt(os.setxattr, path, "user.big", bytes(size)) == "ENOSPC"
        assert all_of(path) == {"user.small": b"1"}
    os.setxattr(path, "user.big", bytes(max(sizes)))
    assert attempt(os.setxattr, path, "user.more", b"1") == "ENOSPC"
    posix.instance.flush()
    metadata = objects(posix).head_object(Bucket="bucket", Key="full")["Metadata"]
    assert metadata["xattr"] == encoded(all_of(path))
    # As Amazon counts, with the longest of everything else.
    names = {"mode": "0" * 6, "uid": "4294967295", "gid": "4294967295", "mtime": "-9223372036.854775807", "rdev": "4294967295"}
    others = sum(len("x-amz-meta-" + name) + len(value) for name, value in names.items())
    assert others + len("x-amz-meta-xattr") + CAPACITY <= 2048


def test_they_travel_without_the_content(posix, seed):
    path = posix.mount / "large"
    write(path, random_bytes(seed, 3 << 20))
    posix.instance.flush()
    before = posix.server.body_bytes()
    os.setxattr(path, "user.a", b"1")
    posix.instance.flush()
    assert decoded(field_of(posix, "large")) == {"user.a": b"1"}
    os.removexattr(path, "user.a")
    posix.instance.flush()
    assert field_of(posix, "large") is None
    assert posix.server.body_bytes() - before < 1000
    assert open(path, "rb").read() == random_bytes(seed, 3 << 20)


def make_some(mount):
    """A file that is remote, one that is not, and a folder, with attributes; what they are."""
    os.mkdir(mount / "kept")
    for name in ("old", "new"):
        write(mount / f"kept/{name}", name.encode())
        mount.instance.flush() if name == "old" else None
    paths = [mount / "kept", mount / "kept/old", mount / "kept/new"]
    for number, path in enumerate(paths):
        os.setxattr(path, "user.number", str(number).encode())
        os.setxattr(path, "user.bytes", bytes([0, 255, number]))
    return {os.path.relpath(path, mount.path): all_of(path) for path in paths}


def look(mount, names):
    return {name: all_of(mount / name) for name in names}


def test_they_outlive_kills_renames_and_unmounts(posix):
    mount = posix.mount
    with holding(posix):
        made = make_some(mount)
        assert posix.instance.pending_files() > 0, "everything is remote already: the kill proves nothing"
        mount.kill()
        mount.mount_again()
        assert look(mount, made) == made
        os.rename(mount / "kept", mount / "moved")
        made = {name.replace("kept", "moved"): value for name, value in made.items()}
        mount.unmount()
        mount.mount_again()
        assert look(mount, made) == made
    posix.instance.flush()
    assert look(mount, made) == made
    mount.unmount()
    posix.instance.drop_cache()
    mount.mount_again()
    assert look(mount, made) == made
    assert decoded(field_of(posix, "moved/old")) == made["moved/old"]
    assert decoded(field_of(posix, "moved/")) == made["moved"]


def test_another_mount_sees_and_changes_them_also_where_listings_tell_nothing(posix, binary):
    path = posix.mount / "shared"
    write(path)
    os.setxattr(path, "user.a", b"first")
    posix.instance.flush()
    for number, options in enumerate(((), ("use_server_modtime",))):
        other = Instance(binary, posix.instance.folder, posix.server.url, f"other{number}")
        try:
            there = other.mount("s3://bucket", None, "metadata_age=1s", *options)
            assert all_of(there / "shared") == all_of(path)
            os.setxattr(there / "shared", "user.b", str(number).encode())
            # A change of something else takes them along, also of a file that was never looked at.
            os.chmod(there / "shared", 0o600 + number)
            other.flush()
            posix.instance.run("cache", "refresh", path)
            assert all_of(path) == {"user.a": b"first", "user.b": str(number).encode()}
        finally:
            other.abandon()


def test_content_that_is_filled_up_and_conflict_copies_keep_them(posix):
    path = posix.mount / "edited"
    write(path, bytes(100_000))
    os.setxattr(path, "user.a", b"1")
    posix.instance.flush()
    with open(path, "r+b") as file:
        file.seek(50_000)
        file.write(b"patched")
    posix.instance.flush()
    assert decoded(field_of(posix, "edited")) == {"user.a": b"1"}
    with holding(posix):
        assert os.path.getsize(path) == 100_000
        write(path, b"ours")
        assert posix.instance.pending_files() > 0, "the edit is remote already: the test proves nothing"
        objects(posix).put_object(Bucket="bucket", Key="edited", Body=b"theirs", Metadata={"xattr": encoded({"user.theirs": b"2"})})
        posix.instance.flush()
    posix.instance.run("cache", "refresh", posix.mount.path)
    copy = next(name for name in os.listdir(posix.mount.path) if name.startswith("edited (conflict"))
    assert all_of(path) == {"user.theirs": b"2"}
    assert all_of(posix.mount / copy) == {"user.a": b"1"}
    assert decoded(field_of(posix, copy)) == {"user.a": b"1"}
    assert open(posix.mount / copy, "rb").read() == b"ours"


def test_what_others_wrote_is_carried_along(posix):
    theirs = {"user.a": b"1", "system.posix_acl_access": b"\2\0\0\0", "user.moorage.pin": b"1", "security.selinux": b"s"}
    objects(posix).put_object(Bucket="bucket", Key="foreign", Body=b"x", Metadata={"xattr": encoded(theirs)})
    objects(posix).put_object(Bucket="bucket", Key="damaged", Body=b"x", Metadata={"xattr": "%7B%22user.a"})
    posix.instance.run("cache", "refresh", posix.mount.path)
    path = posix.mount / "foreign"
    assert all_of(path) == {"user.a": b"1"}
    assert attempt(os.getxattr, path, "user.moorage.pin") == "ENODATA"
    os.chmod(path, 0o640)
    posix.instance.flush()
    assert field_of(posix, "foreign") == encoded(theirs)
    os.setxattr(path, "user.b", b"2")
    posix.instance.flush()
    assert decoded(field_of(posix, "foreign")) == theirs | {"user.b": b"2"}
    assert os.listxattr(posix.mount / "damaged") == []


# MARK: tools


def test_tools_carry_them_along(posix):
    source = posix.mount / "source"
    os.mkdir(source)
    write(os.path.join(source, "file"))
    for name in ("", "file"):
        os.setxattr(os.path.join(source, name), "user.note", b"a=b\nc")
    for command in (
        ["cp", "-r", "--preserve=xattr", source, source + "-cp"],
        ["cp", "-r", "--preserve=xattr", source, os.path.join(posix.local, "cp")],
        ["rsync", "-aX", os.path.join(posix.local, "cp") + "/", source + "-rsync/"],
        ["bash", "-euc", f"mkdir '{source}-tar'; tar -C '{source}' --xattrs -cf - . | tar -C '{source}-tar' --xattrs -xf -"],
    ):
        subprocess.run(command, check=True, timeout=60)
    for copy in ("-cp", "-rsync", "-tar"):
        for name in ("", "file"):
            assert all_of(os.path.join(source + copy, name)) == {"user.note": b"a=b\nc"}
    # A second run has nothing to do.
    changes = subprocess.run(["rsync", "-aXi", os.path.join(posix.local, "cp") + "/", source + "-rsync/"], check=True, capture_output=True, timeout=60)
    assert changes.stdout == b""
    # Moorage's own are not told of, and so do not get into copies.
    shown = subprocess.run(["getfattr", "-d", "-m", "-", os.path.join(source, "file")], check=True, capture_output=True, text=True, timeout=60)
    assert [line for line in shown.stdout.splitlines() if "=" in line] == ["user.note=0sYT1iCmM="]
    subprocess.run(["setfattr", "-x", "user.note", os.path.join(source, "file")], check=True, timeout=60)
    assert os.listxattr(os.path.join(source, "file")) == []


@pytest.mark.skipif(shutil.which("s3fs") is None, reason="s3fs is missing")
def test_s3fs_and_moorage_read_each_others(posix, folder, stack):
    ours = posix.mount / "with-s3fs"
    os.mkdir(ours)
    values = {"user.text": b"some text", "user.bytes": bytes(range(0, 256, 3)), "user.empty": b""}
    write(os.path.join(ours, "ours"))
    for name, value in values.items():
        os.setxattr(os.path.join(ours, "ours"), name, value)
        os.setxattr(ours, name, value)
    posix.instance.flush()
    there, password = os.path.join(folder, "s3fs"), os.path.join(folder, "password")
    os.mkdir(there)
    with open(os.open(password, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(f"{ACCESS_KEY}:{SECRET_KEY}\n")
    options = f"url={posix.server.url},use_path_request_style,passwd_file={password},use_xattr"
    subprocess.run(["s3fs", "bucket", there, "-o", options], check=True, timeout=60)
    stack.callback(subprocess.run, ["fusermount3", "-uz", there], stderr=subprocess.DEVNULL)
    theirs = os.path.join(there, "with-s3fs")
    wait_until(lambda: os.path.exists(os.path.join(theirs, "ours")), 20, "s3fs to show the file")
    assert all_of(os.path.join(theirs, "ours")) == values
    assert all_of(theirs) == values
    write(os.path.join(theirs, "theirs"))
    # s3fs does nothing when it is to set an empty one.
    del values["user.empty"]
    for name, value in values.items():
        os.setxattr(os.path.join(theirs, "theirs"), name, value)
    posix.instance.run("cache", "refresh", ours)
    assert all_of(os.path.join(ours, "theirs")) == values
    os.setxattr(os.path.join(ours, "theirs"), "user.more", b"by moorage")
    posix.instance.flush()
    assert decoded(field_of(posix, "with-s3fs/theirs")) == values | {"user.more": b"by moorage"}
