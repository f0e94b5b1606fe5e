# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The block cache is damaged in every way while several readers read: no wrong byte, no failed read."""

import contextlib
import os
import random
import threading
import time

import pytest

from harness.settings import scaled
from harness.trees import random_bytes

KIB = 1 << 10
MIB = 1 << 20
SIZES = [1, 4096, 5000, 40 * KIB, 333 * KIB, MIB, 3 * MIB + 17, 6 * MIB]
READERS = 4
# Together with the damages of a round: 10,000.
READS = 8_000
DAMAGES = 2_000
ROUNDS = 4


def flip(path, choice):
    """One bit, anywhere in the blocks or in the index behind them."""
    with open(path, "r+b", buffering=0) as file:
        place = choice.randrange(os.fstat(file.fileno()).st_size)
        byte = os.pread(file.fileno(), 1, place)
        os.pwrite(file.fileno(), bytes([byte[0] ^ (1 << choice.randrange(8))]), place)


def flip_index(path, choice):
    """A few bytes at the end, where the index is."""
    with open(path, "r+b", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        os.pwrite(file.fileno(), choice.randbytes(7), max(0, size - choice.randrange(1, 400)))


def cut(path, choice):
    os.truncate(path, choice.randrange(os.stat(path).st_size + 1))


def lengthen(path, choice):
    os.truncate(path, os.stat(path).st_size + choice.randrange(1, 9000))


def overwrite(path, choice):
    """Zeros, as of a block that was never written to the disk."""
    with open(path, "r+b", buffering=0) as file:
        os.pwrite(file.fileno(), bytes(32 * KIB), choice.randrange(os.fstat(file.fileno()).st_size + 1))


def delete(path, choice):
    os.unlink(path)


def exchange(path, choice):
    """Another object's file under this one's name."""
    folder = os.path.dirname(os.path.dirname(path))
    others = [os.path.join(base, name) for base, _, names in os.walk(folder) for name in names]
    os.rename(choice.choice(others), path)


DAMAGES_BY_WEIGHT = {flip: 10, flip_index: 4, cut: 2, lengthen: 1, overwrite: 3, delete: 1, exchange: 1}


class Attack:
    """Readers and one who damages, each with random choices of its own."""

    def __init__(self, instance, contents, seed):
        self.instance = instance
        self.contents = contents
        self.seed = seed
        self.problems = []
        self.done = {"read": 0, "damage": 0}
        self.counting = threading.Lock()

    def round(self, mount, number, reads, damages):
        self.before = self.done["read"]
        threads = [threading.Thread(target=self.run, args=(self.read, mount, f"{self.seed}.{number}.{index}", reads // READERS))
                   for index in range(READERS)]
        threads.append(threading.Thread(target=self.run, args=(self.damage, mount, f"{self.seed}.{number}.x", damages)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def run(self, action, mount, seed, count):
        try:
            action(mount, random.Random(seed), count)
        except Exception as problem:
            self.problems.append(repr(problem))

    def read(self, mount, choice, count):
        with contextlib.ExitStack() as stack:
            files = {}
            for number in range(count):
                name = choice.choice(sorted(self.contents))
                if number % 50 == 0 and files:
                    os.close(files.pop(sorted(files)[0]))
                if name not in files:
                    # Past the pages that the kernel keeps: each read comes to the cache.
                    files[name] = os.open(mount / name, os.O_RDONLY | os.O_DIRECT)
                data = self.contents[name]
                offset = choice.randrange(len(data))
                length = choice.choice([1, 4096, 70_000, 131_072])
                found = os.pread(files[name], length, offset)
                if found != data[offset:offset + length]:
                    self.problems.append(f"wrong bytes of {name} at {offset}, {length} long")
                with self.counting:
                    self.done["read"] += 1
            for file in files.values():
                stack.callback(os.close, file)

    def damage(self, mount, choice, count):
        kinds, weights = list(DAMAGES_BY_WEIGHT), list(DAMAGES_BY_WEIGHT.values())
        blocks = os.path.join(self.instance.directory("cache"), "volumes")
        for number in range(count):
            # Evenly among the reads, whose threads end before this one.
            while self.done["read"] - self.before < number * (READS // DAMAGES) - 50 and not self.problems:
                time.sleep(0.0005)
            files = [os.path.join(base, name) for base, _, names in os.walk(blocks) for name in names if "/blocks/" in base]
            # A file may go, or be replaced, while it is chosen.
            with contextlib.suppress(OSError, ValueError, IndexError):
                choice.choices(kinds, weights)[0](choice.choice(sorted(files)), choice)
            self.done["damage"] += 1


@pytest.mark.limit(400)
def test_no_wrong_byte_while_the_cache_is_damaged(make_instance, server, client, seed):
    instance = make_instance(server.url)
    contents = {f"f{size}": random_bytes(seed + size, size) for size in SIZES}
    for name, data in contents.items():
        client.put_object(Bucket="bucket", Key=name, Body=data)
    mount = instance.mount("s3://bucket")
    attack = Attack(instance, contents, seed)
    counted = 0
    for number in range(ROUNDS):
        attack.round(mount, number, scaled(READS) // ROUNDS, scaled(DAMAGES) // ROUNDS)
        assert not attack.problems, f"{len(attack.problems)}: {attack.problems[:5]}"
        assert instance.status()["volumes"][0]["cache"]["warning"] is None
        # The counts are told every few seconds.
        mount.unmount()
        (volume,) = instance.status()["volumes"]
        counted += volume["cache"]["damaged_blocks"]
        mount = mount.mount_again()
    print(f"{attack.done}, {counted} damaged blocks fetched again")
    assert sum(attack.done.values()) >= scaled(READS + DAMAGES) - READERS * ROUNDS
    assert counted > 0, "no damage was met: the test proves nothing"
    for name, data in contents.items():
        with open(mount / name, "rb") as file:
            assert file.read() == data
    mount.unmount()
