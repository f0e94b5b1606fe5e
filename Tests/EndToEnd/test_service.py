# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The flusher as a service: what its manager hears, the socket that starts it, the unit files."""

import json
import os
import re
import subprocess
import sys

import pytest
from harness.processes import is_alive, kill, run, wait_until
from harness.service_manager import Activator, Ear
from harness.threads import stopped
from harness.trees import sha256_of_object, write_random_file

MIB = 1 << 20


@pytest.fixture
def ear(stack):
    ear = Ear()
    stack.callback(ear.close)
    return ear


@pytest.fixture
def activate(instance, stack):
    """Makes the activator of the instance's control socket."""

    def make(*words):
        path = os.path.join(instance.directory("run"), "control.sock")
        activator = Activator(path, [instance.binary, "flusher", *words], instance.environment)
        stack.callback(activator.stop)
        return activator

    return make


def test_the_service_manager_hears_how_the_flusher_is(client, instance, ear, stack):
    words = {"NOTIFY_SOCKET": ear.name, "WATCHDOG_USEC": "1000000"}
    with open(os.path.join(instance.directory("run"), "flusher.log"), "ab") as log:
        process = subprocess.Popen(
            [instance.binary, "flusher", "--exit-when-idle", "1h"], env=instance.environment | words,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=log, start_new_session=True,
        )
    stack.callback(process.kill)
    ear.wait_for("READY=1")
    ear.wait_for("STATUS=nothing pending")
    # Half a second apart, by the coordinator: where that stands still nobody else gives a sign in its place.
    assert ear.count("WATCHDOG=1", 4) >= 4
    with stopped(process.pid, "coordinator"):
        assert ear.count("WATCHDOG=1", 3) <= 1
    wait_until(lambda: ear.count("WATCHDOG=1", 1), 20, "another sign of life")
    instance.run("policy", "set", "metered=yes")
    mount = instance.mount("s3://bucket")
    with open(mount / "file", "w") as file:
        file.write("x")
    ear.wait_for("STATUS=1 waiting: expensive")
    with open(f"/proc/{process.pid}/status") as file:
        assert "moorage" in file.readline()
    instance.run("policy", "unset")
    instance.flush()
    ear.wait_for("STATUS=nothing pending")
    mount.unmount()
    process.terminate()
    assert process.wait(timeout=60) == 0
    heard = ear.listen()
    assert "STOPPING=1" in heard and any(line.startswith("EXTEND_TIMEOUT_USEC=") for line in heard)
    assert heard.index("READY=1") < heard.index("STOPPING=1")


def test_who_connects_starts_the_flusher(client, instance, activate):
    activator = activate("--exit-when-idle", "1s")
    mount = instance.mount("s3://bucket")
    with open(mount / "a", "w") as file:
        file.write("first")
    instance.flush()
    # That of the service manager, and no other.
    assert len(activator.pids) == 1 and instance.flusher_pid() == activator.pids[0]
    kill(activator.pids[0])
    with open(mount / "b", "w") as file:
        file.write("second")
    instance.flush()
    assert len(activator.pids) == 2
    mount.unmount()
    wait_until(lambda: len(activator.statuses) >= 2, 60, "the end of an idle flusher")
    assert activator.statuses[1] == 0
    # The socket is the manager's: it stays, and starts the next one.
    assert instance.flusher_pid() == activator.pids[-1]
    assert client.get_object(Bucket="bucket", Key="b")["Body"].read() == b"second"


def test_a_service_takes_the_place_of_a_flusher_that_runs_by_itself(server, proxy, instance, activate, seed):
    instance.configure(upload_protocol="s3-multipart", part_size="5M", parallel_parts=1)
    mount = instance.mount("s3://bucket")
    proxy.limit(up=4 * MIB)
    before = server.body_bytes()
    digest = write_random_file(mount / "big", 30 * MIB, seed)
    wait_until(lambda: server.body_bytes() - before > 6 * MIB, 60, "a part at the server")
    old = instance.flusher_pid()
    assert old
    # As a socket unit does, it binds where the other listens.
    activator = activate("--exit-when-idle", "1h")
    assert instance.flusher_pid() == activator.pids[0] != old
    wait_until(lambda: not is_alive(old), 20, "the end of the other flusher")
    proxy.limit(up=64 * MIB)
    instance.flush()
    assert len(activator.pids) == 1
    assert sha256_of_object(server.client(), "bucket", "big") == digest
    # What was acknowledged was not sent again; a part or two may have been cut.
    assert server.body_bytes() - before <= 30 * MIB + 10 * MIB


def test_a_flusher_started_by_hand_leaves_the_socket_to_the_service_manager(instance, activate):
    activator = activate("--exit-when-idle", "1h")
    instance.run("flusher", "--exit-when-idle", "1s", timeout=60)
    wait_until(lambda: activator.pids, 20, "the service")
    assert instance.flusher_pid() == activator.pids[-1]


@pytest.mark.parametrize("scope", ["user", "system"])
def test_the_units_are_sound_and_hardened(instance, folder, scope):
    units = os.path.join(folder, "units")
    output = instance.run("service", "install", f"--{scope}", "--directory", units).stdout
    paths = [os.path.join(units, f"moorage-flusher.{kind}") for kind in ("service", "socket")]
    assert all(f"wrote {path}" in output for path in paths)
    os.makedirs(os.path.join(folder, "runtime"))
    environment = instance.environment | {"XDG_RUNTIME_DIR": os.path.join(folder, "runtime")}
    verified = run(["systemd-analyze", f"--{scope}", "--man=no", "verify", *paths], env=environment)
    assert verified.stdout + verified.stderr == ""
    secure = run(["systemd-analyze", "--offline=yes", "--no-pager", "security", paths[0]])
    exposure = float(re.search(r"Overall exposure level .*: ([0-9.]+)", secure.stdout).group(1))
    print(f"exposure {exposure}", file=sys.stderr)
    assert exposure < (4 if scope == "user" else 3)
    with open(paths[0]) as file:
        text = file.read()
    assert "SECRET" not in text.upper() and "AWS_" not in text
    report = json.loads(instance.run("service", "status", f"--{scope}", "--directory", units, "--json").stdout)
    assert report["installed"] and report["current"] and report["scope"] == scope
    removed = instance.run("service", "uninstall", f"--{scope}", "--directory", units).stdout
    assert removed.count("removed ") == 2 and os.listdir(units) == []


@pytest.mark.limit(300)
def test_an_older_flusher_gives_way_between_parts(server, proxy, instance, seed):
    """A newer program finds an older flusher, which lets its part end; nothing is lost, and nothing sent twice."""
    instance.configure(upload_protocol="s3-multipart", part_size="5M", parallel_parts=1)
    mount = instance.mount("s3://bucket")
    proxy.limit(up=4 * MIB)
    before = server.body_bytes()
    digest = write_random_file(mount / "big", 25 * MIB, seed)
    wait_until(lambda: server.body_bytes() - before > 6 * MIB, 60, "a second part under way")
    # It does not come to its end while it is looked at.
    proxy.limit(up=MIB)
    old = instance.flusher_pid()
    # An older program is served by the flusher that runs.
    assert instance.run("uploads", env={"MOORAGE_PROGRAM_VERSION": "0.0.9"}).stdout
    assert instance.flusher_pid() == old
    newer = {"MOORAGE_PROGRAM_VERSION": "99.1"}
    assert "big" in instance.run("uploads", env=newer, timeout=120).stdout
    new = instance.flusher_pid()
    assert new != old
    # It lets go of its lock before it ends.
    wait_until(lambda: not is_alive(old), 20, "the end of the older flusher")
    with open(os.path.join(instance.directory("run"), "flusher.log"), errors="replace") as file:
        assert "gives way to version 99.1" in file.read()
    proxy.limit(up=64 * MIB)
    instance.flush(timeout=60)
    assert sha256_of_object(server.client(), "bucket", "big") == digest
    assert server.body_bytes() - before <= 25 * MIB + 64 * 1024, "something was sent twice"
