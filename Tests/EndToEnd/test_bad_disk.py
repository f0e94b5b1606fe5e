# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The disk of the state folder fails to write for a while, as disks do: below the file system, whose answer to that it is.

What fsync acknowledged meanwhile, or before, is there when the machine starts again, and reaches the remote.
"""

import contextlib
import ctypes
import errno
import glob
import os
import random
import sqlite3
import time

import pytest

from harness.bad_disk import BadDisk, bad_disk_needs
from harness.power import Ledger
from harness.processes import wait_until
from harness.reboot import Machine, contents_of, is_reached, objects, read
from harness.settings import scaled
from harness.trees import random_bytes

KINDS = ("ext4", "xfs")
LIBC = ctypes.CDLL(None, use_errno=True)
pytestmark = [
    pytest.mark.limit(7200), pytest.mark.skipif(bad_disk_needs(*KINDS) is not None, reason=str(bad_disk_needs(*KINDS)))
]


@pytest.fixture
def bad_machine(folder, stack):
    def make(instance, **how):
        disk = BadDisk(folder, 512 << 20, **how)
        stack.callback(disk.end)
        return Machine(instance, disk, stack)

    return make


@pytest.mark.parametrize("rate, error", [(1.0, "EIO"), (0.05, "EIO"), (0.2, "ENOSPC")])
@pytest.mark.parametrize("kind", KINDS)
def test_what_fsync_acknowledged_outlives_a_disk_that_fails_to_write(
    kind, rate, error, proxy, make_instance, bad_machine, seed, client
):
    """`ENOSPC` is what a thin volume answers whose pool is full."""
    machine = bad_machine(make_instance(proxy.url, "instance"), kind=kind, rate=rate, error=error)
    instance, generator, ledger, known = machine.instance, random.Random(seed), Ledger(seed, closes=True), {}
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == []
    for _ in range(scaled(2)):
        if generator.random() < 0.5:
            proxy.offline()
        fail_while_written(machine.disk, mount, ledger, generator)
        mount = machine.start_again(mount)
        proxy.online()
        wait_until(lambda: is_reached(mount), 30, "the mount to reach the remote")
        contents = contents_of(mount)
        ledger.check(contents, "in the mount")
        ledger.settle(contents)
        consent(instance)
        instance.flush()
        ledger.check(objects(client, known), "at the remote")
        assert instance.conflicts() == 0
    assert machine.disk.errors() > 0, "nothing failed: the test proves nothing"
    print(f"{scaled(2)} times {kind}: {machine.disk.errors()} errors, {dict(ledger.figures)}")


def fail_while_written(disk, mount, ledger, generator):
    """The disk begins to fail while a program writes, and goes on to while others try."""
    def fail():
        disk.fail()
        time.sleep(generator.random() * 2)

    ledger.write_until_cut(mount.path, fail, generator.randrange(8, 150), generator.random() * 0.05)
    for _ in range(2):
        ledger.write_until_cut(mount.path, lambda: time.sleep(generator.random()), 0, 0)
    disk.heal()


def consent(instance):
    """What the disk failed to write waits for a person to look at it, who did."""
    instance.run("flush", "--timeout", "60", timeout=80, check=False)
    for upload in instance.uploads():
        assert upload["state"] == "attention" and "the disk failed to write it" in upload["error"], upload
        instance.run("uploads", "retry", upload["id"])


@pytest.mark.parametrize("kind", KINDS)
def test_what_cannot_be_read_for_a_while_is_not_taken_for_damaged(kind, proxy, make_instance, bad_machine, seed, client):
    """The machine starts, and its disk fails to read here and there: a mount is refused, or good; nothing is set aside."""
    machine = bad_machine(make_instance(proxy.url, "instance"), kind=kind, call="read", rate=0.2)
    instance = machine.instance
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == []
    proxy.offline()
    contents = {f"f{number:02}": random_bytes(seed + number, 1000 * number) for number in range(60)}
    for name, data in contents.items():
        write(mount / name, data)
    refusals = 0
    for number in range(scaled(100)):
        if refusals and number >= scaled(8):
            break
        machine.stop()
        machine.disk.fail()
        refusals += not comes_up(instance, mount)
        machine.disk.heal()
        assert quarantined(instance) == []
    assert refusals, "nothing failed: the test proves nothing"
    mount = machine.start_again(mount)
    assert quarantined(instance) == []
    assert contents_of(mount) == contents
    proxy.online()
    instance.flush()
    assert objects(client, {}) == contents and instance.conflicts() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_written_once_more_after_a_failure_is_there_after_a_boot(kind, proxy, make_instance, bad_machine, seed):
    """A write-back of the journal fails, and fsync promises anew.

    ext4 keeps as unwritten what it could not write, though the same pages are written later, and synced.
    """
    machine, mount, contents, _ = with_a_journal_that_failed(kind, proxy, make_instance, bad_machine, seed)
    contents |= write_until_promised(mount, seed)
    expect_after_a_boot(machine, mount, contents)


@pytest.mark.parametrize("kind", KINDS)
def test_what_memory_let_go_of_after_a_failure_takes_nothing_with_it(kind, proxy, make_instance, bad_machine, seed):
    """What a disk did not take is in memory alone, which keeps it no longer than anything else that it has read.

    Nobody was promised that; what was promised before is there after a boot, and what is promised then.
    """
    machine, mount, contents, journal = with_a_journal_that_failed(kind, proxy, make_instance, bad_machine, seed)
    for path in (journal, f"{journal}-wal"):
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        contents |= write_until_promised(mount, seed)
    except AssertionError as problem:
        print(problem)
    mount = expect_after_a_boot(machine, mount, contents)
    contents |= write_until_promised(mount, seed + 1)
    expect_after_a_boot(machine, mount, contents)


def with_a_journal_that_failed(kind, proxy, make_instance, bad_machine, seed):
    """A machine, its mount, what was synced there before a write-back of the journal failed, and the journal."""
    machine = bad_machine(make_instance(proxy.url, "instance"), kind=kind)
    mount = machine.instance.mount("s3://bucket")
    assert os.listdir(mount.path) == []
    proxy.offline()
    # Few enough for no checkpoint before: the journal grows by the one that fails.
    contents = {f"f{number:03}": random_bytes(seed + number, 100) for number in range(250)}
    for name, data in contents.items():
        write(mount / name, data)
    (journal,) = glob.glob(os.path.join(glob.escape(machine.disk.path), "state", "volumes", "*", "journal.sqlite"))
    for number in range(100):
        is_readable = True
        try:
            if fail_write_back_of(journal, machine.disk, lambda which: os.mkdir(mount / f"g{number}-{which}")):
                return machine, mount, contents, journal
        except (OSError, sqlite3.OperationalError):
            pass
        except sqlite3.DatabaseError:
            # Of an attempt before a part has failed, and memory has let go of it.
            is_readable = False
        machine.disk.heal()
        # Where it cannot be written to, the file system had something of its own to write.
        if not is_readable or not machine.disk.is_writable():
            mount = machine.start_again(mount)
    raise AssertionError("nothing failed: the test proves nothing")


def expect_after_a_boot(machine, mount, contents):
    """The machine starts again, and has these files; the mount."""
    mount = machine.start_again(mount)
    assert not [place for place in quarantined(machine.instance) if os.path.basename(place).startswith("journal")]
    assert {name: read(mount / name) for name in contents} == contents
    return mount


def fail_write_back_of(journal, disk, commit):
    """Makes the write-back of a part of the journal and of its log fail; whether both did, and nothing else.

    The mount may just have synced its log. A reader keeps a checkpoint from the end, so that it is not synced: the
    journal's own part of what may be lost.
    """
    with contextlib.closing(connect(journal)) as reader, contextlib.closing(connect(journal)) as other:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM node").fetchall()
        commit("a")
        _, frames, copied = other.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        if not 0 < copied < frames:
            return False
        commit("b")
        disk.fail()
        failures = [write_back(path) for path in (journal, f"{journal}-wal")]
        disk.heal()
    return failures == [errno.EIO] * 2 and disk.is_writable()


def connect(journal):
    return sqlite3.connect(journal, isolation_level=None)


def write_back(path):
    """Has the kernel write the dirty pages of a file, and nothing else of the file system; the error of it."""
    with open(path, "rb") as file:
        result = LIBC.sync_file_range(file.fileno(), ctypes.c_int64(0), ctypes.c_int64(0), 7)
        return ctypes.get_errno() if result else 0


def write_until_promised(mount, seed):
    """Writes files until one is synced."""
    for number in range(20):
        name, data = f"h{number}", random_bytes(seed - number, 100)
        try:
            write(mount / name, data)
            return {name: data}
        except OSError as problem:
            assert problem.errno == errno.EIO
    raise AssertionError("no fsync succeeds any more")


def write(path, data):
    with open(path, "wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())


def comes_up(instance, mount):
    """Whether a mount could be made; one that is refused says what it could not read."""
    words = ["mount", mount.remote, mount.path, "-o", ",".join([f"endpoint={instance.endpoint}", *mount.options])]
    result = instance.run(*words, check=False)
    assert result.returncode == 0 or "nput/output error" in result.stderr or "I/O error" in result.stderr, result.stderr
    return result.returncode == 0


def quarantined(instance):
    """What was set aside for a person."""
    return glob.glob(os.path.join(glob.escape(instance.environment["MOORAGE_STATE_DIR"]), "volumes", "*", "quarantine", "*"))
