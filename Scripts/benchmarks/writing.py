# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""Measures writing: one large file, many small ones, a source tree, moving and removing folders, until all is remote."""

import argparse
import os
import random
import subprocess
import sys
import time

from figures import Figures, describe_machine, report
from subjects import (
    MIB, Disk, Moorage, Passthrough, Rclone, S3fs, Server, claim_memory, cpu_seconds, read_through, run, timed, wait_until,
)

SCALE = float(os.environ.get("BENCH_SCALE", "1"))
BIG = max(2, round(1024 * SCALE)) * MIB
FILES = max(10, round(10_000 * SCALE))
#: The job that geesefs is measured by: files of 0.5 to 300 KB, 200 MB together.
JOB_FILES, JOB_FOLDERS = max(10, round(6400 * SCALE)), max(2, round(1024 * SCALE))
TREE = "/usr/include"
TREE_FILES = max(10, round(10_000 * SCALE))
PATIENCE = 3600
#: What the cache of the kernel gets of one job at most: what is written by the mount and by who is behind it.
MEMORY = 4 * BIG


def make_file(path, size):
    with open(path, "wb") as file:
        while size > 0:
            file.write(os.urandom(min(size, MIB)))
            size -= MIB


class Sources:
    """What is copied, in the memory of the kernel."""

    def __init__(self, folder):
        self.folder = folder
        self.big = os.path.join(folder, "big.bin")
        self.small = os.path.join(folder, "small")
        self.job = os.path.join(folder, "job")
        self.tree = os.path.join(folder, "tree.tar")
        os.makedirs(self.small)
        make_file(self.big, BIG)
        for index in range(FILES):
            make_file(os.path.join(self.small, f"file-{index:05}"), 4096)
        sizes = random.Random(1)
        for index in range(JOB_FILES):
            inside = os.path.join(self.job, f"folder-{index % JOB_FOLDERS:04}")
            os.makedirs(inside, exist_ok=True)
            make_file(os.path.join(inside, f"file-{index:04}"), round(500 * 600 ** (sizes.random() ** 1.5)))
        self.tree_files = self.make_tree()

    def make_tree(self):
        """Files and folders of the machine's own headers; returns how many files."""
        names, files = [], 0
        for folder, folders, inside in os.walk(TREE):
            folders.sort()
            names.append(os.path.relpath(folder, TREE))
            plain = [name for name in sorted(inside) if not os.path.islink(os.path.join(folder, name))]
            plain = plain[: TREE_FILES - files]
            names += [os.path.relpath(os.path.join(folder, name), TREE) for name in plain]
            files += len(plain)
            if files == TREE_FILES:
                break
        run(["tar", "-cf", self.tree, "-C", TREE, "--no-recursion", "--null", "-T", "-"], input="\0".join(names) + "\0")
        return files

    def warm(self, path):
        """Reads it, and leaves the disk and the machine's host nothing to do: what is timed is the mount, not the past."""
        os.sync()
        claim_memory(self.folder, MEMORY)
        for folder, _, names in os.walk(path):
            for name in names:
                read_through(os.path.join(folder, name))
        if os.path.isfile(path):
            read_through(path)


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.figures = Figures()
        self.folders = iter(range(100_000))
        self.server = Server(arguments.binary, arguments.work)
        self.served = os.path.join(self.server.root, "bench")
        self.disk = os.path.join(arguments.work, "disk")
        self.aside = os.path.join(arguments.work, "aside")
        os.makedirs(self.disk)
        os.makedirs(self.aside)
        self.sources = Sources(os.path.join(arguments.work, "sources"))

    def subjects(self, number):
        """Fresh ones, those that take minutes in the first rounds only."""
        kinds = [(Moorage, self.server), (Rclone, self.server)]
        if number < self.arguments.slow_rounds:
            kinds.append((S3fs, self.server))
        if self.arguments.passthrough:
            kinds.append((Passthrough, self.disk))
        for kind, target in kinds:
            folder = os.path.join(self.arguments.work, f"instance-{next(self.folders)}")
            os.makedirs(folder, mode=0o700)
            # Of what the kernel asks a file system, Moorage has to answer questions for permissions and attributes, too.
            options = {"cache": "auto,default_permissions,xattr"} if kind is Passthrough else {}
            yield kind(self.arguments, target, folder, **options)
        yield Disk(self.disk)

    def remote_files(self, name):
        """How many objects the server has in a folder: it keeps each as a file, which appears when it is complete."""
        return sum(len(names) for _, _, names in os.walk(os.path.join(self.served, name)))

    def until_remote(self, subject, row, start, condition):
        if not isinstance(subject, Passthrough | Disk):
            wait_until(condition, limit=PATIENCE, pause=0.05)
            self.figures.add(row, subject.name, time.monotonic() - start)

    def clear(self):
        """Moves it all aside, behind the server's back: inodes that were deleted just now slow ext4 down for minutes."""
        for folder in (self.served, self.disk):
            for entry in os.scandir(folder):
                os.rename(entry, os.path.join(self.aside, str(next(self.folders))))

    # MARK: what is measured

    def large(self, subject):
        self.sources.warm(self.sources.big)
        target = os.path.join(subject.point, "big.bin")
        start = time.monotonic()
        run(["dd", f"if={self.sources.big}", f"of={target}", "bs=1M"])
        self.figures.add("dd", subject.name, BIG / MIB / (time.monotonic() - start))
        remote = os.path.join(self.served, "big.bin")
        self.until_remote(subject, "dd remote", start, lambda: os.path.isfile(remote) and os.path.getsize(remote) == BIG)

    def small(self, subject):
        self.sources.warm(self.sources.small)
        before = cpu_seconds(subject.pid()) if not isinstance(subject, Disk) else 0
        start = time.monotonic()
        run(["cp", "-r", self.sources.small, os.path.join(subject.point, "small")])
        self.figures.add("small", subject.name, FILES / (time.monotonic() - start))
        if not isinstance(subject, Disk):
            self.figures.add("small cpu", subject.name, (cpu_seconds(subject.pid()) - before) * 1000 / FILES)
        self.until_remote(subject, "small remote", start, lambda: self.remote_files("small") == FILES)
        start = time.monotonic()
        os.rename(os.path.join(subject.point, "small"), os.path.join(subject.point, "moved"))
        self.figures.add("rename", subject.name, time.monotonic() - start)
        self.until_remote(
            subject, "rename remote", start,
            lambda: self.remote_files("moved") == FILES and self.remote_files("small") == 0,
        )

    def tree(self, subject):
        self.sources.warm(self.sources.tree)
        folder = os.path.join(subject.point, "tree")
        os.mkdir(folder)
        start = time.monotonic()
        run(["tar", "-xf", self.sources.tree, "-C", folder])
        self.figures.add("untar", subject.name, time.monotonic() - start)
        files = self.sources.tree_files
        self.until_remote(subject, "untar remote", start, lambda: self.remote_files("tree") == files)
        os.sync()
        start = time.monotonic()
        run(["rm", "-r", folder])
        self.figures.add("rm", subject.name, time.monotonic() - start)
        self.until_remote(subject, "rm remote", start, lambda: self.remote_files("tree") == 0)

    def job(self, subject):
        self.sources.warm(self.sources.job)
        folder = os.path.join(subject.point, "job")

        def copy():
            run(["cp", "-r", self.sources.job, folder])
            opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(opened)
            finally:
                os.close(opened)

        start = time.monotonic()
        self.figures.add("job", subject.name, timed(copy))
        self.until_remote(subject, "job remote", start, lambda: self.remote_files("job") == JOB_FILES)

    GROUPS = {"dd": large, "small": small, "tree": tree, "geesefs": job}

    def measure(self, rounds, groups):
        for number in range(rounds):
            for group in groups:
                for subject in self.subjects(number):
                    print(f"round {number + 1}: {group}, {subject.name}", file=sys.stderr, flush=True)
                    subject.start()
                    try:
                        self.GROUPS[group](self, subject)
                    except subprocess.CalledProcessError as error:
                        print(f"{subject.name}: {error.stderr}", file=sys.stderr)
                        raise
                    finally:
                        subject.stop()
                    self.clear()


#: Row, title, the column that ours is compared with, whether more is better, and the bound of ours over theirs.
ROWS = [
    ("dd", "dd of 1 GiB, MiB a second", "passthrough_ll", True, 0.8),
    ("dd remote", "until it is remote, seconds", "rclone mount", False, None),
    ("small", "cp -r of 10,000 files of 4 KiB, files a second", "passthrough_ll", True, 0.5),
    ("small", "the same beside rclone", "rclone mount", True, 2.5),
    ("small cpu", "CPU milliseconds of the mount a file", "passthrough_ll", False, None),
    ("small remote", "until all are remote, seconds", "rclone mount", False, None),
    ("rename", "rename of their folder, seconds", "rclone mount", False, None),
    ("rename remote", "until that is remote, seconds", "rclone mount", False, None),
    ("untar", "untar of /usr/include, seconds", "passthrough_ll", False, None),
    ("untar remote", "until all of it is remote, seconds", "rclone mount", False, None),
    ("rm", "rm -r of it, seconds", "passthrough_ll", False, None),
    ("rm remote", "until nothing of it is remote, seconds", "rclone mount", False, None),
    ("job", "cp -r of 6,400 files in 1,024 folders, and its fsync, seconds", "rclone mount", False, None),
    ("job remote", "until all of them are remote, seconds", "rclone mount", False, None),
]
COLUMNS = ["Moorage", "rclone mount", "s3fs", "passthrough_ll", "local disk"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--rclone", required=True)
    parser.add_argument("--passthrough")
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slow-rounds", type=int, default=1)
    parser.add_argument("--only", default=",".join(Bench.GROUPS))
    arguments = parser.parse_args()
    groups = arguments.only.split(",")
    if unknown := set(groups) - set(Bench.GROUPS):
        parser.error(f"no such groups: {', '.join(sorted(unknown))}; there are {', '.join(Bench.GROUPS)}")
    bench = Bench(arguments)
    try:
        bench.measure(arguments.rounds, groups)
    finally:
        bench.server.stop()
    describe_machine(arguments.rounds, SCALE)
    if arguments.slow_rounds < arguments.rounds:
        print(f"s3fs {arguments.slow_rounds} of the rounds; {bench.sources.tree_files} files in /usr/include")
    report(bench.figures, ROWS, COLUMNS)


if __name__ == "__main__":
    main()
