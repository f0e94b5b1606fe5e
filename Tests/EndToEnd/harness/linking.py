# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A program that gives files names and takes them away until the power is cut, and what may be left of it."""

import errno
import os
import random
import sys
import threading

from .posix import exchange
from .trees import random_bytes

SIZE = 3000


class LinkLedger:
    """The names and contents that there may be: those that were synced last, and all that came after them."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.number = 0
        self.may_fail, self.failure = False, None
        # Which file each name is of; each state may be there after a cut.
        self.names = [{}]
        # The contents that a file may have, by its number.
        self.contents = {}

    # MARK: what it does

    def work(self, root, cut, actions, delay):
        """Does one thing after the other, calls `cut` after that many, and ends when the disk is gone."""
        self.may_fail = False
        reached, ended = threading.Event(), threading.Event()
        thread = threading.Thread(target=self._work, args=(root, actions, reached, ended))
        thread.start()
        assert reached.wait(120), "the writer ended before the cut"
        threading.Event().wait(delay)
        self.may_fail = True
        cut()
        ended.set()
        thread.join(60)
        assert not thread.is_alive()
        if self.failure:
            raise self.failure

    def _work(self, root, actions, reached, ended):
        done = 0
        try:
            while not ended.is_set():
                self._act(root)
                done += 1
                if done == actions:
                    reached.set()
        except OSError:
            # The disk is gone.
            if not self.may_fail:
                self.failure = sys.exc_info()[1]
                reached.set()

    def _act(self, root):
        names = self.names[-1]
        kinds = [self._create] if len(set(names.values())) < 4 else []
        if names:
            kinds += [self._link, self._link, self._unlink, self._rename, self._exchange, self._write, self._write, self._sync]
        self.random.choice(kinds)(root)

    def _any_name(self):
        return self.random.choice(sorted(self.names[-1]))

    def _new_name(self):
        self.number += 1
        return f"n{self.number:05}"

    def _change(self, **names):
        """Notes names that there are from now on; None: not any more."""
        after = self.names[-1] | names
        self.names.append({name: file for name, file in after.items() if file is not None})

    def _create(self, root):
        name, file = self._new_name(), self.number
        self.contents[file] = [random_bytes(file, SIZE)]
        self._change(**{name: file})
        with open(os.path.join(root, name), "xb", buffering=0) as new:
            new.write(self.contents[file][0])
            os.fsync(new.fileno())

    def _link(self, root):
        old, new = self._any_name(), self._new_name()
        self._change(**{new: self.names[-1][old]})
        os.link(os.path.join(root, old), os.path.join(root, new))

    def _unlink(self, root):
        name = self._any_name()
        self._change(**{name: None})
        os.unlink(os.path.join(root, name))

    def _rename(self, root):
        """Also over another name, of another file or the same one, with which nothing happens."""
        old, new = self._any_name(), self.random.choice([self._new_name(), self._any_name()])
        names = self.names[-1]
        if names[old] != names.get(new):
            self._change(**{old: None, new: names[old]})
        os.rename(os.path.join(root, old), os.path.join(root, new))

    def _exchange(self, root):
        one, other = self._any_name(), self._any_name()
        names = self.names[-1]
        self._change(**{one: names[other], other: names[one]})
        exchange(os.path.join(root, one), os.path.join(root, other))

    def _write(self, root):
        """In one call, so that the content is as before or new; half of the time synced."""
        name = self._any_name()
        file, content = self.names[-1][name], self.random.randbytes(SIZE)
        self.contents[file].append(content)
        with open(os.path.join(root, name), "r+b", buffering=0) as open_file:
            open_file.write(content)
            if self.random.random() < 0.5:
                os.fsync(open_file.fileno())
                self.contents[file] = [content]

    def _sync(self, root):
        descriptor = os.open(root, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self.names = self.names[-1:]

    # MARK: what is left

    def check(self, root):
        """The names are those of one state, of the same files together, each whole; returns the contents by name."""
        found = {name: os.stat(os.path.join(root, name)) for name in os.listdir(root)}
        files, contents = {name: status.st_ino for name, status in found.items()}, {}
        for name, status in found.items():
            assert status.st_nlink == list(files.values()).count(status.st_ino), (name, status)
            contents[name] = read(os.path.join(root, name))
        possible = [names for names in self.names if grouped(names) == grouped(files)]
        assert possible, f"there is {files}, of {len(self.names)} states from {self.names[0]} to {self.names[-1]}"
        fitting = [names for names in possible if all(contents[name] in self.contents[names[name]] for name in names)]
        assert fitting, f"contents of {files} are of none of {possible}"
        self.names = fitting[-1:]
        self.contents = {file: [contents[name]] for name, file in self.names[0].items()}
        return contents


def read(path, attempts=3):
    """What a file has; a request of before the cut may arrive meanwhile, and then who has it open is told so."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as problem:
        if problem.errno != errno.ESTALE or attempts == 1:
            raise
        return read(path, attempts - 1)


def grouped(names):
    """The names of each file, without saying which."""
    return {frozenset(name for name, other in names.items() if other == file) for file in names.values()}
