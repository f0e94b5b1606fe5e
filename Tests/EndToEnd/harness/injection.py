# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Ends a process at the N-th step by which it changes its disk or sends something, or lets such steps fail.

A library that is preloaded (injection.c) counts the steps of all threads together: writes, syncs, truncations, new,
renamed and removed files in chosen folders, what goes out to sockets and to the kernel's file system.
"""

import atexit
import functools
import os
import shutil
import subprocess
import tempfile

SOURCE = os.path.join(os.path.dirname(__file__), "injection.c")
ENDLESS = 1 << 40


def missing():
    """What injections need and do not find; None when all is there."""
    return None if shutil.which("gcc") else "needs gcc"


@functools.cache
def library():
    """The path of the library, which is built once a run."""
    folder = tempfile.mkdtemp(prefix="moorage-injection-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, "injection.so")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-Wno-nonnull-compare", "-o", path, SOURCE], check=True)
    return path


class Injection:
    """What is to happen to one process: a `moorage` whose first word is `command`.

    `action` is `count`, `kill` (SIGKILL before the step), `fail` (with the error `code`) or `short` (half of a write
    gets through), for one in `every` of the steps `first` to `last` among those of the kinds `calls` (all when empty)
    on names that begin with one of `places`; `network` and
    `control` are sockets. ``end`` ends what would go on for ever.
    """

    def __init__(self, log, command, places, action="count", first=1, last=None, every=1, code=0, calls=()):
        self.log = log
        self.until = log + ".over"
        self.settings = {
            "LD_PRELOAD": library(),
            "INJECT_COMMAND": command,
            "INJECT_PATHS": ":".join(places),
            "INJECT_ACTION": action,
            "INJECT_FIRST": str(first),
            "INJECT_LAST": str(first if last is None else last),
            "INJECT_EVERY": str(every),
            "INJECT_ERRNO": str(code),
            "INJECT_CALLS": " ".join(calls),
            "INJECT_LOG": log,
            "INJECT_UNTIL": self.until,
        }

    def end(self):
        """The disk is well again."""
        with open(self.until, "w"):
            pass

    def steps(self):
        """The steps so far, oldest first, as (was it hit, call, path)."""
        if not os.path.exists(self.log):
            return []
        with open(self.log, errors="replace") as file:
            found = [line.rstrip("\n").split(" ", 3) for line in file]
        return [(mark == "hit", call, path) for mark, _, call, path in (words for words in found if len(words) == 4)]

    def hits(self):
        return [(call, path) for hit, call, path in self.steps() if hit]
