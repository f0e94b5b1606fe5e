# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Random operations that mostly have something to work on."""

import os
import random
import stat

from .model import EXCHANGE, KEEP_SIZE, NOREPLACE, PUNCH_HOLE, ZERO_RANGE

NAMES = ["a", "b", "c", "d", "e.txt", "f", "g h", "ü%20", "-x+y", ".dot"]
SLOTS = 8
DEEPEST = 3
LONGEST = 200_000
FLAGS = [
    os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_RDWR, os.O_WRONLY | os.O_TRUNC, os.O_RDWR | os.O_TRUNC,
    os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_APPEND, os.O_WRONLY | os.O_DSYNC, os.O_RDWR | os.O_APPEND | os.O_TRUNC,
]
MODES = [0o600, 0o644, 0o755, 0o640, 0o444]
WEIGHTS = {
    "open_new": 28, "open_old": 30, "close": 62, "write": 190, "read": 190, "ftruncate": 22, "fallocate": 34, "copy": 30,
    "seek": 46, "map": 24, "fsync": 8, "fstat": 40, "mkdir": 7, "mkfifo": 1, "symlink": 3, "link": 12, "readlink": 3,
    "unlink": 22, "rmdir": 4, "rename": 22, "rename_folder": 3, "truncate": 7, "chmod": 7, "chown": 3, "utime": 7, "stat": 44,
    "listing": 14,
}


class Generator:
    """Chooses operations by the state of a model; `names` are those that it gives."""

    def __init__(self, model, seed, names=None):
        self.model = model
        self.random = random.Random(seed)
        self.names = names or NAMES
        self.kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        self.sums = [sum(weights[:count + 1]) for count in range(len(weights))]

    def next(self):
        """An operation: its name and its arguments."""
        return getattr(self, "_" + self.random.choices(self.kinds, cum_weights=self.sums)[0])()

    # MARK: choosing

    def _old(self, *kinds):
        """A path of one of these kinds, or any that there is, or a new one."""
        paths = [path for path, node in self.model.paths().items() if not kinds or node.kind in kinds]
        return self.random.choice(paths) if paths else self.new_path()

    def new_path(self):
        """A path in a folder that there is; something may stand there."""
        folders = [
            path + "/" for path, node in self.model.paths().items()
            if node.kind == stat.S_IFDIR and path.count("/") < DEEPEST - 1
        ]
        return self.random.choice(["", "", *folders]) + self.random.choice(self.names)

    def _any(self):
        return self.new_path() if self.random.random() < 0.1 else self._old()

    def _slot(self, able=None):
        """One that is in use, mostly one that can do this."""
        used = list(self.model.handles)
        if able and self.random.random() < 0.95:
            used = [slot for slot in used if able(self.model.handles[slot])] or used
        return self.random.choice(used) if used else 0

    def _reader(self):
        return self._slot(lambda handle: handle.reads)

    def _writer(self):
        return self._slot(lambda handle: handle.writes)

    def _free_slot(self):
        free = [slot for slot in range(SLOTS) if slot not in self.model.handles]
        return self.random.choice(free) if free else 0

    def _size(self, slot):
        handle = self.model.handles.get(slot)
        return len(handle.file.data) if handle else 0

    def _offset(self, slot):
        """Within the file, at its end, a little or far behind it."""
        size, choice = self._size(slot), self.random.random()
        if choice < 0.6 and size:
            return self.random.randrange(size)
        return min(LONGEST, size if choice < 0.8 else size + self.random.randrange(1, 9000))

    def _length(self):
        choice = self.random.random()
        if choice < 0.5:
            return self.random.randrange(1, 200)
        return self.random.randrange(1, 6000 if choice < 0.9 else 20_000 if choice < 0.99 else 150_000)

    def _start(self):
        return self.random.randrange(1 << 20)

    # MARK: open files

    def _open_new(self):
        flags = self.random.choice(FLAGS) | os.O_CREAT | (os.O_EXCL if self.random.random() < 0.2 else 0)
        return "open", self._free_slot(), self.new_path(), flags, self.random.choice(MODES)

    def _open_old(self):
        return "open", self._free_slot(), self._old(stat.S_IFREG), self.random.choice(FLAGS), 0o644

    def _close(self):
        return "close", self._slot()

    def _write(self):
        slot = self._writer()
        return "write", slot, self._offset(slot), self._start(), self._length()

    def _read(self):
        slot = self._reader()
        return "read", slot, self._offset(slot), self.random.choice([self._length(), LONGEST * 2])

    def _ftruncate(self):
        slot = self._writer()
        return "ftruncate", slot, self.random.choice([0, self._offset(slot), self._offset(slot), self._offset(slot)])

    def _fallocate(self):
        slot = self._writer()
        mode = self.random.choice([
            0, KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, PUNCH_HOLE | KEEP_SIZE, ZERO_RANGE, ZERO_RANGE | KEEP_SIZE
        ])
        return "fallocate", slot, mode, self._offset(slot), self._length()

    def _copy(self):
        source, target = self._reader(), self._slot(lambda handle: handle.writes and not handle.appends)
        return "copy", source, target, self._length(), self._offset(source), self._offset(target)

    def _seek(self):
        slot = self._slot()
        return "seek", slot, self._offset(slot), self.random.choice([os.SEEK_DATA, os.SEEK_HOLE])

    def _map(self):
        slot = self._slot(lambda handle: handle.reads and handle.writes and handle.file.data)
        offset = self._offset(slot)
        length = min(self._length(), max(1, self._size(slot) - offset))
        return "map", slot, offset, self._start(), length, self.random.random() < 0.2

    def _fsync(self):
        return "fsync", self._slot(), self.random.random() < 0.5

    def _fstat(self):
        return "fstat", self._slot()

    # MARK: names

    def _mkdir(self):
        return "mkdir", self.new_path(), self.random.choice([0o755, 0o700, 0o775])

    def _mkfifo(self):
        return "mkfifo", self.new_path(), self.random.choice(MODES)

    def _symlink(self):
        return "symlink", self.new_path(), self.random.choice(["nowhere", "../nowhere/at all", "nowhere/" + "x" * 300])

    def _link(self):
        return "link", self._old(stat.S_IFREG) if self.random.random() < 0.8 else self._any(), self.new_path()

    def _readlink(self):
        return "readlink", self._old(stat.S_IFLNK) if self.random.random() < 0.8 else self._any()

    def _unlink(self):
        return "unlink", self._any()

    def _rmdir(self):
        return "rmdir", self._old(stat.S_IFDIR) if self.random.random() < 0.9 else self._any()

    def _rename(self):
        new = self.new_path() if self.random.random() < 0.5 else self._old()
        return "rename", self._old(), new, self.random.choice([0, 0, 0, NOREPLACE, EXCHANGE])

    def _rename_folder(self):
        return "rename", self._old(stat.S_IFDIR), self.new_path(), self.random.choice([0, 0, NOREPLACE])

    def _truncate(self):
        return "truncate", self._old(stat.S_IFREG), self.random.choice([0, 1, 5000, self.random.randrange(LONGEST)])

    def _chmod(self):
        return "chmod", self._any(), self.random.choice(MODES)

    def _chown(self):
        return "chown", self._any(), self.random.choice([0, 1, 1000, 65534]), self.random.choice([0, 7, 1000])

    def _utime(self):
        return "utime", self._any(), self.random.randrange(2 * 10**18)

    def _stat(self):
        return "stat", self._any()

    def _listing(self):
        return "listing", self._old(stat.S_IFDIR) if self.random.random() < 0.7 else ""
