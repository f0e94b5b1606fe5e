# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Ten defects that were seen in other mounts of buckets, most of them in rclone mount 1.75.2 with `--vfs-cache-mode
full`, each in the scenario that shows it. Other tests look at the same promises in breadth; these are short.
"""

import contextlib
import errno
import glob
import os
import sqlite3

import pytest

from harness.disks import LoopDisk, SmallDisk, loop_disk_needs, needs_root
from harness.hostile_bucket import HostileBucket
from harness.processes import kill, wait_until
from harness.reboot import forget_boot
from harness.trees import all_keys, random_bytes, write_file

pytestmark = pytest.mark.limit(120)

MIB = 1 << 20


def content(client, key):
    with contextlib.suppress(client.exceptions.NoSuchKey):
        return client.get_object(Bucket="bucket", Key=key)["Body"].read()


def journal(instance):
    (path,) = glob.glob(os.path.join(instance.environment["MOORAGE_STATE_DIR"], "volumes", "*", "journal.sqlite"))
    return path


@pytest.mark.skipif(loop_disk_needs("ext4") is not None, reason=str(loop_disk_needs("ext4")))
def test_power_loss_takes_no_file_that_was_synced(server, proxy, make_instance, folder, stack, client, seed):
    """1. fsync of file and folder did nothing: after power loss 1,892 of 11,631 files were missing and 9,739 empty,
    and those were uploaded as empty objects."""
    instance = make_instance(proxy.url, "instance")
    disk = LoopDisk(folder, 256 << 20)
    stack.callback(disk.unmount)
    stack.callback(instance.abandon)
    disk.hold_state(instance)
    instance.configure(quiet_period="600s")
    mount = instance.mount("s3://bucket")
    root = os.open(mount.path, os.O_RDONLY)
    for number in range(50):
        write_file(mount / f"f{number}", random_bytes(seed + number, 3000), synchronize=True)
        os.fsync(root)
    disk.cut_power()
    kill(mount.pid)
    os.close(root)
    instance.abandon()
    disk.unmount()
    disk.mount()
    forget_boot(instance)
    instance.mount("s3://bucket", mount.path)
    instance.flush()
    for number in range(50):
        assert content(client, f"f{number}") == random_bytes(seed + number, 3000), number


@pytest.mark.parametrize("protocol", ["s3-multipart", "ietf-resumable"])
def test_a_killed_upload_sends_no_part_twice(instance, proxy, client, seed, protocol):
    """2. After SIGKILL at 101 of 168 MB everything that had been sent was sent again."""
    size = 40 * MIB
    instance.configure(upload_protocol=protocol, part_size="5M", parallel_parts=2)
    mount = instance.mount("s3://bucket")
    proxy.limit(up=12 * MIB)
    proxy.zero()
    data = random_bytes(seed, size)
    write_file(mount / "big", data)
    wait_until(lambda: proxy.body_bytes() >= 20 * MIB, 60, "half of the upload", 0.02)
    # It does not come to its end while it is looked at.
    proxy.limit(up=MIB)
    assert instance.in_flight(), "nothing was in flight: the test proves nothing"
    instance.kill_flusher()
    proxy.limit()
    instance.flush()
    assert content(client, "big") == data
    # The parts in flight, or what was in the sockets.
    assert proxy.body_bytes() <= size + 11 * MIB, f"{proxy.body_bytes() - size} bytes were sent again"


def test_one_reset_does_not_end_an_upload_for_good(instance, mount, proxy, client):
    """2. With immediate uploads a single reset was never followed by another attempt while mounted, and close() had
    told of no error."""
    instance.configure(quiet_period="0s", upload_protocol="put")
    reset = proxy.rule("cut-request", method="PUT", path="/bucket/f", after=3, how="rst")
    write_file(mount / "f", b"content")
    reset.wait()
    wait_until(lambda: content(client, "f") == b"content", 60, "another attempt")


@pytest.mark.parametrize("cache", ["10G", "0"])
def test_one_descriptor_reads_one_version(instance, client, cache):
    """3. One descriptor gave bytes of the old version and then of the one that had replaced it."""
    size = 48 * MIB
    client.put_object(Bucket="bucket", Key="f", Body=b"a" * size)
    mount = instance.mount("s3://bucket", None, f"cache_size={cache}")
    file = os.open(mount / "f", os.O_RDONLY)
    first = os.pread(file, 4096, 0)
    client.put_object(Bucket="bucket", Key="f", Body=b"b" * size)
    with pytest.raises(OSError) as caught:
        last = os.pread(file, 4096, size - 4096)
        assert last == b"a" * 4096, "a mixture of versions"
        raise OSError(errno.ESTALE, "whole in the cache: as good")
    assert first == b"a" * 4096 and caught.value.errno == errno.ESTALE
    os.close(file)


def test_an_edit_of_a_replaced_version_invents_none(instance, mount, client):
    """4. A file was opened, replaced at the remote, four bytes of it written and closed: the remote then had a version
    that nobody wrote, four bytes of one in the rest of the other, and neither of the two."""
    old, other = b"A" * (2 * MIB), b"B" * (2 * MIB)
    client.put_object(Bucket="bucket", Key="f.bin", Body=old)
    file = os.open(mount / "f.bin", os.O_RDWR)
    client.put_object(Bucket="bucket", Key="f.bin", Body=other)
    os.pwrite(file, b"mine", 100)
    os.close(file)
    instance.run("flush", "--timeout", "30", check=False)
    # Ours may need a base that is gone: then it waits for a person, and is not made up.
    wait_until(lambda: not instance.in_flight(), 30, "the end of what can be sent")
    mine = old[:100] + b"mine" + old[104:]
    found = {key: content(client, key) for key in all_keys(client, "bucket") if not key.startswith(".moorage-probe")}
    assert found.pop("f.bin") == other
    assert all(key.startswith("f (conflict ") and data == mine for key, data in found.items()), list(found)
    assert found or [upload["state"] for upload in instance.uploads()] == ["attention"]


def test_a_flipped_bit_in_data_that_waits_is_not_sent(instance, client, seed):
    """5. A bit that flipped in the cache file of a dirty file was uploaded without a word."""
    instance.configure(quiet_period="600s")
    mount = instance.mount("s3://bucket")
    write_file(mount / "f", random_bytes(seed, 100_000))
    (path,) = glob.glob(os.path.join(os.path.dirname(journal(instance)), "staging", "*"))

    def is_checked():
        with contextlib.closing(sqlite3.connect(f"file:{journal(instance)}?mode=ro", uri=True)) as rows:
            return rows.execute("SELECT count(*) FROM generation WHERE checksums = 1").fetchone()[0]

    wait_until(is_checked, 20, "the group sync")
    with open(path, "r+b") as file:
        file.seek(50_000)
        byte = file.read(1)[0]
        file.seek(50_000)
        file.write(bytes([byte ^ 0x10]))
    instance.run("flush", "--timeout", "30", check=False)
    assert [(upload["path"], upload["state"]) for upload in instance.uploads()] == [("f", "attention")]
    assert content(client, "f") is None


@pytest.mark.parametrize("what", ["journal.sqlite", "journal.sqlite-wal", "both"])
def test_metadata_without_content_does_not_take_the_data_along(instance, client, seed, what):
    """6. When the metadata of a dirty file was of length zero, which is what power loss leaves, the next start dropped
    the file and deleted its data."""
    instance.configure(quiet_period="600s")
    mount = instance.mount("s3://bucket")
    data = random_bytes(seed, 50_000)
    write_file(mount / "f", data, synchronize=True)
    path = journal(instance)
    kill(mount.pid)
    instance.abandon()
    for name in ("journal.sqlite", "journal.sqlite-wal"):
        if what in (name, "both"):
            os.truncate(os.path.join(os.path.dirname(path), name), 0)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path + "-shm")
    mount = mount.mount_again()
    if os.path.exists(mount / "f"):
        instance.flush()
        assert content(client, "f") == data
        return
    kept = glob.glob(os.path.join(os.path.dirname(path), "quarantine", "*"))
    assert any(os.path.isfile(file) and open(file, "rb").read() == data for file in kept), "the data is gone"


@pytest.mark.parametrize("zeros", ["whole", "beginning", "end", "none"])
def test_a_log_of_zeros_is_none(instance, client, seed, zeros):
    """The same with what power loss leaves as well: a log as long as before, in which there are zeros, or none.

    The rows know names that were taken for new files, so that one without a row might pass for waste.
    """
    instance.configure(quiet_period="600s")
    mount = instance.mount("s3://bucket")
    write_file(mount / "known", b"known", synchronize=True)
    path = journal(instance)
    with contextlib.closing(sqlite3.connect(path)) as rows:
        # A flusher that begins may be at the same.
        wait_until(lambda: rows.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0, 20, "a checkpoint")
    data = random_bytes(seed, 50_000)
    write_file(mount / "f", data, synchronize=True)
    kill(mount.pid)
    instance.abandon()
    size = os.path.getsize(path + "-wal")
    with open(path + "-wal", "r+b") as log:
        # Behind its header and its first frame.
        log.seek(4152 if zeros == "end" else 0)
        log.write(bytes({"whole": size, "beginning": min(size, 4096), "end": max(size - 4152, 0), "none": 0}[zeros]))
        log.truncate(0 if zeros == "none" else size)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path + "-shm")
    mount = mount.mount_again()
    assert open(mount / "known", "rb").read() == b"known"
    aside = os.path.join(os.path.dirname(path), "quarantine")
    told = [line for line in instance.run("doctor", check=False).stdout.splitlines() if f"set aside in {aside}" in line]
    assert [line.split()[0] for line in told] == (["note"] if os.listdir(aside) else []), told
    # The log of closed files may know it too.
    kept = [mount / "f", *glob.glob(os.path.join(os.path.dirname(path), "quarantine", "*"))]
    assert [open(file, "rb").read() for file in kept if os.path.isfile(file)] == [data], "the data is gone"


@needs_root
def test_a_full_cache_disk_stops_nobody(server, make_instance, proxy, client, folder, stack, seed):
    """7. With the cache's disk full reads failed with EIO, and so did creating files, which is not even ENOSPC."""
    data = random_bytes(seed, 12 * MIB)
    client.put_object(Bucket="bucket", Key="f", Body=data)
    instance = make_instance(proxy.url, "instance")
    disk = SmallDisk(os.path.join(folder, "small"), "6m")
    stack.callback(disk.unmount)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_CACHE_DIR"] = os.path.join(disk.path, "cache")
    mount = instance.mount("s3://bucket")
    with open(os.path.join(disk.path, "ballast"), "wb", buffering=0) as ballast, contextlib.suppress(OSError):
        while True:
            ballast.write(bytes(65_536))
    with open(mount / "f", "rb") as file:
        assert file.read() == data
    write_file(mount / "new", b"made while it was full", synchronize=True)
    instance.flush()
    assert content(client, "new") == b"made while it was full"


@pytest.mark.parametrize("where", ["local", "remote"])
def test_a_removed_file_that_is_open_is_read(instance, mount, client, where):
    """8. pread(2) on an open file whose name was removed failed with ENOENT."""
    if where == "remote":
        client.put_object(Bucket="bucket", Key="f", Body=b"content")
    else:
        instance.configure(quiet_period="600s")
        write_file(mount / "f", b"content")
    file = os.open(mount / "f", os.O_RDWR)
    # What is only at the remote goes there; what was read stays.
    assert os.pread(file, 7, 0) == b"content"
    os.unlink(mount / "f")
    assert not os.path.exists(mount / "f")
    assert os.pread(file, 3, 4) == b"ent"
    os.pwrite(file, b"C", 0)
    assert os.pread(file, 7, 0) == b"Content"
    os.close(file)
    instance.flush()
    assert content(client, "f") is None


def test_one_bad_key_does_not_fail_a_listing(make_instance, stack):
    """9. The kernel refuses a whole answer that has one name it does not take: one key with an empty part and the
    folder could not be listed."""
    bucket = HostileBucket({b"good": b"1", b"dir/good": b"2", b"dir//empty": b"3", b"dir/..": b"4", b"//": b"5", b"/": b"6"})
    stack.callback(bucket.stop)
    mount = make_instance(bucket.url).mount("s3://bucket", None, "ro")
    assert sorted(os.listdir(mount.path)) == ["dir", "good"] and os.listdir(mount / "dir") == ["good"]
    with open(mount / "dir/good", "rb") as file:
        assert file.read() == b"2"


def test_an_upload_that_the_next_mount_finishes_is_whole_and_can_be_removed(instance, mount, proxy, client):
    """10. An upload that was left over from an earlier mount read as empty until it was done, and removing the file
    said it had been, while the object stayed (rclone #9876)."""
    client.put_object(Bucket="bucket", Key="old", Body=b"of before")
    assert os.path.exists(mount / "old")
    proxy.offline()
    write_file(mount / "new", b"new content")
    write_file(mount / "old", b"newer content")
    wait_until(instance.flusher_pid, 30, "a flusher, which the mount has to start")
    instance.kill_flusher()
    mount.kill()
    mount = mount.mount_again()
    for name, data in {"new": b"new content", "old": b"newer content"}.items():
        with open(mount / name, "rb") as file:
            assert file.read() == data and os.path.getsize(mount / name) == len(data)
    os.unlink(mount / "old")
    proxy.online()
    instance.flush()
    assert content(client, "new") == b"new content" and content(client, "old") is None
    os.unlink(mount / "new")
    instance.flush()
    assert content(client, "new") is None


@pytest.mark.parametrize("options", ["ro", "rw"])
def test_a_listing_that_leaves_a_file_out_empties_none(make_instance, stack, options):
    """10. A listing that succeeded and was not complete, as right after a remount, counted as the deletion of a file
    that was in the cache: that was thrown away, and the next read found a file without bytes (rclone #9531)."""
    data = random_bytes(1, 300_000)
    bucket = HostileBucket({b"dir/f": data, b"dir/other": b"1"})
    stack.callback(bucket.stop)
    instance = make_instance(bucket.url)
    mount = instance.mount("s3://bucket", None, options)
    with open(mount / "dir/f", "rb") as file:
        assert file.read() == data
    mount.unmount()
    fetched = bucket.bodies
    mount = mount.mount_again()
    reader = os.open(mount / "dir/f", os.O_RDONLY)
    stack.callback(os.close, reader)
    bucket.unlisted.add(b"dir/f")
    instance.run("cache", "refresh", str(mount / "dir"))
    assert "other" in os.listdir(mount / "dir")
    assert os.pread(reader, len(data) + 1, 0) == data
    # It may be away for as long as the listing says so, but nothing else.
    with contextlib.suppress(FileNotFoundError), open(mount / "dir/f", "rb") as file:
        assert file.read() == data and os.path.getsize(mount / "dir/f") == len(data)
    bucket.unlisted.clear()
    instance.run("cache", "refresh", str(mount / "dir"))
    with open(mount / "dir/f", "rb") as file:
        assert file.read() == data
    assert bucket.bodies == fetched, "what was in the cache was fetched again"
