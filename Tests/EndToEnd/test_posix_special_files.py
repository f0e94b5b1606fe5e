# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""FIFOs, sockets and devices: made, used, moved, uploaded, and found again by another mount."""

import os
import socket
import stat
import subprocess

import pytest

from harness.bucket import s3_client
from harness.instance import Instance
from harness.posix import USER, as_user, attempt, attempt_open, look, volume

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make devices")
DEVICE = os.makedev(0x123, 0x45678)
TYPES = {
    "fifo": (stat.S_IFIFO, 0), "socket": (stat.S_IFSOCK, 0), "character": (stat.S_IFCHR, DEVICE),
    "block": (stat.S_IFBLK, os.makedev(7, 9)),
}


@pytest.fixture(scope="module")
def posix(binary):
    with volume(binary) as made:
        yield made


def make_all(folder):
    os.mkdir(folder)
    for name, (kind, device) in TYPES.items():
        if device == 0 or os.geteuid() == 0:
            os.mknod(os.path.join(folder, name), kind | 0o640, device)
            os.utime(os.path.join(folder, name), (5, 1_600_000_000))


def look_all(folder):
    return {entry.name: (look(entry.path), os.lstat(entry.path).st_mtime) for entry in os.scandir(folder)}


@as_root
@pytest.mark.parametrize("name", TYPES)
def test_nodes(posix, name):
    kind, device = TYPES[name]

    def case():
        results = []
        for mode in (0o000, 0o644, 0o4755, 0o1777):
            results += [attempt(os.mknod, f"x{mode}", kind | mode, device), look(f"x{mode}")]
            results += [attempt(os.mknod, f"x{mode}", kind | mode, device), attempt(os.rename, f"x{mode}", "moved")]
            results += [attempt(os.chmod, "moved", 0o6711), attempt(os.chown, "moved", USER, USER), look("moved")]
        os.mkdir("d", 0o755)
        os.chmod("d", 0o777)
        results.append(as_user(USER, lambda: (attempt(os.mknod, "d/x", kind | 0o644, device), sorted(os.listdir("d")))))
        results += [attempt(os.truncate, "moved", 0), attempt(os.listdir, "moved"), attempt(os.readlink, "moved")]
        return results, attempt(os.unlink, "moved"), os.listdir(".")

    posix.compare(case)


@as_root
def test_devices_cannot_be_opened(posix):
    path = posix.mount / "null"
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    assert attempt_open(path, os.O_RDWR) == "EACCES"


def test_a_fifo_connects_processes(posix):
    path = posix.mount / "connected"
    os.mkfifo(path)
    assert attempt_open(path, os.O_WRONLY | os.O_NONBLOCK) == "ENXIO"
    with subprocess.Popen(["cat", path], stdout=subprocess.PIPE) as reader:
        with open(path, "wb") as writer:
            # Also while its object is uploaded, and after it was moved.
            posix.instance.flush()
            os.rename(path, path + "-moved")
            writer.write(b"through the kernel")
        assert reader.communicate(timeout=30)[0] == b"through the kernel"
    assert os.lstat(path + "-moved").st_size == 0


def test_a_socket_is_reached_by_its_name(posix):
    path = posix.mount / "listening"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        assert stat.S_ISSOCK(os.lstat(path).st_mode)
        for step in (lambda: None, posix.instance.flush):
            step()
            posix.instance.run("cache", "refresh", os.path.dirname(path))
            with socket.socket(socket.AF_UNIX) as client:
                client.settimeout(30)
                client.connect(path)
                connection, _ = server.accept()
                with connection:
                    client.sendall(b"hello")
                    assert connection.recv(5) == b"hello"
    with socket.socket(socket.AF_UNIX) as client:
        assert attempt(client.connect, path) == "ECONNREFUSED"
    os.unlink(path)
    assert not os.path.lexists(path)


def test_they_are_kept_by_their_objects_and_by_the_journal(posix):
    folder = posix.mount / "kept"
    posix.instance.configure(quiet_period="1h")
    try:
        make_all(folder)
        made = look_all(folder)
        # From the journal, once nothing was uploaded and once everything.
        posix.mount.kill()
        posix.mount.mount_again()
        assert look_all(folder) == made
    finally:
        posix.instance.configure(quiet_period="0.2s")
    posix.instance.flush()
    assert look_all(folder) == made
    posix.mount.unmount()
    posix.instance.drop_cache()
    posix.mount.mount_again()
    assert look_all(folder) == made
    objects = s3_client(posix.server.url)
    for name in made:
        kind, device = TYPES[name]
        found = objects.head_object(Bucket="bucket", Key=f"kept/{name}")
        assert found["ContentLength"] == 0
        assert found["Metadata"]["mode"] == str(kind | 0o640)
        assert found["Metadata"]["rdev"] == str(device)


def test_another_mount_sees_and_changes_them(posix, binary):
    folder = posix.mount / "shared"
    make_all(folder)
    posix.instance.flush()
    other = Instance(binary, posix.instance.folder, posix.server.url, "other")
    try:
        there = other.mount("s3://bucket", None, *posix.options)
        assert look_all(there / "shared") == look_all(folder)
        os.chmod(there / "shared/fifo", 0o6711)
        os.rename(there / "shared/socket", there / "shared/moved")
        os.unlink(there / "shared/character") if os.geteuid() == 0 else None
        other.flush()
        posix.instance.run("cache", "refresh", folder)
        assert look_all(folder) == look_all(there / "shared")
        # With these bits the mode in decimal could be one in octal, too.
        assert stat.S_ISFIFO(os.lstat(os.path.join(folder, "fifo")).st_mode)
        assert stat.S_ISSOCK(os.lstat(os.path.join(folder, "moved")).st_mode)
    finally:
        other.abandon()


def test_those_of_other_tools(posix):
    objects = s3_client(posix.server.url)
    fifo, device = stat.S_IFIFO | 0o600, stat.S_IFCHR | 0o620
    for key, body, metadata in (
        ("tools/s3fs", b"", {"mode": str(fifo), "uid": "1", "gid": "2", "mtime": "7"}),
        ("tools/geesefs", b"", {"mode": str(device), "rdev": str(DEVICE)}),
        ("tools/rclone", b"", {"mode": "010600"}),
        ("tools/content", b"kept", {"mode": str(fifo)}),
    ):
        objects.put_object(Bucket="bucket", Key=key, Body=body, Metadata=metadata)
    folder = posix.mount / "tools"
    posix.instance.run("cache", "refresh", posix.mount.path)
    assert {name: value[0][0] for name, value in look_all(folder).items()} == {
        "s3fs": oct(fifo), "geesefs": oct(device), "rclone": oct(fifo), "content": oct(stat.S_IFREG | 0o600),
    }
    assert os.lstat(os.path.join(folder, "geesefs")).st_rdev == DEVICE
    # Bytes are never hidden behind a kind that has none.
    with open(os.path.join(folder, "content"), "rb") as file:
        assert file.read() == b"kept"


def test_tools_copy_them(posix):
    folder = posix.mount / "copied"
    make_all(folder)
    for command in (["cp", "-a", folder, folder + "-cp"], ["rsync", "-aX", "--devices", "--specials", folder + "/", folder + "-rsync/"]):
        subprocess.run(command, check=True, timeout=60)
    assert look_all(folder + "-cp") == look_all(folder)
    assert look_all(folder + "-rsync") == look_all(folder)
