# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The machine sleeps or ends: it waits a moment for what runs, and nothing goes meanwhile."""

import os
import re
import time

from harness.machine import LOGIND
from harness.processes import run, wait_until
from harness.trees import sha256_of_object, write_file, write_random_file

MIB = 1 << 20
MANAGER = "org.freedesktop.login1.Manager"


class Logind:
    """python-dbusmock's logind."""

    def __init__(self, bus):
        self.service = bus.serve(LOGIND, "--template", "logind")
        self.service.add(MANAGER, "InhibitDelayMaxUSec", "<uint64 5000000>")

    def inhibitors(self):
        return self.service.call(f"{MANAGER}.ListInhibitors")

    def holds(self):
        return "Moorage" in self.inhibitors()

    def announce(self, signal, value):
        self.service.call("org.freedesktop.DBus.Mock.EmitSignal", MANAGER, signal, "b", f"[<{str(value).lower()}>]")


def reasons(instance):
    return {item["reason"] for upload in instance.uploads() for item in upload["waiting"]}


def log(instance):
    with open(os.path.join(instance.directory("run"), "flusher.log"), errors="replace") as file:
        return file.read()


def standing(server):
    """How many bytes the server has when no more arrive; else nothing."""
    count = server.body_bytes()
    time.sleep(1)
    return count if server.body_bytes() == count else 0


def test_uploads_settle_before_the_machine_sleeps_and_go_on_after(server, proxy, instance, bus, seed):
    logind = Logind(bus)
    instance.configure(upload_protocol="s3-multipart", part_size="5M", parallel_parts=2)
    mount = instance.mount("s3://bucket")
    assert not logind.holds(), "nothing runs yet"
    proxy.limit(up=2 * MIB)
    before = server.body_bytes()
    size = 40 * MIB
    digest = write_random_file(mount / "big", size, seed)
    wait_until(lambda: server.body_bytes() - before > 6 * MIB, 60, "a part at the server")
    wait_until(logind.holds, 10, "an inhibitor")
    told = logind.inhibitors()
    assert "'sleep', 'Moorage'" in told and "'shutdown', 'Moorage'" in told and "MiB left" in told and "'delay'" in told
    logind.announce("PrepareForSleep", True)
    begun = time.monotonic()
    wait_until(lambda: not logind.holds(), 10, "the inhibitor to be given back")
    took = time.monotonic() - begun
    assert took < 5, f"the machine would have slept without us, after {took} s"
    assert reasons(instance) == {"sleep"}
    # A person's wish does not go before it either.
    instance.run("uploads", "now", "--all")
    # What the proxy has taken already still gets there.
    asleep = wait_until(lambda: standing(server), 20, "nothing more to arrive")
    time.sleep(1)
    assert server.body_bytes() == asleep and reasons(instance) == {"sleep"}
    logind.announce("PrepareForSleep", False)
    wait_until(lambda: server.body_bytes() > asleep, 30, "uploads to go on")
    wait_until(logind.holds, 10, "an inhibitor again")
    proxy.limit(up=64 * MIB)
    wait_until(lambda: instance.pending_files() == 0, 60, "the end of the upload")
    assert sha256_of_object(server.client(), "bucket", "big") == digest
    # Two parts were cut at the most.
    assert server.body_bytes() - before <= size + 2 * 5 * MIB + 64 * 1024
    wait_until(lambda: not logind.holds(), 10, "no inhibitor while nothing runs")


def connections(pid):
    """How many bytes a process has sent over each of its TCP connections, by their local ends."""
    lines = run(["ss", "-OHtnpi", "state", "established"]).stdout.splitlines()
    return {
        line.split()[2]: int(re.search(r"bytes_sent:(\d+)", line)[1])
        for line in lines
        if f"pid={pid}," in line and "bytes_sent:" in line
    }


def test_connections_from_before_a_sleep_are_not_used_again(instance, proxy, bus):
    logind = Logind(bus)
    mount = instance.mount("s3://bucket")
    write_file(mount / "a", b"1")
    instance.flush()
    first = connections(instance.flusher_pid())
    # Without a sleep they are.
    write_file(mount / "b", b"2")
    instance.flush()
    before = connections(instance.flusher_pid())
    assert any(count > first.get(place, count) for place, count in before.items()), (first, before)
    logind.announce("PrepareForSleep", True)
    logind.announce("PrepareForSleep", False)
    log = os.path.join(instance.directory("run"), "flusher.log")
    wait_until(lambda: "the machine is back" in open(log).read(), 20, "the end of the sleep")
    write_file(mount / "c", b"3")
    instance.flush()
    after = connections(instance.flusher_pid())
    assert set(after) - set(before)
    assert {place: count for place, count in after.items() if place in before}.items() <= before.items()


def test_a_shutdown_is_told_what_is_left(instance, proxy, bus):
    logind = Logind(bus)
    mount = instance.mount("s3://bucket")
    write_file(mount / "first", b"so that the folder is known")
    instance.flush()
    proxy.offline()
    write_file(mount / "file", b"left")
    wait_until(lambda: "offline" in reasons(instance), 30, "an upload that waits")
    logind.announce("PrepareForShutdown", True)
    wait_until(lambda: "sleep" in reasons(instance), 10, "everything to be held")
    wait_until(lambda: "1 not remote yet, 4 bytes" in log(instance), 10, "what is left in the log")
    proxy.online()
    time.sleep(1.5)
    assert instance.pending_files() == 1
    # It was called off.
    logind.announce("PrepareForShutdown", False)
    wait_until(lambda: instance.pending_files() == 0, 30, "the upload to go on")
