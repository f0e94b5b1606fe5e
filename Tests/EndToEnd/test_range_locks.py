# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Locks of ranges, of a process and of an open file description (fcntl(2)), with the local disk as the judge."""

import os

import pytest

from harness.peers import needs, with_peers
from harness.posix import volume, write

OPEN = os.O_CREAT | os.O_RDWR
needs_waits = pytest.mark.skipif(needs is not None, reason=str(needs))


@pytest.fixture(scope="module")
def posix(binary):
    with volume(binary) as made:
        yield made


@pytest.mark.parametrize("is_description", [False, True])
def test_ranges_split_grow_and_meet(posix, is_description):
    def ranges(one, two):
        write("file", b"0" * 100)
        options = {"is_description": is_description}
        file, other = one.open("file", OPEN), two.open("file", OPEN)

        def map_of_locks():
            """What stops the second process, byte by byte."""
            found = []
            for start in range(0, 60, 5):
                for kind in ("read", "write"):
                    held = two.holder(other, kind, start, 5, **options)
                    found.append(held if isinstance(held, str) else (*held[:3], {one.pid: "one", -1: "nobody's"}.get(held[3], held[3])))
            return found

        results = []
        for kind, start, length in (
            ("write", 10, 30), ("read", 20, 5), ("none", 30, 5), ("read", 0, 15), ("write", 15, 5), ("write", 50, 0), ("none", 0, 0),
        ):
            results.append((kind, start, one.lock(file, kind, start, length, **options)))
            results.append(map_of_locks())
        return results

    posix.compare(with_peers(2, ranges))


def test_ranges_that_are_free_and_taken(posix):
    def free_and_taken(one, two):
        write("file", b"0" * 100)
        file, other = one.open("file", OPEN), two.open("file", OPEN)
        results = [one.lock(file, "write", 10, 10), two.lock(other, "write", 0, 10), two.lock(other, "write", 20, 10)]
        results += [two.lock(other, kind, start, length) for kind in ("read", "write") for start, length in ((0, 11), (19, 1), (0, 0), (5, 100))]
        # A read lock becomes one for writing where nobody else reads.
        results += [one.lock(file, "read", 10, 10), two.lock(other, "read", 10, 10), one.lock(file, "write", 10, 10)]
        results += [two.lock(other, "none", 10, 10), one.lock(file, "write", 10, 10)]
        # Behind the end, and of a descriptor that does not allow it.
        results += [one.lock(file, "write", 1 << 40, 1), two.lock(other, "read", 1 << 40, 0)]
        reader, writer = one.open("file", os.O_RDONLY), one.open("file", os.O_WRONLY)
        results += [one.lock(reader, "write", 50, 1), one.lock(writer, "read", 50, 1), one.lock(reader, "read", 50, 1)]
        return results + [one.lock(file, "write", -1, 0), one.lock(file, "write", 200, -300)]

    posix.compare(with_peers(2, free_and_taken))


def test_any_close_of_the_process_frees_its_ranges(posix):
    def closes(one, two):
        write("file")
        file, other = one.open("file", OPEN), two.open("file", OPEN)
        results = [one.lock(file, "write"), two.lock(other, "write")]
        one.close(one.open("file", os.O_RDONLY))
        results += [two.lock(other, "write"), two.lock(other, "none")]
        # Not those of an open file description.
        results += [one.lock(file, "write", is_description=True), two.lock(other, "write", is_description=True)]
        one.close(one.open("file", os.O_RDONLY))
        one.close(one.dup(file))
        return results, two.lock(other, "write", is_description=True), two.lock(other, "write"), two.holder(other, "write")[:3]

    posix.compare(with_peers(2, closes))


@needs_waits
def test_a_circle_of_waits_is_found(posix):
    def circle(one, two):
        write("file")
        file, other = one.open("file", OPEN), two.open("file", OPEN)
        results = [one.lock(file, "write", 0, 1), two.lock(other, "write", 1, 1)]
        one.begin("lock", file, "write", 1, 1, wait=True)
        one.wait_in_a_lock()
        results.append(two.lock(other, "write", 0, 1, wait=True))
        results.append(two.lock(other, "none", 1, 1))
        return results, one.result()

    posix.compare(with_peers(2, circle))


def test_two_open_files_of_one_process(posix):
    def same_process(one):
        write("file")
        file, again = one.open("file", OPEN), one.open("file", OPEN)
        results = [one.lock(file, "write"), one.lock(again, "write"), one.lock(again, "none")]
        results += [one.lock(file, "write", is_description=True), one.lock(again, "write", is_description=True)]
        return results, one.holder(again, "write", is_description=True)

    posix.compare(with_peers(1, same_process))
