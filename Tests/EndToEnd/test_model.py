# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Random operations on a mount and on a model in memory, with kills, cuts, other clients and a cache that is deleted.

A failure prints its seed and the shortest list of operations found that still fails on a fresh mount.
"""

import os
import random
import stat

import pytest

from harness.model import Mismatch, POOL
from harness.model_generator import Generator
from harness.model_player import FAULTS, Player
from harness.processes import Failure, wait_until
from harness.settings import scaled
from harness.shrinking import shrink
from harness.trees import all_keys, write_file

# How long a failure is shrunk.
SHRINKING = float(os.environ.get("MOORAGE_TEST_SHRINK", "120"))
UMASK = 0o022


@pytest.fixture(autouse=True)
def umask():
    old = os.umask(UMASK)
    yield
    os.umask(old)


class Story:
    """What is done to one mount: operations by chance, and what the environment does between them.

    `trouble` is the mean number of operations between two of a kind.
    """

    def __init__(self, model, seed, trouble, names):
        self.generator = Generator(model, seed, names)
        self.random = random.Random(seed + 1)
        self.trouble = trouble
        self.until_online = 0

    def next(self):
        """The next operations."""
        if self.until_online:
            self.until_online -= 1
            if not self.until_online:
                return [("online",)]
        for kind, mean in self.trouble.items():
            if self.random.random() * mean < 1:
                return getattr(self, "_" + kind)()
        return [self.generator.next()]

    def _settle(self):
        """Mount, model and remote are compared; then others change what nobody changes here."""
        return [("settle",), *[self._change_by_others() for _ in range(self.random.randrange(4))], ("refresh",)]

    def _change_by_others(self):
        paths = [path for path, node in self.generator.model.paths().items() if node.kind == stat.S_IFREG]
        if paths and self.random.random() < 0.3:
            return "remote_delete", self.random.choice(paths)
        path = self.random.choice(paths) if paths and self.random.random() < 0.5 else self.generator.new_path()
        return "remote_put", path, self.random.randrange(len(POOL)), self.random.choice([0, 100, 5000, 80_000])

    def _network(self):
        self.until_online = self.random.randrange(10, 200)
        return [("network", self.random.choice(["refuse", "reset"]))]

    def _fault(self):
        return [("fault", self.random.randrange(len(FAULTS)))]

    def _kill_mount(self):
        return [("kill_mount",)]

    def _kill_flusher(self):
        return [("kill_flusher",)]

    def _remount(self):
        return [("remount",)]

    def _drop_cache(self):
        return [("drop_cache",)]


class Stage:
    """Makes players, each with a bucket and an instance of its own behind the same server."""

    def __init__(self, make_instance, proxy, server, client, settings):
        self.make_instance, self.proxy, self.server, self.client = make_instance, proxy, server, client
        self.settings = settings
        self.count = 0

    def player(self):
        self.count += 1
        bucket = f"bucket{self.count}"
        self.proxy.clear()
        self.proxy.online()
        self.server.make_bucket(bucket)
        instance = self.make_instance(self.proxy.url, bucket)
        instance.configure(**self.settings)
        return Player(instance, bucket, self.client, self.proxy)

    def failure(self, operations):
        """What a list of operations fails with on a fresh mount, if it does."""
        player = self.player()
        try:
            for operation in operations:
                player.step(operation)
            return None
        except (Mismatch, Failure) as problem:
            return problem
        finally:
            player.calls.close_all()
            player.instance.abandon()


#: A list that did not get shorter than this tells of a race, and is repeated by its seed only.
MOST_LINES = 200


def explain(stage, player, log, problem):
    """The failure with the shortest list of operations found that ends alike."""
    state = f"{sorted(all_keys(player.client, player.bucket))}\n{player.instance.describe()}"
    player.calls.close_all()
    player.instance.abandon()

    def fails_alike(operations):
        found = stage.failure(operations)
        return found is not None and str(found).split("(")[0] == str(problem).split("(")[0]

    shortest = shrink(log, fails_alike, SHRINKING)
    lines = "\n".join(str(operation)[:200] for operation in shortest[-MOST_LINES:])
    end = "\n".join(str(operation)[:200] for operation in log[-40:])
    raise AssertionError(
        f"{problem}\n{len(log)} operations, of which these {len(shortest)} fail alike, at most {MOST_LINES} of them shown:\n{lines}\n"
        f"The last were:\n{end}\nThe remote had {state}"
    )


# What happens after how many operations, about. A quiet period of nothing sends while names and bytes still change, a
# longer one lets changes of a path meet in the journal.
CASES = {
    "sending at once": (dict(quiet_period="0s"), dict(settle=4000, kill_mount=2500, kill_flusher=1500, fault=400)),
    "with kills": (dict(quiet_period="0.5s"), dict(settle=7000, kill_mount=1500, kill_flusher=1200, remount=6000, fault=800)),
    "with cuts of the network": (
        dict(quiet_period="0.3s"), dict(settle=6000, network=2000, kill_flusher=2500, kill_mount=5000, fault=400)
    ),
    "with a cache that is deleted": (
        dict(quiet_period="0.5s"), dict(settle=5000, drop_cache=2000, remount=5000, kill_mount=4000, fault=800)
    ),
    "on one file": (dict(quiet_period="0s"), dict(settle=4000, kill_mount=900, kill_flusher=900, remount=3000)),
}


@pytest.mark.limit(7200)
@pytest.mark.parametrize("case", CASES)
def test_a_mount_is_what_the_model_says(case, make_instance, proxy, server, client, seed):
    settings, trouble = CASES[case]
    stage = Stage(make_instance, proxy, server, client, dict(metadata_age="1s", late_requests="5s") | settings)
    player = stage.player()
    story = Story(player.model, seed, trouble, ["f"] if case == "on one file" else None)
    log, count = [], scaled(20_000)
    try:
        while player.counts["operations"] < count:
            for operation in story.next():
                log.append(operation)
                player.step(operation)
        for operation in [("settle",), ("drop_cache",), ("remount",), ("settle",)]:
            log.append(operation)
            player.step(operation)
    except (Mismatch, Failure) as problem:
        explain(stage, player, log, problem)
    print(f"{case}: {dict(player.counts)}")
    dirty = player.counts["dirty kills of the mount"] + player.counts["dirty kills of the flusher"]
    assert dirty or count < 4 * trouble["kill_mount"], "nothing was dirty at any kill: the test proves nothing"
    assert player.instance.overlooked() == []


# What is done here and by another client to one object, and what is there afterwards: which contents under its name, and
# how many conflict copies of ours beside it.
OURS, THEIRS, BASE = "ours", "theirs", "base"
BOTH_SIDES = {
    ("write", "put"): ([THEIRS], 1), ("write", "delete"): ([OURS], None), ("write", None): ([OURS], 0),
    ("replace", "put"): ([THEIRS], 1), ("replace", "delete"): ([OURS], None), ("replace", None): ([OURS], 0),
    ("create", "put"): ([THEIRS], 1), ("create", None): ([OURS], 0),
    ("unlink", "put"): ([THEIRS], 0), ("unlink", "delete"): ([], 0), ("unlink", None): ([], 0),
    ("chmod", "put"): ([THEIRS], 0), ("chmod", None): ([BASE], 0),
    ("move onto", "put"): ([THEIRS], 1), ("move onto", None): ([OURS], 0),
    (None, "put"): ([THEIRS], 0), (None, "delete"): ([], 0), (None, None): ([BASE], 0),
}


def change_here(mount, name, how):
    ours = f"{name} {OURS}".encode()
    if how in ("write", "create"):
        write_file(mount / name, ours)
    elif how == "replace":
        write_file(mount / f"{name}.new", ours)
        os.rename(mount / f"{name}.new", mount / name)
    elif how == "unlink":
        os.unlink(mount / name)
    elif how == "chmod":
        os.chmod(mount / name, 0o600)
    elif how == "move onto":
        os.rename(mount / f"{name} source", mount / name)


@pytest.mark.limit(300)
def test_changes_of_both_sides_are_both_there(instance, client, seed):
    """Random pairs of changes to objects in random order: theirs is under the name, ours under it or beside it."""
    generator = random.Random(seed)
    cases = {f"n{number:03}": pair for number, pair in enumerate(list(BOTH_SIDES) * scaled(2))}
    for name, (here, _) in cases.items():
        if here != "create":
            client.put_object(Bucket="bucket", Key=name, Body=f"{name} {BASE}".encode())
        if here == "move onto":
            client.put_object(Bucket="bucket", Key=f"{name} source", Body=f"{name} {OURS}".encode())
    instance.configure(quiet_period="10m")
    mount = instance.mount("s3://bucket")
    for name in os.listdir(mount.path):
        os.stat(mount / name)
    for name in generator.sample(sorted(cases), len(cases)):
        change_here(mount, name, cases[name][0])
    assert instance.pending_files() >= len(cases) // 2, "nothing is pending: the test proves nothing"
    for name in generator.sample(sorted(cases), len(cases)):
        if cases[name][1] == "put":
            client.put_object(Bucket="bucket", Key=name, Body=f"{name} {THEIRS}".encode())
        elif cases[name][1] == "delete":
            client.delete_object(Bucket="bucket", Key=name)
    instance.flush()
    found = {key: client.get_object(Bucket="bucket", Key=key)["Body"].read().decode() for key in all_keys(client, "bucket")}
    for name, pair in cases.items():
        check_both_sides(name, pair, {key: body for key, body in found.items() if key.startswith(name)})
    assert instance.conflicts() == sum(BOTH_SIDES[pair][1] or 0 for pair in cases.values())
    wait_until(lambda: sorted(os.listdir(mount.path)) == sorted(found), 20, "the names of the remote in the mount")
    for name, body in found.items():
        with open(mount / name) as file:
            assert file.read() == body, name


def check_both_sides(name, pair, found):
    """Everything that is there of one object."""
    wanted, copies = BOTH_SIDES[pair]
    assert all("conflict" in key or key == name for key in found), (pair, found)
    if copies is None:
        # Ours comes back under the name or beside it.
        assert list(found.values()) == [f"{name} {OURS}"], (pair, found)
        return
    assert [found[name]] == [f"{name} {what}" for what in wanted] if wanted else name not in found, (pair, found)
    assert [body for key, body in found.items() if key != name] == [f"{name} {OURS}"] * copies, (pair, found)
