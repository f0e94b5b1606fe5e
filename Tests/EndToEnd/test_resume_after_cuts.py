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


class Upload:
    """A big file on its way through the proxy, with what is done to it."""

    def __init__(self, server, proxy, instance, protocol, seed):
        self.server, self.proxy, self.instance = server, proxy, instance
        self.generator = random.Random(seed)
        instance.configure(upload_protocol=protocol, part_size="5M", parallel_parts=1)
        self.mount = instance.mount("s3://bucket")
        self.kills = 0

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

    def kill_flusher(self):
        self.assert_under_way()
        self.instance.kill_flusher()
        self.kills += 1
        # Whatever needs the flusher starts one; a mount does so too, but need not do it at once.
        self.instance.run("flush", "--timeout", "1", check=False)

    def kill_mount(self):
        self.assert_under_way()
        self.mount.kill()
        self.kills += 1
        self.mount = self.mount.mount_again()

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
    "protocol,loss_at_server,loss_at_client",
    [("s3-multipart", PART, PART), ("ietf-resumable", MIB // 4, 4 * MIB)],
)
def test_cuts_and_kills_during_a_big_upload_cost_little(
    server, proxy, instance, seed, protocol, loss_at_server, loss_at_client
):
    upload = Upload(server, proxy, instance, protocol, seed)
    cuts = scaled(20)
    upload.start(SIZE)
    upload.plan_cuts(cuts, SIZE)
    for number, total in enumerate(sorted(upload.generator.randrange(20 * MIB, SIZE - 60 * MIB) for _ in range(4))):
        upload.wait_for_total(total)
        upload.kill_flusher() if number % 2 == 0 else upload.kill_mount()
    upload.finish()
    received, sent = upload.excess()
    interruptions = proxy.stats()["cuts"] + upload.kills
    assert proxy.stats()["cuts"] == cuts
    overhead = 64 << 10  # documents that complete an upload
    assert SIZE <= received <= SIZE + interruptions * loss_at_server + overhead
    assert SIZE <= sent <= SIZE + interruptions * loss_at_client + overhead
    used = {record["kind"] for record in proxy.requests(path="/") if record["request_bytes"] > MIB}
    assert used == ({"PUT part"} if protocol == "s3-multipart" else {"PATCH append"})


@pytest.mark.limit(120)
@pytest.mark.parametrize("protocol", ["s3-multipart", "ietf-resumable"])
def test_an_unmounted_volume_finishes_after_the_flusher_was_killed(server, proxy, instance, seed, protocol):
    upload = Upload(server, proxy, instance, protocol, seed)
    upload.start(64 * MIB)
    upload.wait_for_total(16 * MIB)
    upload.mount.unmount()
    upload.kill_flusher()
    upload.finish()
    received, _ = upload.excess()
    assert received <= 64 * MIB + PART + (64 << 10)


@pytest.mark.limit(120)
def test_a_slow_and_laggy_link_costs_no_byte_twice(server, proxy, instance, seed):
    upload = Upload(server, proxy, instance, "s3-multipart", seed)
    upload.start(24 * MIB)
    proxy.limit(up=6 * MIB, latency=100)
    upload.finish()
    received, _ = upload.excess()
    assert received <= 24 * MIB + (64 << 10)
