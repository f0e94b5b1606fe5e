# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What a person and a program see of uploads while they go on."""

import os
import re
import signal

import pytest

from harness.following import Lines
from harness.processes import wait_until
from harness.terminal import Terminal
from harness.trees import write_file, write_random_file

MIB = 1 << 20


@pytest.fixture
def terminal(instance, stack):
    """Makes terminals on which a command of the instance runs."""

    def make(*words, env=None, **options):
        made = Terminal([instance.binary, *words], instance.environment | (env or {}), **options)
        stack.callback(made.stop)
        return made

    return make


@pytest.fixture
def lines(instance, stack):
    def make(*words):
        made = Lines(instance, *words)
        stack.callback(made.stop)
        return made

    return make


def test_a_terminal_shows_what_goes_on(instance, proxy, mount, terminal, seed):
    proxy.limit(up=MIB)
    watch = terminal("status", "--watch")
    watch.wait_for("flusher running", "nothing pending")
    write_random_file(mount / "film", 24 * MIB, seed)
    instance.run("uploads", "pause", write_and_name(mount, "held"))
    text = watch.wait_for("sending", "film", "[#", "/s", " s left", "1 file  paused")
    assert re.search(r"film +\[[#.]{20}\] +\d+% +[\d.]+ MiB of 24 MiB +[\d.]+ [KM]iB/s +\d+ s left", text), text
    # What is drawn follows the terminal's size at once, and nothing of the larger one is left.
    watch.resize(50, 6)
    wait_until(lambda: "more" in watch.lines[5] and watch.lines[0].startswith("flusher"), 20, "the small screen")
    watch.resize(100, 30)
    watch.wait_for("paused", "[#")
    # The flusher goes, and comes back.
    old = instance.kill_flusher()
    new = wait_until(lambda: instance.flusher_pid() not in (None, old) and instance.flusher_pid(), 30, "its successor")
    watch.wait_for(f"pid {new}", "sending", "film")
    assert b"\x1b[32m" in watch.raw and b"\x1b[?1049h" in watch.raw
    assert watch.end() == 0
    tail = watch.raw[watch.raw.rindex(b"\x1b[?1049l"):]
    assert b"\x1b[?25h\x1b[?1049l" in watch.raw and b"film" in tail, tail
    assert not watch.screen.cursor.hidden
    proxy.limit(up=0)


def write_and_name(mount, name):
    write_file(mount / name, b"content")
    return mount / name


def test_a_terminal_without_colours_or_without_sequences(instance, mount, terminal):
    watch = terminal("status", "--watch", env={"NO_COLOR": "1"})
    watch.wait_for("flusher running", "nothing pending")
    assert watch.end() == 0
    assert not re.search(rb"\x1b\[\d+m", watch.raw), watch.raw
    watch = Terminal(["env", "TERM=dumb", instance.binary, "status", "--watch"], instance.environment)
    wait_until(lambda: b"nothing pending" in watch.raw, 20, "a plain text")
    assert watch.end() == 0 and b"\x1b" not in watch.raw
    watch.stop()


def test_watching_goes_on_without_a_flusher(instance, mount, terminal):
    watch = terminal("status", "--watch")
    watch.wait_for("flusher running", "nothing pending")
    mount.unmount()
    instance.kill_flusher()
    watch.wait_for("flusher not running", "not mounted")
    instance.run("policy", "set", "metered=yes")
    watch.wait_for("flusher running")
    # Ctrl-Z gives the terminal back, and fg takes it again.
    count = watch.raw.count(b"\x1b[?1049l")
    watch.press(b"\x1a")
    state = f"/proc/{watch.process.pid}/stat"
    wait_until(lambda: open(state).read().rsplit(")", 1)[1].split()[0] == "T", 20, "a process that is stopped")
    wait_until(lambda: watch.raw.count(b"\x1b[?1049l") == count + 1, 20, "the first screen")
    os.kill(watch.process.pid, signal.SIGCONT)
    wait_until(lambda: watch.raw.count(b"\x1b[?1049h") == 2, 20, "the screen again")
    assert watch.end() == 0


def test_watching_prints_a_document_when_something_changed(instance, mount, lines):
    texts, documents = lines("status", "--watch"), lines("status", "--watch", "--json")
    wait_until(lambda: texts.lines and documents.lines, 20, "the first document")
    instance.run("policy", "set", "metered=yes")
    write_file(mount / "a", b"content")
    wait_until(lambda: any("1 file pending" in line for line in texts.lines), 20, "the change as text")
    wait_until(lambda: any("1 file  expensive since" in line for line in texts.lines), 20, "the reason")
    # Each of the two looks by itself: what one has shown, the other may still have to.
    wait_until(lambda: pending(documents) == 1, 20, "the change as JSON")
    instance.flush()
    wait_until(lambda: pending(documents) == 0, 20, "the end as JSON")
    wait_until(lambda: texts.lines[-2] == "  online · nothing pending", 20, f"the end as text: {texts.lines}")
    assert set(documents.documents[0]) == {"conditions", "flusher", "volumes"}
    # Nothing changes any more, so nothing is printed.
    count = len(documents.lines)
    write_file(os.path.join(instance.folder, "elsewhere"), b"")
    with pytest.raises(AssertionError):
        wait_until(lambda: len(documents.lines) > count + 1, 3, "a document that tells nothing new")


def pending(reader):
    return reader.documents[-1]["volumes"][0]["pending"]["files"]


def kinds(reader, path=None):
    return [event["event"] for event in reader.documents if path is None or event.get("path") == path]


def of_kind(reader, kind):
    return [event for event in reader.documents if event["event"] == kind]


def following(instance, lines, *words):
    """A reader of events that has found the flusher."""
    instance.run("policy", "show")
    reader = lines("events", "--json", *words)
    wait_until(lambda: reader.lines and reader.documents[-1].get("state") == "running", 20, "the first event")
    return reader


def test_events_tell_what_happens_to_an_upload(instance, proxy, mount, lines, seed):
    events = following(instance, lines)
    assert events.documents[-1]["pid"] == instance.flusher_pid()
    proxy.limit(up=MIB)
    write_random_file(mount / "big", 12 * MIB, seed)
    wait_until(lambda: len(of_kind(events, "progress")) >= 3, 30, "progress")
    instance.run("uploads", "pause", mount / "big")
    wait_until(lambda: any(wait["reason"] == "paused" for event in of_kind(events, "waiting")
                           for wait in event["waiting"]), 20, "the pause")
    sent = instance.uploads()[0]["sent"]
    proxy.limit()
    instance.run("uploads", "resume", mount / "big")
    wait_until(lambda: "idle" in kinds(events), 30, "the end")
    seen = kinds(events, "big")
    assert seen[0] == "queued" and seen[-1] == "finished" and seen.count("finished") == 1, seen
    assert seen.index("started") < seen.index("progress"), seen
    if sent > 0:
        [resumed] = of_kind(events, "resumed")
        assert 0 < resumed["offset"] <= 12 * MIB
    progress = [event["sent"] for event in of_kind(events, "progress") if event["path"] == "big"]
    assert progress == sorted(progress), progress
    assert all(event["size"] == 12 * MIB and event["id"] == of_kind(events, "finished")[0]["id"]
               for event in of_kind(events, "progress"))
    for event in events.documents:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["time"])


def test_events_tell_of_gates_failures_and_the_flusher(instance, proxy, mount, lines):
    events, other = following(instance, lines), following(instance, lines, "--volume", "s3://bucket")
    instance.run("policy", "set", "metered=yes")
    wait_until(lambda: of_kind(events, "gate"), 20, "a gate")
    [gate] = of_kind(events, "gate")
    assert gate["state"] == "closed" and [wait["reason"] for wait in gate["waiting"]] == ["expensive"]
    for number in range(3):
        write_file(mount / f"f{number}", b"content")
    wait_until(lambda: len({event["path"] for event in of_kind(events, "waiting")
                            if event["waiting"][-1]["reason"] == "expensive"}) == 3, 20, "each that waits")
    instance.run("policy", "unset")
    wait_until(lambda: "idle" in kinds(events), 30, "the end")
    assert [gate["state"] for gate in of_kind(events, "gate")] == ["closed", "open"]
    # A remote that fails: an event for each attempt, one wait for all of them.
    proxy.rule("respond", times=2, method="PUT", path="/bucket/unlucky", status=403)
    write_file(mount / "unlucky", b"content")
    wait_until(lambda: "finished" in kinds(events, "unlucky"), 60, "an upload in the end")
    failures = [event for event in of_kind(events, "failed") if event["path"] == "unlucky"]
    assert [event["attempts"] for event in failures] == [1, 2] and all(event["next_attempt"] for event in failures)
    waits = [[wait["reason"] for wait in event["waiting"]] for event in of_kind(events, "waiting")
             if event["path"] == "unlucky"]
    assert waits.count(["backoff"]) <= 1, waits
    instance.kill_flusher()
    wait_until(lambda: any(e.get("state") == "gone" for e in of_kind(events, "flusher")), 20, "its end")
    instance.run("uploads")
    instance.run("policy", "show")
    wait_until(lambda: of_kind(events, "flusher")[-1]["state"] == "running", 20, "its return")
    assert kinds(other) and all(e.get("volume") in (None, gate["volume"]) for e in other.documents)
    assert instance.run("events", "--volume", "s3://nowhere", check=False).returncode != 0


def test_a_reader_that_sleeps_holds_nobody_up(instance, mount, lines):
    events = following(instance, lines)
    os.kill(events.process.pid, signal.SIGSTOP)
    try:
        for number in range(300):
            write_file(mount / f"f{number}", b"content")
        instance.flush()
    finally:
        os.kill(events.process.pid, signal.SIGCONT)
    wait_until(lambda: len(of_kind(events, "finished")) == 300 and "idle" in kinds(events), 30, "all that happened")
