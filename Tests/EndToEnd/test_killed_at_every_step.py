# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""SIGKILL of mount or flusher before any step by which they change the disk or send something: nothing is lost.

Each round does the same operations in a bucket of its own and kills one process before its N-th step. A sample of
all N runs by default, every N with a large MOORAGE_TEST_SCALE.
"""

import contextlib
import os
import random
import signal
import sys
import time
import traceback

import pytest

from harness import injection
from harness.processes import Failure
from harness.rounds import Round, first_operations, second_operations
from harness.settings import scaled
from harness.trees import random_bytes


def play(round, command, what):
    """A whole round; returns the steps that the process took."""
    environment = round.inject(command, **what)
    if command == "flusher":
        round.start_flusher(environment)
        round.mount = round.instance.mount(f"s3://{round.bucket}")
    else:
        round.start_mount(environment)
    round.revive()
    round.perform(first_operations(round.seed))
    round.client.put_object(Bucket=round.bucket, Key="clash", Body=b"theirs")
    round.flush()
    round.looking(round.expect_conflict)
    round.looking(lambda: round.check(1))
    round.perform(second_operations(round.seed))
    round.flush()
    round.looking(lambda: round.check(1))
    return len(round.injection.steps())


def sweep(make_round, command, count, generator):
    """Rounds for a sample of the steps, some of which find something pending."""
    steps, _ = play_one(make_round(0), command, dict(action="count"))
    numbers = sorted(generator.sample(range(1, steps + 1), min(scaled(count), steps)))
    print(f"{command}: {steps} steps, {len(numbers)} kills")
    failures, dirty, played = [], 0, 0
    while numbers:
        number = numbers.pop(0)
        round = make_round(f"{number}-{played}")
        played += 1
        try:
            dirty += play_one(round, command, dict(action="kill", first=number))[1]
        except (Failure, AssertionError, OSError) as problem:
            failures.append(f"{round.story()}: {problem!r}")
            traceback.print_exc(file=sys.stdout)
        if not numbers and not dirty and not failures and played < scaled(count) + 10:
            numbers.append(generator.randrange(steps // 4, steps // 2))
    assert not failures, f"{len(failures)} of {played} rounds failed:\n" + "\n".join(failures)
    assert dirty, "nothing was pending at any kill: the test proves nothing"


def play_one(round, command, what):
    """A whole round; returns the steps that the process took, and whether it was killed with something pending."""
    started = time.monotonic()
    try:
        return play(round, command, what), round.was_killed_dirty()
    finally:
        print(f"{round.story()}, {time.monotonic() - started:.1f} s", flush=True)
        round.end()


@pytest.mark.skipif(injection.missing() is not None, reason=str(injection.missing()))
@pytest.mark.limit(7200)
@pytest.mark.parametrize("protocol", ["s3-multipart", "auto"])
@pytest.mark.parametrize("command", ["mount", "flusher"])
def test_killed_at_any_step(make_instance, server, folder, seed, command, protocol):
    def make_round(number):
        return Round(make_instance, server, folder, number, seed, {"upload_protocol": protocol})

    sweep(make_round, command, 3, random.Random(seed))


class CutFile:
    """What is done to an open file step by step, and what may be left of it when the step is cut short."""

    def __init__(self, path, seed):
        self.path = path
        first, second, third = (random_bytes(seed + number, 9_000) for number in range(3))
        self.file = None
        self.content = None
        self.done = 0
        self.steps = [
            (self.create, b""),
            (lambda: os.pwrite(self.file, first, 0), first),
            (lambda: os.fsync(self.file), first),
            (lambda: os.ftruncate(self.file, 0), b""),
            (lambda: os.pwrite(self.file, second, 0), second),
            (lambda: os.ftruncate(self.file, 5_000), second[:5_000]),
            (lambda: os.fsync(self.file), second[:5_000]),
            (lambda: os.ftruncate(self.file, 2_000), second[:2_000]),
            (lambda: os.pwrite(self.file, third, 2_000), second[:2_000] + third),
            (self.cut_by_another, b""),
            (lambda: os.pwrite(self.file, third, 0), third),
        ]

    def create(self):
        self.file = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)

    def cut_by_another(self):
        os.close(os.open(self.path, os.O_WRONLY | os.O_TRUNC))

    def play(self):
        """Does all there is to do; what may be there when it ends, None for no file."""
        for number, (step, after) in enumerate(self.steps):
            try:
                step()
            except OSError:
                # A new file may be gone until it was synced.
                return {self.content, after} | ({None} if number < 3 else set())
            self.content = after
            self.done += 1
        return {self.content}

    def close(self):
        if self.file is not None:
            with contextlib.suppress(OSError):
                os.close(self.file)


def play_cut(round, number):
    """One run, killed before that step of the mount, or at the end without one; returns the steps it took, and how many things
    were done that were acknowledged."""
    environment = round.inject("mount", [round.instance.directory("state")], action="kill" if number else "count", first=number or 1)
    round.start_mount(environment)
    cut = CutFile(round.mount / "cut", round.seed)
    allowed = cut.play() if not round.has_ended() else {None}
    steps = len(round.injection.steps())
    with contextlib.suppress(ProcessLookupError):
        os.kill(round.process.pid, signal.SIGKILL)
    round.process.wait()
    cut.close()
    round.revive()
    found = None
    with contextlib.suppress(FileNotFoundError), open(round.mount / "cut", "rb") as file:
        found = file.read()
    sizes = [None if content is None else len(content) for content in (found, *allowed)]
    assert found in allowed, f"{sizes[0]} bytes, which is not one of the contents of {sizes[1:]}"
    round.flush()
    keys = {entry["Key"] for entry in round.client.list_objects_v2(Bucket=round.bucket).get("Contents", [])}
    assert ("cut" in keys) == (found is not None)
    if found is not None:
        assert round.client.get_object(Bucket=round.bucket, Key="cut")["Body"].read() == found
    return steps, cut.done


@pytest.mark.skipif(injection.missing() is not None, reason=str(injection.missing()))
@pytest.mark.limit(3600)
def test_killed_at_any_step_of_a_cut(make_instance, server, folder, seed):
    """What was synced, cut and written again is what was acknowledged last, or what was being done."""
    def play(number):
        round = Round(make_instance, server, folder, f"cut-{number}", seed, {})
        try:
            return play_cut(round, number)
        except AssertionError as problem:
            raise AssertionError(f"killed at step {number}: {problem}") from problem
        finally:
            round.end()

    steps, all_done = play(0)
    # Some kills come while there is something to be cut, also where few are tried.
    numbers = sorted(random.Random(seed).sample(range(steps // 3, steps + 1), min(scaled(8), steps - steps // 3)))
    print(f"{steps} steps, killed at {numbers}")
    assert any([0 < play(number)[1] < all_done for number in numbers]), "no kill came in between: the test proves nothing"
