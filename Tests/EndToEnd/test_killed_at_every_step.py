# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""SIGKILL of mount or flusher before any step by which they change the disk or send something: nothing is lost.

Each round does the same operations in a bucket of its own and kills one process before its N-th step. A sample of
all N runs by default, every N with a large MOORAGE_TEST_SCALE.
"""

import random
import time

import pytest

from harness import injection
from harness.processes import Failure
from harness.rounds import Round, first_operations, second_operations
from harness.settings import scaled


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
    """Rounds for a sample of the steps; a last round past the end shows that the sweep was whole."""
    steps = play_one(make_round(0), command, dict(action="count"))
    numbers = sorted(generator.sample(range(1, steps + 1), min(scaled(count), steps)))
    print(f"{command}: {steps} steps, {len(numbers)} kills")
    failures = []
    for number in numbers:
        round = make_round(number)
        try:
            play_one(round, command, dict(action="kill", first=number))
        except (Failure, AssertionError, OSError) as problem:
            failures.append(f"{round.story()}: {problem}")
            print(failures[-1], flush=True)
    assert not failures, f"{len(failures)} of {len(numbers)} rounds failed:\n" + "\n".join(failures)


def play_one(round, command, what):
    started = time.monotonic()
    try:
        return play(round, command, what)
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
