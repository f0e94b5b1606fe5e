# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What somebody waits for comes before what is read ahead, and a network that comes to cost ends reading ahead."""

import os
import subprocess
import time

import pytest

from harness.held import PATIENCE
from harness.processes import wait_until

MIB = 1 << 20
BLOCK = 32 << 10
#: The length of a range that is read ahead on a fast line.
RANGE = 8 * MIB
#: How many requests of a stream go through before the next are held: by then it is read ahead as far as may be.
FIRST = 6
#: Small files are fetched whole.
SMALL = [f"small-{number}" for number in range(100)]
SIZES = {"stream": 192 * MIB, "other": 64 * MIB} | dict.fromkeys(SMALL, 8 * BLOCK)
#: Bytes a second: a line whose reader has to wait, though ranges are long on it, and one that they fill for half a minute.
STEADY, NARROW = 32 * MIB, MIB


@pytest.fixture
def bucket(server):
    """Files without content but for a page at each whole MiB that tells where it is."""
    for name, size in SIZES.items():
        with open(os.path.join(server.root, "bucket", name), "wb") as file:
            file.truncate(size)
            for place in range(0, size, MIB):
                os.pwrite(file.fileno(), page(name, place), place)
    # It computes the tags of what others put there when it is asked for them first.
    server.client().list_objects_v2(Bucket="bucket")


def page(name, place):
    return f"{name} {place:<20}".encode().ljust(4096, b".")


class Stream:
    """A file that processes read in order through a descriptor of ours: ranges are asked for ahead, two at least, and more
    wait for their end; of them nothing comes before they are let go."""

    def __init__(self, mount, proxy, stack):
        self.proxy = proxy
        self.stack = stack
        self.file = stack.enter_context(open(mount / "stream", "rb", buffering=0))
        self.begun = self.hold(skip=FIRST, times="all")
        proxy.limit(down=STEADY)
        # More than those bring that are not held.
        self.reader = self.read(FIRST * RANGE)
        self.ranges = wait_until(self.count_ranges, PATIENCE, "ranges that are asked for ahead")

    def count_ranges(self):
        """How many are under way when there come to be no more, and when what is not held has come; else nothing."""
        count = self.begun.matched()
        time.sleep(2)
        return count if count == self.begun.matched() > 1 and len(self.answers()) == FIRST else 0

    def let_go(self):
        self.begun.remove()

    def hold(self, **which):
        return self.proxy.rule("hold", method="GET", path="/bucket/stream", **which)

    def read(self, count):
        """Has a process read as many bytes more."""
        words = ["dd", "of=/dev/null", "bs=64K", f"count={count}", "iflag=count_bytes,fullblock", "status=none"]
        reader = subprocess.Popen(words, stdin=self.file)
        self.stack.callback(end, reader)
        return reader

    def answers(self):
        """The lengths of the answers that have come to their end."""
        return lengths(self.proxy, "stream")


def end(reader):
    reader.kill()
    reader.wait()


def expect_end(reader):
    assert wait_until(lambda: reader.poll() is not None and [reader.returncode], PATIENCE, "a reader's end") == [0]


def lengths(proxy, name):
    return [record["response_bytes"] for record in proxy.requests("GET object") if record["path"] == f"/bucket/{name}"]


def delivered(proxy):
    """What has come through the line, with what answers under way have brought so far."""
    return proxy.stats()["response_bytes"]


def wait_for_standstill(proxy):
    def is_still():
        count = delivered(proxy)
        time.sleep(1)
        return delivered(proxy) == count

    wait_until(is_still, PATIENCE, "the line to be empty")


#: Beyond all that is read ahead of the stream's reader; the last one begins a file, which has the next bytes come along.
PLACES = [("other", 20 * MIB), ("stream", 170 * MIB), ("other", 40 * MIB), ("stream", 150 * MIB), ("other", 0)]


def test_who_waits_for_a_page_does_not_wait_for_what_is_read_ahead(instance, proxy, bucket, stack):
    """While a narrow line has ranges to carry ahead of the reader of a stream, a cold page comes with a quarter of a MiB of
    them; it would be with ten or more if it had to wait for the end of any."""
    instance.configure(stall_timeout="60s")
    mount = instance.mount("s3://bucket")
    files = {name: stack.enter_context(open(mount / name, "rb", buffering=0)) for name in ("other", "stream")}
    stream = Stream(mount, proxy, stack)
    proxy.limit(down=NARROW)
    before = delivered(proxy)
    stream.let_go()
    wait_until(lambda: delivered(proxy) > before + MIB, PATIENCE, "bytes of what is read ahead")
    costs = []
    for name, place in PLACES:
        start = delivered(proxy)
        assert os.pread(files[name].fileno(), 4096, place) == page(name, place)
        costs.append(delivered(proxy) - start)
    gone = delivered(proxy) - before
    print("FIGURES", [cost >> 10 for cost in costs], "KiB, all", gone >> 10)
    assert max(costs) < 2 * MIB, costs
    # What was under way meanwhile still is, and goes on to its end; what begins now does not come.
    answered = FIRST + sum(name == "stream" for name, _ in PLACES)
    assert len(stream.answers()) == answered
    stream.hold(times="all")
    proxy.limit()
    wait_until(lambda: len(stream.answers()) == answered + stream.ranges, PATIENCE, "the end of what was under way")
    assert sum(stream.answers()[answered:]) - gone > 2 * MIB, stream.answers()


def expect_thrift(mount, proxy):
    """Waits until of a small file a block is fetched, and not all of it."""
    unread = iter(SMALL)

    def cost_of_a_page():
        name = next(unread)
        with open(mount / name, "rb", buffering=0) as file:
            os.pread(file.fileno(), 4096, 0)
        return wait_until(lambda: lengths(proxy, name), PATIENCE, "the end of the answer")

    wait_until(lambda: cost_of_a_page() == [BLOCK], PATIENCE, "reading ahead to end", interval=2)


def test_a_network_that_becomes_metered_ends_reading_ahead(instance, proxy, bucket, bus, stack):
    """In the middle of a stream: what is under way comes, what waited for its end does not, then what is read alone."""
    manager = bus.network_manager()
    instance.configure(stall_timeout="60s")
    mount = instance.mount("s3://bucket")
    stream = Stream(mount, proxy, stack)
    proxy.limit()
    manager.update(Metered="uint32 1")
    expect_thrift(mount, proxy)
    assert instance.holds() == ["expensive"]
    first, before = sum(stream.answers()), delivered(proxy)
    stream.let_go()
    expect_end(stream.reader)
    wait_for_standstill(proxy)
    position = FIRST * RANGE
    reached = first + delivered(proxy) - before
    print("FIGURES", [count >> 10 for count in stream.answers()], "KiB, all", reached >> 10)
    # The kernel reads a little ahead of its own.
    assert reached <= max(position, first + stream.ranges * RANGE) + MIB, stream.answers()
    # Through the rest of what has come, and on.
    count = max(0, reached - position) + 24 * MIB
    expect_end(stream.read(count))
    wait_for_standstill(proxy)
    fetched = first + delivered(proxy) - before
    print("FIGURES read", (position + count) >> 10, "KiB, fetched", fetched >> 10)
    assert fetched <= position + count + MIB
