# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Everything that changes bytes, on files of every state: the same as on the local disk, after a new mount, and at the
remote."""

import ctypes
import errno
import mmap
import os
import subprocess
import sys

import pytest

from harness.processes import shell, wait_until
from harness.trees import random_bytes, sha256_of_file

KEEP_SIZE, PUNCH_HOLE, COLLAPSE_RANGE, ZERO_RANGE, INSERT_RANGE = 1, 2, 8, 16, 32
KIB, MIB = 1 << 10, 1 << 20
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]


def fallocate(descriptor, mode, offset, length):
    if LIBC.fallocate(descriptor, mode, offset, length) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def content(size, seed=1):
    """Bytes none of which is zero, so that a zero is known for one that was made."""
    return random_bytes(seed, size).replace(b"\0", b"\1")


def edit(path, action):
    """Opens a file for changes, does something to it and returns what that returns, or its error."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        return action(descriptor)
    except OSError as problem:
        return errno.errorcode[problem.errno]
    finally:
        os.close(descriptor)


# What is done to a file of 300 KiB, by name.
ACTIONS = {
    "allocate behind the end": lambda fd: fallocate(fd, 0, 200 * KIB, 300 * KIB),
    "allocate within": lambda fd: fallocate(fd, 0, 10, 1000),
    "keep the size": lambda fd: fallocate(fd, KEEP_SIZE, 200 * KIB, 300 * KIB),
    "punch the middle": lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 5000, 100_000),
    "punch the start": lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4096),
    "punch over the end": lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 290 * KIB, MIB),
    "punch all": lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, MIB),
    "punch behind the end": lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, MIB, MIB),
    "zero the middle": lambda fd: fallocate(fd, ZERO_RANGE, 5000, 100_000),
    "zero over the end": lambda fd: fallocate(fd, ZERO_RANGE, 290 * KIB, 100_000),
    "zero over the end, keeping the size": lambda fd: fallocate(fd, ZERO_RANGE | KEEP_SIZE, 290 * KIB, MIB),
    "collapse": lambda fd: fallocate(fd, COLLAPSE_RANGE, 4096, 4096),
    "insert": lambda fd: fallocate(fd, INSERT_RANGE, 4096, 4096),
    "punch without keeping the size": lambda fd: fallocate(fd, PUNCH_HOLE, 0, 4096),
    "cut": lambda fd: os.ftruncate(fd, 1234),
    "extend": lambda fd: os.ftruncate(fd, 500 * KIB),
    "cut and extend": lambda fd: (os.ftruncate(fd, 1234), os.ftruncate(fd, 500 * KIB)),
    "write behind the end": lambda fd: os.pwrite(fd, b"far", 700 * KIB),
    "write, then punch a part of it": lambda fd: (
        os.pwrite(fd, b"x" * 20_000, 100_000), fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 110_000, 5000)
    ),
    "punch, then write a part of it": lambda fd: (
        fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 100_000, 50_000), os.pwrite(fd, b"y" * 100, 120_000)
    ),
}
# A local file system can do these where it has whole blocks; an object has no room to move bytes in.
ONLY_LOCAL = ("collapse", "insert")
STATES = ("remote", "sealed", "local", "uploading")


def put_objects(client):
    """The file of each action as an object; what others make later shows after a while only."""
    for number, _ in enumerate(ACTIONS):
        client.put_object(Bucket="bucket", Key=f"f{number}", Body=content(300 * KIB))


def prepare(state, mount, instance):
    """Brings the file of each action into a state; returns its content."""
    data = content(300 * KIB)
    for number, _ in enumerate(ACTIONS):
        if state == "sealed":
            edit(mount / f"f{number}", lambda fd: os.pwrite(fd, b"changed", 7000))
        elif state != "remote":
            with open(mount / f"f{number}", "wb") as file:
                file.write(data)
    if state == "uploading":
        wait_until(instance.in_flight, 30, "an upload under way")
    return data[:7000] + b"changed" + data[7007:] if state == "sealed" else data


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("killed", (False, True), ids=("unmounted", "killed"))
def test_each_change_is_the_same_as_on_the_local_disk(state, killed, instance, server, client, proxy, local):
    instance.configure(quiet_period="0s" if state == "uploading" else "3600s")
    held = proxy.rule("hold", method="PUT", times="all") if state == "uploading" else None
    if state in ("remote", "sealed"):
        put_objects(client)
    mount = instance.mount("s3://bucket")
    before = prepare(state, mount, instance)
    for number, (name, action) in enumerate(ACTIONS.items()):
        twin = os.path.join(local, f"f{number}")
        with open(twin, "wb") as file:
            file.write(before)
        expected = "ENOTSUP" if name in ONLY_LOCAL else edit(twin, action)
        found = edit(mount / f"f{number}", action)
        if name not in ONLY_LOCAL:
            assert os.stat(mount / f"f{number}").st_size == os.stat(twin).st_size, name
            assert sha256_of_file(mount / f"f{number}") == sha256_of_file(twin), name
        assert found == expected, name
    if killed:
        mount.kill()
    else:
        mount.unmount()
    if held:
        held.release()
        held.remove()
    mount = mount.mount_again()
    for number, name in enumerate(ACTIONS):
        if name not in ONLY_LOCAL:
            assert sha256_of_file(mount / f"f{number}") == sha256_of_file(os.path.join(local, f"f{number}")), name
    instance.flush()
    for number, name in enumerate(ACTIONS):
        arrived = client.get_object(Bucket="bucket", Key=f"f{number}")["Body"].read()
        if name not in ONLY_LOCAL:
            with open(os.path.join(local, f"f{number}"), "rb") as file:
                assert arrived == file.read(), name


def test_zeros_over_a_remote_object_fetch_nothing(instance, client, proxy):
    # Between the two edits nothing is sent: a part of zeros would need the rest.
    instance.configure(quiet_period="1h")
    client.put_object(Bucket="bucket", Key="a", Body=content(8 * MIB))
    mount = instance.mount("s3://bucket")
    os.stat(mount / "a")
    edit(mount / "a", lambda fd: fallocate(fd, PUNCH_HOLE | KEEP_SIZE, 0, 4 * MIB))
    edit(mount / "a", lambda fd: fallocate(fd, ZERO_RANGE, 4 * MIB, 4 * MIB))
    with open(mount / "a", "rb") as file:
        assert file.read() == bytes(8 * MIB)
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == bytes(8 * MIB)
    assert proxy.requests("GET object", "/bucket/a") == []


def test_a_hole_is_never_told_where_bytes_are(instance, client):
    client.put_object(Bucket="bucket", Key="a", Body=content(MIB))
    mount = instance.mount("s3://bucket")
    with open(mount / "holes", "wb") as file:
        file.truncate(MIB)
        os.pwrite(file.fileno(), b"x" * 8192, 512 * KIB)
    with open(mount / "holes", "rb") as file:
        assert os.lseek(file.fileno(), 0, os.SEEK_DATA) == 512 * KIB
        assert os.lseek(file.fileno(), 512 * KIB, os.SEEK_HOLE) == 512 * KIB + 8192
        assert os.lseek(file.fileno(), 0, os.SEEK_HOLE) == 0
        for offset, whence in ((MIB, os.SEEK_HOLE), (MIB, os.SEEK_DATA), (600 * KIB, os.SEEK_DATA)):
            with pytest.raises(OSError) as problem:
                os.lseek(file.fileno(), offset, whence)
            assert problem.value.errno == errno.ENXIO
    with open(mount / "a", "rb") as file:
        assert os.lseek(file.fileno(), 5, os.SEEK_DATA) == 5
        assert os.lseek(file.fileno(), 5, os.SEEK_HOLE) == MIB
    with open(mount / "mapped", "w+b") as file:
        file.truncate(MIB)
        with mmap.mmap(file.fileno(), MIB) as memory:
            memory[700_000:700_003] = b"abc"
            # The kernel has not told anybody of those bytes yet.
            with open(mount / "mapped", "rb") as reader:
                assert os.lseek(reader.fileno(), 0, os.SEEK_DATA) <= 700_000
    shell(f"cp --sparse=always {mount / 'holes'} {mount / 'copy'}; cmp {mount / 'holes'} {mount / 'copy'}")


def copies(descriptors, size):
    """Copies with copy_file_range(2), in as many calls as it takes."""
    source, target = descriptors
    done = 0
    while done < size:
        count = os.copy_file_range(source, target, size - done, done, done + 3000)
        assert count > 0
        done += count


@pytest.mark.parametrize("source", ("remote", "local", "patched"))
@pytest.mark.parametrize("target", ("remote", "local", "new"))
def test_ranges_are_copied_between_files_of_any_state(source, target, instance, client):
    instance.configure(quiet_period="3600s")
    data, old = content(300 * KIB), content(400 * KIB, seed=2)
    files = {"s": (source, data), "t": (target, old)}
    for name, (state, before) in files.items():
        if state in ("remote", "patched"):
            client.put_object(Bucket="bucket", Key=name, Body=before)
    mount = instance.mount("s3://bucket")
    for name, (state, before) in files.items():
        if state in ("local", "new"):
            with open(mount / name, "wb") as file:
                file.write(before if state == "local" else b"")
    if source == "patched":
        edit(mount / "s", lambda fd: os.pwrite(fd, b"patch", 9000))
        data = data[:9000] + b"patch" + data[9005:]
    descriptors = os.open(mount / "s", os.O_RDONLY), os.open(mount / "t", os.O_RDWR)
    copies(descriptors, len(data))
    for descriptor in descriptors:
        os.close(descriptor)
    expected = (bytes(3000) if target == "new" else old[:3000]) + data
    expected += b"" if target == "new" else old[len(expected):]
    with open(mount / "t", "rb") as file:
        assert file.read() == expected
    shell(f"cp --reflink=auto {mount / 't'} {mount / 'u'}; cmp {mount / 't'} {mount / 'u'}")
    instance.flush()
    for name in ("t", "u"):
        assert client.get_object(Bucket="bucket", Key=name)["Body"].read() == expected


def test_ranges_are_copied_within_a_file(instance, client):
    data = content(100_000)
    client.put_object(Bucket="bucket", Key="a", Body=data)
    mount = instance.mount("s3://bucket")
    edit(mount / "a", lambda fd: os.copy_file_range(fd, fd, 1000, 0, 50_000))
    edit(mount / "a", lambda fd: os.copy_file_range(fd, fd, 1000, 50_500, 99_500))
    expected = bytearray(data)
    expected[50_000:51_000] = expected[0:1000]
    expected[99_500:100_500] = expected[50_500:51_500]
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == bytes(expected)


APPENDER = """
import os, sys
path, name = sys.argv[1:]
first, second = (os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT) for _ in range(2))
for number in range(300):
    os.write(first if number % 2 else second, f"{name} {number}\\n".encode())
"""


def test_no_line_is_lost_where_many_append(instance, client):
    client.put_object(Bucket="bucket", Key="log", Body=b"begin\n")
    mount = instance.mount("s3://bucket")
    writers = [subprocess.Popen([sys.executable, "-c", APPENDER, mount / "log", str(name)]) for name in range(6)]
    assert [writer.wait(60) for writer in writers] == [0] * 6
    instance.flush()
    lines = client.get_object(Bucket="bucket", Key="log")["Body"].read().decode().splitlines()
    assert lines[0] == "begin"
    assert sorted(lines[1:]) == sorted(f"{name} {number}" for name in range(6) for number in range(300))
    for name in range(6):
        assert [line for line in lines if line.startswith(f"{name} ")] == [f"{name} {number}" for number in range(300)]


def test_direct_writes_are_taken(instance, client):
    mount = instance.mount("s3://bucket")
    with mmap.mmap(-1, 64 * KIB) as memory:
        memory[:] = content(64 * KIB)
        descriptor = os.open(mount / "direct", os.O_RDWR | os.O_CREAT | os.O_DIRECT)
        assert os.pwrite(descriptor, memory, 0) == 64 * KIB
        assert os.pwrite(descriptor, memory, 64 * KIB) == 64 * KIB
        os.close(descriptor)
        instance.flush()
        assert client.get_object(Bucket="bucket", Key="direct")["Body"].read() == memory[:] * 2


@pytest.mark.parametrize("flag", (os.O_SYNC, os.O_DSYNC), ids=("O_SYNC", "O_DSYNC"))
def test_a_synchronous_write_outlives_a_kill(flag, instance, client):
    """Without the sync the file goes back to what the remote has when the mount is killed."""
    instance.configure(quiet_period="3600s")
    for name in ("synced", "not"):
        client.put_object(Bucket="bucket", Key=name, Body=b"0123456789")
    mount = instance.mount("s3://bucket")
    descriptors = os.open(mount / "synced", os.O_WRONLY | flag), os.open(mount / "not", os.O_WRONLY)
    for descriptor in descriptors:
        os.pwrite(descriptor, b"abc", 2)
    mount.kill()
    for descriptor in descriptors:
        try:
            os.close(descriptor)
        except OSError as problem:
            assert problem.errno in (errno.ENOTCONN, errno.ECONNABORTED)
    mount = mount.mount_again()
    with open(mount / "synced", "rb") as synced, open(mount / "not", "rb") as other:
        assert (synced.read(), other.read()) == (b"01abc56789", b"0123456789")


MAPPER = """
import mmap, os, sys
path, first = sys.argv[1], int(sys.argv[2])
descriptor = os.open(path, os.O_RDWR)
memory = mmap.mmap(descriptor, 0)
os.close(descriptor)
for place in range(first, len(memory), 2):
    memory[place] = 65 + first
"""


def test_two_processes_write_to_one_mapping(instance, client):
    client.put_object(Bucket="bucket", Key="m", Body=bytes(200_001))
    mount = instance.mount("s3://bucket")
    writers = [subprocess.Popen([sys.executable, "-c", MAPPER, mount / "m", str(first)]) for first in (0, 1)]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="m")["Body"].read() == (b"AB" * 100_001)[:200_001]


def test_a_removed_file_is_read_and_written_until_it_is_closed(instance, client):
    client.put_object(Bucket="bucket", Key="a", Body=content(100_000))
    mount = instance.mount("s3://bucket")
    descriptor = os.open(mount / "a", os.O_RDWR)
    os.unlink(mount / "a")
    expected = bytearray(content(100_000))
    os.pwrite(descriptor, b"new", 50)
    fallocate(descriptor, PUNCH_HOLE | KEEP_SIZE, 60_000, 10_000)
    os.ftruncate(descriptor, 90_000)
    expected[50:53], expected[60_000:70_000] = b"new", bytes(10_000)
    assert os.pread(descriptor, 200_000, 0) == bytes(expected[:90_000])
    os.close(descriptor)
    instance.flush()
    assert client.list_objects_v2(Bucket="bucket").get("Contents", []) == []


def test_no_file_grows_beyond_what_an_object_may_hold(instance, client):
    mount = instance.mount("s3://bucket")
    most = 5 << 40
    with open(mount / "a", "wb") as file:
        file.write(b"begin")
    beyond = {
        "write": lambda fd: os.pwrite(fd, b"x", most),
        "truncate": lambda fd: os.ftruncate(fd, most + 1),
        "allocate": lambda fd: fallocate(fd, 0, most, 1),
        "zero": lambda fd: fallocate(fd, ZERO_RANGE, most, 1),
    }
    assert {name: edit(mount / "a", action) for name, action in beyond.items()} == dict.fromkeys(beyond, "EFBIG")
    with open(mount / "a", "rb") as file:
        assert file.read() == b"begin"
