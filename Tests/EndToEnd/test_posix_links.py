# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Hard links, as link(2), rename(2) and unlink(2) have them, with the local disk as the judge."""

import os
import stat

import pytest

from harness.posix import EXTRA_GROUP, OTHER, USER, as_user, attempt, changed_times, exchange, look, make, volume, write

KINDS = ("file", "symlink", "fifo", "socket")


@pytest.fixture(scope="module")
def posix(binary):
    with volume(binary) as made:
        yield made


def link(source, target):
    os.link(source, target, follow_symlinks=False)


def same(*names):
    return len({os.lstat(name).st_ino for name in names}) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_one_file(posix, kind):
    def case():
        make(kind, "one")
        os.mkdir("d")
        results = [link("one", "two"), look("one"), look("two"), same("one", "two")]
        results += [link("two", "d/three"), look("one"), look("d/three"), same("one", "d/three")]
        os.chown("d/three", 65533, 65533, follow_symlinks=False)
        if kind != "symlink":
            os.chmod("two", 0o201)
        results += [look("one"), look("two"), look("d/three")]
        for name in ("one", "two", "d/three"):
            os.unlink(name)
            results.append([attempt(look, left) for left in ("one", "two", "d/three")])
        return results

    posix.compare(case)


@pytest.mark.parametrize("kind", KINDS)
def test_times_of_linking(posix, kind):
    def case():
        make(kind, "one")
        os.mkdir("d")
        return [
            changed_times(["one", "d", "."], lambda: link("one", "d/two")),
            changed_times(["one", "d/two", "d"], lambda: link("one", "two")),
            changed_times(["one", "two", "d"], lambda: os.unlink("d/two")),
            changed_times(["one", "."], lambda: attempt(link, "one", "two")),
            changed_times(["two", "."], lambda: os.unlink("one")),
        ]

    posix.compare(case)


def test_what_link_refuses(posix):
    def case():
        results = []
        for kind in (*KINDS, "directory"):
            make(kind, kind)
        write("taken")
        os.symlink("loop", "loop")
        for source in (*KINDS, "directory", "missing", "file/x", "loop/x", "n" * 256, ""):
            for target in ("taken", "missing/x", "file/x", "loop/x", "directory", "n" * 256, "n" * 255, "new/", ""):
                results.append((source[:9], target[:9], attempt(link, source, target)))
                if os.path.lexists("n" * 255):
                    os.unlink("n" * 255)
        return results, sorted(os.listdir("."))

    posix.compare(case)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs other users")
def test_who_may_link(posix):
    def case():
        results = []
        for mode in (0o755, 0o777, 0o555, 0o700, 0o1777):
            os.mkdir(f"d{mode}")
            os.chmod(f"d{mode}", mode)
            write(f"d{mode}/theirs")
            write(f"d{mode}/own")
            os.chown(f"d{mode}/own", USER, USER)

            def links(folder=f"d{mode}"):
                return [
                    attempt(link, f"{folder}/{source}", f"{folder}/{source}2") for source in ("own", "theirs")
                ] + [attempt(os.unlink, f"{folder}/own2")]

            results.append((mode, as_user(USER, links, [EXTRA_GROUP]), as_user(OTHER, links)))
        return results

    posix.compare(case)


def test_renames_among_names(posix):
    def case():
        write("one", b"1")
        write("other", b"other")
        os.mkdir("d")
        link("one", "two")
        link("one", "d/three")
        results = [os.rename("one", "two"), look("one"), look("two")]
        results += [os.rename("d/three", "four"), look("one"), same("one", "four")]
        results.append(changed_times(["two", "d", "."], lambda: os.rename("four", "d/five")))
        results += [os.rename("other", "one"), look("one"), look("two"), same("two", "d/five")]
        link("one", "six")
        results += [os.rename("two", "one"), look("one"), look("six"), look("d/five")]
        results += [exchange("one", "six"), look("one"), look("six"), same("six", "d/five")]
        results += [exchange("six", "d/five"), same("six", "d/five"), exchange("d", "six"), look("d"), look("six/five")]
        return results, sorted(os.listdir(".")), sorted(os.listdir("six"))

    posix.compare(case)


def test_an_open_file_keeps_its_names_apart(posix):
    def case():
        write("one", b"first")
        link("one", "two")
        results = []
        with open("one", "r+b") as file:
            os.unlink("one")
            results.append((os.fstat(file.fileno()).st_nlink, look("two")))
            file.write(b"FIRST and on")
            file.flush()
            results.append((open("two", "rb").read(), look("two")))
            make("file", "one")
            results.append((look("one"), same("one", "two")))
            os.unlink("two")
            results.append((os.fstat(file.fileno()).st_nlink, attempt(os.stat, "two")))
            file.seek(0)
            results.append(file.read())
        return results

    posix.compare(case)


def test_many_names(posix):
    def case():
        write("file")
        for number in range(300):
            link("file" if number % 2 else f"{number - 2}" if number else "file", f"{number}")
        results = [look("file"), look("299"), len(os.listdir("."))]
        results.append(stat.S_ISREG(os.stat("150").st_mode))
        for number in range(0, 300, 3):
            os.unlink(f"{number}")
        results += [look("file"), look("299"), os.unlink("file"), look("299"), same("298", "299")]
        return results

    posix.compare(case)
