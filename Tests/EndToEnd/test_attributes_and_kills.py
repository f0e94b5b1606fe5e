# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What was told of new files, before their close and after it, outlives the mount."""

import os
import random
import threading
import time

import pytest

from harness.settings import scaled

MODES = [0o600, 0o640, 0o644, 0o700, 0o755]


class Writer:
    """Makes files as tar, cp -a and rsync do, and notes after each step what must be there."""

    def __init__(self, folder, random, prefix):
        self.folder, self.random, self.prefix = folder, random, prefix
        # By the mount's own folder: a name may be of the bare one below it, once that is unmounted.
        self.at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self.acknowledged, self.under_way = {}, None

    def run(self):
        try:
            for index in range(10_000):
                self.make(f"{self.prefix}-{index:04}")
        except OSError:
            # The mount is gone.
            pass
        finally:
            os.close(self.at)

    def make(self, path):
        mode, time, size = self.random.choice(MODES), self.random.randrange(1, 10**9), self.random.randrange(3) * 1000
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self.at)
        os.write(descriptor, b"x" * size)
        if self.random.random() < 0.3:
            # A close, and not the last: what follows by the descriptor is about a closed file that is open.
            os.close(os.dup(descriptor))
            self.acknowledged[path] = (size, 0o600, None)
            self.under_way = (path, (size, mode, None))
        if self.random.random() < 0.5:
            os.fchmod(descriptor, mode)
            os.utime(descriptor, (time, time))
            os.close(descriptor)
            self.acknowledged[path] = (size, mode, time)
        else:
            os.close(descriptor)
            self.acknowledged[path] = (size, 0o600, None)
        for _ in range(self.random.randrange(3)):
            _, mode, time = self.acknowledged[path]
            wanted = self.random.choice(MODES)
            self.under_way = (path, (size, wanted, time))
            os.chmod(path, wanted, dir_fd=self.at)
            self.acknowledged[path] = (size, wanted, time)
            time = self.random.randrange(1, 10**9)
            self.under_way = (path, (size, wanted, time))
            os.utime(path, (time, time), dir_fd=self.at)
            self.acknowledged[path] = (size, wanted, time)

    def wrong(self):
        """The files that are not as their maker was told."""
        found = {}
        for path, wanted in self.acknowledged.items():
            try:
                status = os.stat(os.path.join(self.folder, path))
                seen = (status.st_size, status.st_mode & 0o7777, status.st_mtime)
            except FileNotFoundError:
                seen = None
            allowed = [wanted] + [told for name, told in [self.under_way or (None, None)] if name == path]
            if not any(seen and seen[:2] == told[:2] and told[2] in (None, seen[2]) for told in allowed):
                found[path] = (seen, allowed)
        return found


@pytest.mark.limit(240)
@pytest.mark.parametrize("quiet_period", ["10m", "0"])
def test_a_kill_takes_nothing_that_was_told_of_new_files(server, make_instance, seed, quiet_period):
    instance = make_instance(server.url)
    instance.configure(quiet_period=quiet_period)
    chance = random.Random(seed)
    mount = instance.mount("s3://bucket")
    count = 0
    for number in range(scaled(6)):
        writers = [Writer(mount.path, random.Random(chance.random()), f"{number}-{thread}") for thread in range(2)]
        threads = [threading.Thread(target=writer.run) for writer in writers]
        is_over = threading.Event()

        def watch():
            # A look of another process makes it take what the mount has noted.
            while not is_over.is_set():
                instance.uploads()

        watcher = threading.Thread(target=watch)
        for thread in [*threads, watcher]:
            thread.start()
        time.sleep(chance.uniform(0.05, 1.2))
        mount.kill()
        for thread in threads:
            thread.join()
        is_over.set()
        watcher.join()
        mount = mount.mount_again()
        for writer in writers:
            assert not writer.wrong()
            count += len(writer.acknowledged)
    assert count > 0
    instance.flush()
