# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Errors that a program sees, by operation and cause: the rows of the table in Docs/Semantics.md that no other test has."""

import ctypes
import errno
import fcntl
import os
import socket
import stat

import pytest

from harness.posix import attempt
from harness.trees import write_file

RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
AT_FDCWD = -100


def write(path):
    with open(path, "r+b") as file:
        file.write(b"x")


CHANGES = {
    "write": lambda mount: write(mount / "f"),
    "create": lambda mount: write_file(mount / "new", b""),
    "truncate": lambda mount: os.truncate(mount / "f", 0),
    "mkdir": lambda mount: os.mkdir(mount / "new"),
    "symlink": lambda mount: os.symlink("text", mount / "new"),
    "mknod": lambda mount: os.mknod(mount / "new", stat.S_IFIFO | 0o600),
    "link": lambda mount: os.link(mount / "f", mount / "new"),
    "rename": lambda mount: os.rename(mount / "f", mount / "new"),
    "unlink": lambda mount: os.unlink(mount / "f"),
    "rmdir": lambda mount: os.rmdir(mount / "d"),
    "chmod": lambda mount: os.chmod(mount / "f", 0o600),
    "chown": lambda mount: os.chown(mount / "f", os.getuid(), os.getgid()),
    "utime": lambda mount: os.utime(mount / "f"),
    "setxattr": lambda mount: os.setxattr(mount / "f", "user.a", b"1"),
    "removexattr": lambda mount: os.removexattr(mount / "f", "user.a"),
    "pin": lambda mount: os.setxattr(mount / "f", "user.moorage.pin", b"1"),
}


@pytest.fixture
def filled(client):
    client.put_object(Bucket="bucket", Key="f", Body=b"content")
    client.put_object(Bucket="bucket", Key="d/", Body=b"")


def test_nothing_changes_on_a_mount_that_is_read_only(instance, filled, client):
    mount = instance.mount("s3://bucket", None, "ro")
    assert {name: attempt(change, mount) for name, change in CHANGES.items()} == dict.fromkeys(CHANGES, "EROFS")
    assert open(mount / "f", "rb").read() == b"content"
    assert instance.pending_files() == 0


@pytest.mark.parametrize("status, code", [(403, "AccessDenied"), (403, "SignatureDoesNotMatch")])
def test_a_remote_that_refuses(instance, filled, proxy, status, code):
    mount = instance.mount("s3://bucket", None, "metadata_age=1h")
    assert sorted(os.listdir(mount.path)) == ["d", "f"]
    proxy.rule("respond", times="all", status=status, body=f"<Error><Code>{code}</Code><Message>no</Message></Error>")
    with pytest.raises(OSError) as problem:
        open(mount / "f", "rb").read()
    assert problem.value.errno == errno.EACCES
    with pytest.raises(OSError) as problem:
        os.listdir(mount / "d")
    assert problem.value.errno == errno.EACCES
    # What is written is safe here: that the remote does not take it is told elsewhere.
    write_file(mount / "new", b"kept")
    assert open(mount / "new", "rb").read() == b"kept"
    proxy.clear()
    instance.run("uploads", "retry", "--all", check=False)
    instance.flush()


def renameat2(old, new, flags):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(AT_FDCWD, os.fsencode(old), AT_FDCWD, os.fsencode(new), flags) == 0:
        return "ok"
    return errno.errorcode[ctypes.get_errno()]


def test_calls_that_do_not_exist_here(instance, filled):
    mount = instance.mount("s3://bucket")
    assert attempt(os.open, mount.path, os.O_TMPFILE | os.O_RDWR) == "ENOTSUP"
    assert renameat2(mount / "f", mount / "new", RENAME_WHITEOUT) == "EINVAL"
    assert renameat2(mount / "d", mount / "d/x", RENAME_EXCHANGE) in ("EINVAL", "ENOENT")
    assert renameat2(mount / "f", mount / "d", RENAME_NOREPLACE) == "EEXIST"
    for name in ("user.moorage.state", "user.moorage.anything"):
        assert attempt(os.setxattr, mount / "f", name, b"1") == "EPERM"
        assert attempt(os.removexattr, mount / "f", name) == "EPERM"
    assert attempt(os.setxattr, mount / "f", "user.moorage.pin", b"maybe") == "EINVAL"
    for maker in (os.mkdir, lambda path: os.symlink("text", path), lambda path: write_file(path, b""), os.mkfifo):
        assert attempt(maker, os.path.join(os.fsencode(mount.path), b"\xff")) == "EILSEQ"
    assert attempt(os.rename, mount / "f", os.path.join(os.fsencode(mount.path), b"\xff").decode(errors="surrogateescape")) == "EILSEQ"
    with open(mount / "f", "rb") as file:
        # Open for the other direction.
        assert attempt(os.write, file.fileno(), b"x") == "EBADF"
        assert attempt(fcntl.lockf, file.fileno(), fcntl.LOCK_EX) == "EBADF"
    with socket.socket(socket.AF_UNIX) as unbound:
        assert attempt(unbound.connect, mount / "f") == "ECONNREFUSED"


@pytest.mark.parametrize("change", ["replaced", "deleted"])
def test_an_open_file_whose_object_is_another_one(instance, client, change):
    client.put_object(Bucket="bucket", Key="big", Body=bytes(8 << 20))
    mount = instance.mount("s3://bucket", None, "readahead=0")
    with open(mount / "big", "rb", buffering=0) as file:
        assert os.pread(file.fileno(), 4096, 0) == bytes(4096)
        if change == "replaced":
            client.put_object(Bucket="bucket", Key="big", Body=b"1" * (8 << 20))
        else:
            client.delete_object(Bucket="bucket", Key="big")
        with pytest.raises(OSError) as problem:
            os.pread(file.fileno(), 4096, 4 << 20)
        assert problem.value.errno == errno.ESTALE
        assert os.pread(file.fileno(), 4096, 0) == bytes(4096)


def test_a_remote_that_is_away(instance, filled, client, proxy):
    client.put_object(Bucket="bucket", Key="d/e/x", Body=b"x")
    mount = instance.mount("s3://bucket", None, "metadata_age=1h")
    assert sorted(os.listdir(mount.path)) == ["d", "f"]
    assert os.path.getsize(mount / "f") == 7
    proxy.offline()
    calls = {
        "read": lambda: open(mount / "f", "rb").read(),
        "list": lambda: os.listdir(mount / "d"),
        "look up": lambda: os.stat(mount / "d/e"),
        "create": lambda: write_file(mount / "d/new", b""),
        "rmdir": lambda: os.rmdir(mount / "d"),
        "move a folder": lambda: os.rename(mount / "d", mount / "moved"),
    }
    assert {name: attempt(call) for name, call in calls.items()} == dict.fromkeys(calls, "EIO")
    # What needs nothing of it goes on.
    os.rename(mount / "f", mount / "g")
    write_file(mount / "new", b"new")
    proxy.online()
    instance.flush()
    assert {entry["Key"] for entry in client.list_objects_v2(Bucket="bucket")["Contents"]} == {"d/", "d/e/x", "g", "new"}
