# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Locks between the programs of a machine: flock(2), fcntl(2) and those of open file descriptions, with the local disk as the judge."""

import fcntl
import os
import signal
import sqlite3

import pytest

from harness.peers import Peer, holder, lock, needs, whole, with_peers
from harness.posix import volume, write

SHARED, EXCLUSIVE, FREE, AT_ONCE = fcntl.LOCK_SH, fcntl.LOCK_EX, fcntl.LOCK_UN, fcntl.LOCK_NB
OPEN = os.O_CREAT | os.O_RDWR
needs_waits = pytest.mark.skipif(needs is not None, reason=str(needs))


@pytest.fixture(scope="module")
def posix(binary):
    with volume(binary) as made:
        yield made


# MARK: flock

def test_whole_files_shared_and_exclusive(posix):
    def whole_files(one, two, three):
        write("file")
        files = [peer.open("file", OPEN) for peer in (one, two, three)]
        results = []
        for operations in (
            (SHARED, SHARED, EXCLUSIVE), (EXCLUSIVE, SHARED, EXCLUSIVE), (SHARED, EXCLUSIVE, SHARED), (FREE, EXCLUSIVE, SHARED),
        ):
            results.append([peer.whole(file, operation | AT_ONCE) for peer, file, operation in zip((one, two, three), files, operations)])
            results.append([peer.whole(file, FREE) for peer, file in zip((one, two, three), files)])
        return results

    posix.compare(with_peers(3, whole_files))


def test_a_whole_lock_that_becomes_another(posix):
    def upgrades(one, two):
        write("file")
        first, second = one.open("file", OPEN), two.open("file", os.O_RDONLY)
        results = [one.whole(first, SHARED), two.whole(second, SHARED)]
        # An upgrade that is refused takes the lock away.
        results += [one.whole(first, EXCLUSIVE | AT_ONCE), two.whole(second, EXCLUSIVE | AT_ONCE)]
        results += [one.whole(first, SHARED | AT_ONCE), two.whole(second, SHARED | AT_ONCE), one.whole(first, SHARED | AT_ONCE)]
        return results

    posix.compare(with_peers(2, upgrades))


def test_a_whole_lock_is_of_the_open_file(posix):
    def descriptions(one, two):
        write("file")
        file, again, other = one.open("file", OPEN), one.open("file", OPEN), two.open("file", OPEN)
        double = one.dup(file)
        results = [one.whole(file, EXCLUSIVE), one.whole(again, EXCLUSIVE | AT_ONCE), one.whole(double, EXCLUSIVE | AT_ONCE)]
        one.close(file)
        results.append(two.whole(other, EXCLUSIVE | AT_ONCE))
        one.close(double)
        results.append(two.whole(other, EXCLUSIVE | AT_ONCE))
        # Ranges are another kind of lock.
        return results, one.lock(again, "write"), two.lock(other, "write"), two.whole(other, 64)

    posix.compare(with_peers(2, descriptions))


@needs_waits
@pytest.mark.parametrize("release", ["unlock", "close", "kill"])
@pytest.mark.parametrize("kind", ["whole", "process", "description"])
def test_who_waits_gets_the_lock_when_it_is_free(posix, kind, release):
    def waiting(one, two):
        write("file")
        file, other = one.open("file", OPEN), two.open("file", OPEN)
        if kind == "whole":
            results = [one.whole(file, EXCLUSIVE)]
            two.begin("whole", other, EXCLUSIVE)
        else:
            options = {"is_description": kind == "description"}
            results = [one.lock(file, "write", **options)]
            two.begin("lock", other, "write", wait=True, **options)
        two.wait_in_a_lock()
        if release == "kill":
            one.kill()
        elif release == "close":
            one.close(file)
        else:
            results.append(one.whole(file, FREE) if kind == "whole" else one.lock(file, "none", **options))
        return results, two.result()

    posix.compare(with_peers(2, waiting))


@needs_waits
@pytest.mark.parametrize("kind", [None, "write"])
def test_a_signal_ends_a_wait_for_a_lock(posix, kind):
    def interrupted(one, two):
        write("file")
        file, other = one.open("file", OPEN), two.open("file", OPEN)
        results = [one.whole(file, EXCLUSIVE) if kind is None else one.lock(file, kind)]
        two.handle(signal.SIGUSR1, False)
        two.handle(signal.SIGUSR2, True)
        two.begin("wait_once", other, kind)
        two.wait_in_a_lock()
        two.signal(signal.SIGUSR1)
        results.append(two.result())
        # With a handler after which calls go on, it waits on.
        two.begin("wait_once", other, kind)
        two.wait_in_a_lock()
        two.signal(signal.SIGUSR2)
        results.append(one.whole(file, FREE) if kind is None else one.lock(file, "none"))
        return results, two.result()

    posix.compare(with_peers(2, interrupted))


@needs_waits
def test_who_is_killed_while_it_waits_leaves_nothing(posix):
    def killed(one, two, three):
        write("file")
        files = [peer.open("file", OPEN) for peer in (one, two, three)]
        one.whole(files[0], EXCLUSIVE)
        two.begin("whole", files[1], EXCLUSIVE)
        two.wait_in_a_lock()
        three.begin("whole", files[2], EXCLUSIVE)
        three.wait_in_a_lock()
        two.kill()
        one.whole(files[0], FREE)
        return three.result()

    posix.compare(with_peers(3, killed))


# MARK: names, sizes and programs

@pytest.mark.parametrize("kind", ["whole", "process", "description"])
def test_a_lock_stays_with_its_file_whatever_becomes_of_the_name(posix, kind):
    def names(one, two):
        def take(peer, file):
            if kind == "whole":
                return peer.whole(file, EXCLUSIVE | AT_ONCE)
            return peer.lock(file, "write", is_description=kind == "description")

        write("file", b"locked")
        file, old = one.open("file", OPEN), two.open("file", OPEN)
        results = [take(one, file)]
        os.rename("file", "moved")
        write("file", b"another")
        results += [take(two, two.open("file", OPEN)), take(two, two.open("moved", OPEN)), take(two, old)]
        os.truncate("moved", 0)
        results.append(take(two, old))
        os.rename("file", "moved")
        results += [take(two, old), one.write(file, b"gone", 0), two.read(old, 10, 0)]
        os.unlink("moved")
        write("moved", b"new")
        results += [take(two, old), take(two, two.open("moved", OPEN))]
        one.close(file)
        return results, take(two, old)

    posix.compare(with_peers(2, names))


def test_folders_and_fifos_can_be_locked_as_a_whole(posix):
    def others(one, two):
        os.mkdir("folder")
        os.mkfifo("fifo")
        results = []
        for name, flags in (("folder", os.O_RDONLY), ("fifo", os.O_RDWR)):
            file, other = one.open(name, flags), two.open(name, flags)
            results += [one.whole(file, EXCLUSIVE), two.whole(other, SHARED | AT_ONCE), one.whole(file, FREE), two.whole(other, SHARED | AT_ONCE)]
            results += [one.lock(file, "read"), two.lock(other, "write"), two.holder(other, "write")]
        return [result if isinstance(result, str) else result[:3] for result in results]

    posix.compare(with_peers(2, others))


def test_locks_protect_what_several_processes_count(posix):
    """Each of four processes adds to a number, 50 times, under a lock: none is lost."""
    def count():
        write("number", b"0")
        for kind in ("whole", "process", "description"):
            children = []
            for _ in range(4):
                child = os.fork()
                if child == 0:
                    os._exit(add(kind, 50))
                children.append(child)
            assert [os.waitpid(child, 0)[1] for child in children] == [0] * 4
        with open("number") as file:
            return file.read()

    posix.compare(count)


def add(kind, times):
    """Reads a number and writes the next one, under a lock."""
    try:
        for _ in range(times):
            file = os.open("number", os.O_RDWR)
            taken = whole(file, EXCLUSIVE) if kind == "whole" else lock(file, "write", wait=True, is_description=kind == "description")
            assert taken == "ok"
            os.pwrite(file, str(int(os.pread(file, 20, 0)) + 1).encode(), 0)
            os.close(file)
        return 0
    except BaseException:
        return 1


def test_databases_keep_each_other_out(posix):
    """Two connections of sqlite3 (fcntl(2) on bytes far behind the end), as two programs have them."""
    def database():
        one, two = (sqlite3.connect("base", timeout=0, isolation_level=None) for _ in range(2))
        one.execute("CREATE TABLE t (x)")
        one.execute("BEGIN IMMEDIATE")
        one.execute("INSERT INTO t VALUES (1)")
        results = [two.execute("SELECT count(*) FROM t").fetchone()]
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            two.execute("BEGIN IMMEDIATE")
        one.execute("COMMIT")
        two.execute("INSERT INTO t VALUES (2)")
        results += one.execute("SELECT x FROM t ORDER BY x").fetchall()
        one.close()
        two.close()
        return results

    posix.compare(database)


def test_a_lock_of_one_mount_is_none_of_another(binary, instance, make_instance, server):
    """Each mount is a file system of its own to the kernel, and the bucket has no locks."""
    other = make_instance(server.url, "other")
    one, two = instance.mount("s3://bucket"), other.mount("s3://bucket")
    write(one / "file")
    instance.flush()
    with open(one / "file", "rb") as file, open(two / "file", "rb") as same:
        assert whole(file.fileno(), EXCLUSIVE | AT_ONCE) == "ok"
        assert whole(same.fileno(), EXCLUSIVE | AT_ONCE) == "ok"
        with Peer() as peer:
            assert lock(file.fileno(), "read") == "ok"
            assert peer.lock(peer.open(one / "file", OPEN), "write") == "EAGAIN"
            assert peer.lock(peer.open(two / "file", OPEN), "write") == "ok"
            assert holder(same.fileno(), "read")[3] == peer.pid
