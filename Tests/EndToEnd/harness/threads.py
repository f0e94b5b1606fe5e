# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Stops one thread of a process, as a defect in it would, while the others go on (ptrace(2))."""

import contextlib
import ctypes
import os

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
# waitpid(2): threads of others too.
WALL = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


def thread_named(pid, name):
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm") as file:
            if file.read().strip() == name:
                return int(thread)
    raise AssertionError(f"{pid} has no thread {name}")


def trace(request, thread):
    if LIBC.ptrace(request, thread, None, None) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@contextlib.contextmanager
def stopped(pid, name):
    """One thread of a process stands still meanwhile; to be used by one thread of the test only."""
    thread = thread_named(pid, name)
    trace(SEIZE, thread)
    trace(INTERRUPT, thread)
    os.waitpid(thread, WALL)
    try:
        yield thread
    finally:
        trace(DETACH, thread)
