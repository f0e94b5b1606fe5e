# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A server that answers with failures of its own is asked by one probe for all its volumes; a bucket that fails is alone."""

import os
import time

import pytest

from harness.held import PATIENCE, expect_done
from harness.processes import wait_until
from harness.trees import all_keys, write_file

VOLUMES = 6
FILES = 8
# As many as a request is sent at most, for as many uploads as run at once, and some.
FAILURES = 45
# What Docs/BackgroundTransfers.md says: half a minute between probes at last, each of which is tried twice.
PROBES_OF_FIRST_MINUTE = 8


@pytest.fixture
def mounts(instance, server):
    """Buckets of one server, each in use."""
    mounts = {}
    for number in range(VOLUMES):
        name = f"bucket-{number}"
        server.make_bucket(name)
        mounts[name] = instance.mount(f"s3://{name}")
        write_file(mounts[name] / "first", b"1")
    instance.flush()
    return mounts


def write_all(mounts):
    for mount in mounts.values():
        for number in range(FILES):
            write_file(mount / f"f{number}", b"content")


def is_away(upload):
    return "offline" in [item["reason"] for item in upload["waiting"]]


def requests_of(proxy, seconds):
    """How many requests end within a time in which nobody uses a mount."""
    before = len(proxy.requests())
    time.sleep(seconds)
    return len(proxy.requests()) - before


@pytest.mark.limit(180)
def test_volumes_of_a_server_that_fails_ask_once_for_all(proxy, instance, client, mounts):
    rule = proxy.rule("respond", times="all", status=500)
    write_all(mounts)
    wait_until(lambda: all(is_away(upload) for upload in instance.uploads()), PATIENCE, "all to wait for the server")
    # Of those that the server has failed an attempt is charged, of no other.
    uploads = instance.uploads()
    tried = [upload for upload in uploads if upload["attempts"]]
    print("tried:", len(tried), "attempts:", sum(upload["attempts"] for upload in tried))
    assert len(uploads) == VOLUMES * FILES and len(tried) <= len(uploads) / 2
    # A mount that was written to has asked by itself, which is over by now.
    time.sleep(5)
    count = requests_of(proxy, 15)
    print("requests in 15 s:", count)
    assert count <= PROBES_OF_FIRST_MINUTE
    rule.remove()
    expect_done(instance)
    assert all(len(list(all_keys(client, name))) == FILES + 1 for name in mounts)


@pytest.mark.limit(180)
def test_a_bucket_that_fails_holds_no_other(proxy, instance, client, mounts):
    rule = proxy.rule("respond", times="all", status=500, path="/bucket-0")
    write_all(mounts)
    good = [name for name in mounts if name != "bucket-0"]
    wait_until(lambda: all(len(list(all_keys(client, name))) == FILES + 1 for name in good), PATIENCE, "the other buckets")
    wait_until(lambda: instance.pending_files() == FILES, PATIENCE, "that to be known")
    # One that meets a failure now and then goes on too, and is asked for itself.
    once = proxy.rule("respond", times=FAILURES, status=500, method="PUT", path="/bucket-1")
    for number in range(FILES):
        write_file(mounts["bucket-1"] / f"again{number}", b"content")
    wait_until(lambda: len(list(all_keys(client, "bucket-1"))) == 2 * FILES + 1, PATIENCE, "the bucket that failed for a moment")
    assert once.matched() == FAILURES
    assert list(all_keys(client, "bucket-0")) == ["first"]
    rule.remove()
    expect_done(instance)
    assert os.listdir(mounts["bucket-0"].path)
