# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The network is away: what is known works, what is written is kept, what is unknown fails quickly."""

import concurrent.futures
import contextlib
import errno
import os
import signal
import threading
import time

import pytest

from harness.processes import wait_until
from harness.trees import all_keys, random_bytes, write_file

MIB = 1 << 20
QUICK = 15


@pytest.fixture
def known(instance, client, seed):
    """A mount that has seen a folder and read a file, and knows another file by name only."""
    client.put_object(Bucket="bucket", Key="folder/read", Body=random_bytes(seed, 2 * MIB))
    client.put_object(Bucket="bucket", Key="folder/unread", Body=random_bytes(seed + 1, 2 * MIB))
    client.put_object(Bucket="bucket", Key="never/looked/at", Body=b"x")
    instance.configure(connect_timeout="2s", stall_timeout="5s", metadata_age="1s")
    mount = instance.mount("s3://bucket")
    assert sorted(os.listdir(mount / "folder")) == ["read", "unread"]
    assert open(mount / "folder/read", "rb").read() == random_bytes(seed, 2 * MIB)
    os.stat(mount / "folder/unread")
    return mount


def quickly(action):
    """What an action raised, and that it took no time a user would mind."""
    start = time.monotonic()
    try:
        action()
        problem = None
    except OSError as error:
        problem = error.errno
    assert time.monotonic() - start < QUICK, "it failed, but not quickly"
    return problem


def read_past_the_kernel(path):
    """What the block cache has, not the kernel's page cache.

    Never all of the machine's page cache: what disks of other tests have failed to write is nowhere else.
    """
    with open(path, "rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return file.read()


def waiting_reasons(instance):
    return {reason["reason"] for upload in instance.uploads() for reason in upload["waiting"]}


@pytest.mark.limit(150)
@pytest.mark.parametrize("away", ["refuse", "reset"])
def test_work_goes_on_without_the_network(instance, known, proxy, client, seed, away):
    proxy.mode(away)
    proxy.cut()
    time.sleep(2)  # everything known about the remote is out of date now
    assert sorted(os.listdir(known / "folder")) == ["read", "unread"]
    assert read_past_the_kernel(known / "folder/read") == random_bytes(seed, 2 * MIB)
    assert quickly(lambda: open(known / "folder/unread", "rb").read()) == errno.EIO
    assert quickly(lambda: os.listdir(known / "never/looked")) == errno.EIO
    write_file(known / "folder/new", b"written offline")
    os.mkdir(known / "made")
    write_file(known / "made/inside", b"too")
    os.rename(known / "folder/read", known / "folder/renamed")
    os.chmod(known / "folder/new", 0o640)
    assert sorted(os.listdir(known / "folder")) == ["new", "renamed", "unread"]
    assert open(known / "folder/renamed", "rb").read() == random_bytes(seed, 2 * MIB)
    wait_until(lambda: "offline" in waiting_reasons(instance), 30, "the uploads to wait for the network")
    assert "offline" in instance.run("status").stdout
    failed = instance.run("flush", "--timeout", "2", check=False, timeout=30)
    assert failed.returncode == 1 and failed.stderr.strip()
    proxy.online()
    # Looked at from outside: any command of ours might be what brings it on.
    keys = {"folder/", "folder/new", "folder/renamed", "folder/unread", "made/", "made/inside", "never/looked/at"}
    wait_until(lambda: set(all_keys(client, "bucket")) | {"folder/"} == keys, 60, "everything to flow without a command")
    wait_until(lambda: instance.pending_files() == 0, 30, "the flusher to know it")
    assert client.get_object(Bucket="bucket", Key="folder/new")["Body"].read() == b"written offline"
    assert client.get_object(Bucket="bucket", Key="folder/renamed")["Body"].read() == random_bytes(seed, 2 * MIB)
    assert client.get_object(Bucket="bucket", Key="made/inside")["Body"].read() == b"too"
    assert "offline" not in instance.run("status").stdout
    assert open(known / "folder/unread", "rb").read() == random_bytes(seed + 1, 2 * MIB)
    assert os.listdir(known / "never/looked") == ["at"]


@pytest.mark.limit(120)
def test_a_known_volume_mounts_without_the_network(instance, known, proxy, client, seed):
    write_file(known / "before", b"pending or not")
    known.unmount()
    proxy.offline()
    again = known.mount_again()
    assert sorted(os.listdir(again / "folder")) == ["read", "unread"]
    assert open(again / "folder/read", "rb").read() == random_bytes(seed, 2 * MIB)
    write_file(again / "while away", b"new")
    assert open(again / "before", "rb").read() == b"pending or not"
    proxy.online()
    wait_until(lambda: instance.pending_files() == 0, 60, "everything to flow")
    assert client.get_object(Bucket="bucket", Key="while away")["Body"].read() == b"new"


@pytest.mark.limit(120)
def test_a_network_that_swallows_everything_does_not_stop_the_user(instance, known, proxy, client):
    proxy.mode("blackhole")
    write_file(known / "folder/new", b"kept")
    assert open(known / "folder/new", "rb").read() == b"kept"
    start = time.monotonic()
    with pytest.raises(OSError):
        open(known / "folder/unread", "rb").read()
    assert time.monotonic() - start < 60
    proxy.online()
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="folder/new")["Body"].read() == b"kept"


@pytest.mark.limit(120)
def test_many_who_wait_for_the_network_do_not_stop_others(instance, proxy, client):
    for number in range(120):
        client.put_object(Bucket="bucket", Key=f"f{number}", Body=bytes(200_000))
    mounted = instance.mount("s3://bucket", None, "metadata_age=60s")
    files = [os.open(mounted / f"f{number}", os.O_RDONLY) for number in range(120)]
    proxy.mode("blackhole")

    def read(file):
        with contextlib.suppress(OSError):
            os.pread(file, 1000, 0)
        os.close(file)

    readers = [threading.Thread(target=read, args=[file]) for file in files]
    for reader in readers:
        reader.start()
    time.sleep(2)
    start = time.monotonic()
    write_file(mounted / "new", b"kept")
    assert open(mounted / "new", "rb").read() == b"kept"
    assert time.monotonic() - start < 8
    proxy.online()
    for reader in readers:
        reader.join()


@pytest.mark.limit(90)
def test_unreachable_is_never_taken_for_empty(instance, known, proxy, client):
    """Neither a listing that fails nor a 404 of the bucket makes files vanish or be deleted."""
    proxy.rule("respond", method="GET", status=500, times="all")
    proxy.rule("respond", method="HEAD", status=500, times="all")
    time.sleep(2)
    assert sorted(os.listdir(known / "folder")) == ["read", "unread"]
    proxy.clear()
    gone = "<Error><Code>NoSuchBucket</Code><Message>gone</Message></Error>"
    proxy.rule("respond", method="GET", status=404, times="all", body=gone)
    proxy.rule("respond", method="HEAD", status=404, times="all")
    time.sleep(2)
    quickly(lambda: os.listdir(known / "folder"))
    proxy.clear()
    wait_until(lambda: quickly(lambda: os.stat(known / "folder/unread")) is None, 30, "the file to be seen again")
    instance.flush()
    assert set(all_keys(client, "bucket")) == {"folder/read", "folder/unread", "never/looked/at"}


@pytest.mark.limit(180)
@pytest.mark.parametrize("kind", ["names", "attributes", "bytes"])
def test_the_remote_is_not_blamed_for_the_time_that_the_mount_stood_still(proxy, client, instance, kind):
    """A process that is stopped, or frozen with its machine, cannot take an answer: that time does not count.

    The answer comes a moment after the process goes on, which was gone for longer than it waits for one.
    """
    client.put_object(Bucket="bucket", Key="folder/file", Body=b"content")
    proxy.refuse_metadata()
    mount = instance.mount("s3://bucket")
    action, pattern = {
        "names": (lambda: os.listdir(mount / "folder"), dict(query="list-type")),
        "attributes": (lambda: os.stat(mount / "folder/file"), dict(method="HEAD", path="/bucket/folder/file")),
        "bytes": (lambda: open(mount / "folder/file", "rb").read(), dict(method="GET", path="/bucket/folder/file")),
    }[kind]
    if kind == "bytes":
        os.stat(mount / "folder/file")
    held = proxy.rule("hold", **pattern)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        call = pool.submit(action)
        held.wait()
        pid = mount.pid
        os.kill(pid, signal.SIGSTOP)
        time.sleep(11)
        os.kill(pid, signal.SIGCONT)
        # Long enough for it to look at its watch.
        time.sleep(1)
        held.release()
        assert call.result(60) is not None


def test_a_file_that_waits_here_can_be_changed_in_a_folder_that_was_never_listed(proxy, client, instance):
    """Its row says all that a change has to know: nobody is asked what else is in the folder."""
    client.put_object(Bucket="bucket", Key="old/file", Body=b"content")
    instance.configure(quiet_period="0s", kernel_age="0s", metadata_age="100s")
    mount = instance.mount("s3://bucket")
    with open(mount / "old/file", "r+b") as file:
        file.write(b"CONTENT")
    held = proxy.rule("hold", times="all", method="PUT", path="/bucket/new/file")
    os.rename(mount / "old", mount / "new")
    wait_until(lambda: "new/" in all_keys(client, "bucket"), 30, "the folder at the remote")
    descriptor = os.open(mount / "new/file", os.O_RDWR)
    proxy.offline()
    os.ftruncate(descriptor, 7)
    os.fchmod(descriptor, 0o600)
    os.utime(mount / "new/file", (1, 1))
    os.close(descriptor)
    held.remove()
    proxy.online()
    instance.flush()
    found = client.get_object(Bucket="bucket", Key="new/file")
    assert found["Body"].read() == b"CONTENT" and found["Metadata"]["mode"] == str(0o100600)
    assert sorted(all_keys(client, "bucket")) == ["new/", "new/file"]


def test_a_folder_made_while_away_is_known_when_it_is_away_again(known, proxy, client, instance):
    """It was sent meanwhile, and never listed."""
    proxy.offline()
    time.sleep(1.1)
    os.mkdir(known / "made")
    write_file(known / "made/mine", b"content")
    proxy.online()
    instance.flush()
    proxy.offline()
    time.sleep(1.1)
    assert os.listdir(known / "made") == ["mine"]
    write_file(known / "made/more", b"content")
    os.rename(known / "made/mine", known / "made/yours")
    assert not os.path.lexists(known / "made/mine")
    client.put_object(Bucket="bucket", Key="made/theirs", Body=b"of others")
    proxy.online()
    instance.flush()
    wait_until(lambda: sorted(os.listdir(known / "made")) == ["more", "theirs", "yours"], 30, "all names")
