# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""`moorage uploads resolve`: what a person decides about a conflict, with a mount and without, and what cannot be done."""

import json
import os
import subprocess
import sys

import pytest

from harness.processes import wait_until
from harness.trees import all_keys, write_file


@pytest.fixture
def ready(instance, client):
    """A mount at once in step with the remote, and uploads that wait for a flush."""
    instance.configure(quiet_period="10m")
    client.put_object(Bucket="bucket", Key="notes.txt", Body=b"base")
    return instance.mount("s3://bucket", None, "metadata_age=0s", "kernel_age=0s")


WRITER = """
import sys
with open(sys.argv[1], "ab") as file:
    file.write(b" and more")
    file.flush()
    print("written", flush=True)
    sys.stdin.read()
"""


def make_conflict(instance, mount, client, ours=b"ours", theirs=b"theirs", flush=True):
    """Changes notes.txt on both sides; returns the name of the copy."""
    before = conflicts(instance)
    with open(mount / "notes.txt", "rb") as file:
        file.read()
    write_file(mount / "notes.txt", ours)
    assert instance.pending_files() == 1, "the edit is remote already: the test proves nothing"
    client.put_object(Bucket="bucket", Key="notes.txt", Body=theirs)
    instance.flush()
    (made,) = [conflict for conflict in conflicts(instance) if conflict not in before]
    assert made["path"] == "notes.txt" and made["uploaded"]
    return made["copy"]


def conflicts(instance):
    return json.loads(instance.run("uploads", "list", "--json").stdout)["conflicts"]


def bodies(client):
    return {key: client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in all_keys(client, "bucket")}


def shown(mount):
    return {name: open(mount / name, "rb").read() for name in os.listdir(mount.path)}


@pytest.mark.parametrize("keep", ["mine", "theirs", "both"])
@pytest.mark.parametrize("is_mounted", [True, False])
def test_a_decision_is_carried_out(instance, ready, client, keep, is_mounted):
    copy = make_conflict(instance, ready, client)
    os.setxattr(ready / copy, "user.note", b"1")
    instance.flush()
    assert f"notes.txt: ours is {copy}" in instance.run("uploads").stdout
    # By the file's name, or by that of its copy, as one would name them.
    words = [ready / "notes.txt" if keep == "mine" else ready / copy]
    if not is_mounted:
        ready.unmount()
        words = ["s3://bucket/notes.txt"]
    result = instance.run("uploads", "resolve", *words, "--keep", keep)
    assert result.stdout.startswith("notes.txt: ")
    expected = {"mine": {"notes.txt": b"ours"}, "theirs": {"notes.txt": b"theirs"}, "both": {"notes.txt": b"theirs", copy: b"ours"}}[keep]
    if is_mounted:
        # At once, before anything is uploaded.
        assert shown(ready) == expected
    instance.flush()
    assert bodies(client) == expected
    assert conflicts(instance) == [] and instance.conflicts() == 0
    mount = ready if is_mounted else ready.mount_again()
    assert shown(mount) == expected
    if keep == "mine":
        assert os.getxattr(mount / "notes.txt", "user.note") == b"1"
    assert "ours is" not in instance.run("uploads").stdout


def test_a_copy_that_is_not_sent_yet_takes_its_place_without_being_sent_twice(instance, proxy, ready, client, server):
    write_file(ready / "notes.txt", bytes(1 << 20))
    client.put_object(Bucket="bucket", Key="notes.txt", Body=b"theirs")
    instance.run("uploads", "now", "--all")
    wait_until(lambda: conflicts(instance), 30, "the conflict")
    (conflict,) = conflicts(instance)
    before = server.body_bytes()
    report = json.loads(instance.run("uploads", "resolve", "--all", "--keep", "mine", "--json").stdout)
    assert [one["copy"] for one in report["resolved"]] == [conflict["copy"]] and report["refused"] == []
    instance.flush()
    assert bodies(client) == {"notes.txt": bytes(1 << 20)}
    assert server.body_bytes() - before < (1 << 20) + 10_000


def test_a_third_version_is_not_overwritten_unseen(instance, ready, client):
    first = make_conflict(instance, ready, client)
    client.put_object(Bucket="bucket", Key="notes.txt", Body=b"third")
    instance.run("uploads", "resolve", ready / "notes.txt", "--keep", "mine")
    instance.flush()
    (again,) = conflicts(instance)
    assert bodies(client) == {"notes.txt": b"third", again["copy"]: b"ours"}, first
    # It was met now: who says it again means this one.
    instance.run("uploads", "resolve", ready / "notes.txt", "--keep", "mine")
    instance.flush()
    assert bodies(client) == {"notes.txt": b"ours"}


def test_a_decision_outlives_kills_and_an_unreachable_remote(instance, proxy, ready, client):
    copy = make_conflict(instance, ready, client)
    proxy.offline()
    instance.run("uploads", "resolve", ready / copy, "--keep", "mine")
    assert os.listdir(ready.path) == ["notes.txt"]
    instance.kill_flusher()
    ready.kill()
    proxy.online()
    instance.flush()
    assert bodies(client) == {"notes.txt": b"ours"}


def test_what_cannot_be_done_says_why(instance, ready, client):
    def refused(*words):
        result = instance.run("uploads", "resolve", *words, check=False)
        return result.returncode, result.stderr.strip()

    assert refused(ready / "notes.txt", "--keep", "mine") == (1, "moorage: uploads resolve: no such conflict; see moorage uploads")
    assert refused(ready / "notes.txt")[0] == 2
    assert refused(ready / "notes.txt", "--keep", "ours")[0] == 2
    assert refused("--keep", "both")[0] == 2
    assert refused("--all", ready / "notes.txt", "--keep", "both")[0] == 2
    assert refused("/nowhere", "--keep", "both")[0] == 1
    assert instance.run("uploads", "list", "--keep", "both", check=False).returncode == 2
    first = make_conflict(instance, ready, client)
    # In a process of its own: each close of a descriptor counts, also of one that a command inherited.
    with subprocess.Popen([sys.executable, "-c", WRITER, ready / first], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"written\n"
        assert refused(ready / "notes.txt", "--keep", "mine") == (1, f"moorage: {first} is being written")
        writer.communicate(timeout=30)
    instance.flush()
    write_file(ready / "notes.txt", b"edited since")
    status, text = refused(ready / "notes.txt", "--keep", "mine")
    assert status == 1 and "changes of its own" in text
    instance.flush()
    second = make_conflict(instance, ready, client, b"ours too", b"theirs too")
    status, text = refused(ready / "notes.txt", "--keep", "mine")
    assert status == 1 and "2 copies" in text and first in text and second in text
    assert len(conflicts(instance)) == 2
    instance.run("uploads", "resolve", ready / "notes.txt", "--keep", "both")
    assert conflicts(instance) == []


def test_the_copy_stands_beside_its_original(instance, ready, client):
    for name in ("notes", "notes2.txt", "nota.txt", "other.txt"):
        client.put_object(Bucket="bucket", Key=name, Body=b"x")
    copy = make_conflict(instance, ready, client)
    names = [entry["Key"] for entry in client.list_objects_v2(Bucket="bucket")["Contents"]]
    assert abs(names.index(copy) - names.index("notes.txt")) == 1
