# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The operations of harness.model_operations as system calls on a mount."""

import contextlib
import ctypes
import mmap
import os

from .model import piece

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_longlong, ctypes.c_longlong]
LIBC.renameat2.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
AT_FDCWD = -100


def checked(result):
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class Calls:
    """What is done to the mount at `root`; open files are known by their slots."""

    def __init__(self, root):
        self.root = root
        self.descriptors = {}

    def path(self, name):
        return f"{self.root}/{name}" if name else self.root

    # MARK: open files

    def open(self, slot, path, flags, mode):
        self.descriptors[slot] = os.open(self.path(path), flags | os.O_NOFOLLOW, mode)

    def close(self, slot):
        os.close(self.descriptors.pop(slot))

    def close_all(self):
        """Closes what is left of a mount that may be dead."""
        for descriptor in self.descriptors.values():
            with contextlib.suppress(OSError):
                os.close(descriptor)
        self.descriptors = {}

    def write(self, slot, offset, start, length):
        return os.pwrite(self.descriptors[slot], piece(start, length), offset)

    def read(self, slot, offset, length):
        return os.pread(self.descriptors[slot], length, offset)

    def read_on(self, slot, offset, length):
        """Reads to the end of the range or of the file.

        Where bytes cannot be had read(2) returns those before them, and the error when it is called for them.
        """
        parts = []
        while length > 0 and (part := self.read(slot, offset, length)):
            parts.append(part)
            offset, length = offset + len(part), length - len(part)
        return b"".join(parts)

    def ftruncate(self, slot, size):
        os.ftruncate(self.descriptors[slot], size)

    def fallocate(self, slot, mode, offset, length):
        checked(LIBC.fallocate(self.descriptors[slot], mode, offset, length))

    def copy(self, source, target, length, offset_in, offset_out):
        return os.copy_file_range(self.descriptors[source], self.descriptors[target], length, offset_in, offset_out)

    def seek(self, slot, offset, whence):
        return os.lseek(self.descriptors[slot], offset, whence)

    def map(self, slot, offset, start, length, synced):
        """Returns what the mapping showed before.

        What cannot be read is an error of read(2) first, of whichever byte: in the mapping it would be a SIGBUS.
        """
        descriptor = self.descriptors[slot]
        size = os.fstat(descriptor).st_size
        self.read_on(slot, 0, size)
        with mmap.mmap(descriptor, size) as memory:
            before = memory[:]
            memory[offset:offset + length] = piece(start, length)
            if synced:
                memory.flush()
        return before

    def fsync(self, slot, only_data):
        (os.fdatasync if only_data else os.fsync)(self.descriptors[slot])

    def fstat(self, slot):
        return os.fstat(self.descriptors[slot])

    # MARK: names

    def mkdir(self, path, mode):
        os.mkdir(self.path(path), mode)

    def mkfifo(self, path, mode):
        os.mkfifo(self.path(path), mode)

    def symlink(self, path, target):
        os.symlink(target, self.path(path))

    def readlink(self, path):
        return os.readlink(self.path(path))

    def unlink(self, path):
        os.unlink(self.path(path))

    def rmdir(self, path):
        os.rmdir(self.path(path))

    def link(self, old, new):
        os.link(self.path(old), self.path(new), follow_symlinks=False)

    def rename(self, old, new, flags):
        checked(LIBC.renameat2(AT_FDCWD, self.path(old).encode(), AT_FDCWD, self.path(new).encode(), flags))

    def truncate(self, path, size):
        os.truncate(self.path(path), size)

    def chmod(self, path, mode):
        os.chmod(self.path(path), mode)

    def chown(self, path, user, group):
        os.chown(self.path(path), user, group, follow_symlinks=False)

    def utime(self, path, time):
        os.utime(self.path(path), ns=(time, time), follow_symlinks=False)

    def stat(self, path):
        return os.lstat(self.path(path))

    def listing(self, path):
        return os.listdir(self.path(path))

    def whole(self, path):
        """A file's bytes."""
        descriptor = os.open(self.path(path), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            parts = []
            while part := os.read(descriptor, 1 << 20):
                parts.append(part)
            return b"".join(parts)
        finally:
            os.close(descriptor)
