# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Errors of the disk at any step of mount and flusher: an operation succeeds or says that it failed, and what it
acknowledged arrives once the errors are over.

Each round does the same operations in a bucket of its own: with one error at one step, with errors from one step on
until an operation has failed (or, of the flusher, until it has nothing else to do), or with writes that take half of
what they are given. A sample of all steps by default, every step with a large MOORAGE_TEST_SCALE. What is written to the
database's shared memory goes by mappings of a file that a step has made long enough.
"""

import contextlib
import errno
import random
import time

import pytest

from harness import injection
from harness.injection import ENDLESS
from harness.processes import Failure, wait_until
from harness.rounds import Round, first_operations, second_operations
from harness.settings import scaled

SYNCS = ["fsync", "fdatasync", "syncfs"]
WRITES = ["write", "pwrite", "splice"]
CHANGES = ["open", "write", "pwrite", "splice", "commit", "ftruncate", "fallocate", "copy_file_range", "rename", "link", "unlink", "mkdir", "fsetxattr"]
READS = ["read", "pread"]


def is_of_cache(path):
    return "/cache/" in path


def play(round, command, what):
    """A whole round, the process under errors from its start."""
    environment = round.inject(command, places=round.folders(), **what)
    if command == "flusher":
        round.start_flusher(environment)
        round.mount = round.instance.mount(f"s3://{round.bucket}")
        round.perform(first_operations(round.seed))
    else:
        round.start_mount(environment)
        if round.has_ended():
            round.check_refusal()
        round.revive()
        problems = round.perform_with_errors(first_operations(round.seed))
        hits = [path for _, path in round.injection.hits()]
        assert not problems or not all(is_of_cache(path) for path in hits), f"the cache alone made {problems}"
        assert not problems or what["action"] != "short", f"short writes made {problems}"
    round.client.put_object(Bucket=round.bucket, Key="clash", Body=b"theirs")
    heal(round, what)
    round.await_completion()
    round.flush_at_last()
    round.expect_conflict()
    round.perform_with_errors(second_operations(round.seed))
    heal(round, what)
    round.await_completion()
    round.flush_at_last()
    round.check(1)
    if command == "flusher":
        assert not round.has_ended() or round.process.returncode == 1, round.process.returncode
    round.mount.unmount()
    round.mount = round.mount.mount_again()
    round.check(1)


def heal(round, what):
    """Ends errors that would go on for ever, when the flusher has met them, or what the mount does by itself after the
    operations: to make closed files durable."""
    if what["action"] == "short" or what.get("last") != ENDLESS:
        return
    round.instance.run("flush", "--timeout", "4", timeout=40, check=False)
    if what["first"] == ENDLESS:
        return
    # What is cleared away after an upload is so a moment after its flush has returned; whoever comes to the step later still
    # must not meet errors that nobody ends.
    with contextlib.suppress(Failure):
        wait_until(round.injection.hits, 3, "the error")
    round.injection.end()


def sweep(make_round, command, count, generator, action="fail", **what):
    """Rounds with errors at, or from, a step each, for a sample of the steps."""
    counting = make_round("count")
    play_one(counting, command, what | dict(action=action, first=ENDLESS))
    steps = len(counting.steps)
    numbers = sorted(generator.sample(range(1, steps + 1), min(scaled(count), steps)))
    print(f"{command}: {steps} steps, {len(numbers)} rounds with errors")
    failures = []
    for number in numbers:
        round = make_round(number)
        try:
            play_one(round, command, what | dict(action=action, first=number))
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


needs_injection = pytest.mark.skipif(injection.missing() is not None, reason=str(injection.missing()))


@needs_injection
@pytest.mark.limit(7200)
@pytest.mark.parametrize("kind", ["ENOSPC", "EIO"])
@pytest.mark.parametrize("command", ["mount", "flusher"])
def test_one_error_at_any_step(make_instance, server, folder, seed, command, kind):
    def make_round(number):
        return Round(make_instance, server, folder, number, seed, {"upload_protocol": "s3-multipart"})

    sweep(make_round, command, 1, random.Random(seed), code=getattr(errno, kind), calls=CHANGES)


@needs_injection
@pytest.mark.limit(7200)
@pytest.mark.parametrize(
    "command,kind,calls,last",
    [
        ("mount", "EIO", SYNCS, None),
        ("flusher", "EIO", SYNCS, None),
        ("mount", "EDQUOT", CHANGES, ENDLESS),
        ("mount", "EIO", CHANGES + SYNCS, ENDLESS),
        ("flusher", "ENOSPC", CHANGES + SYNCS, ENDLESS),
        ("mount", "short", WRITES, ENDLESS),
        ("flusher", "short", WRITES, ENDLESS),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_errors_of_any_kind_from_any_step_on(make_instance, server, folder, seed, command, kind, calls, last):
    """Failed syncs; a disk that stays full, over its quota or broken for a while; writes that take half each time."""
    def make_round(number):
        return Round(make_instance, server, folder, number, seed, {"upload_protocol": "s3-multipart"})

    what = dict(action="short") if kind == "short" else dict(code=getattr(errno, kind))
    if last:
        what["last"] = last
    sweep(make_round, command, 1, random.Random(seed), calls=calls, **what)


@needs_injection
@pytest.mark.limit(120)
@pytest.mark.parametrize("command", ["mount", "flusher"])
def test_a_cache_that_fails_all_the_time_is_not_missed(make_instance, server, folder, seed, command):
    """Nothing of the cache can be written by one of the two: no operation fails, and each sees what the other did."""
    round = Round(make_instance, server, folder, "cache", seed, {})
    what = dict(action="fail", first=1, last=ENDLESS, code=errno.ENOSPC, calls=["pwrite", "commit", "copy_file_range"])
    environment = round.inject(command, places=[round.instance.directory("cache")], **what)
    if command == "flusher":
        round.start_flusher(environment)
        round.mount = round.instance.mount(f"s3://{round.bucket}")
    else:
        round.start_mount(environment)
    round.perform(first_operations(round.seed))
    round.client.put_object(Bucket=round.bucket, Key="clash", Body=b"theirs")
    round.flush()
    assert round.injection.hits(), "nothing failed: the test proves nothing"
    round.expect_conflict()
    round.check(1)
    round.perform(second_operations(round.seed))
    round.flush()
    round.check(1)
    round.end()
