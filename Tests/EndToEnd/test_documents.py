# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The documents that commands print with --json, of those that have no other test: one each, and nothing beside it."""

import json
import os
import signal
import subprocess

import pytest

from harness.mounts import is_mounted
from harness.trees import write_file


def document(instance, *words):
    return json.loads(instance.run(*words, "--json").stdout)


def volume_id(instance):
    [volume] = instance.status()["volumes"]
    return volume["id"]


def test_a_mount_and_its_end_are_told(instance):
    instance.configure(quiet_period="1h")
    place = instance.directory("mnt/place")
    os.makedirs(place)
    instance.adopt("s3://bucket", place)
    words = ("mount", "s3://bucket", place, "-o", f"endpoint={instance.endpoint}")
    report = document(instance, *words)
    assert is_mounted(place)
    expected = {"volume": volume_id(instance), "remote": "s3://bucket", "mountpoint": place, "warnings": []}
    assert report == expected | {"pending": {"files": 0, "bytes": 0}}
    write_file(os.path.join(place, "new"), b"four")
    pending = {"pending": {"files": 1, "bytes": 4}}
    assert document(instance, "unmount", place) == expected | pending
    assert not is_mounted(place)
    assert document(instance, *words) == expected | pending
    # A failure prints no document.
    result = instance.run(*words, "--json", check=False)
    assert result.returncode == 1 and result.stdout == "" and "is mounted there" in result.stderr


def test_a_mount_in_the_foreground_is_told_when_it_answers(instance):
    place = instance.directory("mnt/place")
    os.makedirs(place)
    instance.adopt("s3://bucket", place)
    command = [instance.binary, "mount", "s3://bucket", place, "-o", f"endpoint={instance.endpoint}", "--foreground", "--json"]
    with subprocess.Popen(command, env=instance.environment, stdout=subprocess.PIPE) as process:
        text = "".join(iter(lambda: process.stdout.readline().decode().rstrip(), "}"))
        report = json.loads(text + "}")
        assert is_mounted(place)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0 and process.stdout.read() == b""
    assert (report["mountpoint"], report["pending"]) == (place, {"files": 0, "bytes": 0})


def test_what_is_pinned_is_told_by_who_pins(instance, client):
    for key in ("a/b", "c"):
        client.put_object(Bucket="bucket", Key=key, Body=b"1")
    mount = instance.mount("s3://bucket")

    def paths(*words):
        return sorted(pin["path"] for pin in document(instance, *words)["pins"])

    assert paths("pin", mount / "a") == ["a"]
    assert paths("pin", mount / "c") == ["a", "c"] == paths("pins")
    assert paths("unpin", mount / "a") == ["c"]


def test_what_is_refreshed_is_told(instance, client):
    client.put_object(Bucket="bucket", Key="folder/file", Body=b"1")
    mount = instance.mount("s3://bucket")
    report = document(instance, "cache", "refresh", mount / "folder/file", mount / "folder/new/one")
    assert report == {"refreshed": [
        {"path": mount / "folder/file", "asked": mount / "folder/file"},
        {"path": mount / "folder/new/one", "asked": mount / "folder"},
    ]}


@pytest.mark.parametrize("scope", ["user", "system"])
def test_what_becomes_of_units_is_told(instance, folder, scope):
    units = os.path.join(folder, "units")
    paths = [os.path.join(units, f"moorage-flusher.{kind}") for kind in ("service", "socket")]
    nothing = {"wrote": [], "removed": [], "ran": [], "left": [], "warning": None}
    words = (f"--{scope}", "--directory", units)
    report = document(instance, "service", "install", *words)
    assert sorted(report.pop("wrote")) == paths
    # Nobody is to start what is only written somewhere.
    assert [command.split()[-1] for command in report.pop("left")][0] == "daemon-reload"
    assert report.items() <= nothing.items()
    report = document(instance, "service", "uninstall", *words)
    assert sorted(report.pop("removed")) == paths and report | {"removed": []} == nothing
