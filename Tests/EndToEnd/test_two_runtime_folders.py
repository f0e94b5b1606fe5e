# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Commands with another runtime folder, as cron's have without XDG_RUNTIME_DIR, and the same state folder."""

import os
import shutil
import subprocess
import time

import pytest

from harness.processes import command_line, kill, listens, wait_until
from harness.trees import write_file


@pytest.fixture
def other(instance):
    """The environment of the commands with the other runtime folder."""
    path = instance.directory("run2")
    os.makedirs(path, mode=0o700)
    return {"MOORAGE_RUNTIME_DIR": path}


def flushers(instance):
    return [pid for pid in instance.processes() if "flusher" in command_line(pid)]


@pytest.fixture
def waiting(instance, mount, proxy):
    """A mount with a file that waits for the network; the pid of its flusher."""
    write_file(mount / "known", b"known")
    instance.flush()
    proxy.offline()
    write_file(mount / "file", b"content")
    wait_until(lambda: instance.pending_files() == 1 and instance.flusher_pid(), 20, "the flusher to run")
    return instance.flusher_pid()


@pytest.mark.parametrize("words", [["uploads", "list"], ["uploads", "now", "--all"], ["flush", "--timeout", "1"]])
def test_a_command_finds_the_flusher_of_the_other_folder(instance, waiting, other, proxy, client, words):
    instance.run(*words, env=other, check=False)
    time.sleep(1)
    assert flushers(instance) == [waiting]
    assert f"pid {waiting}" in instance.run("status", env=other).stdout
    proxy.online()
    instance.run("flush", "--timeout", "60", env=other, timeout=90)
    assert client.get_object(Bucket="bucket", Key="file")["Body"].read() == b"content"


def test_a_second_flusher_ends_at_once(instance, waiting, other):
    assert instance.run("flusher", env=other, timeout=10).returncode == 0
    assert flushers(instance) == [waiting]


def test_another_takes_the_place_of_a_killed_one(instance, mount, waiting, other, proxy):
    for environment in (other, {}, other):
        kill(flushers(instance)[0])
        instance.run("uploads", "list", env=environment)
        # The mount starts one as well; the later of them ends when it finds the other.
        wait_until(lambda: len(flushers(instance)) == 1, 20, "one flusher")
        assert f"pid {flushers(instance)[0]}" in instance.run("status", env=other).stdout
    proxy.online()
    instance.flush()
    # One that has nothing to do ends, and leaves the place to one of the other folder.
    assert mount.unmount().returncode == 0
    kill(flushers(instance)[0], 15)
    assert "not running" in instance.run("status", env=other).stdout
    instance.run("uploads", "list", env=other)
    assert os.path.exists(os.path.join(other["MOORAGE_RUNTIME_DIR"], "control.sock"))
    assert instance.flusher_pid() == flushers(instance)[0]


def test_it_is_found_again_when_its_runtime_folder_was_deleted(instance, mount, waiting, other, proxy):
    shutil.rmtree(instance.directory("run"))
    wait_until(lambda: listens(os.path.join(instance.directory("run"), "control.sock")), 10, "a new socket")
    assert instance.flusher_pid() == waiting
    assert f"pid {waiting}" in instance.run("status", env=other).stdout
    proxy.online()
    instance.flush()
    write_file(mount / "later", b"later")
    instance.flush()
    assert flushers(instance) == [waiting]


def test_it_ends_when_the_state_folder_is_deleted(instance, mount, waiting, other):
    assert mount.unmount().returncode == 0
    state = instance.directory("state")
    os.rename(state, state + "-aside")
    time.sleep(0.7)
    os.rename(state + "-aside", state)
    time.sleep(3)
    assert flushers(instance) == [waiting], "it was away for a moment only"
    shutil.rmtree(state)
    wait_until(lambda: flushers(instance) == [], 20, "its end")
    assert not os.path.exists(state)
    with open(os.path.join(instance.directory("run"), "flusher.log")) as file:
        assert f"{state} was deleted" in file.read()


def test_one_that_cannot_be_reached_is_named(instance, mount, waiting, other):
    """As when the disk was too full for the note."""
    os.unlink(os.path.join(instance.directory("state"), "state.socket"))
    assert "1 file pending" in instance.run("status", env=other).stdout
    result = instance.run("flush", env=other, check=False)
    assert result.returncode == 1
    assert str(waiting) in result.stderr and "cannot be reached" in result.stderr and result.stderr.count("\n") == 1
    assert flushers(instance) == [waiting]


@pytest.mark.parametrize("known", [True, False])
def test_a_full_or_read_only_state_folder_stops_no_status(instance, other, known):
    """There is room for nothing in the state folder, then it cannot be written at all."""
    if os.geteuid() != 0:
        pytest.skip("mounts a file system, which takes root")
    state = instance.directory("state")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "tmpfs", state], check=True)
    try:
        instance.run("status")
        if known:
            instance.run("uploads", "list")
            kill(flushers(instance)[0])
        filler = os.open(os.path.join(state, "filler"), os.O_WRONLY | os.O_CREAT)
        with pytest.raises(OSError):
            while True:
                os.write(filler, bytes(4096))
        os.close(filler)
        instance.run("uploads", "list")
        pid = instance.flusher_pid()
        # Where the last flusher listened is known; where the first one does, finds no room.
        status = instance.run("status", env=other).stdout
        assert (f"pid {pid}" if known else "not running") in status
        assert instance.run("uploads", "list", env=other, check=False).returncode == (0 if known else 1)
        assert flushers(instance) == [pid]
        kill(pid)
        subprocess.run(["mount", "-o", "remount,ro", state], check=True)
        assert "not running" in instance.run("status").stdout
        assert "not running" in instance.run("status", env=other).stdout
        instance.run("uploads", "list")
    finally:
        for pid in flushers(instance):
            kill(pid)
        subprocess.run(["umount", state], check=True)
