# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""Measures a long queue: how long `status` and others take, the flusher's memory, the order of what is sent."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

sys.path.append(os.path.join(os.path.dirname(__file__), "../../Tests/EndToEnd"))
from figures import Goal, conclude, missed_goals  # noqa: E402
from harness.bucket import BucketServer  # noqa: E402
from harness.instance import Instance  # noqa: E402
from harness.processes import wait_until  # noqa: E402

FOLDERS = 50
#: So many are sent to see their order.
HEAD = 5000


def memory(pid, name):
    """A line of /proc/PID/status in MiB."""
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(rf"^{name}:\s+(\d+) kB", file.read(), re.M)[1]) / 1024


def durations(instance, rounds, *words):
    """Milliseconds of each of some runs of a command, after one that does not count."""
    result = []
    for _ in range(rounds + 1):
        start = time.monotonic()
        subprocess.run([instance.binary, *words], env=instance.environment, stdout=subprocess.DEVNULL, check=True)
        result.append((time.monotonic() - start) * 1000)
    return result[1:]


def displacement(finished, places):
    """How far at most a file went before or after its turn, in files."""
    return max(abs(places[path] - number) for number, path in enumerate(finished))


class Bench:
    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.server = BucketServer(arguments.binary, os.path.join(folder, "served"))
        self.server.make_bucket("bucket")
        self.instance = Instance(arguments.binary, folder, self.server.url)
        self.rows = []
        self.figures = []

    def row(self, title, value, unit, bound=None):
        goal = None if bound is None else Goal(below=bound)
        verdict = "" if goal is None else f"below {bound}: {'yes' if goal.is_reached(value) else 'no'}"
        self.rows.append((title, f"{value:.1f} {unit}", verdict))
        self.figures.append((title, value, goal))
        print(f"{title}: {value:.1f} {unit} {verdict}", file=sys.stderr, flush=True)

    def fill(self, mount):
        """Makes the files of the queue; returns which was made when."""
        places = {}
        for number in range(self.arguments.files):
            folder = f"folder-{number % FOLDERS:02}"
            if number < FOLDERS:
                os.makedirs(mount / folder)
            path = f"{folder}/file-{number:05}"
            with open(mount / path, "wb") as file:
                file.write(b"content of a small file\n")
            places[path] = number
        return places

    def commands(self):
        for words, bound in ((["status"], 50), (["status", "--json"], 50), (["uploads", "why", "--json", self.some], None),
                             (["uploads", "list"], None)):
            times = durations(self.instance, self.arguments.rounds, *words)
            title = "`moorage " + " ".join(words[:3]).removesuffix(self.some) + f"`, median of {len(times)}"
            self.row(title, statistics.median(times), "ms", bound)
            self.row("the slowest of them", max(times), "ms")

    def send(self, count):
        """Lets everything go, and reads its events; returns the paths as they are finished."""
        command = [self.instance.binary, "events", "--json"]
        reader = subprocess.Popen(command, env=self.instance.environment, stdout=subprocess.PIPE, text=True)
        finished, missed, done = [], [0], threading.Event()

        def read():
            for line in reader.stdout:
                event = json.loads(line)
                if event["event"] == "finished" and "size" in event:
                    finished.append(event["path"])
                missed[0] += event.get("count", 0) if event["event"] == "missed" else 0
                if event["event"] == "idle":
                    done.set()
                    return

        threading.Thread(target=read, daemon=True).start()
        time.sleep(1)
        start = time.monotonic()
        self.instance.run("policy", "unset")
        slowest = 0
        # The head of the queue tells enough of its order.
        while not done.wait(1) and len(finished) < count:
            slowest = max(slowest, *durations(self.instance, 1, "status"))
            if time.monotonic() - start > 600:
                raise SystemExit(f"only {len(finished)} of {count} files are remote")
        self.row("files a second", len(finished) / (time.monotonic() - start), "")
        self.row("the slowest `moorage status` meanwhile", slowest, "ms")
        reader.kill()
        reader.wait()
        del finished[count:]
        if missed[0]:
            print(f"{missed[0]} events were missed")
        return finished

    def run(self):
        """Returns the exit status."""
        instance, files = self.instance, self.arguments.files
        # What holds them is what makes the queue long.
        instance.run("policy", "set", "metered=yes")
        mount = instance.mount("s3://bucket")
        places = self.fill(mount)
        self.some = str(mount / "folder-07/file-00007")
        wait_until(lambda: instance.pending_files() >= files, 120, "the queue")
        time.sleep(8)
        pid = instance.flusher_pid()
        status = instance.status()["volumes"][0]
        print(f"{status['pending']['files']} pending, oldest waits {status['activity']['oldest_wait']['seconds']} s, "
              f"held: {[(group['reason'], group['files']) for group in status['activity']['waiting']]}")
        self.row("memory of the flusher", memory(pid, "VmRSS"), "MiB", 100)
        self.commands()
        self.row("memory after `uploads list`", memory(pid, "VmRSS"), "MiB")
        head = min(files, HEAD)
        finished = self.send(head)
        self.row("most memory of the flusher at all", memory(pid, "VmHWM"), "MiB", 100)
        self.row(f"furthest from its turn, of the first {head:,}", displacement(finished, places), "files")
        print(f"| {files:,} queued files | figure | goal |\n|---|---|---|")
        for row in self.rows:
            print("| " + " | ".join(row) + " |")
        return conclude(missed_goals(self.figures))

    def stop(self):
        self.instance.abandon()
        self.server.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--binary", required=True)
    parser.add_argument("--work", required=True)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--files", type=int, default=max(100, round(50_000 * float(os.environ.get("BENCH_SCALE", "1")))))
    arguments, _ = parser.parse_known_args()
    # A socket's path is short.
    bench = Bench(arguments, tempfile.mkdtemp(dir=arguments.work))
    try:
        return bench.run()
    finally:
        bench.stop()


if __name__ == "__main__":
    sys.exit(main())
