# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What a program writes past the kernel's memory of a file, asynchronously, is what others read once it is written."""

import ctypes
import mmap
import os
import threading

import pytest

from harness.trees import write_file

LENGTH = 640 << 10
ROUNDS = 200


class Request(ctypes.Structure):
    """A write of io_submit(2)."""

    _fields_ = [
        ("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("flags", ctypes.c_int32), ("operation", ctypes.c_uint16),
        ("priority", ctypes.c_int16), ("descriptor", ctypes.c_uint32), ("buffer", ctypes.c_uint64),
        ("length", ctypes.c_uint64), ("offset", ctypes.c_int64), ("reserved", ctypes.c_uint64 * 3),
    ]


class Event(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("object", ctypes.c_uint64), ("result", ctypes.c_int64), ("more", ctypes.c_int64)]


class AsynchronousWriter:
    """Direct writes by the kernel's asynchronous calls (io_setup(2), here by their numbers on x86-64 and arm64)."""

    SETUP, DESTROY, GET_EVENTS, SUBMIT = (206, 207, 208, 209) if os.uname().machine == "x86_64" else (0, 1, 4, 2)

    def __init__(self, path):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.descriptor = os.open(path, os.O_RDWR | os.O_DIRECT)
        self.context = ctypes.c_ulong(0)
        self.call(self.SETUP, 1, ctypes.byref(self.context))
        self.memory = mmap.mmap(-1, LENGTH)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def call(self, number, *arguments):
        result = self.libc.syscall(number, *arguments)
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        return result

    def begin(self, content):
        self.memory[:] = content
        self.request = Request(operation=1, descriptor=self.descriptor, buffer=self.address, length=LENGTH)
        pointers = (ctypes.c_void_p * 1)(ctypes.addressof(self.request))
        assert self.call(self.SUBMIT, self.context, 1, pointers) == 1

    def finish(self):
        event = Event()
        assert self.call(self.GET_EVENTS, self.context, 1, 1, ctypes.byref(event), None) == 1
        assert event.result == LENGTH

    def close(self):
        self.call(self.DESTROY, self.context)
        os.close(self.descriptor)


@pytest.mark.limit(120)
def test_asynchronous_direct_writes_leave_nothing_old_to_read(mount, stack):
    path = mount / "file"
    write_file(path, b"\0" * LENGTH)
    writer = AsynchronousWriter(path)
    stack.callback(writer.close)
    ended = threading.Event()

    def keep_reading():
        while not ended.is_set():
            with open(path, "rb", buffering=0) as file:
                os.pread(file.fileno(), LENGTH, 0)

    readers = [threading.Thread(target=keep_reading) for _ in range(2)]
    for reader in readers:
        reader.start()
    try:
        for number in range(1, ROUNDS + 1):
            content = bytes([number % 256]) * LENGTH
            writer.begin(content)
            writer.finish()
            with open(path, "rb", buffering=0) as file:
                assert os.pread(file.fileno(), LENGTH, 0) == content, f"old bytes after write {number}"
    finally:
        ended.set()
        for reader in readers:
            reader.join()
