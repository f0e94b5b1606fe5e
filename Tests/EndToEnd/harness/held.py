# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What uploads wait for, and what is at the remote, of instances whose bucket is named `bucket`."""

import os
import time

from harness.processes import Failure, wait_until
from harness.trees import all_keys, write_file

# For what is only to happen at all, on a machine that has much else to do.
PATIENCE = 60
# What bytes may take to stop.
CLOSING = 10


def keys(client):
    return sorted(all_keys(client, "bucket"))


def waiting(instance, path):
    """What an upload waits for, without what passes by itself; nothing when there is no such upload."""
    found = [upload for upload in instance.uploads() if upload["path"] == path]
    return [item for upload in found for item in upload["waiting"] if item["reason"] not in ("quiet", "backoff")]


def reasons(instance, path):
    return sorted(item["reason"] for item in waiting(instance, path))


def expect_held(instance, path, *expected):
    try:
        wait_until(lambda: reasons(instance, path) == sorted(expected), PATIENCE, f"{path} to wait for {expected}")
    except Failure as failure:
        found = [(upload["state"], upload["waiting"]) for upload in instance.uploads() if upload["path"] == path]
        raise Failure(f"{failure}; found {found}") from None


def expect_remote(client, *expected):
    wait_until(lambda: keys(client) == sorted(expected), PATIENCE, f"{expected} to be remote")


def write_small(mount, name):
    os.makedirs(os.path.dirname(mount / name), exist_ok=True)
    write_file(mount / name, b"content of " + name.encode())


def all_waiting(instance):
    """The reasons of all uploads that wait, sorted, without those that pass by themselves."""
    reasons = {item["reason"] for upload in instance.uploads() for item in upload["waiting"]}
    return sorted(reasons - {"quiet", "backoff"})


def expect_all_held(instance, *reasons, timeout=PATIENCE):
    wait_until(lambda: all_waiting(instance) == sorted(reasons), timeout, f"uploads held by {reasons}")


def expect_done(instance, timeout=PATIENCE):
    wait_until(lambda: instance.pending_files() == 0, timeout, "uploads to go on by themselves")


def standing(proxy):
    """How many bytes went through the proxy when none do, what was on its way already included; else nothing."""
    count = proxy.body_bytes()
    time.sleep(1)
    return count if proxy.body_bytes() == count else 0
