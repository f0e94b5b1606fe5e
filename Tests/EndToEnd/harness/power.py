# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A program that writes files in all the ways that programs do until the power is cut, and what may be left of them."""

import collections
import contextlib
import os
import subprocess
import sys
import time

from .trees import random_bytes

# How the actions follow each other, one group after the other: what is done, and to the file of which kind how many groups ago.
KINDS = [
    ("create and sync twice", 0, 0),
    ("create and sync", 1, 0),
    ("create", 2, 0),
    ("rewrite and sync", 1, 2),
    ("replace", 0, 2),
    ("rewrite", 0, 4),
    ("patch and sync", 1, 3),
    ("create and sync half", 7, 0),
    ("replace unsynced", 1, 5),
    ("sync, cut to nothing", 9, 0),
    ("sync, cut to nothing and rewrite", 10, 0),
    ("sync, cut to nothing and rewrite longer", 11, 0),
    ("sync, cut by another and rewrite", 12, 0),
    ("sync, cut to a part", 13, 0),
    ("sync, cut to a part and write on", 14, 0),
    ("sync, close, cut to a part and write on", 15, 0),
]


# What stays open until the writer dies.
OPEN = []


class Mixture:
    """What a patch that was not acknowledged may leave: each byte as before or patched, and so the length."""

    def __init__(self, before, patched):
        self.before, self.patched = before, patched

    def __len__(self):
        return len(self.patched)

    def __eq__(self, found):
        if found is None or len(found) not in (len(self.before), len(self.patched)):
            return False
        before = self.before.ljust(len(found), b"\0")
        return all(byte in pair for byte, *pair in zip(found, before, self.patched))


class Action:
    """The action of a number: which file it changes, and how."""

    def __init__(self, seed, number):
        group, kind = divmod(number, len(KINDS))
        self.how, of, back = KINDS[kind]
        self.name = f"f{of}-{group - back:05}"
        self.data = random_bytes(seed * 1000003 + number, 1000 + number * 997 % 60000)
        self.half = len(self.data) // 2
        self.part = self.half // 3

    # MARK: what it does

    def perform(self, root):
        """Does it; False when there is no file to do it to."""
        path = os.path.join(root, self.name)
        if self.how == "replace":
            self._write(path + ".new", synced=True)
            os.rename(path + ".new", path)
            self._sync(root)
        elif self.how == "replace unsynced":
            self._write(path + ".new", synced=False)
            os.rename(path + ".new", path)
        elif self.how == "patch and sync":
            return self._patch(path)
        elif self.is_cut:
            self._cut(path)
        else:
            self._write(path, synced=self.how.endswith(("sync", "twice")), half="sync half" in self.how or "twice" in self.how)
        return True

    def _write(self, path, synced, half=False):
        with open(path, "wb", buffering=0) as file:
            file.write(self.data[:self.half])
            if half:
                os.fsync(file.fileno())
            file.write(self.data[self.half:])
            if synced:
                os.fsync(file.fileno())

    def _patch(self, path):
        try:
            descriptor = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            return False
        os.pwrite(descriptor, self.data, 500)
        os.fsync(descriptor)
        os.close(descriptor)
        return True

    def _cut(self, path):
        """Syncs the first half of the data, cuts that while it is open, and leaves it open."""
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o644)
        OPEN.append(file)
        os.write(file, self.data[:self.half])
        os.fsync(file)
        if "close" in self.how:
            os.close(file)
            file = OPEN[-1] = os.open(path, os.O_RDWR)
        if "by another" in self.how:
            OPEN.append(os.open(path, os.O_WRONLY | os.O_TRUNC))
        else:
            os.ftruncate(file, self.part if "part" in self.how else 0)
        start, behind = self._behind()
        os.pwrite(file, behind, start)

    def _behind(self):
        """What is written after the cut, and where."""
        if "part" in self.how:
            return self.part, self.data[self.half:] if "write on" in self.how else b""
        if "rewrite" not in self.how:
            return 0, b""
        return 0, self.data[::-1] if "longer" in self.how else self.data[self.half:][:self.half - 1]

    def _sync(self, folder):
        descriptor = os.open(folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    # MARK: what comes of it

    def contents(self, before):
        """The contents that power loss may leave on the way, the last one first, and whether that is safe.

        `before` is what the file may have had; only a patch depends on it.
        """
        if self.how == "patch and sync":
            return [self.patched(data) for data in before if data is not None], True
        if self.is_cut:
            return self._left_by_cut(), False
        halves = [self.data[:self.half]] if "half" in self.how or "twice" in self.how else []
        return [self.data, *halves], self.how not in ("create", "rewrite", "create and sync half", "replace unsynced")

    def left_by_close(self):
        """What closing what it leaves open may leave beside that."""
        return [b""] if self.how == "sync, cut to nothing" else []

    def patched(self, before):
        """That content with the data patched in."""
        return before[:500].ljust(500, b"\0") + self.data + before[500 + len(self.data):]

    def _left_by_cut(self):
        """What was synced, or what became of it: nothing was said to be safe since, and nothing was closed."""
        start, behind = self._behind()
        cut = [self.data[:self.part]] if "part" in self.how else []
        return [*cut, self.data[:self.half], *([self.data[:start] + behind] if behind else [])]

    @property
    def is_cut(self):
        """Whether it cuts what was synced."""
        return "cut" in self.how

    @property
    def is_half_safe(self):
        """Whether its first half, or what it was cut to, survives once it was acknowledged."""
        return self.how == "create and sync half" or self.is_cut


class Ledger:
    """What may be in each file; the first of each list is its content, None means that it may be absent."""

    def __init__(self, seed, closes=False):
        """With `closes` the disk still works, more or less, when the writer dies, and its open files are closed."""
        self.seed = seed
        self.closes = closes
        self.allowed = {}
        self.synced = set()
        self.number = 0
        self.figures = collections.Counter()

    def note(self, number, is_acknowledged, was_done=True):
        """An action was done, or may have been begun."""
        action = Action(self.seed, number)
        if action.how.startswith("replace"):
            # The name that it is written under may be left.
            is_safe = is_acknowledged and action.how == "replace"
            self.allowed[action.name + ".new"] = [None] if is_safe else [None, action.data]
        if not was_done:
            return
        before = self.allowed.get(action.name, [None])
        contents, is_safe = action.contents(before)
        contents += action.left_by_close() if self.closes else []
        is_patch = action.how == "patch and sync"
        if is_acknowledged and is_safe and contents:
            self.allowed[action.name] = contents if is_patch else contents[:1]
            self.synced.add(action.name)
        elif is_acknowledged and action.is_half_safe:
            self.allowed[action.name] = contents
            self.synced.add(action.name)
        elif is_acknowledged:
            self.allowed[action.name] = contents + before
            self.figures["closed"] += 1
        else:
            # Begun or not: its content is the one before.
            known = [data for data in before if data is not None]
            self.allowed[action.name] = before + ([Mixture(*both) for both in zip(known, contents)] if is_patch else contents)

    def check(self, contents, where):
        """Checks all files of a place: there or not as they may be, whole, and nothing else."""
        extra = sorted(set(contents) - set(self.allowed))
        assert not extra, f"{where} has {extra}"
        for name, allowed in self.allowed.items():
            found = contents.get(name)
            assert found in allowed, (
                f"{name} {where} is none of what it may be: " +
                ("absent" if found is None else f"{len(found)} bytes with {found.count(0)} zeros") +
                f" for {['absent' if data is None else len(data) for data in allowed]}"
            )

    def settle(self, contents):
        """What power loss left is what the files are from here on."""
        for name, allowed in self.allowed.items():
            if len(allowed) > 1:
                kept = contents.get(name) == allowed[0]
                self.figures["unsynced, as last written" if kept else "unsynced, as before or absent"] += 1
            self.allowed[name] = [contents.get(name)]
        self.figures["acknowledged by fsync"] += len(self.synced)
        self.synced = set()

    def write_until_cut(self, root, cut, actions, delay):
        """Runs the writer, calls `cut` after about that many actions, and notes what was acknowledged."""
        folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        code = f"import sys; sys.path.insert(0, {folder!r}); from harness.power import main; main()"
        command = [sys.executable, "-c", code, root, str(self.seed), str(self.number)]
        writer = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        output = "".join(writer.stdout.readline() for _ in range(actions))
        time.sleep(delay)
        cut()
        writer.kill()
        # Not communicate(), which knows nothing of lines that were read ahead.
        with writer:
            output += writer.stdout.read()
            errors = writer.stderr.read()
        lines = [line.split() for line in output.splitlines() if len(line.split()) == 2]
        assert len(lines) >= actions, f"the writer ended before the cut: {errors}"
        for number, word in lines:
            self.note(int(number), True, word == "done")
        self.number += len(lines)
        self.note(self.number, False)
        self.number += 1


def main():
    """The writer: ROOT SEED FIRST; prints each action when it was acknowledged."""
    root, seed, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    for number in range(first, first + 100_000):
        with contextlib.suppress(BrokenPipeError):
            print(number, "done" if Action(seed, number).perform(root) else "skipped", flush=True)
