# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""fsync is honest: the disk that holds the state loses everything that was not forced out."""

import contextlib
import hashlib
import os
import random
import time

import pytest

from harness.disks import LoopDisk, loop_disk_needs
from harness.power import Ledger
from harness.processes import kill, wait_until
from harness.reboot import Machine, contents_of, is_reached, objects, read, tags
from harness.settings import scaled
from harness.trees import random_bytes, sha256_of_object

KINDS = ("ext4", "xfs")
needs_a_disk = pytest.mark.skipif(loop_disk_needs(*KINDS) is not None, reason=str(loop_disk_needs(*KINDS)))


def expected(seed, number):
    return random_bytes(seed * 1000003 + number, 1000 + number * 997 % 60000)


def cut_machine(instance, folder, stack, kind):
    """A machine that loses its power."""
    return Machine(instance, LoopDisk(folder, 512 << 20, kind), stack)


@pytest.mark.limit(7200)
@needs_a_disk
@pytest.mark.parametrize("kind", KINDS)
def test_what_fsync_acknowledged_survives_power_loss(kind, proxy, make_instance, folder, stack, seed, client):
    """Cuts at random moments, with the network and without: what was not synced is whole, as before, or absent."""
    machine = cut_machine(make_instance(proxy.url, "instance"), folder, stack, kind)
    instance, generator, ledger, known = machine.instance, random.Random(seed), Ledger(seed), {}
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == []
    for _ in range(scaled(5)):
        if generator.random() < 0.5:
            proxy.offline()
        ledger.write_until_cut(mount.path, machine.disk.cut_power, generator.randrange(8, 150), generator.random() * 0.05)
        note_dirty(ledger, client)
        # Mounts without the network, too; what only the remote has comes with it.
        mount = machine.start_again(mount)
        proxy.online()
        wait_until(lambda: is_reached(mount), 30, "the mount to reach the remote")
        contents = contents_of(mount)
        ledger.check(contents, "in the mount")
        ledger.settle(contents)
        instance.flush()
        # Nothing of what was there arrives torn, and nothing is lost on the way.
        ledger.check(objects(client, known), "at the remote")
        assert instance.conflicts() == 0
    print(f"{scaled(5)} cuts of {kind}: {dict(ledger.figures)}")


def note_dirty(ledger, client):
    """Fails unless the cut took something that was acknowledged by fsync, and is not remote yet."""
    remote = tags(client)
    dirty = [name for name in ledger.synced if remote.get(name) != hashlib.md5(ledger.allowed[name][0]).hexdigest()]
    assert dirty, "nothing was dirty at the cut: the test proves nothing"
    ledger.figures["of them only here at the cut"] += len(dirty)


@pytest.mark.limit(120)
@needs_a_disk
def test_power_loss_after_an_upload_does_not_bring_older_content_back(server, proxy, make_instance, folder, stack, client):
    """The remote has the newer content, the answer to that was not seen, and the disk is as of some sync before."""
    machine = cut_machine(make_instance(proxy.url, "instance"), folder, stack, "ext4")
    instance = machine.instance
    instance.configure(quiet_period="0s")
    older, newer = b"older " * 1000, b"newer " * 2000
    mount = instance.mount("s3://bucket")
    file = os.open(mount / "f", os.O_CREAT | os.O_WRONLY)
    os.write(file, older)
    os.fsync(file)
    other = os.open(mount / "other", os.O_CREAT | os.O_WRONLY)
    # No group sync is due any more.
    time.sleep(1.5)
    lost = proxy.rule("hold-response", method="PUT", path="/bucket/f")
    os.pwrite(file, newer, 0)
    os.close(file)
    wait_until(lambda: content(client, "f") == newer, 30, "the upload")
    # The server has it a moment before the answer is on its way.
    wait_until(lambda: lost.matched() == 1, 10, "the answer to be held")
    # Makes the log durable, but no bytes of the file.
    os.write(other, b"x")
    os.fsync(other)
    machine.disk.cut_power()
    os.close(other)
    lost.remove()
    mount = machine.start_again(mount)
    instance.flush()
    assert content(client, "f") == newer and instance.conflicts() == 0
    with open(mount / "f", "rb") as file:
        assert file.read() == newer


@pytest.mark.limit(120)
@needs_a_disk
def test_power_loss_after_the_upload_of_a_patch_leaves_it_readable(proxy, make_instance, folder, stack, client):
    """The bytes between are those of the version that the upload replaced: they are nowhere else by then."""
    machine = cut_machine(make_instance(proxy.url, "instance"), folder, stack, "ext4")
    instance = machine.instance
    instance.configure(quiet_period="0s")
    old = random_bytes(1, 60_000)
    patched = old[:500] + b"patch" + old[505:]
    client.put_object(Bucket="bucket", Key="f", Body=old)
    mount = instance.mount("s3://bucket")
    lost = proxy.rule("hold-response", method="PUT", path="/bucket/f")
    file = os.open(mount / "f", os.O_RDWR)
    os.pwrite(file, b"patch", 500)
    os.fsync(file)
    os.close(file)
    wait_until(lambda: content(client, "f") == patched, 30, "the upload")
    wait_until(lambda: lost.matched() == 1, 10, "the answer to be held")
    machine.disk.cut_power()
    lost.remove()
    instance.abandon()
    instance.drop_cache()
    mount = machine.start_again(mount)
    instance.flush()
    assert content(client, "f") == patched and instance.conflicts() == 0
    assert read(mount / "f") == patched


def content(client, key):
    with contextlib.suppress(client.exceptions.NoSuchKey):
        return client.get_object(Bucket="bucket", Key=key)["Body"].read()


@pytest.mark.limit(120)
def test_what_close_acknowledged_survives_sigkill(server, proxy, instance, client, seed):
    """No power loss here: closed files survive the death of mount and flusher without any fsync."""
    mount = instance.mount("s3://bucket")
    instance.running_flusher()
    assert os.listdir(mount.path) == []
    proxy.offline()
    for number in range(100):
        with open(mount / f"f{number:03}", "wb") as file:
            file.write(expected(seed, number))
    assert instance.pending_files() >= 100
    instance.kill_flusher()
    mount.kill()
    mount = mount.mount_again()
    for number in range(100):
        with open(mount / f"f{number:03}", "rb") as file:
            assert file.read() == expected(seed, number)
    proxy.online()
    instance.flush()
    for number in range(100):
        assert client.get_object(Bucket="bucket", Key=f"f{number:03}")["Body"].read() == expected(seed, number)


def cut_by_another(path, file):
    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))
    return 0


CUTS = {
    "to nothing": lambda path, file: os.ftruncate(file, 0) or 0,
    "by another": cut_by_another,
    "to a part": lambda path, file: os.ftruncate(file, 1000) or 1000,
}


@pytest.mark.limit(120)
@pytest.mark.parametrize("cut", CUTS)
def test_what_was_written_after_a_cut_survives_sigkill(cut, proxy, instance, client, seed):
    """Only power loss brings back what was synced before: a kill leaves what became of it."""
    mount = instance.mount("s3://bucket")
    instance.running_flusher()
    assert os.listdir(mount.path) == []
    proxy.offline()
    contents, files = {}, []
    for number, count in enumerate((0, 10, 5000, 200_000)):
        before, written = expected(seed, number)[:5000].ljust(5000, b"-"), random_bytes(seed + number, count)
        path = mount / f"f{number}"
        files.append(os.open(path, os.O_CREAT | os.O_RDWR, 0o644))
        os.write(files[-1], before)
        os.fsync(files[-1])
        start = CUTS[cut](path, files[-1])
        os.pwrite(files[-1], written, start)
        contents[f"f{number}"] = before[:start] + written
    # Past the moment in which closes are gathered.
    time.sleep(1.2)
    instance.kill_flusher()
    kill(mount.pid)
    for file in files:
        with contextlib.suppress(OSError):
            os.close(file)
    instance.abandon()
    mount = mount.mount_again()
    assert contents_of(mount) == contents
    proxy.online()
    wait_until(lambda: is_reached(mount), 30, "the mount to reach the remote")
    instance.flush()
    assert objects(client, {}) == contents


@pytest.mark.limit(120)
def test_a_file_open_for_writing_at_the_kill_is_never_torn_at_the_remote(server, proxy, instance, client, seed):
    """A rewrite that was not closed does not replace the remote object by a part of itself."""
    old = random_bytes(seed, 3_000_000)
    client.put_object(Bucket="bucket", Key="f", Body=old)
    mount = instance.mount("s3://bucket")
    descriptor = os.open(mount / "f", os.O_RDWR)
    os.pwrite(descriptor, b"x" * 10_000, 500_000)
    # The kill leaves the descriptor dead: closing it may fail.
    kill(mount.pid)
    try:
        os.close(descriptor)
    except OSError:
        pass
    instance.abandon()
    mount = mount.mount_again()
    instance.flush()
    new = old[:500_000] + b"x" * 10_000 + old[510_000:]
    assert client.get_object(Bucket="bucket", Key="f")["Body"].read() in (old, new)
    assert sha256_of_object(client, "bucket", "f")
