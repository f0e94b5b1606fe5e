# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A machine that starts again with what its disk has, and what is at both ends then."""

import errno
import os

from .processes import run


class Machine:
    """A machine whose state folder is on a disk of its own."""

    def __init__(self, instance, disk, stack):
        self.instance = instance
        self.disk = disk
        stack.callback(self.disk.unmount)
        stack.callback(instance.abandon)
        self.disk.hold_state(instance)

    def start_again(self, mount):
        """The disk has what was forced out to it, and the volume mounts.

        Processes may have died of their dead disk before.
        """
        self.stop()
        return mount.mount_again()

    def stop(self):
        """Up to where the volume would be mounted again: nothing of the disk is in memory."""
        self.instance.abandon()
        self.disk.unmount()
        self.disk.mount()
        forget_boot(self.instance)


def forget_boot(instance):
    """Makes the journals believe that the machine has booted since: what power loss means."""
    for base, _, names in os.walk(instance.environment["MOORAGE_STATE_DIR"]):
        if "journal.sqlite" in names:
            statement = "UPDATE meta SET value = 'another boot' WHERE key LIKE 'boot%'"
            run(["sqlite3", os.path.join(base, "journal.sqlite"), statement])


def is_reached(mount):
    """Whether the mount sees the remote's names."""
    try:
        os.getxattr(mount.path, "user.moorage.refresh")
        return os.listdir(mount.path) is not None
    except OSError as problem:
        assert problem.errno == errno.EIO
        return False


def contents_of(mount):
    """The contents of all files of its root, by name."""
    return {name: read(mount / name) for name in os.listdir(mount.path)}


def read(path):
    with open(path, "rb") as file:
        return file.read()


def tags(client):
    """The entity tags of all objects."""
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket")
    items = [item for page in pages for item in page.get("Contents", [])]
    return {item["Key"]: item["ETag"].strip('"') for item in items if not item["Key"].startswith(".moorage-probe")}


def objects(client, known):
    """The contents of all objects; `known` keeps those that were fetched, by key and tag."""
    remote = tags(client)
    for key, tag in remote.items():
        if (key, tag) not in known:
            known[key, tag] = client.get_object(Bucket="bucket", Key=key)["Body"].read()
    return {key: known[key, tag] for key, tag in remote.items()}
