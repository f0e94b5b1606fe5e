# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What commands do with words that could mean more than one thing, with interrupts, and with odd descriptors."""

import fcntl
import json
import os
import signal
import subprocess
import time

import pytest

from harness.mounts import is_mounted
from harness.processes import find_processes, wait_until
from harness.terminal import on_a_terminal
from harness.trees import write_file

CLOSED = 'exec "$@" <&- >&- 2>&-'


@pytest.fixture
def two(instance, server):
    """Two volumes of one instance, mounted side by side, that send nothing by themselves."""
    instance.configure(quiet_period="1h")
    server.make_bucket("second")
    return instance.mount("s3://bucket"), instance.mount("s3://second")


def test_the_flusher_stands_behind_other_programs(instance, mount):
    own = os.getpriority(os.PRIO_PROCESS, 0)
    pid = wait_until(instance.flusher_pid, 30, "a flusher, which the mount has to start")
    for thread in os.listdir(f"/proc/{pid}/task"):
        assert os.getpriority(os.PRIO_PROCESS, int(thread)) == max(own, 10)
    assert os.getpriority(os.PRIO_PROCESS, mount.pid) == own


def test_paths_of_two_volumes_mean_each_only_in_its_own(instance, two):
    first, second = two
    for mount in two:
        for name in ("a", "b"):
            write_file(mount / name, name.encode())
    assert len(instance.uploads()) == 4
    result = instance.run("uploads", "cancel", first / "a", second / "b")
    assert "2 uploads" in result.stdout
    assert len(instance.uploads()) == 2
    wait_until(lambda: os.listdir(first.path) == ["b"] and os.listdir(second.path) == ["a"], 10, "what is left")


def test_an_id_and_a_path_of_another_volume_may_stand_together(instance, two):
    first, second = two
    write_file(first / "x", b"x")
    write_file(second / "y", b"y")
    named = next(upload["id"] for upload in instance.uploads() if upload["path"] == "y")
    instance.run("uploads", "pause", named, first / "x")
    assert {upload["state"] for upload in instance.uploads()} == {"paused"}


def test_what_was_cancelled_is_told(instance, two):
    write_file(two[0] / "new", b"never sent")
    uploads = json.loads(instance.run("uploads", "cancel", "--json", two[0] / "new").stdout)["uploads"]
    assert [upload["path"] for upload in uploads] == ["new"]
    assert instance.uploads() == []


@pytest.mark.parametrize("verb", ["list", "why", "pause", "cancel"])
def test_a_mistyped_path_is_not_taken_for_sent(instance, mount, verb):
    result = instance.run("uploads", verb, "/no/such/place", check=False)
    assert result.returncode == 1 and "/no/such/place" in result.stderr and not result.stdout


@pytest.mark.parametrize("words", [["uploads", "cancel", ""], ["flush", ""], ["unmount", ""], ["mount", "s3://bucket", ""]])
def test_an_empty_word_is_not_the_working_folder(instance, mount, words):
    write_file(mount / "kept", b"kept")
    result = subprocess.run(
        [instance.binary, *words], cwd=mount.path, env=instance.environment, capture_output=True, text=True, timeout=30
    )
    assert result.returncode == 2 and "empty" in result.stderr
    assert os.path.exists(mount / "kept")


def test_a_place_where_two_volumes_were_mounted_means_the_one_that_is_there(instance, server):
    """Whichever of the two comes first by its id."""
    server.make_bucket("second")
    place = instance.directory("mnt/shared")
    for remote in ("s3://bucket", "s3://second", "s3://bucket"):
        mount = instance.mount(remote, place, "quiet_period=1h")
        write_file(mount / "by-path", b"1")
        instance.run("flush", mount / "by-path", "--timeout", "30")
        assert instance.uploads() == [], remote
        write_file(mount / "by-wait", b"2")
        mount.unmount("--wait", "--timeout", "30")
        assert instance.uploads() == [], remote


def test_a_bucket_is_flushed_with_the_volumes_in_it(instance, mount):
    inner = instance.mount("s3://bucket/some/prefix", None, "quiet_period=1h")
    for words in (["s3://bucket"], ["s3://bucket/some"], [instance.directory("mnt")]):
        write_file(inner / "file", words[0].encode())
        instance.run("flush", *words, "--timeout", "30")
        assert instance.uploads() == [], words


def test_a_flush_counts_all_that_is_left(instance, two):
    for number in range(1100):
        write_file(two[0] / str(number), b"1")
    instance.run("uploads", "pause", "--all")
    result = instance.run("flush", "--timeout", "30", check=False)
    assert result.returncode == 1 and "1100 files left" in result.stderr.splitlines()[-1]


def test_a_flush_tells_what_is_left_as_json(proxy, instance, two):
    def flush(*words, status):
        result = instance.run("flush", "--json", *words, check=False)
        assert result.returncode == status, result
        return json.loads(result.stdout), result.stderr

    write_file(two[0] / "sent", b"1")
    write_file(two[1] / "other", b"1")
    assert flush(status=0) == ({"remote": True, "timed_out": False, "left": []}, "")
    # Nothing goes on without a person: that is no matter of time.
    write_file(two[0] / "held", b"1")
    instance.run("uploads", "pause", two[0] / "held")
    report, notes = flush("--timeout", "30", status=1)
    assert (report["remote"], report["timed_out"]) == (False, False) and "not everything could be sent" in notes
    [left], [upload] = report["left"], instance.uploads()
    assert left.keys() == upload.keys() - {"details"}
    assert [left[name] for name in ("id", "path", "state")] == [upload["id"], "held", "paused"]
    assert flush(two[1].path, status=0)[0]["remote"]
    instance.run("uploads", "resume", two[0] / "held")
    instance.flush()
    proxy.rule("hold", method="PUT", times="all")
    write_file(two[0] / "late", b"1")
    report, notes = flush("--timeout", "1", status=1)
    assert (report["remote"], report["timed_out"]) == (False, True) and "time is up" in notes
    assert [upload["path"] for upload in report["left"]] == ["late"]
    # A terminal gets the document alone.
    status, text = on_a_terminal(instance, "flush", "--json", "--timeout", "1", stderr=subprocess.DEVNULL)
    assert status == 1 and b"\x1b" not in text and json.loads(text)["timed_out"]
    # So does who unmounts and waits.
    result = instance.run("unmount", two[0].path, "--wait", "--json", "--timeout", "1", check=False)
    report = json.loads(result.stdout)
    assert result.returncode == 1 and [upload["path"] for upload in report["left"]] == ["late"]
    assert report["timed_out"] and "time is up" in result.stderr and not is_mounted(two[0].path)


def test_settings_of_a_new_mount_hold_at_once(instance, mount):
    instance.flush()
    mount.unmount()
    again = instance.mount("s3://bucket", mount.path, "quiet_period=1h")
    write_file(again / "late", b"late")
    time.sleep(2)
    assert [upload["path"] for upload in instance.uploads()] == ["late"]


@pytest.mark.limit(60)
def test_an_interrupted_mount_does_not_come_about(instance, proxy):
    place = instance.directory("mnt/late")
    os.makedirs(place)
    rule = proxy.rule("hold", times="all")
    command = [instance.binary, "mount", "s3://bucket", place, "-o", f"endpoint={instance.endpoint}"]
    instance.adopt("s3://bucket", place)
    process = subprocess.Popen(command, env=instance.environment, stderr=subprocess.DEVNULL)
    rule.wait()
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == -signal.SIGINT
    assert find_processes("mount", place), "nothing was left to come about"
    rule.remove()
    wait_until(lambda: not find_processes("mount", place), 20, "the end of the mount's process")
    assert not is_mounted(place)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_mount_in_the_foreground_ends_at_once_while_it_connects(instance, proxy, number):
    place = instance.directory("mnt/foreground")
    os.makedirs(place)
    rule = proxy.rule("hold", times="all")
    command = [instance.binary, "mount", "s3://bucket", place, "-o", f"endpoint={instance.endpoint}", "--foreground"]
    process = subprocess.Popen(command, env=instance.environment, stderr=subprocess.PIPE)
    rule.wait()
    process.send_signal(number)
    # By itself it would give up after ten seconds.
    assert process.wait(7) == 1 and process.stderr.read().count(b"interrupted") == 1
    assert not is_mounted(place)


def test_output_that_cannot_be_written_is_a_failure(instance, mount):
    for words in (["status"], ["status", "--json"], ["status", "--watch"], ["uploads", "list", "--json"], ["--help"]):
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                [instance.binary, *words], env=instance.environment, stdout=full, stderr=subprocess.PIPE, timeout=20
            )
        assert result.returncode == 1 and b"standard output" in result.stderr, words


def test_a_flush_on_a_terminal_ends_with_all_of_it(instance):
    instance.configure(quiet_period="1h")
    mount = instance.mount("s3://bucket")
    write_file(mount / "file", b"f" * 100_000)
    status, text = on_a_terminal(instance, "flush")
    assert status == 0
    assert b"100%" in text.rstrip().split(b"\r")[-1] and b"1/1 files" in text, text


def test_watching_ends_with_its_reader(instance, mount):
    process = subprocess.Popen([instance.binary, "status", "--watch"], env=instance.environment, stdout=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(10) == 0


def test_closed_descriptors_are_never_written_to(instance, server):
    """The first files that are opened must not take the place of the log and of the terminal."""
    place = instance.directory("mnt/closed")
    os.makedirs(place)
    words = ["bash", "-c", CLOSED, "-", instance.binary, "mount", "s3://bucket", place, "-o", f"endpoint={server.url}"]
    assert subprocess.run(words, env=instance.environment, timeout=30).returncode == 0
    mount = instance.adopt("s3://bucket", place)
    assert is_mounted(place)
    mount.unmount()
    process = subprocess.Popen([*words, "--foreground"], env=instance.environment)
    wait_until(lambda: is_mounted(place), 20, "the mount")
    held = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)]
    process.terminate()
    assert process.wait(20) == 0
    assert held == ["/dev/null"] * 3


def test_what_the_caller_holds_open_is_not_held_by_the_mount(instance, folder):
    path = os.path.join(folder, "lock")
    with open(path, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.set_inheritable(lock.fileno(), True)
        place = instance.directory("mnt/inheriting")
        os.makedirs(place)
        command = [instance.binary, "mount", "s3://bucket", place, "-o", f"endpoint={instance.endpoint}"]
        subprocess.run(command, env=instance.environment, pass_fds=[lock.fileno()], check=True, timeout=30)
        instance.adopt("s3://bucket", place)
    with open(path) as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
