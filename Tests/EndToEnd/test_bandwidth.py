# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""How much goes over the network: what is set for now and by the clock, in both directions, by all processes together."""

import os
import threading
import time

import pytest

from harness.network import missing
from harness.processes import run, wait_until
from harness.trees import sha256_of_object, write_random_file

MIB = 1 << 20


class Meter:
    """Reads a counter that only grows, every 50 ms, and tells the rate between two times."""

    def __init__(self, read, stack):
        self.read = read
        self.samples = []
        self.end = threading.Event()
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        stack.callback(lambda: (self.end.set(), thread.join(5)))
        wait_until(lambda: self.samples, 30, "a first sample")

    def _run(self):
        while not self.end.is_set():
            asked = time.monotonic()
            count = self.read()
            # Of an answer that comes late nobody knows how old it is.
            self.samples.append(((asked + time.monotonic()) / 2, count))
            time.sleep(0.05)

    def at(self, moment):
        """The count at a time, between two samples."""
        wait_until(lambda: self.samples and self.samples[-1][0] >= moment, 30, "a sample")
        before = [sample for sample in self.samples if sample[0] <= moment][-1]
        after = [sample for sample in self.samples if sample[0] >= moment][0]
        if after[0] == before[0]:
            return before[1]
        return before[1] + (after[1] - before[1]) * (moment - before[0]) / (after[0] - before[0])

    def rate(self, start, end):
        """Bytes a second."""
        return (self.at(end) - self.at(start)) / (end - start)

    def expect(self, start, end, wanted, part):
        """No more than a part above, and what may be caught up on after a standstill of a quarter of a second; a machine that
        has much else to do may stay further below."""
        rate = self.rate(start, end)
        most = 1 + part + 0.25 / (end - start)
        assert 1 - max(part, 0.25) <= rate / wanted <= most, f"{rate:.0f} B/s instead of {wanted} B/s"


def limits(instance):
    return {limit["direction"]: limit for limit in instance.policy()["limits"]}


def test_uploads_keep_to_a_rate_that_is_set_while_they_run(server, instance, stack, seed):
    """Four files with four parts at once share one rate; setting it counts at once, also for what somebody waits for."""
    mount = instance.mount("s3://bucket", endpoint=server.url)
    instance.run("policy", "set", "max_rate=2M", "max_download_rate=1M")
    meter = Meter(server.body_bytes, stack)
    digests = [write_random_file(mount / f"f{number}", 16 * MIB, seed + number) for number in range(4)]
    wait_until(lambda: meter.samples[-1][1] > MIB, 60, "uploads under way")
    start = time.monotonic()
    meter.expect(start, start + 10, 2 * MIB, 0.05)
    # A person who waits has no more of the line than is allowed, either.
    instance.run("uploads", "now", "--all")
    instance.run("policy", "set", "max_rate=4M", "--for", "1h")
    changed = time.monotonic()
    meter.expect(changed + 1, changed + 4, 4 * MIB, 0.1)
    [upload, download] = [limits(instance)[name] for name in ("upload", "download")]
    assert upload["rate"] == 4 * MIB and upload["until"] is None and download["rate"] == MIB
    assert "uploads: at most 4 MiB a second" in instance.run("policy").stdout
    instance.run("policy", "set", "max_rate=off")
    instance.flush()
    for number, digest in enumerate(digests):
        assert sha256_of_object(server.client(), "bucket", f"f{number}") == digest
    refused = instance.run("policy", "set", "max_rate=10", check=False)
    assert refused.returncode == 1 and "max_rate=10 is not a rate such as 512K" in refused.stderr


def test_a_volume_and_its_paths_have_limits_of_their_own(server, instance, stack, seed):
    """Others neither wait behind them nor are slowed down; each limit is for all that goes by it together."""
    server.make_bucket("other")
    instance.configure(quiet_period="0s")
    with open(instance.environment["MOORAGE_CONFIG"], "a") as file:
        file.write("[volume slow]\nremote = s3://bucket\nrate_limit = 1M\n[path slow:*.fast]\nrate_limit = off\n")
    slow = instance.mount("slow", endpoint=server.url)
    free = instance.mount("s3://other", endpoint=server.url)
    meter = Meter(server.body_bytes, stack)
    digests = [write_random_file(slow / f"f{number}", 20 * MIB, seed + number) for number in range(2)]
    wait_until(lambda: meter.samples[-1][1] > MIB // 2, 60, "uploads under way")
    # Both together; nobody else has anything to send.
    start = time.monotonic()
    meter.expect(start, start + 6, MIB, 0.08)
    write_random_file(free / "other", 24 * MIB, seed)
    write_random_file(slow / "a.fast", 24 * MIB, seed)

    def left():
        return sorted(upload["path"] for upload in instance.uploads())

    wait_until(lambda: left() == ["f0", "f1"], 60, "what has no limit to overtake")
    start = time.monotonic()
    meter.expect(start, start + 4, MIB, 0.1)
    # What it did not use of the rate of all meanwhile is not its own later.
    instance.run("policy", "set", "max_rate=2M")
    start = time.monotonic()
    meter.expect(start + 1, start + 3, MIB, 0.1)
    instance.run("policy", "set", "rate_limit=off")
    start = time.monotonic()
    meter.expect(start + 1, start + 3, 2 * MIB, 0.15)
    instance.run("policy", "set", "max_rate=off")
    instance.flush()
    for number, digest in enumerate(digests):
        assert sha256_of_object(server.client(), "bucket", f"f{number}") == digest
    assert instance.run("policy", "set", "rate_limit=10", check=False).returncode == 1


def test_a_file_has_a_limit_of_its_own(server, instance, stack, seed):
    """Two of the same rate do not share it, and others are not slowed down."""
    instance.configure(quiet_period="2s")
    mount = instance.mount("s3://bucket")
    for number in range(2):
        write_random_file(mount / f"f{number}", 20 * MIB, seed + number)
        os.setxattr(mount / f"f{number}", "user.moorage.rate-limit", b"1M")
    write_random_file(mount / "free", 24 * MIB, seed)
    meter = Meter(server.body_bytes, stack)
    wait_until(lambda: sorted(upload["path"] for upload in instance.uploads()) == ["f0", "f1"], 60, "the other to overtake")
    start = time.monotonic()
    meter.expect(start, start + 5, 2 * MIB, 0.08)
    # As for what runs, so for what is set while it runs.
    os.setxattr(mount / "f0", "user.moorage.rate-limit", b"512K")
    start = time.monotonic()
    meter.expect(start + 1, start + 5, 1.5 * MIB, 0.1)
    os.removexattr(mount / "f0", "user.moorage.rate-limit")
    os.setxattr(mount / "f1", "user.moorage.rate-limit", b"off")
    instance.flush()


@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.limit(150)
def test_a_server_on_this_machine_shares_no_line(server, instance, seed):
    """What waits for nobody stands back for others on a line; acknowledgements that are put off are no sign of them."""
    instance.configure(discretionary="true")
    mount = instance.mount("s3://bucket", endpoint=server.url)
    write_random_file(mount / "upload", 64 * MIB, seed)
    # A third of a megabyte a second would be enough to fail.
    wait_until(lambda: instance.pending_files() == 0, 100, "the upload")


def test_reading_keeps_to_a_rate_in_all_mounts_together(far_server, far_instance, network, stack):
    """Two mounts share one rate although they are two processes, and keep it when the flusher is killed."""
    client = far_server.client()
    client.create_bucket(Bucket="other")
    for bucket in ("bucket", "other"):
        client.put_object(Bucket=bucket, Key="big", Body=os.urandom(48 * MIB))
    instance = far_instance
    mounts = [instance.mount(f"s3://{bucket}") for bucket in ("bucket", "other")]
    instance.run("policy", "set", "max_download_rate=2M")
    # What comes over the cable, with its headers.
    meter = Meter(lambda: network.counter("rx_bytes"), stack)
    begun = meter.at(time.monotonic())
    readers = [
        threading.Thread(target=run, args=(["sh", "-c", f"exec cat {mount / 'big'} > /dev/null"],), daemon=True)
        for mount in mounts
    ]
    for reader in readers:
        reader.start()
    wait_until(lambda: meter.samples[-1][1] > begun + 6 * MIB, 60, "both readers under way")
    start = time.monotonic()
    meter.expect(start, start + 10, 2 * MIB * 1.04, 0.05)
    instance.kill_flusher()
    start = time.monotonic()
    meter.expect(start, start + 5, 2 * MIB * 1.04, 0.15)
    instance.run("policy", "set", "max_download_rate=off")
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()


def test_a_timetable_switches_by_the_clock_on_the_wall(server, instance, stack, seed):
    """The rate changes within two seconds of the minute that the timetable says."""
    # A zone east of here in which a minute is over in 20 s.
    ahead = (40 - time.time()) % 60 + 3600 * 5 + 60 * 45
    instance.environment["TZ"] = f"<+0545>-5:45:{int(ahead % 60):02}"
    local = time.time() + int(ahead)
    assert 20 < local % 60 <= 40
    minute = int(local // 60 + 1) % 1440
    now = f"{(minute - 2) % 1440 // 60:02}:{(minute - 2) % 60:02}"
    switch = f"{minute // 60:02}:{minute % 60:02}"
    instance.configure(max_rate=f"{now},512K {switch},3M")
    at = time.monotonic() + 60 - local % 60
    mount = instance.mount("s3://bucket", endpoint=server.url)
    meter = Meter(server.body_bytes, stack)
    write_random_file(mount / "big", 80 * MIB, seed)
    wait_until(lambda: meter.samples[-1][1] > MIB // 4, 60, "an upload under way")
    [limit] = [limit for limit in instance.policy()["limits"] if limit["direction"] == "upload"]
    assert limit["rate"] == 512 << 10
    assert limit["until"] is not None
    before = meter.rate(at - 4, at - 0.2)
    meter.expect(at + 2, at + 5, 3 * MIB, 0.1)
    assert before < 700 << 10
