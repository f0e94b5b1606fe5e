# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Reading a folder while names in it change, with the local disk as the judge."""

import ctypes
import os
import struct

import pytest

from harness.posix import volume, write

COUNT = 200
libc = ctypes.CDLL(None, use_errno=True)
GETDENTS64 = 217


@pytest.fixture(scope="module")
def posix(binary):
    with volume(binary) as made:
        yield made


def some_names(folder):
    """The next names of an open folder, a few only (getdents64(2))."""
    buffer = ctypes.create_string_buffer(200)
    count = libc.syscall(GETDENTS64, folder, buffer, len(buffer))
    if count < 0:
        raise OSError(ctypes.get_errno(), "getdents64")
    place, names = 0, []
    while place < count:
        length, = struct.unpack_from("=H", buffer, place + 16)
        names.append(buffer.raw[place + 19:place + length].split(b"\0")[0].decode())
        place += length
    return names


@pytest.mark.parametrize("looks", [True, False], ids=["with-attributes", "names-alone"])
def test_what_is_removed_is_given_no_more(posix, looks):
    def case():
        names = {f"file-{number:03}" for number in range(COUNT)}
        for name in names:
            write(name, b"")
        folder = os.open(".", os.O_RDONLY)
        try:
            given = some_names(folder)
            for name in given if looks else []:
                os.stat(name)
            removed = sorted(names - set(given))[::3]
            for name in removed:
                os.unlink(name)
            while more := some_names(folder):
                given += more
        finally:
            os.close(folder)
        assert sorted(given) == sorted(names - set(removed) | {".", ".."})
        return len(given) > len(removed)

    posix.compare(case)
