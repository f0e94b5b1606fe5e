# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What goes over networks that cost is counted, and bounded: of all volumes, of each, of paths and of files."""

import json
import os
import signal
import time
from datetime import datetime, timezone

import pytest

from harness.held import CLOSING, PATIENCE, expect_held, expect_remote, keys, standing, waiting, write_small
from harness.processes import wait_until
from harness.trees import all_keys, write_random_file

MIB = 1 << 20


def log(instance):
    with open(os.path.join(instance.directory("run"), "flusher.log")) as file:
        return file.read()


def kept(instance):
    """What the count that is on disk says of each volume."""
    path = os.path.join(instance.directory("state"), "budget.json")
    if not os.path.exists(path):
        return []
    with open(path) as file:
        return [volume["monthBytes"] for volume in json.load(file)["volumes"].values()]


def test_what_may_go_over_metered_networks_is_counted_over_restarts(client, proxy, instance, bus, seed):
    files = 40
    bus.network_manager(metered=1)
    instance.configure(expensive_daily="2M", allow_expensive="true", quiet_period="0s")
    proxy.limit(up=4 * MIB)
    mount = instance.mount("s3://bucket")
    for number in range(files):
        write_random_file(mount / f"f{number:02}", MIB // 2, seed + number)

    def held():
        return [upload["path"] for upload in instance.uploads() if "quota" in str(upload["waiting"])]

    wait_until(lambda: held(), PATIENCE, "the budget to be used")
    # What is under way may end.
    time.sleep(CLOSING)
    count = len(keys(client))
    assert 2 * MIB <= proxy.body_bytes() < 18 * MIB and len(held()) == files - count
    instance.kill_flusher()
    wait_until(lambda: len(held()) == files - count, PATIENCE, "what went to be counted still")
    assert len(keys(client)) == count
    instance.run("policy", "set", "expensive_daily=1G")
    expect_remote(client, *[f"f{number:02}" for number in range(files)])


def test_a_volume_has_a_budget_of_its_own(client, server, instance, bus, seed):
    server.make_bucket("other")
    network = bus.network_manager(metered=1)
    instance.configure(allow_expensive="true", expensive_daily="1G", quiet_period="0s")
    with open(instance.environment["MOORAGE_CONFIG"], "a") as file:
        file.write("[volume small]\nremote = s3://bucket\nexpensive_daily = 6M\n")
    small, other = instance.mount("small"), instance.mount("s3://other")
    write_random_file(small / "first", 6 * MIB, seed)
    expect_remote(client, "first")
    wait_until(lambda: "quota" in instance.run("policy", "show", "--json").stdout, PATIENCE, "what went to be counted")
    report = instance.policy()
    budgets = [report["budget"]] + [volume["budget"] for volume in sorted(report["volumes"], key=lambda it: it["remote"])]
    assert [budget["daily"]["limit"] for budget in budgets] == [1 << 30, 6 * MIB, None]
    assert [budget["daily"]["used"] for budget in budgets] == [6 * MIB, 6 * MIB, 0]
    assert [(budget["monthly"]["limit"], budget["monthly"]["used"]) for budget in budgets[:2]] == [(None, 6 * MIB)] * 2
    until = {name: datetime.fromisoformat(budgets[0][name]["until"].replace("Z", "+00:00")) for name in ("daily", "monthly")}
    assert datetime.now(timezone.utc) < until["daily"] <= until["monthly"]
    text = instance.run("policy", "show").stdout
    assert "metered networks, all volumes: 6 MiB of 1 GiB sent this day, until" in text
    assert "\n  metered networks: 6 MiB of 6 MiB sent this day, until" in text
    write_random_file(small / "second", 100, seed)
    expect_held(instance, "second", "quota")
    write_random_file(other / "free", 4 * MIB, seed)
    wait_until(lambda: list(all_keys(client, "other")) == ["free"], PATIENCE, "another volume to go on")
    # What went in its last second a flusher that is killed may forget.
    wait_until(lambda: 6 * MIB in kept(instance), PATIENCE, "the count to be kept")
    instance.kill_flusher()
    expect_held(instance, "second", "quota")
    network.update(Metered="uint32 2")
    expect_remote(client, "first", "second")


def test_paths_and_files_have_budgets_of_their_own(client, instance, bus, seed):
    network = bus.network_manager(metered=1)
    instance.configure(allow_expensive="true", quiet_period="0s")
    with open(instance.environment["MOORAGE_CONFIG"], "a") as file:
        file.write("[volume v]\nremote = s3://bucket\n[path v:*.iso]\nexpensive_daily = 6M\n")
    mount = instance.mount("v")
    # As long as something waits the rules are told of.
    with open(mount / "later.iso", "wb") as file:
        os.setxattr(mount / "later.iso", "user.moorage.not-before", b"+1d")
        file.write(b"content")
    write_random_file(mount / "a.iso", 6 * MIB, seed)
    with open(mount / "own", "wb") as file:
        os.setxattr(mount / "own", "user.moorage.expensive-daily", b"2M")
        # It is larger than what may go in a day, and cannot be sent in parts.
        file.write(bytes(3 * MIB))
    expect_remote(client, "a.iso")
    expect_held(instance, "own", "quota")

    def counted():
        [volume] = instance.policy()["volumes"]
        [rules] = [rules for rules in volume["other_rules"] if rules["name"] == "*.iso"]
        [budget] = rules["budgets"]
        assert (budget["name"], budget["daily"]["limit"]) == ("*.iso", 6 * MIB)
        return budget["daily"]["used"], [hold["reason"] for hold in rules["holds"]]

    wait_until(lambda: counted() == (6 * MIB, ["quota"]), PATIENCE, "what went to be counted")
    write_small(mount, "b.iso")
    expect_held(instance, "b.iso", "quota")
    # What they do not mean goes on, a file for which more is set, too.
    with open(mount / "other", "wb") as file:
        os.setxattr(mount / "other", "user.moorage.expensive-daily", b"5M")
        file.write(bytes(MIB))
    write_random_file(mount / "free", 4 * MIB, seed)
    expect_remote(client, "a.iso", "free", "other")
    assert waiting(instance, "b.iso")[0]["detail"] == f"of the day, {6 * MIB} bytes for *.iso"
    assert "metered networks, *.iso: 6 MiB of 6 MiB sent this day" in instance.run("policy", "show").stdout
    os.kill(instance.running_flusher(), signal.SIGTERM)
    wait_until(lambda: log(instance).count("ready") == 2, PATIENCE, "another flusher")
    expect_held(instance, "b.iso", "quota")
    # What somebody sets for all goes before what is set for paths, and not before what is set for the file.
    instance.run("policy", "set", "expensive_daily=1G")
    expect_remote(client, "a.iso", "b.iso", "free", "other")
    expect_held(instance, "own", "quota")
    network.update(Metered="uint32 2")
    expect_remote(client, "a.iso", "b.iso", "free", "other", "own")


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_a_budget_counts_for_what_is_under_way(client, proxy, instance, bus, seed, stack, is_open):
    """It is set for a file while that is being sent: what goes from then on is counted, and at its end nothing does.

    A program that has opened the file to write into it does not change that.
    """
    bus.network_manager(metered=1)
    instance.configure(allow_expensive="true", quiet_period="0s", upload_protocol="s3-multipart", part_size="5M", parallel_parts=1)
    proxy.limit(up=2 * MIB)
    mount = instance.mount("s3://bucket")
    write_random_file(mount / "big", 60 * MIB, seed)
    with open(mount / "big", "rb") as file:
        content = bytearray(file.read())
    wait_until(lambda: proxy.body_bytes() > 4 * MIB, PATIENCE, "an upload under way")
    if is_open:
        file = stack.enter_context(open(mount / "big", "r+b"))
        os.pwrite(file.fileno(), b"again", 0)
        content[:5] = b"again"
        time.sleep(1)
    os.setxattr(mount / "big", "user.moorage.expensive-daily", b"8M")
    wait_until(lambda: standing(proxy), 30, "bytes that flow no more")
    assert proxy.body_bytes() < 40 * MIB
    if is_open:
        # What was acknowledged to the program is known to the next flusher, too.
        instance.kill_flusher()
        file.close()
    expect_held(instance, "big", "quota")
    assert f"for files with expensive_daily={8 * MIB}" in waiting(instance, "big")[0]["detail"]
    why = instance.run("uploads", "why", mount / "big").stdout
    assert "setfattr -x user.moorage.expensive-daily PATH" in why and "policy set" not in why, why
    # Every change of what is set has all rows looked at anew, also those that are written.
    with open(mount / "big", "r+b") as file:
        file.write(b"once more")
        content[:9] = b"once more"
        instance.run("policy", "set", "priority=1")
        time.sleep(3)
    wait_until(lambda: waiting(instance, "big"), PATIENCE, "it to be closed")
    expect_held(instance, "big", "quota")
    os.removexattr(mount / "big", "user.moorage.expensive-daily")
    proxy.limit()
    expect_remote(client, "big")
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="big")["Body"].read() == bytes(content) and instance.conflicts() == 0
