# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Cuts at random offsets and SIGKILL of mount and flusher during a big upload: nothing is sent twice.

Both the bytes that reached the server and the bytes that left the client are counted.
"""

import random

import pytest

from harness.processes import wait_until
from harness.settings import scaled
from harness.trees import sha256_of_object, write_random_file

MIB = 1 << 20
SIZE = 256 * MIB
PART = 5 * MIB
ONE_AT_A_TIME = {"part_size": "5M", "parallel_parts": 1}
# What Moorage does by itself; see PartLayout and the configuration's default of parallel_parts.
USUAL_PART = 8 * MIB
USUAL_PARALLEL_PARTS = 4
OVERHEAD = 64 << 10  # documents that complete an upload


class Upload:
    """A big file on its way through the proxy, with what is done to it."""

    def __init__(self, server, proxy, instance, protocol, seed, settings):
        self.server, self.proxy, self.instance = server, proxy, instance
        self.generator = random.Random(seed)
        instance.configure(upload_protocol=protocol, **settings)
        self.mount = instance.mount("s3://bucket")
        self.kills = self.flusher_kills = 0
        self.protocols = set()

    def start(self, size):
        self.proxy.limit(up=48 * MIB)
        self.proxy.zero()
        self.received_before = self.server.body_bytes()
        self.digest = write_random_file(self.mount / "big", size, self.generator.random())

    def plan_cuts(self, count, size):
        offsets = sorted(self.generator.randrange(MIB, size - MIB) for _ in range(count))
        self.proxy.cut_at_totals(offsets)

    def wait_for_total(self, total):
        wait_until(lambda: self.proxy.body_bytes() >= total, 120, f"{total} bytes under way", 0.02)

    def assert_under_way(self):
        """A kill that finds nothing in flight proves nothing."""
        pending = self.instance.in_flight()
        assert pending and pending[0]["sent"] < pending[0]["size"], f"nothing was in flight: {pending}"
        self.protocols.add(pending[0]["protocol"])

    def kill_flusher(self):
        self.assert_under_way()
        self.instance.kill_flusher()
        self.kills += 1
        self.flusher_kills += 1
        # Whatever needs the flusher starts one; a mount does so too, but need not do it at once.
        self.instance.run("flush", "--timeout", "1", check=False)

    def kill_mount(self):
        self.assert_under_way()
        self.mount.kill()
        self.kills += 1
        self.mount = self.mount.mount_again()

    def interrupt(self, cuts):
        """Sends the file while connections are cut and processes killed in turn."""
        self.start(SIZE)
        self.plan_cuts(cuts, SIZE)
        for number, total in enumerate(sorted(self.generator.randrange(20 * MIB, SIZE - 60 * MIB) for _ in range(4))):
            self.wait_for_total(total)
            # It does not come to its end while it is looked at.
            self.proxy.limit(up=2 * MIB)
            self.kill_flusher() if number % 2 == 0 else self.kill_mount()
            self.proxy.limit(up=48 * MIB)
        self.finish()
        assert self.proxy.stats()["cuts"] == cuts

    def unanswered(self):
        """How many requests with content got no answer."""
        records = self.proxy.requests(path="/bucket/big")
        return sum(record["client_status"] is None and record["request_bytes"] > 0 for record in records)

    def finish(self):
        self.instance.flush(timeout=150)
        assert sha256_of_object(self.server.client(), "bucket", "big") == self.digest
        assert self.instance.pending_files() == 0
        assert self.instance.conflicts() == 0

    def excess(self):
        """The bytes beyond the size of the data: read by the server, and sent by the client."""
        received = self.server.body_bytes() - self.received_before
        sent = self.proxy.body_bytes()
        print(f"received {received}, sent {sent}, cuts {self.proxy.stats()['cuts']}, kills {self.kills}")
        return received, sent


@pytest.mark.limit(240)
@pytest.mark.parametrize(
    "protocol,settings,loss_at_server,loss_at_client",
    [("s3-multipart", ONE_AT_A_TIME, PART, PART), ("auto", {}, MIB // 4, 4 * MIB)],
    ids=["s3-multipart", "ietf-resumable"],
)
def test_cuts_and_kills_during_a_big_upload_cost_little(
    server, proxy, instance, seed, protocol, settings, loss_at_server, loss_at_client
):
    """Resumable uploads are found out about by themselves, and cost what was in the sockets."""
    upload = Upload(server, proxy, instance, protocol, seed, settings)
    cuts = scaled(20)
    upload.interrupt(cuts)
    received, sent = upload.excess()
    interruptions = cuts + upload.kills
    assert SIZE <= received <= SIZE + interruptions * loss_at_server + OVERHEAD
    assert SIZE <= sent <= SIZE + interruptions * loss_at_client + OVERHEAD
    used = {record["kind"] for record in proxy.requests(path="/") if record["request_bytes"] > MIB}
    assert used == ({"PUT part"} if protocol == "s3-multipart" else {"PATCH append"})
    assert upload.protocols == ({"s3-multipart"} if protocol == "s3-multipart" else {"ietf-resumable"})


@pytest.mark.limit(240)
def test_parts_side_by_side_are_lost_one_by_one(server, proxy, instance, seed):
    """With the usual settings a cut costs the part on that connection, and a kill of the flusher what is in flight."""
    upload = Upload(server, proxy, instance, "s3-multipart", seed, {})
    cuts = scaled(20)
    upload.interrupt(cuts)
    received, sent = upload.excess()
    lost = upload.unanswered()
    print(f"{lost} requests without an answer, {upload.flusher_kills} of {upload.kills} kills of the flusher")
    assert lost <= cuts + upload.flusher_kills * USUAL_PARALLEL_PARTS
    for bytes_beyond in (received - SIZE, sent - SIZE):
        assert 0 <= bytes_beyond <= lost * USUAL_PART + OVERHEAD
        assert bytes_beyond <= (cuts + upload.kills) * USUAL_PART + OVERHEAD, "more than a part an interruption"


@pytest.mark.limit(120)
@pytest.mark.parametrize("protocol,loss", [("s3-multipart", PART), ("ietf-resumable", MIB // 4)])
def test_an_unmounted_volume_finishes_after_the_flusher_was_killed(server, proxy, instance, seed, protocol, loss):
    upload = Upload(server, proxy, instance, protocol, seed, ONE_AT_A_TIME)
    upload.start(64 * MIB)
    upload.wait_for_total(16 * MIB)
    # However long the unmount takes on a busy machine: something is left to send when it is over.
    proxy.limit(up=2 * MIB)
    upload.mount.unmount()
    upload.kill_flusher()
    proxy.limit(up=48 * MIB)
    upload.finish()
    received, _ = upload.excess()
    assert received <= 64 * MIB + loss + OVERHEAD


@pytest.mark.limit(120)
def test_a_slow_and_laggy_link_costs_no_byte_twice(server, proxy, instance, seed):
    upload = Upload(server, proxy, instance, "s3-multipart", seed, ONE_AT_A_TIME)
    upload.start(24 * MIB)
    proxy.limit(up=6 * MIB, latency=100)
    upload.finish()
    received, _ = upload.excess()
    assert received <= 24 * MIB + OVERHEAD
