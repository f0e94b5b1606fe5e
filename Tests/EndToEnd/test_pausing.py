# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Pauses of volumes, folders and files, the tree of progress, and why an upload waits."""

import itertools
import json
import os

import pytest

from harness.processes import wait_until
from harness.trees import all_keys, write_file, write_random_file

MIB = 1 << 20


def keys(client):
    return sorted(all_keys(client, "bucket"))


def states(instance):
    return {upload["path"]: upload["state"] for upload in instance.uploads()}


def reasons(instance, path):
    [upload] = [upload for upload in instance.uploads() if upload["path"] == path]
    return [wait["reason"] for wait in upload["waiting"]]


def tree(instance, *words):
    [found] = json.loads(instance.run("uploads", "--tree", "--json", *words).stdout)["trees"]
    return found


def test_a_paused_folder_holds_what_comes_later_and_outlives_the_flusher(instance, mount, client):
    os.makedirs(mount / "a/b")
    instance.flush()
    before = len(keys(client))
    output = instance.run("uploads", "pause", mount / "a").stdout
    assert "a, and all that comes below it" in output
    for name in ("a/early", "a/b/deep", "beside"):
        write_file(mount / name, b"content")
    wait_until(lambda: len(keys(client)) == before + 1, 20, "what is not held")
    instance.kill_flusher()
    write_file(mount / "a/late", b"content")
    wait_until(lambda: states(instance) == {"a/early": "paused", "a/b/deep": "paused", "a/late": "paused"}, 20,
               "pauses under the next flusher")
    # A person's flush does not send what a person paused.
    assert instance.run("flush", "--timeout", "20", check=False).returncode == 1
    # A pause inside the other one counts by itself.
    instance.run("uploads", "pause", mount / "a/b")
    assert reasons(instance, "a/b/deep") == ["paused", "paused"]
    refused = instance.run("uploads", "resume", mount / "a/early", check=False)
    assert refused.returncode == 1 and "is paused with a, resume that" in refused.stderr
    # One file goes all the same when somebody asks for just that.
    instance.run("uploads", "now", mount / "a/early")
    wait_until(lambda: "a/early" not in states(instance), 20, "the one that is sent now")
    instance.run("uploads", "resume", mount / "a")
    wait_until(lambda: states(instance) == {"a/b/deep": "paused"}, 20, "all but the inner folder")
    shown = tree(instance)
    [folder] = [child for child in shown["children"] if child["path"] == "a"]
    [inner] = [child for child in folder["children"] if child["path"] == "a/b"]
    assert inner["paused"] and not folder["paused"] and not shown["paused"]
    instance.run("uploads", "resume", "--all")
    instance.flush()
    assert len(keys(client)) == before + 4


def test_a_whole_volume_and_a_file_can_be_paused(instance, mount, client):
    instance.run("policy", "set", "metered=yes")
    write_file(mount / "f", b"content")
    instance.run("uploads", "pause", mount / "f")
    instance.run("uploads", "pause", "s3://bucket")
    os.rename(mount / "f", mount / "g")
    write_file(mount / "later", b"content")
    wait_until(lambda: states(instance) == {"g": "paused", "later": "paused"}, 20, "a volume that is held")
    instance.run("policy", "unset")
    instance.run("uploads", "resume", "s3://bucket")
    wait_until(lambda: states(instance) == {"g": "paused"}, 20, "the file that is held itself, wherever it went")
    instance.run("uploads", "resume", mount / "g")
    instance.flush()
    assert keys(client) == ["g", "later"]


@pytest.mark.limit(180)
def test_the_tree_shows_how_far_everything_is_and_never_falls(instance, proxy, seed):
    instance.configure(upload_protocol="s3-multipart", part_size="5M", parallel_parts=2)
    mount = instance.mount("s3://bucket")
    proxy.limit(up=MIB)
    # Were the first sent before the second is there, a new tree would begin with that.
    instance.run("policy", "set", "low-data=on")
    os.makedirs(mount / "films/old")
    write_random_file(mount / "films/old/one", 12 * MIB, seed)
    write_random_file(mount / "films/two", 6 * MIB, seed + 1)
    wait_until(lambda: len(reasons(instance, "films/two")) > 0, 30, "all to be known")
    instance.run("policy", "set", "low-data=auto")
    wait_until(lambda: tree(instance)["sent"] > 0, 30, "an upload under way")
    # What is cut is sent again, and is not shown as lost.
    seen, parts = [], 0
    cuts = 0
    while instance.pending_files() > 0:
        root = tree(instance)
        # What begins at its first byte again says so.
        seen.append((root["restarts"], root["sent"]))
        assert root["sent"] <= root["size"] == 18 * MIB or root["size"] == 0
        films = [child for child in root["children"] if child["path"] == "films"]
        for folder in films:
            assert folder["sent"] == root["sent"] and folder["files"] >= 2
            parts = max(parts, sum(part["kind"] == "part" for child in folder["children"]
                                   for leaf in [child, *child["children"]] for part in leaf["children"]))
        if len(seen) in (4, 8):
            cuts += proxy.cut()
            proxy.limit(up=16 * MIB)
    for (restarts, sent), (later_restarts, later) in itertools.pairwise(seen[:-1]):
        assert later >= sent or later_restarts > restarts, seen
    assert parts > 0 and cuts > 0
    assert "nothing is pending" in instance.run("uploads", "--tree").stdout


def test_why_tells_everything_and_what_would_change_it(instance, proxy, mount, seed):
    proxy.limit(up=MIB)
    write_random_file(mount / "big", 8 * MIB, seed)
    wait_until(lambda: instance.in_flight() and instance.uploads()[0]["sent"] > 2 * MIB, 30, "an upload under way")
    # It does not come to its end while it is looked at.
    proxy.limit(up=MIB // 8)
    # How fast it is, is known after some looks.
    running = wait_until(
        lambda: "/s, " in (text := instance.run("uploads", "why", mount / "big").stdout) and text, 10, "a rate"
    )
    assert "by ietf-resumable" in running and "it does not wait" in running
    instance.run("policy", "set", "metered=yes", "low-data=on", "--for", "1h")
    instance.run("uploads", "pause", mount / "big")
    wait_until(lambda: reasons(instance, "big") == ["paused", "expensive", "constrained"], 20, "all reasons")
    [upload] = json.loads(instance.run("uploads", "why", "--json", mount / "big").stdout)["uploads"]
    details = upload["details"]
    assert details["class"] == "background" and details["rank"] == 0 and details["restarts"] == 0
    assert 0 < details["acknowledged"] <= 8 * MIB and upload["protocol"] == "ietf-resumable"
    assert details["holds"] == {"user": 1, "policy": 2}
    assert all(wait["hint"] and wait["since"] and wait["detail"] for wait in upload["waiting"])
    text = instance.run("uploads", "why", mount / "big").stdout
    for words in ("moorage policy set metered=no", "moorage uploads resume", "acknowledged by the remote",
                  "class background, the next in the queue", "held 1× by a person, 2× by the machine's conditions"):
        assert words in text, text
    proxy.limit()
