# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Modes, owners, sizes and times, as the manual pages and POSIX have it, with the local disk as the judge."""

import os
import stat
import time

import pytest

from harness.posix import (
    EXTRA_GROUP, OTHER, USER, as_user, attempt, attempt_open, changed_times, look, make, volume, write,
)
from harness.processes import run, shell, wait_until

KINDS = ("file", "directory", "fifo", "socket")
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
NOW, OMIT = (1 << 30) - 1, (1 << 30) - 2


@pytest.fixture(scope="module")
def posix(binary):
    with volume(binary) as made:
        yield made


# MARK: chmod

@pytest.mark.parametrize("kind", KINDS)
def test_every_bit_of_the_mode(posix, kind):
    def case():
        make(kind, "x")
        results = []
        for mode in (0o000, 0o421, 0o644, 0o777, 0o1000, 0o2755, 0o4755, 0o7777, 0o111):
            results.append((changed_times(["x"], lambda: attempt(os.chmod, "x", mode)), look("x")))
        return results

    posix.compare(case)


def test_errors_of_changing_attributes(posix):
    def case():
        write("file")
        os.symlink("loop", "loop")
        os.symlink("nowhere", "dangling")
        results = []
        for path in ("missing", "file/x", "missing/x", "loop", "dangling", "n" * 256, "p/" * 2048):
            for call in (
                lambda: os.chmod(path, 0o600), lambda: os.chown(path, 1, 1), lambda: os.truncate(path, 1),
                lambda: os.utime(path), lambda: os.lchown(path, os.geteuid(), -1), lambda: os.stat(path),
            ):
                results.append((path[:9], outcome(call)))
        return results

    def outcome(call):
        found = attempt(call)
        return found if isinstance(found, str) else "ok"

    posix.compare(case)


# MARK: chown

@as_root
@pytest.mark.parametrize("kind", (*KINDS, "symlink"))
def test_owners(posix, kind):
    def case():
        make(kind, "x")
        results = []
        for owner in ((USER, OTHER), (-1, USER), (0, -1), (-1, -1), (4_000_000_000, 4_000_000_001)):
            outcome = changed_times(["x"], lambda: attempt(os.lchown, "x", *owner))
            results.append((owner, outcome, look("x")))
        return results

    posix.compare(case)


@as_root
@pytest.mark.parametrize("kind", ("file", "directory", "fifo"))
def test_a_new_owner_takes_the_bits_that_lend_rights(posix, kind):
    def case():
        results = []
        for mode in (0o4755, 0o2755, 0o6755, 0o2745, 0o6644, 0o1777):
            for owner in ((USER, EXTRA_GROUP), (-1, -1), (-1, EXTRA_GROUP)):
                name = f"x{mode}{owner}"
                make(kind, name)
                os.chown(name, USER, USER)
                os.chmod(name, mode)
                results.append((mode, owner, as_user(USER, lambda: attempt(os.chown, name, *owner), [EXTRA_GROUP]), look(name)))
                os.chmod(name, mode)
                results.append((attempt(os.chown, name, *owner), look(name)))
        return results

    posix.compare(case)


@as_root
def test_writing_takes_the_bits_that_lend_rights(posix):
    def case():
        results = []
        ways = {
            "write": lambda: write_into("x", b"abc"), "empty": lambda: write_into("x", b""),
            "truncate": lambda: os.truncate("x", 1), "extend": lambda: os.truncate("x", 100),
            "cut": lambda: attempt_open("x", os.O_WRONLY | os.O_TRUNC), "touch": lambda: os.utime("x"),
        }
        for way, call in ways.items():
            for mode in (0o6777, 0o4777, 0o2777, 0o1777):
                for uid in (USER, 0):
                    write("x", b"before")
                    os.chmod("x", mode)
                    results.append((way, oct(mode), uid, as_user(uid, lambda: attempt(call)), look("x")))
                    os.unlink("x")
        return results

    posix.compare(case)


def write_into(path, text):
    descriptor = os.open(path, os.O_WRONLY)
    os.write(descriptor, text)
    os.close(descriptor)


# MARK: truncate

def test_lengths(posix):
    def case():
        write("x", b"0123456789")
        results = []
        for size in (4, 0, 70_000, 65_536, 1):
            results.append((size, changed_times(["x"], lambda: attempt(os.truncate, "x", size))[1:], look("x")))
        with open("x", "rb") as file:
            results.append(file.read())
        descriptor = os.open("x", os.O_RDWR)
        for size in (1, 3, 0):
            results.append((size, changed_times([descriptor], lambda: attempt(os.ftruncate, descriptor, size)), look("x")))
        os.close(descriptor)
        return results

    posix.compare(case)


def test_lengths_that_are_refused(posix):
    def case():
        write("file")
        for kind in ("directory", "fifo", "socket"):
            make(kind, kind)
        results = [attempt(os.truncate, path, 1) for path in ("directory", "fifo", "socket", "missing", "file/x")]
        results += [attempt(os.truncate, "file", -1)]
        descriptor = os.open("file", os.O_RDONLY)
        results += [attempt(os.ftruncate, descriptor, 1), attempt(os.ftruncate, descriptor, -1)]
        os.close(descriptor)
        return results, look("file")

    posix.compare(case)


# MARK: times

@pytest.mark.parametrize("kind", (*KINDS, "symlink"))
def test_times_that_are_set(posix, kind):
    def case():
        make(kind, "x")
        results = []
        for pair in (
            (0, 0), (1, 999_999_999), (-1_000_000_000, -1), (1 << 31) * 10**9 + 7, (1 << 32) * 10**9 + 123_456_789,
            (1_700_000_000_123_456_789, 1_600_000_000_987_654_321),
        ):
            pair = pair if isinstance(pair, tuple) else (pair, pair + 1)
            os.utime("x", ns=pair, follow_symlinks=False)
            found = os.lstat("x")
            results.append((found.st_atime_ns, found.st_mtime_ns, found.st_ctime_ns > 1_700_000_000 * 10**9))
        return results

    posix.compare(case)


def set_times(path, accessed, modified):
    """utimensat(2) with UTIME_NOW and UTIME_OMIT, by way of touch(1)'s options, for Python has none."""
    import ctypes

    class Time(ctypes.Structure):
        _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

    library = ctypes.CDLL(None, use_errno=True)
    times = (Time * 2)(Time(*accessed), Time(*modified))
    if library.utimensat(-100, path.encode(), times, 0) != 0:
        raise OSError(ctypes.get_errno(), path)


@pytest.mark.parametrize("kind", KINDS)
def test_one_time_at_a_time(posix, kind):
    def case():
        make(kind, "x")
        results = []
        base = 1_500_000_000
        os.utime("x", ns=(base * 10**9, base * 10**9))
        for accessed, modified in (
            ((base + 1, 5), (0, OMIT)), ((0, OMIT), (base + 2, 6)), ((0, NOW), (0, OMIT)), ((0, OMIT), (0, NOW)),
            ((0, OMIT), (0, OMIT)), ((0, NOW), (0, NOW)), ((base + 3, 0), (base + 4, 0)),
        ):
            before = time.time_ns()
            outcome = changed_times(["x"], lambda: attempt(set_times, "x", accessed, modified))
            found = os.lstat("x")
            results.append((outcome, [
                "now" if abs(value - before) < 60 * 10**9 else value for value in (found.st_atime_ns, found.st_mtime_ns)
            ]))
        return results

    posix.compare(case)


def test_changes_leave_the_time_of_access(posix):
    def case():
        write("file")
        os.mkdir("d")
        results = []
        for path, change in (
            ("file", lambda: append("file")), ("file", lambda: os.truncate("file", 3)), ("file", lambda: os.chmod("file", 0o600)),
            ("file", lambda: set_times("file", (0, OMIT), (5, 0))), ("d", lambda: write("d/x")), ("d", lambda: os.unlink("d/x")),
        ):
            before = os.stat(path).st_atime_ns
            time.sleep(0.015)
            change()
            results.append(os.stat(path).st_atime_ns == before)
        return results

    def append(path):
        with open(path, "ab") as file:
            file.write(b"more")

    posix.compare(case)


@as_root
def test_who_may_set_times(posix):
    def case():
        results = []
        for mode in (0o600, 0o644, 0o666):
            for uid in (USER, OTHER):
                write("x")
                os.chown("x", USER, USER)
                os.chmod("x", mode)
                for times in (((0, NOW), (0, NOW)), ((5, 5), (6, 6)), ((0, NOW), (0, OMIT)), ((0, OMIT), (0, OMIT))):
                    results.append((oct(mode), uid, times, as_user(uid, lambda: attempt(set_times, "x", *times))))
                os.unlink("x")
        return results

    posix.compare(case)


def test_writing_changes_both_times_and_reading_neither(posix):
    def case():
        write("x")
        os.utime("x", ns=(10**18, 10**18))
        descriptor = os.open("x", os.O_RDWR)
        results = [
            changed_times([descriptor], lambda: os.pread(descriptor, 3, 0)),
            changed_times([descriptor], lambda: os.pwrite(descriptor, b"abc", 0)),
            changed_times([descriptor], lambda: os.fsync(descriptor)),
        ]
        os.close(descriptor)
        results.append(changed_times(["x"], lambda: os.listdir(".")))
        return results

    posix.compare(case)


def test_reading_shows_in_the_time_of_access_once(posix):
    path = posix.mount / "read"
    write(path)

    def read():
        with open(path, "rb") as file:
            file.read()
        return os.stat(path)

    os.utime(path, (5, 10))
    first = read()
    assert (first.st_mtime, first.st_atime > 1_700_000_000) == (10, True)
    time.sleep(0.02)
    assert read().st_atime_ns == first.st_atime_ns


def test_times_are_those_of_the_last_change_after_a_folder_was_looked_at_again(posix):
    folder = posix.mount / "folder"
    os.mkdir(folder)
    os.utime(folder, (5, 5))
    write(os.path.join(folder, "x"))
    found = os.stat(folder)
    assert found.st_mtime > 1_700_000_000
    posix.instance.run("cache", "refresh", folder)
    posix.instance.flush()
    again = os.stat(folder)
    assert (again.st_mtime_ns, again.st_ctime_ns) == (found.st_mtime_ns, found.st_ctime_ns)


@as_root
def test_numbers_and_times_outlive_the_kernels_memory(posix):
    path = posix.mount / "remembered"
    write(path)
    os.utime(path, (5, 10))
    before = os.lstat(path)
    posix.instance.flush()
    with open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("2")
    after = os.lstat(path)
    assert (after.st_ino, after.st_atime, after.st_mtime, after.st_ctime_ns) == (before.st_ino, 5, 10, before.st_ctime_ns)


# MARK: what a status tells

@pytest.mark.parametrize("kind", (*KINDS, "symlink"))
def test_kinds_are_told_by_status_and_listing(posix, kind):
    def case():
        make(kind, "x")
        found = os.lstat("x")
        tests = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISFIFO, stat.S_ISSOCK, stat.S_ISLNK)
        listed = [(entry.name, entry.is_file(follow_symlinks=False), entry.is_dir(follow_symlinks=False), entry.is_symlink())
                  for entry in os.scandir(".")]
        return [test(found.st_mode) for test in tests], found.st_rdev, listed

    posix.compare(case)


# MARK: links

def test_a_folder_counts_those_in_it(instance, client):
    """find(1) looks at nothing more in a folder once it has met as many folders as there are links for."""
    for name in ("d/a/f", "d/b/f", "d/f"):
        client.put_object(Bucket="bucket", Key=name, Body=b"x")
    instance.configure(metadata_age="1h")
    mount = instance.mount("s3://bucket")

    def links(name):
        return os.stat(mount / name).st_nlink

    # Before it was listed the number was unknown, which the kernel may go on to tell for a second.
    assert os.path.exists(mount / "d/f")
    wait_until(lambda: links("d") == 4, what="the folders at the remote to be counted")
    for name in ("d/c", "e"):
        os.mkdir(mount / name)
    assert (links("d"), links("e")) == (5, 2)
    os.rename(mount / "d/c", mount / "e/c")
    assert (links("d"), links("e")) == (4, 3)
    os.rmdir(mount / "e/c")
    assert links("e") == 2
    client.put_object(Bucket="bucket", Key="d/z/f", Body=b"x")
    instance.run("cache", "refresh", mount / "d")
    assert shell(f"cd {mount / 'd'} && find . -type f | sort").stdout.split() == ["./a/f", "./b/f", "./f", "./z/f"]
    wait_until(lambda: links("d") == 5, what="the folder of somebody else to be counted")


def test_nothing_tells_when_a_file_was_born(posix):
    """statx(2) without STATX_BTIME: libfuse 3.14 has no operation in which a file system could tell it."""
    base = posix.mount / "born"
    os.mkdir(base)
    for kind in KINDS:
        path = os.path.join(base, kind)
        make(kind, path)
        assert run(["stat", "-c", "%w %W", path]).stdout.split() == ["-", "0"]
