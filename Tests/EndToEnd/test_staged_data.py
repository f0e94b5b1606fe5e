# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Data that waits to be sent and changes on the disk by itself is not sent as the user's.

A bit is flipped in a staging file, behind the back of mount and flusher, as a disk does it over the days.
"""

import contextlib
import glob
import os
import random
import sqlite3
import subprocess

import pytest

from harness.disks import LoopDisk, loop_disk_needs
from harness.processes import kill, wait_until
from harness.reboot import forget_boot
from harness.settings import scaled
from harness.trees import random_bytes, write_file

pytestmark = pytest.mark.limit(120)

MIB = 1 << 20


@pytest.fixture
def instance(make_instance, proxy):
    """One that sends nothing unless it is told to."""
    instance = make_instance(proxy.url, "instance")
    instance.configure(quiet_period="600s", part_size="5M")
    return instance


def rows(instance, query, *values):
    (path,) = glob.glob(os.path.join(instance.environment["MOORAGE_STATE_DIR"], "volumes", "*", "journal.sqlite"))
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
        return path, journal.execute(query, values).fetchall()


def staging(instance, name):
    """The file with the bytes of a file, once the journal has checksums of them."""
    query = "SELECT g.id, g.checksums FROM node n JOIN generation g ON g.id = n.generation WHERE n.name = ?"

    def look():
        path, found = rows(instance, query, name.encode())
        return found and found[0][1] == 1 and os.path.join(os.path.dirname(path), "staging", str(found[0][0]))

    return wait_until(look, 30, f"checksums of {name}")


def flip(path, offset, bit=0):
    with open(path, "r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))


def attention(instance):
    """Why uploads wait for a person, by path."""
    return {upload["path"]: upload["error"] for upload in instance.uploads() if upload["state"] == "attention"}


def flush(instance):
    """Sends what can be sent; the exit status of `flush`."""
    return instance.run("flush", "--timeout", "60", timeout=80, check=False).returncode


def content(client, key):
    with contextlib.suppress(client.exceptions.NoSuchKey):
        return client.get_object(Bucket="bucket", Key=key)["Body"].read()


def flipped(data, offset):
    return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1:]


@pytest.mark.parametrize("protocol", ["put", "s3-multipart", "ietf-resumable"])
def test_a_bit_that_flips_while_a_file_waits_is_not_sent(instance, client, protocol, seed):
    """The remote keeps what it had, others go on, and the error says which file, where, and what to do."""
    instance.configure(upload_protocol=protocol)
    client.put_object(Bucket="bucket", Key="big", Body=b"of before")
    big, small, sound = random_bytes(seed, 11 * MIB + 17), random_bytes(seed + 1, 700), random_bytes(seed + 2, 3 * MIB)
    mount = instance.mount("s3://bucket")
    for name, data in {"big": big, "small": small, "sound": sound}.items():
        write_file(mount / name, data)
    place = random.Random(seed).randrange(len(big))
    flip(staging(instance, "big"), place)
    flip(staging(instance, "small"), 699)
    staging(instance, "sound")
    assert flush(instance) != 0
    told = attention(instance)
    assert set(told) == {"big", "small"}
    assert f"bytes {place // MIB * MIB} to " in told["big"] and staging_name(instance, "big") in told["big"]
    assert "retry" in told["big"] and "copy the file again" in told["big"]
    assert content(client, "big") == b"of before" and content(client, "small") is None
    assert content(client, "sound") == sound
    # A person takes the one as it is, and does without the other.
    for upload in instance.uploads():
        instance.run("uploads", "retry" if upload["path"] == "big" else "cancel", upload["id"])
    instance.flush()
    assert content(client, "big") == flipped(big, place) and content(client, "small") is None
    # The kernel may go on with the name for a moment.
    wait_until(lambda: not os.path.exists(mount / "small"), 20, "the end of the file that was given up")
    # The kernel may still have the pages that were written.
    mount.unmount()
    with open(mount.mount_again() / "big", "rb") as file:
        assert file.read() == flipped(big, place)


def staging_name(instance, name):
    _, found = rows(instance, "SELECT generation FROM node WHERE name = ?", name.encode())
    return f"staging/{found[0][0]}"


def test_a_file_copied_again_is_sent(instance, client, seed):
    mount = instance.mount("s3://bucket")
    data = random_bytes(seed, 2 * MIB)
    write_file(mount / "f", data)
    flip(staging(instance, "f"), MIB)
    assert flush(instance) != 0 and set(attention(instance)) == {"f"}
    descriptor = os.open(mount / "f", os.O_RDWR)
    with pytest.raises(OSError):
        os.fsync(descriptor)
    os.close(descriptor)
    write_file(mount / "f", data, synchronize=True)
    instance.flush()
    assert content(client, "f") == data


def test_what_is_written_beside_a_flipped_bit_does_not_hide_it(instance, client, seed):
    """A file that is opened again keeps the checksums of what is not written over."""
    mount = instance.mount("s3://bucket")
    data = random_bytes(seed, 3 * MIB + 1000)
    for name, place in {"same block": 3 * MIB + 5, "other block": 5, "over": MIB + 7}.items():
        write_file(mount / name, data)
        flip(staging(instance, name), place)
        with open(mount / name, "r+b") as file:
            if name == "over":
                file.seek(MIB)
                file.write(data[MIB:2 * MIB])
            else:
                file.seek(0, os.SEEK_END)
                file.write(b"more")
    wait_until(lambda: not rows(instance, "SELECT 1 FROM generation WHERE is_synced = 0 AND doubt = 0")[1], 30, "the group sync")
    assert flush(instance) != 0
    assert set(attention(instance)) == {"same block", "other block"}
    assert content(client, "over") == data


def test_a_part_of_a_remote_file_is_checked_too(instance, client, seed):
    """What was written of it, what was fetched beside that, and holes."""
    old = random_bytes(seed, 6 * MIB)
    patch = random_bytes(seed + 1, 300_000)
    for name in ("sound", "patched", "hole"):
        client.put_object(Bucket="bucket", Key=name, Body=old)
    mount = instance.mount("s3://bucket")
    for name in ("sound", "patched", "hole"):
        descriptor = os.open(mount / name, os.O_RDWR)
        os.pwrite(descriptor, patch, 2 * MIB - 100_000)
        subprocess.run(["fallocate", "-p", "-o", str(4 * MIB), "-l", str(MIB), mount / name], check=True)
        os.close(descriptor)
    flip(staging(instance, "patched"), 2 * MIB + 10)
    flip(staging(instance, "hole"), 4 * MIB + 500_000)
    staging(instance, "sound")
    assert flush(instance) != 0
    assert set(attention(instance)) == {"patched", "hole"}
    new = bytearray(old)
    new[2 * MIB - 100_000:2 * MIB + 200_000] = patch
    new[4 * MIB:5 * MIB] = bytes(MIB)
    assert content(client, "sound") == bytes(new)
    assert content(client, "patched") == old and content(client, "hole") == old


def test_what_was_sent_is_read_from_the_cache(instance, server, proxy, seed):
    """The staging file becomes the cache's, be it sent in one request or by a resumable upload: nobody fetches it."""
    mount = instance.mount("s3://bucket")
    files = {"small": random_bytes(seed, 3 * MIB + 7), "large": random_bytes(seed + 1, 12 * MIB)}
    for name, data in files.items():
        write_file(mount / name, data)
    folder = os.path.dirname(staging(instance, "large"))
    instance.flush()
    assert os.listdir(folder) == []
    # The kernel has kept what was written.
    mount.unmount()
    mount = mount.mount_again()
    before = server.stats()["body_bytes_sent"].get("GET", 0)
    for name, data in files.items():
        with open(mount / name, "rb") as file:
            assert file.read() == data, name
    # Listings at most.
    assert server.stats()["body_bytes_sent"].get("GET", 0) - before < 64 << 10
    assert proxy.requests("GET object") == []


def test_rot_after_the_upload_is_not_read_from_the_cache(instance, client, proxy, seed):
    """The staging file becomes the cache's; what changed in it since it was sent does not."""
    instance.configure(upload_protocol="put")
    mount = instance.mount("s3://bucket")
    data = random_bytes(seed, 2 * MIB)
    write_file(mount / "f", data)
    path = staging(instance, "f")
    held = proxy.rule("hold-response", method="PUT", path="/bucket/f")
    flushing = subprocess.Popen([instance.binary, "flush"], env=instance.environment, stdout=subprocess.DEVNULL)
    held.wait()
    flip(path, 12345)
    held.release()
    assert flushing.wait(60) == 0
    # Who looked at the file before may still have the staged one.
    mount.unmount()
    with open(mount.mount_again() / "f", "rb") as file:
        assert file.read() == data
    assert content(client, "f") == data


def random_changes(path, generator, size):
    """Writes, cuts, holes and appends in any order."""
    for _ in range(12):
        place, count = generator.randrange(size), generator.choice([1, 500, 70_000, MIB, 2 * MIB])
        kind = generator.choice(["write", "write", "append", "cut", "extend", "punch", "zero"])
        with open(path, "r+b") as file:
            if kind == "write":
                file.seek(place)
                file.write(generator.randbytes(count))
            elif kind == "append":
                file.seek(0, os.SEEK_END)
                file.write(generator.randbytes(count))
            elif kind in ("cut", "extend"):
                file.truncate(place if kind == "cut" else size + count)
            elif kind in ("punch", "zero"):
                how = ["-p"] if kind == "punch" else ["-z", "-n"]
                subprocess.run(["fallocate", *how, "-o", str(place), "-l", str(count), path], check=True)


@pytest.mark.parametrize("dies", ["nobody", "mount", "flusher"])
def test_sound_data_is_never_held_back(instance, client, seed, dies):
    """Whatever was done to a file in whatever order, and whoever was killed, all of it is sent."""
    generator = random.Random(seed)
    names = [f"f{number}" for number in range(scaled(4))]
    for name in names[::2]:
        client.put_object(Bucket="bucket", Key=name, Body=generator.randbytes(5 * MIB))
    mount = instance.mount("s3://bucket")
    for name in names[1::2]:
        write_file(mount / name, generator.randbytes(3 * MIB))
    for _ in range(3):
        for name in names:
            random_changes(mount / name, generator, 4 * MIB)
        if generator.randrange(2):
            wait_until(lambda: not rows(instance, "SELECT 1 FROM generation WHERE is_synced = 0")[1], 30, "the group sync")
        if dies == "mount":
            with open(mount / names[0], "r+b") as file:
                file.write(generator.randbytes(100))
                file.flush()
                mount.kill()
                with contextlib.suppress(OSError):
                    file.close()
            mount = mount.mount_again()
        elif dies == "flusher" and instance.flusher_pid():
            instance.kill_flusher()
    wanted = {}
    for name in names:
        with open(mount / name, "rb") as file:
            wanted[name] = file.read()
    instance.flush()
    for name in names:
        assert content(client, name) == wanted[name], name


@pytest.mark.skipif(loop_disk_needs("ext4") is not None, reason=str(loop_disk_needs("ext4")))
def test_power_loss_after_a_file_was_opened_again_condemns_nothing(server, proxy, make_instance, folder, stack, client, seed):
    """Bytes written over others that have checksums reach the disk; what says that the file was opened again must too."""
    instance = make_instance(proxy.url, "instance")
    disk = LoopDisk(folder, 256 << 20)
    stack.callback(disk.unmount)
    stack.callback(instance.abandon)
    disk.hold_state(instance)
    instance.configure(quiet_period="600s")
    mount = instance.mount("s3://bucket")
    old, new = random_bytes(seed, 3 * MIB), random_bytes(seed + 1, 2 * MIB)
    write_file(mount / "f", old)
    write_file(mount / "g", old)
    paths = [staging(instance, "f"), staging(instance, "g")]
    opened = [os.open(mount / name, os.O_RDWR) for name in "fg"]
    os.pwrite(opened[0], new, 0)
    os.ftruncate(opened[1], MIB)
    for path in paths:
        descriptor = os.open(path, os.O_RDWR)
        os.fsync(descriptor)
        os.close(descriptor)
    disk.cut_power()
    kill(mount.pid)
    for descriptor in opened:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    instance.abandon()
    disk.unmount()
    disk.mount()
    forget_boot(instance)
    mount = mount.mount_again()
    instance.flush()
    assert content(client, "f") in (old, new + old[2 * MIB:]) and content(client, "g") == old[:MIB]


def test_a_huge_file_of_holes_costs_little(instance, client):
    """Checksums are taken of what is there, not of a tebibyte of nothing."""
    mount = instance.mount("s3://bucket")
    size = 1 << 40
    descriptor = os.open(mount / "huge", os.O_CREAT | os.O_RDWR)
    os.ftruncate(descriptor, size)
    subprocess.run(["fallocate", "-p", "-o", "0", "-l", str(size), mount / "huge"], check=True)
    os.pwrite(descriptor, b"end", size - 3)
    os.pwrite(descriptor, b"middle", size // 2)
    os.close(descriptor)
    path = staging(instance, "huge")
    (generation,) = [os.path.basename(path)]
    _, found = rows(instance, "SELECT sum(length(sums) + length(covered)) FROM checksum WHERE generation = ?", int(generation))
    assert found[0][0] < 200
    os.unlink(mount / "huge")
    instance.flush()
