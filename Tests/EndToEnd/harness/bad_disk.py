# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A disk that fails to read or to write for a while: nbdkit's error filter below nbdfuse, a loop device and a file system.

What the kernel does then is its own: it reports a write that was done later to one fsync, forgets that the pages are
dirty, and stops the file system where its log was hit.
"""

import contextlib
import os
import subprocess

from .disks import LoopDisk, find_tool, loop_disk_needs
from .processes import Failure, kill, run, wait_until

CALLS = {"write": ("pwrite", "zero", "trim"), "read": ("pread",)}


def bad_disk_needs(*kinds):
    """What such a disk needs and does not find; None when everything is there."""
    missing = [tool for tool in ("nbdkit", "nbdfuse", "fusermount3") if not find_tool(tool)]
    return loop_disk_needs(*kinds) or (f"needs {' '.join(missing)}" if missing else None)


class BadDisk(LoopDisk):
    """A disk of which a share of the writes, or of the reads, fails while `fail` lasts, each with this error."""

    def __init__(self, folder, size, kind="ext4", call="write", rate=1.0, error="EIO"):
        self.kind = kind
        self.trigger = os.path.join(folder, "trigger")
        self.how = [f"error={error}", f"error-file={self.trigger}", *(f"error-{name}-rate={rate}" for name in CALLS[call])]
        super().__init__(folder, size, kind)

    def _make(self, size):
        """The image is what nbdfuse shows; the bytes are beside it."""
        bytes, socket = os.path.join(self.folder, "disk.bytes"), os.path.join(self.folder, "disk.nbd")
        point = os.path.join(self.folder, "disk.fuse")
        run(["truncate", "-s", str(size), bytes])
        os.makedirs(point)
        self.server = self._start("nbdkit", "-f", "-U", socket, "--filter=error", "file", bytes, *self.how)
        self.client = self._start("nbdfuse", f"{point}/disk", "--unix", socket)
        return os.path.join(point, "disk")

    def _start(self, name, *words):
        """Starts it and waits until it is ready, when it writes its pid: a socket is there before anybody listens at it."""
        ready = os.path.join(self.folder, f"{name}.pid")
        with open(os.path.join(self.folder, f"{name}.err"), "wb") as errors:
            process = subprocess.Popen(
                [find_tool(name), "-P", ready, *words], stdin=subprocess.DEVNULL, stderr=errors, start_new_session=True
            )
        wait_until(lambda: os.path.exists(ready) or process.poll() is not None, 60, name)
        if process.poll() is not None:
            with open(errors.name, errors="replace") as file:
                raise Failure(f"{name} ended with {process.returncode}: {file.read()}")
        return process

    def fail(self):
        with open(self.trigger, "w"):
            pass

    def heal(self):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self.trigger)

    def errors(self):
        """How many requests have failed: nbdfuse tells of each."""
        with open(os.path.join(self.folder, "nbdfuse.err")) as file:
            return sum(1 for line in file if "command failed" in line)

    def is_writable(self):
        """Whether the file system has not stopped because of the errors."""
        return run(["touch", os.path.join(self.path, "touched")], check=False).returncode == 0

    def mount(self):
        """As after a boot: what the errors have left of the file system is mended before."""
        self.wait_until_free()
        if self.kind == "ext4":
            assert run([find_tool("e2fsck"), "-f", "-y", self.image], check=False).returncode in (0, 1)
        try:
            super().mount()
        except Failure:
            if self.kind != "xfs":
                raise
            # A write to its log failed halfway: what it cannot replay is given up.
            run([find_tool("xfs_repair"), "-L", self.image])
            super().mount()

    def end(self):
        """When nothing is mounted of it any more."""
        self.heal()
        self.unmount()
        self._release()
        for process in (self.client, self.server):
            kill(process.pid)
            process.wait()

    def _release(self):
        """Ends nbdfuse's mount, as soon as the loop device is let go, which the kernel does after the unmount's return."""
        point = os.path.dirname(self.image)

        def unmounted():
            result = run(["fusermount3", "-u", point], check=False)
            if result.returncode != 0 and "busy" not in result.stderr:
                raise Failure(f"unmount {point}: {result.stderr}")
            return result.returncode == 0

        wait_until(unmounted, 150, f"{self.image} to be free")
