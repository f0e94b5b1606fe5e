# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Changes of names while the flusher finishes what they are about."""

import errno
import os
import threading
import time

import pytest

from harness.processes import command_line, kill, wait_until
from harness.trees import all_keys, random_bytes, write_file

MIB = 1 << 20


def in_thread(function, *arguments):
    """Runs a call that blocks; returns a function that waits for its end and raises what it raised."""
    failure = []

    def run():
        try:
            function(*arguments)
        except BaseException as error:  # noqa: BLE001
            failure.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait():
        thread.join(60)
        assert not thread.is_alive()
        if failure:
            raise failure[0]

    return wait


def test_what_is_uploaded_while_its_folder_is_listed_for_a_move_moves_along(instance, mount, proxy, client):
    os.mkdir(mount / "d")
    write_file(mount / "d/old", b"old")
    write_file(mount / "d/gone", b"gone")
    instance.flush()
    held = proxy.rule("hold-response", method="GET", query="prefix=d%2F", times=1)
    wait = in_thread(os.rename, mount / "d", mount / "e")
    held.wait()
    # The listing is on its way and knows nothing of this.
    write_file(mount / "d/new", b"new")
    os.unlink(mount / "d/gone")
    wait_until(lambda: set(all_keys(client, "bucket")) == {"d/", "d/old", "d/new"}, 20, "the flusher to be done")
    wait_until(lambda: instance.pending_files() == 0, 20, "the flusher to be done")
    held.release()
    wait()
    assert sorted(os.listdir(mount / "e")) == ["new", "old"]
    assert not os.path.exists(mount / "d")
    instance.flush()
    assert set(all_keys(client, "bucket")) == {"e/", "e/new", "e/old"}


def test_a_moved_folder_that_was_just_uploaded_takes_new_names(instance, client):
    """Nobody has listed it: the kernel remembers that the name is free, and asks nothing before it makes it."""
    instance.configure(quiet_period="0s")
    mount = instance.mount("s3://bucket", None, "kernel_age=60s")
    os.mkdir(mount / "d")
    os.mkdir(mount / "d/sub")
    write_file(mount / "d/sub/old", b"old")
    os.rename(mount / "d", mount / "e")
    names = ["e/new", "e/made", "e/link", "e/moved", "e/sub/new"]
    assert not any(os.path.exists(mount / name) for name in names)
    write_file(mount / "f", b"f")
    instance.flush()
    assert set(all_keys(client, "bucket")) == {"e/", "e/sub/", "e/sub/old", "f"}
    write_file(mount / "e/new", b"new")
    os.mkdir(mount / "e/made")
    os.symlink("new", mount / "e/link")
    os.rename(mount / "f", mount / "e/moved")
    write_file(mount / "e/sub/new", b"new")
    with pytest.raises(OSError) as problem:
        os.rmdir(mount / "e/sub")
    assert problem.value.errno == errno.ENOTEMPTY
    instance.flush()
    assert set(all_keys(client, "bucket")) == {"e/", "e/sub/", "e/sub/old", "e/new", "e/made/", "e/link", "e/moved", "e/sub/new"}


def test_a_file_stays_readable_when_its_folder_moves(instance, mount, client):
    content = random_bytes(3, 48 * MIB)
    client.put_object(Bucket="bucket", Key="d/big", Body=content)
    descriptor = os.open(mount / "d/big", os.O_RDONLY)
    try:
        assert os.pread(descriptor, 4096, 0) == content[:4096]
        os.rename(mount / "d", mount / "e")
        instance.flush()
        assert "e/big" in all_keys(client, "bucket")
        assert os.pread(descriptor, 4096, 40 * MIB) == content[40 * MIB : 40 * MIB + 4096]
    finally:
        os.close(descriptor)


def test_a_foreign_version_under_new_attributes_is_not_mixed_with_the_old(instance, mount, client):
    """chmod meets a foreign change of the same size: the pages of the old version are not shown for the new one."""
    client.put_object(Bucket="bucket", Key="a", Body=b"o" * (2 * MIB))
    descriptor = os.open(mount / "a", os.O_RDONLY)
    try:
        assert os.pread(descriptor, MIB, 0) == b"o" * MIB
        os.chmod(mount / "a", 0o600)
        client.put_object(Bucket="bucket", Key="a", Body=b"n" * (2 * MIB))
        instance.flush()
    finally:
        os.close(descriptor)

    def is_new():
        with open(mount / "a", "rb") as file:
            content = file.read()
        assert content in (b"o" * (2 * MIB), b"n" * (2 * MIB)), "two versions were mixed"
        return content == b"n" * (2 * MIB)

    wait_until(is_new, 30, "the new version to show")
    assert os.stat(mount / "a").st_mode & 0o777 == 0o600


def test_a_file_made_again_waits_for_the_deletion_in_flight(instance, mount, proxy, client):
    """Servers that ignore conditions on DELETE would delete the new object."""
    write_file(mount / "a", b"old")
    instance.flush()
    proxy.zero()
    held = proxy.rule("hold", method="DELETE", path="/bucket/a")
    os.unlink(mount / "a")
    held.wait()
    write_file(mount / "a", b"new")
    time.sleep(3)
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"old", "sent during the deletion"
    held.release()
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"new"
    assert instance.conflicts() == 0


def test_a_list_is_answered_although_the_flusher_is_killed_all_the_time(instance):
    instance.configure(quiet_period="1h")
    mount = instance.mount("s3://bucket")
    write_file(mount / "f", b"1")
    instance.run("uploads", "pause", mount / "f")
    is_over = threading.Event()
    kills = []

    def kill_again_and_again():
        while not is_over.is_set():
            time.sleep(0.3)
            pid = instance.flusher_pid()
            if pid and "flusher" in command_line(pid):
                kill(pid)
                kills.append(pid)

    def look():
        while not is_over.is_set():
            assert [upload["path"] for upload in instance.uploads()] == ["f"]

    waits = [in_thread(kill_again_and_again)] + [in_thread(look) for _ in range(4)]
    time.sleep(8)
    try:
        wait_until(lambda: len(kills) > 5, 60, "kills")
    finally:
        is_over.set()
        for wait in waits:
            wait()
