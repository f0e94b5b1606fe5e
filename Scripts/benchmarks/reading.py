# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""Measures reading: cold, over a shaped link, at random, warm, in large folders, and what it takes in memory."""

import argparse
import concurrent.futures
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.append(os.path.join(os.path.dirname(__file__), "../../Tests/EndToEnd"))
from harness.generated_bucket import GeneratedBucket  # noqa: E402
from figures import Figures, describe_machine, report  # noqa: E402
from subjects import (  # noqa: E402
    MIB, Disk, LoopDisk, Moorage, Passthrough, Proxy, Rclone, S3fs, Server, claim_memory, cpu_seconds, drop_caches, peak_memory,
    read_through, run, timed,
)

SCALE = float(os.environ.get("BENCH_SCALE", "1"))
BIG = max(8, round(1024 * SCALE)) * MIB
#: What the kernel keeps of one reading at most: of the mount, of its cache, and of what the server read.
MEMORY = 4 * BIG
STREAMS = 64
STREAM = max(1, round(32 * SCALE)) * MIB
ENTRIES = max(10, round(100_000 * SCALE))
FOLDERS, OBJECTS = 100, max(10, round(10_000 * SCALE))
RANDOM_READS = max(16, round(200 * SCALE))
#: Of a second each.
TURNS = max(1, round(8 * SCALE))
SHAPES = [(latency, rate) for latency in (20, 100) for rate in (500, 1000)]


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.work = arguments.work
        self.figures = Figures()
        self.folders = iter(range(100_000))
        self.server = Server(arguments.binary, arguments.work)
        self.served = os.path.join(self.server.root, "bench")
        self.make_data()

    def make_data(self):
        with open(os.path.join(self.served, "big.bin"), "wb") as file:
            for _ in range(BIG // MIB):
                file.write(os.urandom(MIB))
        for index in range(STREAMS):
            with open(os.path.join(self.served, f"stream-{index}"), "wb") as file:
                file.write(os.urandom(MIB) * (STREAM // MIB))
        os.makedirs(os.path.join(self.served, "many"))
        for index in range(ENTRIES):
            with open(os.path.join(self.served, "many", f"entry-{index:06}"), "wb") as file:
                file.write(b"x" * (index % 10))
        # The server computes the tags of files that others put there when it first meets them.
        self.server.count("")

    def fresh(self, kind, *words, **options):
        folder = os.path.join(self.work, f"instance-{next(self.folders)}")
        os.makedirs(folder, mode=0o700)
        return kind(self.arguments, *words, folder, **options)

    def clear(self):
        """Removes what ended instances have cached: of all rounds together no disk may have room for it."""
        for name in os.listdir(self.work):
            folder = os.path.join(self.work, name)
            if name.startswith("instance-") and not os.path.ismount(os.path.join(folder, "mnt")):
                shutil.rmtree(folder, ignore_errors=True)

    def settle(self):
        """Nothing in the kernel's memory but what the server sends."""
        drop_caches()
        claim_memory(self.work, MEMORY)
        read_through(os.path.join(self.served, "big.bin"))

    def settle_folder(self, is_local=False):
        """Nothing in the kernel's memory; what is read over the server finds the server's own disk read, all alike."""
        drop_caches()
        if not is_local:
            self.server.count("many/")

    # MARK: what is measured

    def cold(self):
        for kind in (Moorage, Rclone):
            subject = self.fresh(kind, self.server)
            self.settle()
            subject.start()
            try:
                before = cpu_seconds(subject.pid())
                spent = timed(lambda: read_through(os.path.join(subject.point, "big.bin")))
                self.figures.add("cold", kind.name, spent)
                self.figures.add("cold cpu", kind.name, (cpu_seconds(subject.pid()) - before) * 1024 * MIB / BIG)
                self.figures.add("memory of one stream", kind.name, peak_memory(subject.pid()))
            finally:
                subject.stop()
        self.settle()
        url = self.server.client.generate_presigned_url("get_object", {"Bucket": "bench", "Key": "big.bin"})
        target = os.path.join(self.work, "curl.bin")
        before = os.times()
        self.figures.add("cold", "curl", timed(lambda: run(["curl", "-fsS", "-o", target, url])))
        after = os.times()
        spent = after.children_user + after.children_system - before.children_user - before.children_system
        self.figures.add("cold cpu", "curl", spent * 1024 * MIB / BIG)
        os.unlink(target)

    def shaped(self):
        for latency, rate in SHAPES:
            with Proxy(self.arguments.proxy, self.server, self.work) as proxy:
                for kind in (Moorage, Rclone):
                    self.read_over(proxy, kind, latency, rate)

    def read_over(self, proxy, kind, latency, rate):
        subject = self.fresh(kind, self.server, url=proxy.url)
        self.settle()
        subject.start()
        try:
            os.stat(os.path.join(subject.point, "big.bin"))
            os.stat(os.path.join(subject.point, "stream-0"))
            self.read_at(os.path.join(subject.point, "stream-1"), 0)
            proxy.limit(latency, rate)
            first = timed(lambda: self.read_at(os.path.join(subject.point, "stream-0"), 0))
            self.figures.add(f"first byte {latency} ms {rate} Mbit/s", kind.name, first / (latency / 1000))
            share = self.share_of_line(os.path.join(subject.point, "big.bin"), rate)
            self.figures.add(f"line {latency} ms {rate} Mbit/s", kind.name, share)
        finally:
            proxy.limit(0, None)
            subject.stop()

    @staticmethod
    def read_at(path, offset, count=4096):
        with open(path, "rb", buffering=0) as file:
            return os.pread(file.fileno(), count, offset)

    @staticmethod
    def share_of_line(path, rate):
        """The share of the line that a reader gets after its first second."""
        buffer = bytearray(MIB)
        line = rate * 1e6 / 8
        start = time.monotonic()
        counted, begun, end = 0, None, start
        with open(path, "rb", buffering=0) as file:
            while count := file.readinto(buffer):
                now = time.monotonic()
                if begun is not None:
                    counted += count
                    end = now
                elif now >= start + 1:
                    begun = now
                if now > start + 7:
                    break
        # A file that is read within the first second tells nothing.
        return counted / (end - begun) / line if begun is not None and end > begun else 0

    def at_random(self):
        places = random.Random(1)
        with Proxy(self.arguments.proxy, self.server, self.work) as proxy:
            for kind in (Moorage, Rclone):
                self.read_at_random(proxy, kind, places, latency=20)

    def read_at_random(self, proxy, kind, places, latency):
        subject = self.fresh(kind, self.server, url=proxy.url)
        self.settle()
        subject.start()
        path = os.path.join(subject.point, "big.bin")
        try:
            os.stat(path)
            proxy.limit(latency, None)
            self.read_at(path, BIG // 2)
            before = proxy.response_bytes()
            offsets = [places.randrange(BIG // 4096) * 4096 for _ in range(RANDOM_READS)]
            with open(path, "rb", buffering=0) as file:
                alone = timed(lambda: [os.pread(file.fileno(), 4096, offset) for offset in offsets])
                self.figures.add("random", kind.name, alone / len(offsets) / (latency / 1000))
                fetched = proxy.response_bytes() - before
                self.figures.add("random bytes", kind.name, fetched / len(offsets) / 1024)
                offsets = [places.randrange(BIG // 4096) * 4096 for _ in range(RANDOM_READS * 4)]
                with concurrent.futures.ThreadPoolExecutor(16) as pool:
                    many = timed(lambda: list(pool.map(lambda at: os.pread(file.fileno(), 4096, at), offsets)))
                self.figures.add("random parallel", kind.name, alone * 4 / many)
        finally:
            proxy.limit(0, None)
            subject.stop()

    def warm(self):
        subjects = [self.fresh(Moorage, self.server), self.fresh(Rclone, self.server), Disk(self.served)]
        if self.arguments.passthrough:
            # So that what it read stays in memory for the next who opens it, as it does with the others.
            subjects.append(self.fresh(Passthrough, self.served, cache="always"))
        for subject in subjects:
            subject.start()
            path = os.path.join(subject.point, "big.bin")
            try:
                read_through(path)
            finally:
                subject.stop()
            subject.start()
            drop_caches()
            claim_memory(self.work, MEMORY)
            try:
                self.figures.add("warm", subject.name, timed(lambda: read_through(path)))
                self.figures.add("again", subject.name, timed(lambda: read_through(path)))
            finally:
                subject.stop()

    def small_reads(self):
        """In short turns: how the threads of both sides fall on the processors differs by half from one run to the next."""
        subjects = [self.fresh(Moorage, self.server)]
        with tempfile.TemporaryDirectory(prefix="moorage-bench.", dir="/dev/shm") as memory:
            if self.arguments.passthrough:
                # It hands O_DIRECT on: a disk would be read then, memory is not. So both get the same requests.
                shutil.copyfile(os.path.join(self.served, "big.bin"), os.path.join(memory, "big.bin"))
                subjects.append(self.fresh(Passthrough, memory, cache="always"))
            started = []
            try:
                for subject in subjects:
                    subject.start()
                    started.append(subject)
                    read_through(os.path.join(subject.point, "big.bin"))
                for _ in range(TURNS):
                    for row, direct in (("small reads", 1), ("small reads buffered", 0)):
                        for subject in subjects:
                            path = os.path.join(subject.point, "big.bin")
                            self.figures.add(row, subject.name, self.operations(path, direct, seconds=1))
            finally:
                for subject in started:
                    subject.stop()

    def read_only(self):
        """What the kernel reads by itself: a read-only mount, its cache on XFS; beside the same file there."""
        disk = LoopDisk(os.path.join(self.work, f"disk-{next(self.folders)}"), BIG * 3 + (400 << 20))
        try:
            subject = self.fresh(Moorage, self.server, options=["ro"], cache=os.path.join(disk.point, "cache"))
            local = Disk(disk.point)
            shutil.copyfile(os.path.join(self.served, "big.bin"), os.path.join(disk.point, "big.bin"))
            for each in (subject, local):
                each.start()
                path = os.path.join(each.point, "big.bin")
                try:
                    read_through(path)
                finally:
                    each.stop()
                each.start()
                drop_caches()
                claim_memory(self.work, MEMORY)
                try:
                    self.figures.add("warm read-only", each.name, timed(lambda: read_through(path)))
                    # The kernel drops a gibibyte of pages meanwhile; for a reader that comes at once it is a part of the open.
                    time.sleep(1)
                    self.figures.add("again read-only", each.name, timed(lambda: read_through(path)))
                    self.figures.add("once more read-only", each.name, timed(lambda: read_through(path)))
                    rate = self.operations(path, direct=0, seconds=max(1, TURNS // 2))
                    self.figures.add("small reads read-only", each.name, rate)
                finally:
                    each.stop()
        finally:
            disk.stop()

    @staticmethod
    def operations(path, direct, seconds):
        """4 KiB reads a second by 4 threads, each one handed to the file system; thousands."""
        output = run([
            "fio", "--name=read", f"--filename={path}", "--rw=randread", "--bs=4k", f"--direct={direct}", "--thread",
            "--numjobs=4", "--group_reporting", "--time_based", f"--runtime={seconds}", "--ioengine=psync", "--readonly",
            "--output-format=terse", "--terse-version=3", "--norandommap", "--invalidate=0",
        ]).stdout
        return float(output.split(";")[7]) / 1000

    def folders_of_many(self):
        subjects = [self.fresh(kind, self.server) for kind in (Moorage, Rclone, S3fs)]
        for subject in [*subjects, Disk(self.served)]:
            self.settle_folder(isinstance(subject, Disk))
            subject.start()
            path = os.path.join(subject.point, "many")
            try:
                self.figures.add("list", subject.name, timed(lambda: subprocess.run(
                    ["ls", "-l", path], stdout=subprocess.DEVNULL, check=True)))
                self.figures.add("list warm", subject.name, timed(lambda: subprocess.run(
                    ["ls", "-l", path], stdout=subprocess.DEVNULL, check=True)))
            finally:
                subject.stop()

        subject = self.fresh(Moorage, self.server)
        self.settle_folder()
        self.figures.add("list", "moorage list", timed(lambda: subject.run(
            "list", "s3://bench/many", "-o", f"endpoint={subject.url}")))

    def a_million(self):
        """A bucket of a million objects, whose listings are made up, in a hundred folders; then 64 streams in that mount."""
        bucket = GeneratedBucket(FOLDERS, OBJECTS, streams=STREAMS, size=STREAM)
        subject = self.fresh(Moorage, bucket, bucket="bucket")
        self.figures.add("million mount", subject.name, timed(subject.start))
        try:
            found = []
            self.figures.add("million find", subject.name, timed(lambda: found.append(run(
                ["sh", "-c", 'find "$1" -type f | wc -l', "sh", subject.point]).stdout)))
            if int(found[0]) != FOLDERS * OBJECTS + STREAMS:
                raise RuntimeError(f"find counted {found[0].strip()} of {FOLDERS * OBJECTS + STREAMS}")
            self.figures.add("million memory", subject.name, peak_memory(subject.pid()))
            self.figures.add("million catalog", subject.name, subject.catalog_bytes() / FOLDERS / OBJECTS)
            self.read_streams(subject)
            self.figures.add("million streams", subject.name, peak_memory(subject.pid()))
        finally:
            subject.stop()
            bucket.stop()

    @staticmethod
    def read_streams(subject):
        """Reads all streams at once."""
        paths = [os.path.join(subject.point, f"stream-{index}") for index in range(STREAMS)]
        with concurrent.futures.ThreadPoolExecutor(STREAMS) as pool:
            try:
                list(pool.map(read_through, paths))
            except OSError as problem:
                raise RuntimeError(f"64 streams of {subject.name}: {problem}") from problem

    def memory(self):
        for kind in (Moorage, Rclone):
            subject = self.fresh(kind, self.server)
            subject.start()
            try:
                self.read_streams(subject)
                self.figures.add("memory of 64 streams", kind.name, peak_memory(subject.pid()))
            finally:
                subject.stop()

    GROUPS = {
        "cold": cold, "shaped": shaped, "random": at_random, "warm": warm, "small": small_reads, "read-only": read_only,
        "list": folders_of_many, "million": a_million, "memory": memory,
    }

    def measure(self, rounds, groups):
        """Measures all groups; what failed is told, and takes no figure of others along. Returns whether all went well."""
        is_good = True
        for number in range(rounds):
            for group in groups:
                print(f"round {number + 1}: {group}", file=sys.stderr, flush=True)
                try:
                    self.GROUPS[group](self)
                except Exception:
                    is_good = False
                    traceback.print_exc()
                self.clear()
        return is_good


#: Row, title, the column that ours is compared with, whether more is better, and the bound of ours over theirs.
ROWS = [
    ("cold", "cold sequential, 1 GiB, seconds", "curl", False, 1 / 0.7),
    ("cold", "the same beside rclone", "rclone mount", False, 1 / 2.5),
    ("cold cpu", "CPU seconds of it a GiB", "rclone mount", False, None),
    *[(f"line {ms} ms {rate} Mbit/s", f"share of a line of {rate} Mbit/s, {ms} ms", 1, True, 0.95) for ms, rate in SHAPES],
    *[
        (f"first byte {ms} ms {rate} Mbit/s", f"first byte at {ms} ms, {rate} Mbit/s, round trips", 1, False, 1.5)
        for ms, rate in SHAPES
    ],
    ("random", "random 4 KiB, round trips each", 1, False, 1.2),
    ("random bytes", "KiB fetched for each", 32, False, 1),
    ("random parallel", "16 readers, times as fast as one", 16, True, None),
    ("warm", "warm from the disk after remount, seconds", "passthrough_ll", False, 1 / 0.9),
    ("again", "again from memory, seconds", "local disk", False, 1.05),
    ("small reads", "4 KiB warm, 4 threads, O_DIRECT, thousand a second", "passthrough_ll", True, 0.8),
    ("small reads buffered", "the same from the kernel's memory", "passthrough_ll", True, 0.8),
    ("warm read-only", "read-only, cache on XFS: from the disk after remount, seconds", "local disk", False, None),
    ("again read-only", "again from memory a second later, seconds", "local disk", False, None),
    ("once more read-only", "once more, seconds", "local disk", False, 1.05),
    ("small reads read-only", "4 KiB from memory, 4 threads, thousand a second", "local disk", True, None),
    ("list", "ls -l of 100,000, cold, seconds", "moorage list", False, 1.3),
    ("list warm", "the same warm", "local disk", False, 2),
    ("million mount", "mounting a million objects, seconds", 1, False, 1),
    ("million find", "find through them, seconds", None, False, None),
    ("million memory", "memory after it, MiB", 512, False, 1),
    ("million streams", "memory after 64 streams beside them, MiB", 512, False, 1),
    ("million catalog", "bytes of the catalog an object", 400, False, 1),
    ("memory of one stream", "memory of one stream, MiB", 128, False, 1),
    ("memory of 64 streams", "memory of 64 streams, MiB", 512, False, 1),
]
COLUMNS = ["Moorage", "rclone mount", "s3fs", "curl", "moorage list", "passthrough_ll", "local disk"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--proxy", required=True)
    parser.add_argument("--rclone", required=True)
    parser.add_argument("--passthrough")
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(Bench.GROUPS))
    arguments = parser.parse_args()
    groups = arguments.only.split(",")
    if unknown := set(groups) - set(Bench.GROUPS):
        parser.error(f"no such groups: {', '.join(sorted(unknown))}; there are {', '.join(Bench.GROUPS)}")
    bench = Bench(arguments)
    try:
        is_good = bench.measure(arguments.rounds, groups)
    finally:
        bench.server.stop()
    describe_machine(arguments.rounds, SCALE)
    report(bench.figures, ROWS, COLUMNS)
    sys.exit(0 if is_good else 1)


if __name__ == "__main__":
    main()
