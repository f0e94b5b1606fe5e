# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Disks of a few MiB."""

import os

import pytest

from .processes import run

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
