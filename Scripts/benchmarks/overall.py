# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""Measures Moorage and rclone mount on one server, and the limits: curl, passthrough_ll, the local disk."""

import argparse
import os
import platform
import shutil
import statistics
import sys
import time

from subjects import MIB, Disk, Moorage, Passthrough, Rclone, Server, drop_caches, read_through, run, timed, wait_until

READ_SIZE = 512 * MIB
WRITE_SIZE = 256 * MIB
SMALL_FILES = 2000
SMALL_SIZE = 4096
ENTRIES = 5000
# For a look whether it works at all: the sizes and numbers above, made smaller.
SCALE = float(os.environ.get("BENCH_SCALE", "1"))
if SCALE != 1:
    READ_SIZE, WRITE_SIZE = (max(1, round(size * SCALE / MIB)) * MIB for size in (READ_SIZE, WRITE_SIZE))
    SMALL_FILES, ENTRIES = (max(1, round(count * SCALE)) for count in (SMALL_FILES, ENTRIES))

ROWS = [
    ("read", "cold sequential read, 512 MiB"),
    ("warm", "warm sequential read, 512 MiB"),
    ("write", "write 256 MiB, until close"),
    ("write remote", "write 256 MiB, until remote"),
    ("small", "cp -r of 2,000 files of 4 KiB"),
    ("small remote", "the same, until remote"),
    ("list", "ls -l of 5,000 entries, cold"),
    ("list warm", "ls -l of 5,000 entries, warm"),
]


def measure_mount(make, server, data, tag):
    """One round of every row on a fresh instance with an empty cache."""
    results = {}
    subject = make()
    subject.start()
    try:
        big = os.path.join(subject.point, "read.bin")
        drop_caches()
        results["list"] = timed(lambda: run(["ls", "-l", os.path.join(subject.point, "many")]))
        results["list warm"] = timed(lambda: run(["ls", "-l", os.path.join(subject.point, "many")]))
        results["read"] = timed(lambda: read_through(big))
        drop_caches()
        results["warm"] = timed(lambda: read_through(big))
        # The source in memory and nothing left to write back: what is timed is the mount, not the disk's past.
        read_through(os.path.join(data, "write.bin"))
        os.sync()
        start = time.monotonic()
        run(["cp", os.path.join(data, "write.bin"), os.path.join(subject.point, f"write-{tag}")])
        results["write"] = time.monotonic() - start
        if server:
            wait_until(lambda: server.size(f"write-{tag}") == WRITE_SIZE)
            results["write remote"] = time.monotonic() - start
        start = time.monotonic()
        run(["cp", "-r", os.path.join(data, "small"), os.path.join(subject.point, f"small-{tag}")])
        results["small"] = time.monotonic() - start
        if server:
            wait_until(lambda: server.count(f"small-{tag}/") == SMALL_FILES, pause=0.05)
            results["small remote"] = time.monotonic() - start
    finally:
        subject.stop()
    return results


def measure_curl(server, data):
    def address(method, key):
        return server.client.generate_presigned_url(method, {"Bucket": "bench", "Key": key})

    read = timed(lambda: run(["curl", "-fsS", "-o", "/dev/null", address("get_object", "read.bin")]))
    source = os.path.join(data, "write.bin")
    write = timed(lambda: run(["curl", "-fsS", "-T", source, address("put_object", "curl.bin")]))
    return {"read": read, "write remote": write}


def make_data(work, server):
    data = os.path.join(work, "data")
    os.makedirs(os.path.join(data, "small"))
    with open("/dev/urandom", "rb") as random, open(os.path.join(data, "write.bin"), "wb") as file:
        for _ in range(WRITE_SIZE // MIB):
            file.write(random.read(MIB))
    for index in range(SMALL_FILES):
        with open(os.path.join(data, "small", f"file-{index:04}"), "wb") as file:
            file.write(os.urandom(SMALL_SIZE))
    disk = os.path.join(work, "disk")
    os.makedirs(os.path.join(disk, "many"))
    with open(os.path.join(disk, "read.bin"), "wb") as file:
        for _ in range(READ_SIZE // MIB):
            file.write(os.urandom(MIB))
    for index in range(ENTRIES):
        with open(os.path.join(disk, "many", f"entry-{index:05}"), "wb") as file:
            file.write(b"x" * (index % 100))
    # The server keeps objects as plain files: put them there behind its back.
    served = os.path.join(server.root, "bench")
    shutil.copytree(disk, served, dirs_exist_ok=True)
    read_through(os.path.join(served, "read.bin"))
    return data, disk


def report(samples):
    names = ["Moorage", "rclone mount", "curl", "passthrough_ll", "local disk"]
    print("\n| seconds (median) | Moorage | rclone mount | rclone / Moorage | curl | passthrough_ll | local disk |")
    print("|---|---|---|---|---|---|---|")
    behind = []
    for key, title in ROWS:
        cells = {}
        for name in names:
            values = [sample[key] for sample in samples.get(name, []) if key in sample]
            cells[name] = statistics.median(values) if values else None
        ours, theirs = cells["Moorage"], cells["rclone mount"]
        ratio = theirs / ours if ours and theirs else None
        if ratio is not None and ratio < 1:
            behind.append(title)
        text = {name: f"{value:.3f}" if value is not None else "" for name, value in cells.items()}
        print(
            f"| {title} | {text['Moorage']} | {text['rclone mount']} | {f'{ratio:.2f} x' if ratio else ''} "
            f"| {text['curl']} | {text['passthrough_ll']} | {text['local disk']} |"
        )
    print()
    if behind:
        print("behind rclone mount: " + "; ".join(behind))
    else:
        print("ahead of rclone mount on every row")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rclone", required=True)
    parser.add_argument("--passthrough")
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    server = Server(arguments.binary, arguments.work)
    samples = {}
    folders = iter(range(10_000))

    def fresh(kind, *words):
        folder = os.path.join(arguments.work, f"instance-{next(folders)}")
        os.makedirs(folder, mode=0o700)
        return lambda: kind(arguments, *words, folder)

    try:
        data, disk = make_data(arguments.work, server)
        for number in range(arguments.rounds):
            for kind in (Moorage, Rclone):
                print(f"round {number + 1}: {kind.name}", file=sys.stderr, flush=True)
                tag = f"{kind.__name__}-{number}"
                samples.setdefault(kind.name, []).append(measure_mount(fresh(kind, server), server, data, tag))
            samples.setdefault("curl", []).append(measure_curl(server, data))
            if arguments.passthrough:
                made = fresh(Passthrough, disk)
                samples.setdefault("passthrough_ll", []).append(measure_mount(made, None, data, f"pass-{number}"))
            samples.setdefault("local disk", []).append(measure_mount(lambda: Disk(disk), None, data, f"disk-{number}"))
            for prefix in ("write-", "small-", "curl"):
                server.empty(prefix)
    finally:
        server.stop()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 30)
    rounds = f"{arguments.rounds} rounds" if arguments.rounds > 1 else "1 round"
    print(f"{os.cpu_count()} cores, {memory} GiB, {platform.system()} {platform.release()}, {rounds}, one server on loopback")
    if SCALE != 1:
        print(f"sizes and numbers times {SCALE:g}: the figures mean nothing")
    report(samples)


if __name__ == "__main__":
    main()
