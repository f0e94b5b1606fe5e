# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A clock that leaves out the time in which the machine stood still.

A virtual machine that is saved or moved freezes all its processes, for a minute even, and CLOCK_MONOTONIC goes on: what
was to happen within some seconds could not.
"""

import threading
import time

STEP = 0.1
# What a busy machine may let a thread wait.
TOLERANCE = 1.0


class Clock:
    """Counts by a thread that sleeps and notes when it slept too long."""

    def __init__(self):
        self._lost = 0.0
        self._thread = None
        self._starting = threading.Lock()

    def now(self):
        """Seconds from an arbitrary start."""
        if self._thread is None:
            self._start()
        return time.monotonic() - self._lost

    def is_over(self, end):
        """Whether a time has come; when it seems so, after time enough to notice that nobody was there."""
        if self.now() <= end:
            return False
        time.sleep(3 * STEP)
        return self.now() > end

    def _start(self):
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="attended", daemon=True)
                self._thread.start()

    def _run(self):
        last = time.monotonic()
        while True:
            time.sleep(STEP)
            now = time.monotonic()
            if now - last > STEP + TOLERANCE:
                self._lost += now - last - STEP
            last = now


CLOCK = Clock()
