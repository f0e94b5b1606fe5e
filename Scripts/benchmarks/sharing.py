# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""Measures how the line is shared: the rates that are set, the timetable's switch, a program beside a discretionary upload."""

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(os.path.join(os.path.dirname(__file__), "../../Tests/EndToEnd"))
from figures import Goal, conclude, missed_goals  # noqa: E402
from harness.instance import Instance  # noqa: E402
from harness.network import FarServer, Network  # noqa: E402
from harness.processes import wait_until  # noqa: E402
from harness.sink import Sink  # noqa: E402
from harness.trees import write_random_file  # noqa: E402

MIB = 1 << 20
#: A zone in which no minute ends with one of UTC: what goes by the clock on the wall has to know it.
ZONE = "<+0545>-5:45:20"
#: Of what is set, of seconds, of the rate that a program has where nobody else sends.
RATE = Goal(least=0.95, most=1.05)
SWITCH = Goal(most=2)
FOREGROUND = Goal(least=0.9)
#: With queues of 600 kB and 1.2 MB before them.
LINES = {
    "16 Mbit/s": ["root tbf rate 16mbit burst 32kbit latency 300ms"],
    "100 Mbit/s": ["root tbf rate 100mbit burst 128kbit latency 100ms"],
}


class Side:
    """A bucket at the other end of a cable, and an instance at this one."""

    def __init__(self, binary, work, stack):
        folder = tempfile.mkdtemp(dir=work)
        self.network = Network(folder, stack)
        self.server = FarServer(binary, os.path.join(folder, "served"), self.network)
        stack.callback(self.server.stop)
        self.server.make_bucket("bucket")
        self.folder = folder
        self.instance = Instance(binary, os.path.join(folder, "i"), self.server.url)
        self.instance.binary = self.network.binary("machine", binary)
        self.instance.environment["TZ"] = ZONE
        stack.callback(self.instance.abandon)
        self.mount = self.instance.mount("s3://bucket")

    def sent(self):
        return self.server.body_bytes()

    def sends(self, name, size):
        """Has a file sent; returns when its first bytes are there."""
        before = self.sent()
        write_random_file(self.mount / name, size, 1)
        wait_until(lambda: self.sent() > before + MIB // 4, 60, "an upload under way")

    def over(self, seconds, read):
        """Bytes a second by a counter, from now on."""
        before, start = read(), time.monotonic()
        time.sleep(seconds)
        return (read() - before) / (time.monotonic() - start)

    def quiet(self):
        """Nothing more is to be sent."""
        self.instance.run("policy", "set", "max_rate=off")
        self.instance.flush()


def upload_rates(side, rounds):
    for rate in (1, 8, 64):
        shares = []
        for number in range(rounds):
            side.instance.run("policy", "set", f"max_rate={rate}M")
            side.sends(f"up-{rate}-{number}", rate * 14 * MIB)
            shares.append(side.over(10, side.sent) / (rate * MIB))
            side.quiet()
        yield f"upload at {rate} MiB/s, over 10 s", shares, "of it", RATE


def download_rates(side, rounds):
    side.server.client().put_object(Bucket="bucket", Key="down", Body=os.urandom(160 * MIB))
    count = [0]

    def read():
        with open(side.mount / "down", "rb", buffering=0) as file:
            while piece := file.read(1 << 17):
                count[0] += len(piece)

    side.instance.run("policy", "set", "max_download_rate=4M")
    reader = threading.Thread(target=read)
    reader.start()
    wait_until(lambda: count[0] > 4 * MIB, 60, "a read under way")
    # What a program gets comes in blocks: what comes over the cable does not.
    shares = [side.over(10, lambda: side.network.counter("rx_bytes")) / (4 * MIB) for _ in range(rounds)]
    side.instance.run("policy", "set", "max_download_rate=off")
    reader.join()
    yield "reading at 4 MiB/s, over 10 s, with headers", shares, "of it", RATE


def switches(side, rounds):
    """Seconds from the minute of the timetable until the new rate is there."""
    east = 5 * 3600 + 45 * 60 + 20
    delays = []
    for number in range(rounds):
        wait_until(lambda: 10 < (time.time() + east) % 60 < 45, 60, "some time before a minute")
        local = time.time() + east
        minute = int(local // 60 + 1) % 1440
        words = [f"{at % 1440 // 60:02}:{at % 60:02},{rate}" for at, rate in ((minute - 2, "1M"), (minute, "8M"))]
        side.instance.run("policy", "set", "max_rate=" + " ".join(words))
        side.sends(f"timed-{number}", 192 * MIB)
        begins = (local // 60 + 1) * 60 - east
        time.sleep(max(0, begins - time.time() - 1))
        samples = []
        while time.time() < begins + 5:
            samples.append((time.time(), side.sent()))
            time.sleep(0.05)
        pairs = zip(samples, samples[6:])
        reached = [then for (then, some), (now, more) in pairs if then >= begins and (more - some) / (now - then) > 6 * MIB]
        delays.append(reached[0] - begins if reached else float("inf"))
        side.quiet()
    yield "a timetable's switch from 1 to 8 MiB/s is there after", delays, "s", SWITCH


def foregrounds(side, line, commands, rounds, stack):
    for command in commands:
        side.network.run("machine", "tc", "qdisc", "add", "dev", "cable", *command.split())
    side.network.run("machine", "sysctl", "-qw", "net.ipv4.tcp_congestion_control=cubic", check=False)
    sink = Sink(side.network, stack)
    big = os.path.join(side.folder, "big")
    write_random_file(big, 256 * MIB, 7)

    def foreground(seconds):
        """Bytes a second that curl gets through, without its first two seconds."""
        words = ["curl", "-s", "-T", big, "-H", "Expect:", "--max-time", str(seconds), f"http://{Network.ADDRESS}:{sink.port}/"]
        start = time.monotonic()
        subprocess.run([*side.network.words("machine"), *words], stdout=subprocess.DEVNULL, timeout=60)
        return sink.rate(start + 2, time.monotonic())

    side.instance.run("policy", "set", "discretionary=true")
    shares, alone_shares, others = [], [], []
    for number in range(rounds):
        alone = foreground(12)
        side.sends(f"beside-{number}", 400 * MIB)
        time.sleep(5)
        alone_shares.append(side.over(4, side.sent) / alone)
        before, start = side.sent(), time.monotonic()
        shares.append(foreground(12) / alone)
        others.append((side.sent() - before) / (time.monotonic() - start) / alone)
        side.instance.run("uploads", "cancel", "--all", check=False)
        with contextlib.suppress(FileNotFoundError):
            os.remove(side.mount / f"beside-{number}")
        wait_until(lambda: side.instance.pending_files() == 0, 60, "nothing to be left")
    yield f"curl beside a discretionary upload, {line}", shares, "of its rate alone", FOREGROUND
    yield "the upload meanwhile", others, "of that", None
    yield "the upload where nobody else sends", alone_shares, "of that", None


def main():
    """Returns the exit status."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="rates,timetable,foreground")
    arguments, _ = parser.parse_known_args()
    only = arguments.only.split(",")
    rows = []

    def run(parts):
        for title, values, unit, goal in parts:
            rows.append((title, statistics.median(values), min(values), max(values), unit, goal))
            print(f"{title}: {[round(value, 3) for value in values]} {unit}", file=sys.stderr, flush=True)

    with contextlib.ExitStack() as stack:
        side = Side(arguments.binary, arguments.work, stack)
        if "rates" in only:
            run(upload_rates(side, arguments.rounds))
            run(download_rates(side, arguments.rounds))
        if "timetable" in only:
            run(switches(side, arguments.rounds))
    for line, commands in LINES.items() if "foreground" in only else ():
        with contextlib.ExitStack() as stack:
            run(foregrounds(Side(arguments.binary, arguments.work, stack), line, commands, arguments.rounds, stack))
    print(f"| median of {arguments.rounds} | figure | least | most |\n|---|---|---|---|")
    for title, median, least, most, unit, _ in rows:
        print(f"| {title} | {median:.3f} {unit} | {least:.3f} | {most:.3f} |")
    return conclude(missed_goals((title, median, goal) for title, median, _, _, _, goal in rows))


if __name__ == "__main__":
    sys.exit(main())
