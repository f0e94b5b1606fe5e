# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""SIGKILL of mount or flusher before any step by which they change the disk or send something: nothing is lost.

Each round does the same operations in a bucket of its own and kills one process before its N-th step. A sample of
all N runs by default, every N with a large MOORAGE_TEST_SCALE.
"""

import random
import sys
import time
import traceback

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
