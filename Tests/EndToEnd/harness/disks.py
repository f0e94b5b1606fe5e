# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Disks of a few MiB, and disks whose power can be cut."""

import os
import shutil
import time

import pytest

from .mounts import is_mounted
from .processes import run, wait_until

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk")


class SmallDisk:
    """A tmpfs of a few MiB, as root only."""

    def __init__(self, path, size):
        self.path = path
        os.makedirs(path, exist_ok=True)
        run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "moorage-test", path])

    def remount(self, options):
        run(["mount", "-o", f"remount,{options}", self.path])

    def unmount(self):
        for _ in range(20):
            if run(["umount", self.path], check=False).returncode == 0:
                return
        run(["umount", "-l", self.path], check=False)


def find_tool(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def loop_disk_needs(*kinds):
    """What a disk that can lose its power needs and does not find; None when everything is there."""
    if os.geteuid() != 0:
        return "needs root for a loop device"
    if not os.path.exists("/dev/loop-control"):
        return "needs /dev/loop-control"
    missing = [tool for tool in ("xfs_io", "losetup", *(f"mkfs.{kind}" for kind in kinds)) if not find_tool(tool)]
    return f"needs {' '.join(missing)}" if missing else None


class LoopDisk:
    """A file system on a file, which can lose its power: what was not forced out is gone."""

    OPTIONS = {"ext4": ["-q", "-F"], "xfs": ["-q", "-f"]}

    def __init__(self, folder, size, kind="ext4"):
        self.folder = folder
        self.path = os.path.join(folder, "disk")
        os.makedirs(self.path)
        self.image = self._make(size)
        run([find_tool(f"mkfs.{kind}"), *self.OPTIONS[kind], self.image])
        self.mount()

    def _make(self, size):
        image = os.path.join(self.folder, "disk.img")
        run(["truncate", "-s", str(size), image])
        return image

    def mount(self):
        """Mounts it as soon as it is free."""
        self.wait_until_free()
        run(["mount", "-o", "loop", self.image, self.path])

    def wait_until_free(self):
        """Until nobody has the mount before any more: a namespace of another program may hold a copy.

        To mount it then is to get the same file system once more, stopped as its disk or the power has left it.
        """
        wait_until(lambda: run([find_tool("losetup"), "-j", self.image]).stdout == "", 150, f"{self.image} to be free")

    def hold_state(self, instance):
        """Puts the instance's state folder on this disk."""
        instance.environment["MOORAGE_STATE_DIR"] = os.path.join(self.path, "state")
        # A process that dies of its dead disk, by a page that cannot be had, must not be kept by its own backtrace.
        instance.environment["SWIFT_BACKTRACE"] = "enable=no"

    def cut_power(self):
        run([find_tool("xfs_io"), "-x", "-c", "shutdown", self.path])

    def unmount(self):
        for _ in range(50):
            # A look at it would fail once its power was cut.
            if run(["umount", self.path], check=False).returncode == 0 or not is_mounted(self.path):
                return
            time.sleep(0.1)
        run(["umount", "-l", self.path], check=False)
