# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Uploads that have time leave the line to others."""

import json
import os
import re
import subprocess
import time

import pytest

from harness.network import missing
from harness.processes import wait_until
from harness.sink import Sink
from harness.trees import write_random_file

MIB = 1 << 20

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def marked(network):
    """How many packets went to the server with the mark of lower effort, and how many without."""
    rules = json.loads(network.run("machine", "nft", "-j", "list", "table", "inet", "moorage").stdout)["nftables"]
    return [
        part["counter"]["packets"] for rule in rules if "rule" in rule for part in rule["rule"]["expr"] if "counter" in part
    ]


@pytest.mark.limit(150)
def test_a_foreground_program_keeps_its_rate(far_server, far_instance, network, folder, stack, seed):
    """curl sends through the same narrow line, alone and beside a discretionary upload."""
    network.run("machine", "tc", "qdisc", "add", "dev", "cable", "root", *"tbf rate 16mbit burst 32kbit latency 300ms".split())
    control = os.environ.get("MOORAGE_TEST_CONGESTION", "reno")
    network.run("machine", "sysctl", "-w", f"net.ipv4.tcp_congestion_control={control}")
    count = f"ip daddr {network.ADDRESS} tcp dport {far_server.address.rpartition(':')[2]} tcp flags & syn == 0"
    network.nft([f"{count} ip dscp 0x01 counter", f"{count} ip dscp != 0x01 counter"])
    sink = Sink(network, stack)
    big = os.path.join(folder, "big")
    write_random_file(big, 64 * MIB, seed)

    def foreground(seconds):
        """Bytes a second that curl gets through, without its first two seconds."""
        command = ["curl", "-s", "-T", big, "-H", "Expect:", "--max-time", str(seconds), f"http://{network.ADDRESS}:{sink.port}/"]
        start = time.monotonic()
        subprocess.run([*network.words("machine"), *command], stdout=subprocess.DEVNULL, timeout=60)
        return sink.rate(start + 2, time.monotonic())

    alone = foreground(8)
    far_instance.configure(discretionary="true", **{"yield": os.environ.get("MOORAGE_TEST_YIELD", "discretionary")})
    mount = far_instance.mount("s3://bucket")
    write_random_file(mount / "upload", 96 * MIB, seed + 1)
    begun = far_server.body_bytes()
    wait_until(lambda: far_server.body_bytes() > begun + MIB, 60, "an upload under way")
    time.sleep(6)
    before, start = far_server.body_bytes(), time.monotonic()
    time.sleep(4)
    ours_alone = (far_server.body_bytes() - before) / (time.monotonic() - start)
    before, start = far_server.body_bytes(), time.monotonic()
    beside = foreground(12)
    ours_beside = (far_server.body_bytes() - before) / (time.monotonic() - start)
    print(
        f"FIGURES {control}: foreground {alone / 1e6:.2f} MB/s alone, {beside / 1e6:.2f} MB/s beside, "
        f"{beside / alone:.0%}; upload {ours_alone / 1e6:.2f} MB/s alone, {ours_beside / 1e6:.2f} MB/s beside"
    )
    assert beside > 0.75 * alone
    assert ours_alone > 0.4 * alone, "it uses a line that nobody else uses"
    assert far_server.body_bytes() > before, "it goes on all the same"
    low, plain = marked(network)
    assert low > 100 and plain < low / 10
    # The mark can be left out, also for what runs; somebody who waits has none of either.
    far_instance.run("policy", "set", "low_effort=false")
    time.sleep(1)
    low, plain = marked(network)
    wait_until(lambda: marked(network)[1] > plain + 50, 20, "packets without a mark")
    assert marked(network)[0] - low < 20
    far_instance.run("policy", "unset", "low_effort")
    wait_until(lambda: marked(network)[0] > low + 50, 20, "packets with a mark")
    far_instance.run("uploads", "now", "--all")
    time.sleep(2)
    low, before, start = marked(network)[0], far_server.body_bytes(), time.monotonic()
    wait_until(lambda: far_server.body_bytes() > before + 4 * MIB or far_instance.pending_files() == 0, 30, "the whole line")
    assert marked(network)[0] - low < 20
    with open(f"/proc/{far_instance.flusher_pid()}/status") as file:
        assert re.search(r"^Name:\s+moorage", file.read(), re.M)
    assert "idle" in subprocess.run(["ionice", "-p", str(far_instance.flusher_pid())], capture_output=True, text=True).stdout
