# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What each operation has to answer and to change, as harness.model tells it."""

import errno
import os
import stat
import time

from .attended import CLOCK
from .model import (
    EXCHANGE, KEEP_SIZE, NOREPLACE, PUNCH_HOLE, SKIP, ZERO_RANGE, File, Folder, Handle, Model, Node, difference, errors,
    piece, require,
)


def is_folder(node):
    return node is not None and node.kind == stat.S_IFDIR


def done(result):
    """Nothing to check and nothing to change."""


class FileOperations(Model):
    """Operations on open files."""

    def open(self, slot, path, flags, mode):
        if slot in self.handles:
            return SKIP
        found = self.find(path)
        if isinstance(found, int):
            return errors(found)
        folder, name, node = found
        if node is None:
            if not flags & os.O_CREAT:
                return errors(errno.ENOENT)
        elif flags & os.O_CREAT and flags & os.O_EXCL:
            return errors(errno.EEXIST)
        elif node.kind == stat.S_IFDIR:
            return errors(errno.EISDIR) if flags & (os.O_ACCMODE | os.O_CREAT) else SKIP
        elif node.kind == stat.S_IFLNK:
            return errors(errno.ELOOP)
        elif node.kind == stat.S_IFIFO:
            return SKIP
        since = time.time_ns()

        def opened(result):
            file = node
            if file is None:
                file = File(mode & ~self.umask)
                # Made for reading alone, it is complete at once: nobody may write to it before it is opened again.
                file.is_new, file.made_at = flags & os.O_ACCMODE != os.O_RDONLY, CLOCK.now()
                file.acknowledged, file.sizes = b"", {0}
                file.touch(since)
                self.put(folder, name, file)
            elif flags & os.O_TRUNC:
                file.cut(0)
                file.touch(since)
            self.handles[slot] = Handle(file, flags)

        return opened

    def close(self, slot):
        handle = self.handles.get(slot)
        if handle is None:
            return SKIP

        def closed(result):
            del self.handles[slot]
            if handle.writes:
                handle.file.acknowledge()

        return closed

    def write(self, slot, offset, start, length):
        handle = self.handles.get(slot)
        if handle is None:
            return SKIP
        if not handle.writes:
            return errors(errno.EBADF)
        since = time.time_ns()

        def written(result):
            require(result == length, "wrote", result, "of", length)
            file = handle.file
            file.write(len(file.data) if handle.appends else offset, piece(start, length))
            file.touch(since)

        return written

    def read(self, slot, offset, length):
        handle = self.handles.get(slot)
        if handle is None:
            return SKIP
        if not handle.reads:
            return errors(errno.EBADF)

        def was_read(result):
            wanted = handle.file.data[offset:offset + length]
            require(result == wanted, "read", difference(result, wanted) if result != wanted else "")

        return was_read

    def ftruncate(self, slot, size):
        handle = self.handles.get(slot)
        if handle is None:
            return SKIP
        return self._cutting(handle.file, size) if handle.writes else errors(errno.EINVAL)

    def _cutting(self, file, size):
        since = time.time_ns()

        def was_cut(result):
            file.cut(size)
            file.touch(since)

        return was_cut

    def fallocate(self, slot, mode, offset, length):
        handle = self.handles.get(slot)
        if handle is None:
            return SKIP
        if not handle.writes:
            return errors(errno.EBADF)
        file, since = handle.file, time.time_ns()

        def changed(result):
            before, size = file.mtime, len(file.data)
            end = offset + length if not mode & KEEP_SIZE else min(offset + length, size)
            if mode & (PUNCH_HOLE | ZERO_RANGE):
                file.zero(offset, end)
            elif end > size:
                file.zero(size, end)
            # Where no byte changes it may be a change or not.
            file.touch(since)
            latest = None if None in (before[1], file.mtime[1]) else max(before[1], file.mtime[1])
            file.mtime = (min(before[0], file.mtime[0]), latest)

        return changed

    def copy(self, source, target, length, offset_in, offset_out):
        one, two = self.handles.get(source), self.handles.get(target)
        if one is None or two is None:
            return SKIP
        if not one.reads or not two.writes or two.appends:
            return errors(errno.EBADF)
        wanted = bytes(one.file.data[offset_in:offset_in + length])
        if one.file is two.file and abs(offset_in - offset_out) < length:
            return SKIP
        since = time.time_ns()

        def copied(result):
            require(result <= len(wanted) and (result > 0 or not wanted), "copied", result, "of", len(wanted))
            if result:
                two.file.write(offset_out, wanted[:result])
                two.file.touch(since)

        return copied

    def seek(self, slot, offset, whence):
        handle = self.handles.get(slot)
        if handle is None:
            return SKIP
        data = handle.file.data
        if offset >= len(data):
            return errors(errno.ENXIO)
        # A file may say data where there are zeros, and never a hole where there are others.
        if whence == os.SEEK_DATA and not any(data[offset:]):
            return lambda result: require(offset <= result <= len(data), "data at", result, "of", len(data))

        def found(result):
            require(offset <= result <= len(data), "seek told", result, "of", len(data))
            if whence == os.SEEK_DATA:
                require(not any(data[offset:result]), "told data at", result, "and there is some before")
            elif result < len(data):
                require(data[result] == 0, "told a hole at", result, "where there is data")

        return found

    def may_be_all_hole(self, slot, offset, whence):
        """Whether a search for data may find none."""
        return whence == os.SEEK_DATA and not any(self.handles[slot].file.data[offset:])

    def map(self, slot, offset, start, length, synced):
        """Writes to a mapping of the file, within its size."""
        handle = self.handles.get(slot)
        if handle is None or not (handle.reads and handle.writes):
            return SKIP
        file = handle.file
        if offset + length > len(file.data):
            return SKIP
        since = time.time_ns()

        def mapped(result):
            data = piece(start, length)
            require(result == file.data, "mapped", difference(result, file.data) if result != file.data else "")
            file.edit(offset, offset + length, data, mapped=not synced)
            file.data[offset:offset + length] = data
            file.touch(since)
            if synced:
                file.acknowledge()

        return mapped

    def fsync(self, slot, only_data):
        handle = self.handles.get(slot)
        return SKIP if handle is None else lambda result: handle.file.acknowledge()

    def fstat(self, slot):
        handle = self.handles.get(slot)
        return SKIP if handle is None else lambda result: self.check_status(handle.file, result)

    # MARK: attributes

    def check_status(self, node, status):
        require(stat.S_IFMT(status.st_mode) == node.kind, "the kind is", oct(status.st_mode))
        links = [node.links]
        if node.kind == stat.S_IFDIR and node.links:
            # Unknown, or itself and the folders in it.
            links.append(2 + sum(child.kind == stat.S_IFDIR for child in node.names.values()))
        require(status.st_nlink in links, "it has", status.st_nlink, "links and not", links)
        if node.kind == stat.S_IFLNK:
            require(status.st_size == len(node.target), "the link has", status.st_size, "bytes")
            return
        require(stat.S_IMODE(status.st_mode) == node.mode, "the mode is", oct(status.st_mode), "and not", oct(node.mode))
        owner = (status.st_uid, status.st_gid)
        require(owner == node.owner, "it belongs to", owner, "and not to", node.owner)
        if node.kind == stat.S_IFREG:
            require(status.st_size == len(node.data), "its size is", status.st_size, "and not", len(node.data))
            earliest, latest = node.mtime
            time = status.st_mtime_ns
            # Of a removed file nothing is kept.
            inside = earliest <= time and (latest is None or time <= latest)
            require(inside or not node.links, "it was changed at", time, "and not between", earliest, "and", latest)


class NameOperations(FileOperations):
    """Operations on names."""

    def _existing(self, path, action):
        """What `action` expects of the node at a path."""
        found = self.find(path)
        if isinstance(found, int):
            return errors(found)
        return errors(errno.ENOENT) if found[2] is None else action(*found)

    def _making(self, path, make):
        found = self.find(path)
        if isinstance(found, int):
            return errors(found)
        folder, name, node = found
        return errors(errno.EEXIST) if node is not None else lambda result: self.put(folder, name, make())

    def mkdir(self, path, mode):
        return self._making(path, lambda: Folder(mode & ~self.umask))

    def mkfifo(self, path, mode):
        return self._making(path, lambda: Node(stat.S_IFIFO, mode & ~self.umask))

    def symlink(self, path, target):
        def make():
            node = Node(stat.S_IFLNK, 0o777)
            node.target = target
            return node

        return self._making(path, make)

    def readlink(self, path):
        def look(folder, name, node):
            if node.kind != stat.S_IFLNK:
                return errors(errno.EINVAL)
            return lambda result: require(result == node.target, "the link leads to", result, "and not", node.target)

        return self._existing(path, look)

    def unlink(self, path):
        def remove(folder, name, node):
            return errors(errno.EISDIR) if is_folder(node) else lambda result: self._removed(folder, name)

        return self._existing(path, remove)

    def _removed(self, folder, name):
        self.take(folder, name).links -= 1

    def link(self, old, new):
        source, target = self.find(old), self.find(new)
        if isinstance(source, int) or isinstance(target, int):
            return errors(*(found for found in (source, target) if isinstance(found, int)), errno.ENOENT, errno.EPERM)
        node = source[2]
        problems = [] if node is not None else [errno.ENOENT]
        problems += [errno.EPERM] if is_folder(node) else []
        problems += [errno.EEXIST] if target[2] is not None else []
        if problems:
            return errors(*problems)

        def linked(result):
            self.put(target[0], target[1], node)
            node.links += 1

        return linked

    def rmdir(self, path):
        def remove(folder, name, node):
            if not is_folder(node):
                return errors(errno.ENOTDIR)
            return errors(errno.ENOTEMPTY) if node.names else lambda result: self._removed(folder, name)

        return self._existing(path, remove)

    def truncate(self, path, size):
        def cut(folder, name, node):
            if is_folder(node):
                return errors(errno.EISDIR)
            if node.kind != stat.S_IFREG:
                return SKIP
            effect = self._cutting(node, size)

            def was_cut(result):
                effect(result)
                if not any(handle.file is node and handle.writes for handle in self.handles.values()):
                    node.acknowledge()

            return was_cut

        return self._existing(path, cut)

    def chmod(self, path, mode):
        def change(folder, name, node):
            return SKIP if node.kind == stat.S_IFLNK else lambda result: setattr(node, "mode", mode)

        return self._existing(path, change)

    def chown(self, path, user, group):
        def change(folder, name, node):
            return SKIP if node.kind == stat.S_IFLNK else lambda result: setattr(node, "owner", (user, group))

        return self._existing(path, change)

    def utime(self, path, time):
        def change(folder, name, node):
            if node.kind != stat.S_IFREG:
                return SKIP
            return lambda result: setattr(node, "mtime", (time, None if node.mapped else time))

        return self._existing(path, change)

    def stat(self, path):
        return self._existing(path, lambda folder, name, node: lambda result: self.check_status(node, result))

    def listing(self, path):
        def look(folder, name, node):
            if not is_folder(node):
                return errors(errno.ENOENT if node.kind == stat.S_IFLNK else errno.ENOTDIR)
            return lambda result: require(sorted(result) == sorted(node.names), "lists", sorted(result), "and not", sorted(node.names))

        return self._existing(path, look)

    def rename(self, old, new, flags):
        source, target = self.find(old), self.find(new)
        if isinstance(source, int) or isinstance(target, int):
            return errors(*(found for found in (source, target) if isinstance(found, int)), errno.ENOENT)
        problems = self._objections(old, new, source[2], target[2], flags)
        if problems:
            return errors(*problems)
        return lambda result: self._renamed(source, target, flags)

    def _objections(self, old, new, source, target, flags):
        """The errors that a rename may answer; none: it goes through."""
        problems = []
        if source is None or flags & EXCHANGE and target is None:
            problems.append(errno.ENOENT)
        if flags & NOREPLACE and target is not None:
            problems.append(errno.EEXIST)
        if is_folder(source) and new.startswith(old + "/"):
            problems.append(errno.EINVAL)
        if is_folder(target) and old.startswith(new + "/"):
            problems.append(errno.EINVAL if flags & EXCHANGE else errno.ENOTEMPTY)
        if flags & EXCHANGE or source is target or source is None or target is None:
            return problems
        if is_folder(source) and not is_folder(target):
            problems.append(errno.ENOTDIR)
        if is_folder(target) and not is_folder(source):
            problems.append(errno.EISDIR)
        if is_folder(source) and is_folder(target) and target.names:
            problems.append(errno.ENOTEMPTY)
        return problems

    def _renamed(self, source, target, flags):
        (folder, name, node), (other, new, replaced) = source, target
        if node is replaced:
            return
        if flags & EXCHANGE:
            folder.names[name], other.names[new] = replaced, node
            self._paths = None
            return
        self.take(folder, name)
        self.put(other, new, node)
