# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A file system in memory: what each operation on a mount has to answer, and what SIGKILL may leave.

Each operation is a method that returns what to expect: ``SKIP`` (there is nothing to do it on), a set of error numbers,
one of which it is, or a function that takes the result, checks it and only then changes the model. So an operation that
fails for a reason of its own, such as a network that is away, leaves the model as it was.
"""

import errno
import os
import random
import stat
import time

SKIP = "skip"
# All data comes from here and has no zero in it, so that a zero is known for a hole.
POOL = random.Random(7).randbytes(1 << 20).replace(b"\0", b"\1")
NOREPLACE, EXCHANGE = 1, 2
KEEP_SIZE, PUNCH_HOLE, ZERO_RANGE = 1, 2, 16
# The clock that files get is read in coarser steps than ours.
CLOCK_STEP = 20_000_000


def piece(start, length):
    """The bytes that an operation writes."""
    start %= len(POOL) - length
    return POOL[start:start + length]


class Mismatch(AssertionError):
    """Mount and model do not agree."""


def require(condition, *words):
    if not condition:
        raise Mismatch(" ".join(str(word) for word in words))


class Node:
    """Anything that has a name, or had one."""

    def __init__(self, kind, mode):
        self.kind = kind
        self.mode = mode
        self.owner = (os.geteuid(), os.getegid())
        self.links = 1
        self.target = None


class Folder(Node):
    def __init__(self, mode):
        super().__init__(stat.S_IFDIR, mode)
        self.names = {}


class File(Node):
    """A file, with what SIGKILL of the mount may make of it.

    ``acknowledged`` is the content as close() or fsync() last acknowledged it, None while nothing was changed since;
    ``edits`` are the ranges changed since then, as (lower, upper, bytes or None for zeros), and ``sizes`` its lengths.
    """

    def __init__(self, mode, data=b""):
        super().__init__(stat.S_IFREG, mode)
        self.data = bytearray(data)
        # The earliest and the latest it may be; the latest is None while that is not known.
        self.mtime = (0, None)
        self.acknowledged = None
        self.edits = []
        self.sizes = set()
        self.mapped = []
        # Made for writing since the mount began and neither closed nor synced: all that was written is kept.
        self.is_new = False
        # In monotonic seconds, of a new one.
        self.made_at = None
        # Bytes of it may be at the remote alone.
        self.is_remote = False

    def edit(self, lower, upper, data=None, mapped=False):
        """Notes a change of a range, before it is made."""
        if self.acknowledged is None:
            self.acknowledged = bytes(self.data)
            self.sizes = {len(self.data)}
        self.edits.append((lower, upper, data))
        if mapped:
            self.mapped.append((lower, upper, bytes(self.data[lower:upper])))

    def write(self, offset, data):
        self.edit(offset, offset + len(data), data)
        self._reach(offset)
        self.data[offset:offset + len(data)] = data
        self.sizes.add(len(self.data))

    def zero(self, lower, upper):
        if lower < upper:
            self.edit(lower, upper)
            self._reach(upper)
            self.data[lower:upper] = bytes(upper - lower)
            self.sizes.add(len(self.data))

    def cut(self, size):
        self.edit(min(size, len(self.data)), 1 << 62)
        if size == 0:
            self.is_remote = False
        del self.data[size:]
        self._reach(size)
        self.sizes.add(size)

    def _reach(self, size):
        if len(self.data) < size:
            self.data.extend(bytes(size - len(self.data)))

    def acknowledge(self):
        """What it holds now survives SIGKILL."""
        self.acknowledged = None
        self.is_new = False
        self.edits, self.sizes = [], set()
        if self.mapped:
            # It may have been given a time to come, and not be changed after that.
            self.mtime = (self.mtime[0], max(self.mtime[0], time.time_ns() + CLOCK_STEP))
            self.mapped = []

    def touch(self, since):
        """It was changed since a time."""
        now = time.time_ns() + CLOCK_STEP
        self.mtime = (since - CLOCK_STEP, None if self.mapped else now)

    # MARK: after SIGKILL

    def check_after_kill(self, found):
        """Checks bytes that recovery left, and takes them over.

        Of a file that was neither closed nor synced since it was made, all that write(2) took is there. Of others each
        byte is one that was there at the last close or fsync or was written since, and so is the length. What went
        through a mapping and was not synced may be there or not.
        """
        if self.acknowledged is not None:
            if self.is_new:
                require(len(found) == len(self.data), "a new file has", len(found), "bytes and not", len(self.data))
                self._check_bytes(found, [], self.mapped)
            else:
                sizes = self.sizes | {len(self.acknowledged)}
                require(len(found) in sizes, "after the kill it has", len(found), "bytes; it had", sorted(sizes))
                self._check_bytes(found, [self.acknowledged], self.edits)
        elif found != self.data:
            # By another of its names it was looked at before.
            raise Mismatch(f"after the kill {difference(found, self.data)}")
        self.data = bytearray(found)
        self.acknowledge()
        # The time of a change that was lost, or of one before it.
        self.mtime = (0, None)

    def _check_bytes(self, found, others, edits):
        wrong = [place for place in places_of_difference(found, self.data)
                 if all(byte_at(other, place) != found[place] for other in others)]
        for lower, upper, data in edits:
            if wrong:
                wrong = [
                    place for place in wrong
                    if not lower <= place < upper or found[place] != (data[place - lower] if data else 0)
                ]
        require(not wrong, "after the kill", len(wrong), "bytes from", wrong[:1], "on were never there")


def byte_at(data, place):
    return data[place] if place < len(data) else 0


def places_of_difference(one, other, step=256):
    """Where the first differs from the second, which is zero behind its end."""
    other = bytes(other[:len(one)]).ljust(len(one), b"\0")
    return [
        place
        for start in range(0, len(one), step) if one[start:start + step] != other[start:start + step]
        for place in range(start, min(start + step, len(one))) if one[place] != other[place]
    ]


def difference(found, wanted):
    """In words."""
    if len(found) != len(wanted):
        return f"{len(found)} bytes and not {len(wanted)}"
    wrong = places_of_difference(found, wanted)
    return f"{len(wrong)} of {len(found)} bytes differ, from {wrong[0]} to {wrong[-1]}, {sum(found[place] == 0 for place in wrong)} zeros"


class Handle:
    """An open file."""

    def __init__(self, file, flags):
        self.file = file
        access = flags & os.O_ACCMODE
        self.reads = access != os.O_WRONLY
        self.writes = access != os.O_RDONLY
        self.appends = bool(flags & os.O_APPEND)


def errors(*numbers):
    return frozenset(numbers)


class Model:
    """The tree, the open files, and the operations on them."""

    def __init__(self, umask):
        self.umask = umask
        self.root = Folder(0o777)
        self.handles = {}
        self._paths = None

    # MARK: names

    def paths(self):
        """All paths with their nodes."""
        if self._paths is None:
            self._paths = {}
            self._gather("", self.root)
        return self._paths

    def _gather(self, prefix, folder):
        for name, node in folder.names.items():
            self._paths[prefix + name] = node
            if node.kind == stat.S_IFDIR:
                self._gather(prefix + name + "/", node)

    def find(self, path):
        """The folder that a path's last name is in, that name, and the node or None; or an error number.

        Links lead nowhere.
        """
        if not path:
            return None, "", self.root
        folder = self.root
        *above, last = path.split("/")
        for name in above:
            node = folder.names.get(name)
            if node is None or node.kind == stat.S_IFLNK:
                return errno.ENOENT
            if node.kind != stat.S_IFDIR:
                return errno.ENOTDIR
            folder = node
        return folder, last, folder.names.get(last)

    def put(self, folder, name, node):
        """Puts a node under a name; what was there has one name less."""
        old = folder.names.get(name)
        if old is not None and old is not node:
            old.links -= 1
        folder.names[name] = node
        self._paths = None

    def take(self, folder, name):
        self._paths = None
        return folder.names.pop(name)

    def open_files(self):
        return [handle.file for handle in self.handles.values()]

    # MARK: the ends of processes

    def was_killed(self):
        """The mount is gone, and with it every handle; returns the files that changed since they were safe, by path."""
        self.handles = {}
        return {
            path: node for path, node in self.paths().items()
            if node.kind == stat.S_IFREG and node.acknowledged is not None
        }

    def forget(self, path):
        """A file is gone with the mount that made it."""
        folder, name, file = self.find(path)
        file.links = 0
        self.take(folder, name)

    def lost_the_cache(self):
        """Bytes of files that were sent may be at the remote alone."""
        for node in [*self.paths().values(), *self.open_files()]:
            node.is_remote = True
