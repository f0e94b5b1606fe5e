# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A file that other processes look at all the time keeps what its writer made of it."""

import contextlib
import os
import random
import signal
import time

import pytest

from harness.trees import write_file

MIB = 1 << 20


def look_for_ever(folder, name):
    """Looks up, lists and reads a file; never returns."""
    while True:
        with contextlib.suppress(OSError):
            os.stat(os.path.join(folder, name))
            with os.scandir(folder) as entries:
                for entry in entries:
                    entry.stat()
            with open(os.path.join(folder, name), "rb") as file:
                file.read(10)


@pytest.fixture
def lookers(mount, stack):
    """Two processes that look at `f`."""
    for _ in range(2):
        pid = os.fork()
        if pid == 0:
            look_for_ever(mount.path, "f")
        stack.callback(os.waitpid, pid, 0)
        stack.callback(os.kill, pid, signal.SIGKILL)


def test_a_file_cut_and_rewritten_while_it_is_looked_at(instance, mount, client, lookers, seed):
    """An answer made of an older reading of the journal must not take the place of what was closed since."""
    chance = random.Random(seed)
    write_file(mount / "f", b"x" * MIB)
    end = time.monotonic() + 5
    rounds = 0
    while time.monotonic() < end:
        rounds += 1
        size = chance.randrange(1, MIB)
        if rounds % 3 == 0:
            os.truncate(mount / "f", size)
        else:
            content = bytes([rounds % 256]) * size
            write_file(mount / "f", content)
        assert os.stat(mount / "f").st_size == size, f"round {rounds}"
        with open(mount / "f", "rb") as file:
            read = file.read()
        assert read == content[:size] + bytes(size - len(content[:size])), f"round {rounds}"
        content = read
    print(f"{rounds} rounds")
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="f")["Body"].read() == content
    assert instance.conflicts() == 0
