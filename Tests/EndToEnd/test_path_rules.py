# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Paths and single files go by rules of their own."""

import os
import time

import pytest

from harness.held import PATIENCE, expect_held, expect_remote, write_small
from harness.processes import wait_until
from harness.trees import write_random_file

MIB = 1 << 20
# Two windows of a minute each, of which no test meets more than one, and no test twice.
CLOSED = "Mon 00:00-00:01"


def test_a_file_has_settings_of_its_own(client, instance, bus):
    """They go before those of its path, of its volume, and what is set for now; over remounts and restarts."""
    bus.network_manager(metered=1)
    upower = bus.upower(on_battery=True, percentage=40)
    instance.configure(quiet_period="0s")
    instance.run("policy", "set", "low-data=on")
    mount = instance.mount("s3://bucket")
    wishes = {
        "cheap": {},
        "dear": {"allow-expensive": "1", "allow_constrained": "yes"},
        "powered": {"allow-expensive": "1", "allow-constrained": "1", "require-power": "1"},
        "charged": {"allow-expensive": "1", "allow-constrained": "1", "battery-min": "41"},
        "nightly": {"allow-expensive": "1", "allow-constrained": "1", "window": CLOSED},
    }
    for name, settings in wishes.items():
        # Until it is closed nothing begins.
        with open(mount / name, "w") as file:
            file.write("content of " + name)
            for key, value in settings.items():
                os.setxattr(mount / name, f"user.moorage.{key}", value.encode())
    expect_remote(client, "dear")
    expect_held(instance, "cheap", "constrained", "expensive")
    expect_held(instance, "powered", "battery")
    expect_held(instance, "charged", "battery")
    expect_held(instance, "nightly", "window")
    [told] = [upload for upload in instance.uploads() if upload["path"] == "powered"]
    assert told["details"]["settings"] == {"allow_expensive": "1", "allow_constrained": "1", "require_power": "1"}
    why = instance.run("uploads", "why", mount / "charged").stdout
    assert "set for it: allow_constrained=1, allow_expensive=1, battery_min=41" in why
    assert "setfattr -n user.moorage.battery-min -v 0 PATH" in why and "policy set" not in why, why
    why = instance.run("uploads", "why", mount / "nightly").stdout
    assert "setfattr -x user.moorage.window PATH" in why, why
    assert os.getxattr(mount / "nightly", "user.moorage.window") == CLOSED.encode()
    mount.unmount()
    instance.kill_flusher()
    mount = instance.mount("s3://bucket")
    expect_held(instance, "nightly", "window")
    expect_held(instance, "charged", "battery")
    os.setxattr(mount / "charged", "user.moorage.battery-min", b"40")
    expect_remote(client, "charged", "dear")
    os.removexattr(mount / "nightly", "user.moorage.window")
    expect_remote(client, "charged", "dear", "nightly")
    upower.update(OnBattery="false")
    expect_remote(client, "charged", "dear", "nightly", "powered")
    # What a person sets for all is less than what is set for the file.
    instance.run("policy", "set", "allow_constrained=true", "allow_expensive=true", "window=00:00-24:00")
    with open(mount / "kept", "w") as file:
        os.setxattr(mount / "kept", "user.moorage.window", CLOSED.encode())
        file.write("content")
    expect_remote(client, "charged", "cheap", "dear", "nightly", "powered")
    expect_held(instance, "kept", "window")


@pytest.mark.parametrize("key, value, reason", [("window", CLOSED, "window"), ("not-before", "+1h", "not-before")])
def test_what_is_set_for_a_file_stops_it_while_it_is_sent(client, proxy, instance, seed, key, value, reason):
    instance.configure(quiet_period="0s", upload_protocol="s3-multipart", part_size="5M")
    proxy.limit(up=2 * MIB)
    mount = instance.mount("s3://bucket")
    for number, name in enumerate(["a", "b"]):
        write_random_file(mount / name, 30 * MIB, seed + number)
    wait_until(lambda: [upload["state"] for upload in instance.uploads()] == ["uploading"] * 2, PATIENCE, "both to begin")
    os.setxattr(mount / "a", f"user.moorage.{key}", value.encode())
    expect_held(instance, "a", reason)
    expect_remote(client, "b")
    proxy.limit()
    count = proxy.body_bytes()
    time.sleep(2)
    assert proxy.body_bytes() == count
    os.removexattr(mount / "a", f"user.moorage.{key}")
    expect_remote(client, "a", "b")
    # What was acknowledged is not sent again.
    assert proxy.body_bytes() < 60 * MIB + 4 * 5 * MIB + MIB


def mount_photos(instance, settings, more):
    """A volume with a path whose window is closed; `more` goes on behind that path's settings."""
    with open(instance.environment["MOORAGE_CONFIG"], "a") as file:
        file.write(f"[volume photos]\nremote = s3://bucket\nquiet_period = 0s\n{settings}")
        file.write(f"[path photos:*.raw]\nwindow = {CLOSED}\n{more}")
    return instance.mount("photos")


def test_paths_go_by_rules_of_their_own(client, instance):
    mount = mount_photos(instance, "", f"[path photos:/urgent/*.raw]\nwindow = 00:00-24:00\n[path other:*]\nwindow = {CLOSED}\n")
    for name in ["a.raw", "b.txt", "urgent/c.raw"]:
        write_small(mount, name)
    expect_remote(client, "b.txt", "urgent/", "urgent/c.raw")
    expect_held(instance, "a.raw", "window")
    # A new name has other rules.
    os.rename(mount / "a.raw", mount / "a.txt")
    expect_remote(client, "a.txt", "b.txt", "urgent/", "urgent/c.raw")


def test_rules_of_paths_and_files_are_shown_with_what_holds_them(client, instance):
    mount = mount_photos(instance, "battery_min = 35\n", "priority = 7\n")
    write_small(mount, "a.raw")
    with open(mount / "own", "w") as file:
        os.setxattr(mount / "own", "user.moorage.window", CLOSED.encode())
        os.setxattr(mount / "own", "user.moorage.discretionary", b"yes")
        file.write("content")
    expect_held(instance, "a.raw", "window")
    expect_held(instance, "own", "window")
    [volume] = instance.policy()["volumes"]
    assert volume["holds"] == [] and volume["more_rules"] == 0 and volume["rules"]["battery_min"] == 35
    path, own = volume["other_rules"]
    assert path["name"] == "*.raw" and path["class"] == "background"
    assert path["settings"] == {"window": CLOSED, "priority": 7}
    assert own["name"] == f"files with discretionary=yes, window={CLOSED}" and own["class"] == "discretionary"
    assert own["settings"] == {"window": CLOSED, "discretionary": True}
    assert all([hold["reason"] for hold in rules["holds"]] == ["window"] for rules in (path, own))
    text = instance.run("policy", "show").stdout
    for words in ("uploads of *.raw (background): they are held\n    window since", f"otherwise: window={CLOSED}, priority=7",
                  "(discretionary): they are held", "settings of paths photos:*.raw:"):
        assert words in text, text
    # What nothing goes by any more is not told, once all rows were looked at anew, as for what a person sets.
    os.remove(mount / "own")
    os.rename(mount / "a.raw", mount / "a.txt")
    expect_remote(client, "a.txt")
    instance.run("policy", "unset")
    wait_until(lambda: instance.policy()["volumes"][0]["other_rules"] == [], 20, "the rules to be forgotten")


def test_a_path_has_timeouts_of_its_own(client, proxy, instance):
    """Nothing moves: one is given up and tried again, two of which it is known that they may take long are not."""
    instance.configure(quiet_period="0s", stall_timeout="5s", upload_protocol="put", retry_base="1s")
    with open(instance.environment["MOORAGE_CONFIG"], "a") as file:
        file.write("[volume v]\nremote = s3://bucket\n[path v:*.slow]\nstall_timeout = 5m\n")
    names = ["a", "b.slow", "c"]
    rules = [
        proxy.rule("stall", method="PUT", path=f"/bucket/{name}", direction="request", after=65536, times="all")
        for name in names
    ]
    mount = instance.mount("v")
    for number, name in enumerate(names):
        with open(mount / name, "wb") as file:
            if name == "c":
                os.setxattr(mount / name, "user.moorage.stall-timeout", b"300s")
            # More than the sockets between hold.
            file.write(bytes([number]) * (32 * MIB))

    def tries():
        return [rule.matched() for rule in rules]

    wait_until(lambda: tries()[0] >= 3, PATIENCE, "a request that stands still to be given up")
    assert tries()[1:] == [1, 1]
    for rule in rules:
        rule.release()
        rule.remove()
    expect_remote(client, *names)
    assert [len(proxy.requests("PUT object", f"/{name}")) for name in names[1:]] == [1, 1]


def test_a_file_that_is_given_up_sooner_holds_up_no_other(client, proxy, instance):
    instance.configure(quiet_period="0s", upload_protocol="put", retry_base="1s")
    rule = proxy.rule("stall", method="PUT", path="/hasty", direction="request", after=65536, times="all")
    mount = instance.mount("s3://bucket")
    with open(mount / "hasty", "wb") as file:
        os.setxattr(mount / "hasty", "user.moorage.stall-timeout", b"5s")
        file.write(bytes(32 * MIB))
    wait_until(lambda: instance.uploads()[0]["attempts"] >= 2, PATIENCE, "two failed attempts")
    assert "too little data" in instance.uploads()[0]["error"]
    with open(os.path.join(instance.directory("run"), "flusher.log")) as file:
        assert "offline" not in file.read()
    rule.remove()
    expect_remote(client, "hasty")


def test_a_path_waits_longer_after_a_failure_than_its_volume(client, proxy, instance):
    with open(instance.environment["MOORAGE_CONFIG"], "a") as file:
        file.write("retry_cap = 1s\n[path *:*.slow]\nretry_base = 1m\nretry_cap = 1h\n")
    proxy.rule("respond", method="PUT", path="/bucket/a.slow", status=507, times="all")
    proxy.rule("respond", method="PUT", path="/bucket/a.fast", status=507, times="all")
    mount = instance.mount("s3://bucket")
    write_small(mount, "a.slow")
    write_small(mount, "a.fast")

    def attempts():
        return {upload["path"]: upload["attempts"] for upload in instance.uploads()}

    wait_until(lambda: attempts().get("a.slow"), PATIENCE, "a first attempt")
    wait_until(lambda: attempts()["a.fast"] >= 4, PATIENCE, "some attempts")
    assert attempts()["a.slow"] == 1
