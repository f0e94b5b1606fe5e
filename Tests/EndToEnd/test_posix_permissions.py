# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What who may do, as the manual pages and POSIX have it, with the local disk as the judge."""

import os
import stat

import pytest

from harness.posix import EXTRA_GROUP, OTHER, USER, as_user, attempt, attempt_open, look, make, volume, write

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be other users")
KINDS = ("file", "directory", "symlink", "fifo", "socket")


@pytest.fixture(scope="module")
def posix(binary):
    with volume(binary) as made:
        yield made


def told(call, *arguments):
    """Whether a call works, or its error; numbers of descriptors and the like count for nothing."""
    result = attempt(call, *arguments)
    return result if isinstance(result, str) and result.isupper() else "ok"


def folder_of(uid, mode, path="d"):
    os.mkdir(path)
    os.chown(path, uid, uid)
    os.chmod(path, mode)


# MARK: folders

@pytest.mark.parametrize("uid", (USER, OTHER))
@pytest.mark.parametrize("mode", (0o000, 0o111, 0o222, 0o333, 0o444, 0o555, 0o666, 0o777, 0o700, 0o077))
def test_permissions_of_a_folder(posix, uid, mode):
    def case():
        folder_of(USER, 0o777)
        write("d/file")
        os.chmod("d/file", 0o666)
        os.mkdir("d/sub")
        os.chmod("d/sub", 0o777)
        os.symlink("file", "d/link")
        os.mkdir("other")
        os.chmod("other", 0o777)
        os.chmod("d", mode)

        def act():
            return [
                told(call, *arguments) for call, *arguments in (
                    (os.listdir, "d"), (os.stat, "d/file"), (os.stat, "d/missing"), (os.readlink, "d/link"),
                    (os.chdir, "d/sub"), (os.chdir, "../.."), (attempt_open, "d/file", os.O_RDWR),
                    (os.mkdir, "d/new"), (os.mkfifo, "d/fifo"), (os.symlink, "a", "d/symlink"),
                    (os.mknod, "d/socket", stat.S_IFSOCK | 0o600), (attempt_open, "d/made", os.O_CREAT | os.O_WRONLY),
                    (os.rename, "d/file", "d/moved"), (os.rename, "d/sub", "other/sub"), (os.unlink, "d/link"),
                    (os.rmdir, "d/new"), (os.truncate, "d/moved", 1), (os.utime, "d/moved"), (os.chmod, "d/made", 0o600),
                    (os.rename, "other/sub", "d/back"), (os.chmod, "d", 0o700),
                )
            ]

        results = as_user(uid, act)
        os.chmod("d", 0o700)
        return results, sorted(os.listdir("d")), sorted(os.listdir("other")), [look(f"d/{name}")[0] for name in sorted(os.listdir("d"))]

    posix.compare(case)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sticky_folder_keeps_names_for_their_owners(posix, kind):
    def case():
        results = []
        for owner_of_folder in (USER, 0):
            for owner in (USER, OTHER, 0):
                for actor in (USER, OTHER):
                    folder_of(owner_of_folder, 0o1777, "s")
                    folder_of(actor, 0o777, "free")
                    for name in ("a", "b"):
                        make(kind, f"s/{name}")
                        os.lchown(f"s/{name}", owner, owner)
                    make(kind, "free/mine")
                    os.lchown("free/mine", actor, actor)
                    remove = os.rmdir if kind == "directory" else os.unlink
                    results.append((owner_of_folder, owner, actor, as_user(actor, lambda: [
                        told(remove, "s/a"), told(os.rename, "s/a", "s/c"), told(os.rename, "s/b", "free/b"),
                        told(os.rename, "free/mine", "s/b"),
                    ])))
                    clear("s")
                    clear("free")
        return results

    def clear(folder):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            (os.rmdir if stat.S_ISDIR(os.lstat(path).st_mode) else os.unlink)(path)
        os.rmdir(folder)

    posix.compare(case)


# MARK: files

@pytest.mark.parametrize("mode", (0o000, 0o400, 0o200, 0o040, 0o020, 0o004, 0o002, 0o644, 0o660, 0o111))
def test_permissions_of_a_file(posix, mode):
    def case():
        results = []
        for kind in ("file", "fifo"):
            make(kind, kind)
            os.chown(kind, USER, EXTRA_GROUP)
            os.chmod(kind, mode)
            for uid, groups in ((USER, ()), (OTHER, (EXTRA_GROUP,)), (OTHER, ())):
                flags = (os.O_RDONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC if kind == "file" else os.O_RDONLY)
                results.append((kind, uid, groups, as_user(uid, lambda: [
                    *(told(attempt_open, kind, flag | os.O_NONBLOCK) for flag in flags),
                    *(os.access(kind, wanted) for wanted in (os.R_OK, os.W_OK, os.X_OK)),
                ], groups)))
        return results

    posix.compare(case)


@pytest.mark.parametrize("kind", ("file", "directory", "fifo", "socket"))
def test_only_the_owner_changes_attributes(posix, kind):
    def case():
        make(kind, "x")
        os.chown("x", USER, USER)
        results = []
        for uid, groups in ((OTHER, ()), (OTHER, (USER,)), (USER, ()), (USER, (EXTRA_GROUP,))):
            for call in (
                lambda: os.chmod("x", 0o777), lambda: os.chmod("x", 0o2755), lambda: os.chown("x", uid, -1),
                lambda: os.chown("x", OTHER, -1), lambda: os.chown("x", -1, EXTRA_GROUP), lambda: os.chown("x", -1, -1),
                lambda: os.utime("x", (1, 1)), lambda: os.chmod("x", 0o640),
            ):
                results.append((uid, groups, as_user(uid, lambda: attempt(call), groups), look("x")))
        return results

    posix.compare(case)


def test_the_group_of_a_folder_is_inherited_where_it_says_so(posix):
    def case():
        results = []
        for mode in (0o777, 0o2777):
            name = f"d{mode}"
            folder_of(USER, mode, name)
            os.chown(name, USER, EXTRA_GROUP)
            os.chmod(name, mode)

            def act():
                for kind in KINDS:
                    make(kind, f"{name}/{kind}", 0o755)
                os.close(os.open(f"{name}/set-group", os.O_CREAT | os.O_WRONLY, 0o2775))
                os.mkdir(f"{name}/folder", 0o2775)

            as_user(OTHER, act)
            results += [(entry, look(os.path.join(name, entry))) for entry in sorted(os.listdir(name))]
        return results

    posix.compare(case)
