# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Making, finding, moving and removing names, as the manual pages and POSIX have it, with the local disk as the judge."""

import os
import stat

import pytest

from harness.posix import attempt, attempt_open, changed_times, exchange, look, make, volume, write

KINDS = ("file", "directory", "symlink", "fifo", "socket")
LONGEST = "n" * 255


@pytest.fixture(scope="module")
def posix(binary):
    with volume(binary) as made:
        yield made


def remove(path):
    (os.rmdir if stat.S_ISDIR(os.lstat(path).st_mode) else os.unlink)(path)


# MARK: what holds for everything that makes a name

MAKERS = {
    "open": lambda path: os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666)),
    "mkdir": lambda path: os.mkdir(path, 0o777),
    "symlink": lambda path: os.symlink("text", path),
    "mkfifo": lambda path: os.mkfifo(path, 0o666),
    "mknod": lambda path: os.mknod(path, stat.S_IFREG | 0o666),
    "bind": lambda path: os.mknod(path, stat.S_IFSOCK | 0o666),
}


@pytest.mark.parametrize("maker", MAKERS)
def test_a_new_name(posix, maker):
    make_it = MAKERS[maker]

    def case():
        results = []
        for kind in KINDS:
            make(kind, kind)
            results.append((kind, attempt(make_it, kind)))
        os.mkdir("group")
        os.chown("group", -1, 0 if os.geteuid() else 65531)
        os.chmod("group", 0o2755)
        for path in (LONGEST, LONGEST + "n", "missing/x", "file/x", "new", "new/", "group/inherits"):
            results.append((len(path), attempt(make_it, path), attempt(look, path.rstrip("/"))))
        os.mkdir("d")
        results.append(changed_times(["d"], lambda: make_it("d/x")))
        results.append(sorted(os.listdir("d")))
        return results

    posix.compare(case)


@pytest.mark.parametrize("mask", (0o000, 0o022, 0o077, 0o777))
def test_the_umask_takes_bits(posix, mask):
    def case():
        os.umask(mask)
        results = []
        for kind in ("file", "directory", "fifo", "socket"):
            for mode in (0o000, 0o151, 0o644, 0o777, 0o1777):
                make(kind, f"{kind}{mode}", mode)
                results.append((kind, mode, look(f"{kind}{mode}")))
        return results

    posix.compare(case)


# MARK: open

def test_flags_of_open(posix):
    def case():
        make("fifo", "fifo")
        make("socket", "socket")
        os.mkdir("d")
        write("file")
        os.symlink("file", "link")
        os.symlink("loop", "loop")
        os.symlink("made", "dangling")
        results = []
        for path in ("fifo", "socket", "d", "file", "link", "loop", "missing", "file/", "d/"):
            for flags in (
                os.O_RDONLY | os.O_NONBLOCK, os.O_WRONLY | os.O_NONBLOCK, os.O_RDWR | os.O_NONBLOCK,
                os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, os.O_RDONLY | os.O_NONBLOCK | os.O_DIRECTORY, os.O_PATH,
                os.O_WRONLY | os.O_NONBLOCK | os.O_TRUNC, os.O_RDONLY | os.O_NONBLOCK | os.O_CREAT | os.O_EXCL,
            ):
                # A missing name that one of them makes is removed again.
                existed = os.path.lexists(path)
                results.append((path, flags, attempt_open(path, flags)))
                if not existed and os.path.lexists(path):
                    remove(path)
        results.append((attempt_open("dangling", os.O_CREAT | os.O_WRONLY), os.path.exists("made")))
        return results

    posix.compare(case)


def test_a_file_made_without_permissions_can_be_written_by_its_maker(posix):
    def case():
        descriptor = os.open("file", os.O_CREAT | os.O_RDWR, 0)
        os.write(descriptor, b"abc")
        found = os.pread(descriptor, 10, 0)
        os.close(descriptor)
        return found, look("file")

    posix.compare(case)


def test_times_of_opening(posix):
    def case():
        write("file")
        write("empty", b"")
        os.mkdir("d")
        create, cut = os.O_CREAT | os.O_WRONLY, os.O_WRONLY | os.O_TRUNC
        return [
            changed_times([".", "file"], lambda: attempt_open("file", create)),
            changed_times([".", "file"], lambda: attempt_open("file", cut)),
            changed_times([".", "empty"], lambda: attempt_open("empty", cut)),
            changed_times(["d"], lambda: attempt_open("d/new", create)),
        ]

    posix.compare(case)


# MARK: removing

@pytest.mark.parametrize("kind", KINDS)
def test_removing(posix, kind):
    def case():
        results = [attempt(os.unlink, "missing"), attempt(os.rmdir, "missing")]
        os.mkdir("d")
        for call in (os.unlink, os.rmdir):
            make(kind, "d/x")
            results.append(changed_times(["d"], lambda: attempt(call, "d/x")))
            if os.path.lexists("d/x"):
                results.append(look("d/x"))
                remove("d/x")
            results.append((attempt(os.lstat, "d/x"), os.listdir("d")))
        make(kind, "x")
        results += [attempt(os.unlink, "x/y"), attempt(os.rmdir, "x/y"), attempt(os.unlink, "x/"), attempt(os.rmdir, "x/")]
        return results

    posix.compare(case)


def test_folders_that_cannot_go(posix):
    def case():
        results = []
        for kind in KINDS:
            os.mkdir(kind)
            make(kind, f"{kind}/x")
            results.append((kind, attempt(os.rmdir, kind), os.listdir(kind)))
            remove(f"{kind}/x")
            results.append(attempt(os.rmdir, kind))
        os.mkdir("d")
        results += [attempt(os.rmdir, "d/."), attempt(os.rmdir, "d/.."), attempt(os.rmdir, "d/")]
        os.symlink("elsewhere", "link")
        os.mkdir("elsewhere")
        results += [attempt(os.rmdir, "link"), attempt(os.unlink, "link"), sorted(os.listdir("."))]
        return results

    posix.compare(case)


def test_a_removed_file_has_no_links_and_its_content(posix):
    def case():
        write("file", b"abc")
        descriptor = os.open("file", os.O_RDWR)
        try:
            return (
                changed_times([descriptor], lambda: os.unlink("file")), os.fstat(descriptor).st_nlink,
                os.pwrite(descriptor, b"d", 3), os.pread(descriptor, 10, 0), attempt(os.lstat, "file"),
            )
        finally:
            os.close(descriptor)

    posix.compare(case)


# MARK: rename

def put_in_place(kind, path):
    if kind == "missing":
        return
    if kind == "full":
        os.mkdir(path)
        write(f"{path}/x")
    else:
        make(kind, path)


@pytest.mark.parametrize("new", (*KINDS, "full", "missing"))
def test_moving_onto(posix, new):
    def case():
        results = []
        for old in (*KINDS, "full"):
            os.mkdir(old)
            os.mkdir(old + "-to")
            put_in_place(old, f"{old}/a")
            put_in_place(new, f"{old}-to/b")
            expected = look(f"{old}/a")
            outcome = changed_times([old, f"{old}-to"], lambda: attempt(os.rename, f"{old}/a", f"{old}-to/b"))
            results.append((old, new, outcome, os.listdir(old), os.listdir(old + "-to")))
            if outcome[0] == "ok":
                results.append(look(f"{old}-to/b") == expected)
        return results

    posix.compare(case)


@pytest.mark.parametrize("kind", (*KINDS, "full"))
def test_moving_changes_the_status(posix, kind):
    def case():
        put_in_place(kind, "a")
        before = os.lstat("a")
        _, _, backwards = changed_times(["a"], lambda: None)
        os.rename("a", "b")
        after = os.lstat("b")
        same = ("st_mode", "st_ino", "st_uid", "st_gid", "st_mtime_ns")
        return [getattr(before, name) == getattr(after, name) for name in same], backwards, \
            after.st_ctime_ns > before.st_ctime_ns, attempt(os.rename, "b", "b"), attempt(os.rename, "a", "c")

    posix.compare(case)


def test_moves_that_are_refused(posix):
    def case():
        os.makedirs("d/e")
        write("file")
        results = [
            attempt(os.rename, *names) for names in (
                ("d", "d/e/f"), ("d", "d/x"), ("file", "file/x"), ("file", "missing/x"), ("file/x", "y"), ("d/.", "y"),
                ("d/..", "y"), ("d", "d/."), ("file", "y/"), ("file", LONGEST + "n"), ("file", "d"), ("d", "file"),
                ("d/e", "d"),
            )
        ]
        return results, sorted(os.listdir(".")), os.listdir("d")

    posix.compare(case)


def test_a_replaced_file_that_is_open_has_no_links(posix):
    def case():
        results = []
        for kind in ("file", "symlink", "fifo", "socket"):
            write("old", b"old")
            make(kind, "new")
            descriptor = os.open("old", os.O_RDONLY)
            outcome = changed_times([descriptor], lambda: os.rename("new", "old"))
            results.append((outcome, os.fstat(descriptor).st_nlink, os.pread(descriptor, 9, 0), look("old")))
            os.close(descriptor)
            os.unlink("old")
        return results

    posix.compare(case)


@pytest.mark.parametrize("kind", (*KINDS, "full"))
def test_exchanging_names(posix, kind):
    def case():
        results = []
        for other in (*KINDS, "full"):
            for folder, what in ((f"{other}-a", kind), (f"{other}-b", other)):
                os.mkdir(folder)
                put_in_place(what, f"{folder}/x")
            before = [look(f"{other}-{side}/x") for side in "ab"]
            files = [os.open(f"{other}-{side}/x", os.O_PATH | os.O_NOFOLLOW) for side in "ab"]
            outcome = changed_times(
                [f"{other}-a", f"{other}-b", *files], lambda: attempt(exchange, f"{other}-a/x", f"{other}-b/x")
            )
            after = [look(f"{other}-{side}/x") for side in "ba"]
            results.append((kind, other, outcome, before == after, after))
            for file in files:
                os.close(file)
        return results

    posix.compare(case)


def test_exchanges_that_are_refused(posix):
    def case():
        os.makedirs("d/e")
        write("file")
        results = [
            changed_times(["."], lambda names=names: attempt(exchange, *names)) for names in (
                ("file", "missing"), ("missing", "file"), ("d", "d/e"), ("d/e", "d"), ("file", "file"), ("d", "d"),
                ("file", LONGEST + "n"), ("file", "file/x"),
            )
        ]
        return results, sorted(os.listdir(".")), os.listdir("d")

    posix.compare(case)


# MARK: symbolic links

def test_texts_of_links(posix):
    def case():
        results = []
        for text in ("a", "..", "/", "a//b/", "ü\n\\", "t" * 4095, "t" * 4096, ""):
            results.append((len(text), attempt(os.symlink, text, "link")))
            if os.path.lexists("link"):
                results.append((os.readlink("link") == text, look("link")))
                os.unlink("link")
        write("file")
        return results, attempt(os.readlink, "file"), attempt(os.readlink, "missing")

    posix.compare(case)


def test_following_links(posix):
    def case():
        os.mkdir("d")
        write("d/file", b"abc")
        os.symlink("d", "folder")
        os.symlink("folder/file", "chain")
        os.symlink("two", "one")
        os.symlink("one", "two")
        os.symlink("d/file/", "slash")
        results = [attempt(look, path) for path in ("folder/file", "chain", "one", "one/x", "slash")]
        results += [attempt(lambda path=path: os.stat(path).st_size) for path in ("chain", "one", "slash")]
        os.chmod("chain", 0o640)
        os.truncate("chain", 1)
        return results, look("d/file"), look("chain"), attempt(os.listdir, "folder"), attempt(os.unlink, "folder/file")

    posix.compare(case)
