# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""Measures Moorage and rclone mount on one server, and the limits: curl, passthrough_ll, the local disk."""

import argparse
import contextlib
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time

import boto3
import botocore.config

MIB = 1 << 20
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
KEY, SECRET = "bench", "bench-secret-key"

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


def run(command, **options):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def wait_until(condition, limit=120, pause=0.01):
    end = time.monotonic() + limit
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("waited too long")
        time.sleep(pause)


def timed(action):
    start = time.monotonic()
    action()
    return time.monotonic() - start


def drop_caches():
    """Forgets the kernel's pages where we may."""
    os.sync()
    with contextlib.suppress(OSError), open("/proc/sys/vm/drop_caches", "w") as file:
        file.write("3")


def read_through(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(MIB):
            pass


class Server:
    def __init__(self, binary, work):
        self.root = os.path.join(work, "served")
        os.makedirs(os.path.join(self.root, "bench"))
        environment = os.environ | {"MOORAGE_SERVE_SECRET_KEY": SECRET}
        command = [binary, "serve", self.root, "--listen", "127.0.0.1:0", "--access-key", KEY, "--foreground"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True)
        self.url = self.process.stdout.readline().split()[-1]
        self.client = boto3.client(
            "s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id=KEY, aws_secret_access_key=SECRET,
            config=botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"}),
        )

    def count(self, prefix):
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix)
        return sum(1 for page in pages for item in page.get("Contents", []) if not item["Key"].endswith("/"))

    def size(self, key):
        with contextlib.suppress(self.client.exceptions.ClientError):
            return self.client.head_object(Bucket="bench", Key=key)["ContentLength"]
        return -1

    def empty(self, prefix):
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket="bench", Prefix=prefix):
            keys = [{"Key": item["Key"]} for item in page.get("Contents", [])]
            if keys:
                self.client.delete_objects(Bucket="bench", Delete={"Objects": keys})

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Moorage:
    name = "Moorage"

    def __init__(self, arguments, server, folder):
        self.binary = arguments.binary
        self.server = server
        self.folder = folder
        self.point = os.path.join(folder, "mnt")
        os.makedirs(self.point)
        self.environment = os.environ | {
            "HOME": folder, "MOORAGE_CONFIG": folder + "/config", "MOORAGE_STATE_DIR": folder + "/state",
            "MOORAGE_CACHE_DIR": folder + "/cache", "MOORAGE_RUNTIME_DIR": folder + "/run",
            "AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "us-east-1",
        }

    def start(self):
        self.run("mount", "s3://bench", self.point, "-o", f"endpoint={self.server.url},quiet_period=0")

    def run(self, *words):
        return run([self.binary, *words], env=self.environment)

    def stop(self):
        self.run("flush")
        self.run("unmount", self.point)
        status = json.loads(self.run("status", "--json").stdout)
        if status["flusher"]["running"]:
            os.kill(status["flusher"]["pid"], signal.SIGTERM)


class Rclone:
    name = "rclone mount"

    def __init__(self, arguments, server, folder):
        self.folder = folder
        self.point = os.path.join(folder, "mnt")
        os.makedirs(self.point)
        self.command = [
            arguments.rclone, "mount", "bench:bench", self.point, "--vfs-cache-mode", "full", "--vfs-write-back", "0s",
            "--cache-dir", folder + "/cache", "--config", folder + "/rclone.conf",
        ]
        with open(folder + "/rclone.conf", "w") as file:
            file.write(
                f"[bench]\ntype = s3\nprovider = Other\nendpoint = {server.url}\n"
                f"access_key_id = {KEY}\nsecret_access_key = {SECRET}\n"
            )

    def start(self):
        with open(os.path.join(self.folder, "log"), "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        wait_until(lambda: os.path.ismount(self.point) or self.process.poll() is not None)
        if self.process.poll() is not None:
            raise RuntimeError(open(os.path.join(self.folder, "log")).read())

    def stop(self):
        run(["fusermount3", "-u", self.point])
        self.process.wait()


class Passthrough:
    name = "passthrough_ll"

    def __init__(self, arguments, disk, folder):
        self.program = arguments.passthrough
        self.source = disk
        self.point = os.path.join(folder, "mnt")
        os.makedirs(self.point)

    def start(self):
        run([self.program, "-o", f"source={self.source},cache=auto,timeout=1", self.point])

    def stop(self):
        run(["fusermount3", "-u", self.point])


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


class Disk:
    """The folder itself, as if it were a mount."""

    name = "local disk"

    def __init__(self, folder):
        self.point = folder

    def start(self):
        pass

    def stop(self):
        pass


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
