# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The network that counts is the one that a remote is reached through, not the one that most else goes over."""

import json

import pytest

from harness.attended import CLOCK
from harness.machine import NETWORK_MANAGER, system_bus
from harness.network import missing
from harness.processes import wait_until
from harness.trees import write_file

DEVICE = "org.freedesktop.NetworkManager.Device"
# For what is only to happen at all, on a machine that has much else to do.
PATIENCE = 60

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture
def bus(folder, stack, far_instance):
    return system_bus(folder, stack, far_instance)


@pytest.fixture
def modem(network):
    """Another way out of the machine, which is the usual one."""
    network.ip("machine", "link", "add", "modem", "type", "veth", "peer", "name", "far-modem")
    network.ip("machine", "address", "add", "10.88.0.1/24", "dev", "modem")
    for end in ("modem", "far-modem"):
        network.ip("machine", "link", "set", end, "up")
    network.ip("machine", "route", "replace", "default", "via", "10.88.0.2")
    return ("via", "10.88.0.2", "dev", "modem")


def add_device(manager, bus, interface, metered):
    """A device that NetworkManager has for an interface; returns its path."""
    words = ["org.freedesktop.DBus.Mock.AddEthernetDevice", f"mock_{interface}", interface, "100"]
    path = manager.call(*words).split("'")[1]
    words = ["-m", "org.freedesktop.DBus.Mock.AddProperty", DEVICE, "Metered", f"<uint32 {metered}>"]
    bus.gdbus("call", "-d", NETWORK_MANAGER[0], "-o", path, *words)
    return path


def expect_holds(instance, *reasons):
    wait_until(lambda: instance.holds() == list(reasons), PATIENCE, f"uploads held by {reasons}")


def reasons(instance):
    return {hold["reason"] for upload in instance.uploads() for hold in upload["waiting"]}


def expect_done(instance):
    wait_until(lambda: instance.pending_files() == 0, PATIENCE, "uploads to go on by themselves")


def test_the_network_of_a_remotes_route_is_asked_for(far_server, far_instance, network, modem, bus):
    """NetworkManager has a metered modem for the usual way, and a cable, which the remote is behind."""
    instance = far_instance
    manager = bus.network_manager(metered=1)
    add_device(manager, bus, "modem", 1)
    cable = add_device(manager, bus, "cable", 4)
    mount = instance.mount("s3://bucket")
    write_file(mount / "first", b"1")
    expect_done(instance)
    [volume] = instance.policy()["volumes"]
    assert volume["interface"] == "cable" and volume["holds"] == []
    assert instance.condition("metered")["value"] == "yes"
    assert instance.condition("metered:cable")["value"] == "guess-no"
    assert "through cable): nothing holds" in instance.run("policy", "show").stdout
    # What the cable's device says counts from then on.
    manager.update(DEVICE, cable, Metered="uint32 1")
    expect_holds(instance, "expensive")
    write_file(mount / "second", b"2")
    manager.update(DEVICE, cable, Metered="uint32 2")
    expect_done(instance)
    # And the modem's once the route is another one.
    network.ip("machine", "route", "add", f"{network.ADDRESS}/32", *modem)
    expect_holds(instance, "expensive")
    start = CLOCK.now()
    network.ip("machine", "route", "del", f"{network.ADDRESS}/32", *modem)
    # What gets better by that counts a few seconds later.
    [volume] = wait_until(
        lambda: [volume for volume in instance.policy()["volumes"] if volume["interface"] == "cable"], PATIENCE, "the old way"
    )
    assert [hold["reason"] for hold in volume["holds"]] == ["expensive"] or CLOCK.now() - start > 4
    expect_holds(instance)
    # What a person says counts for all.
    instance.run("policy", "set", "metered=yes")
    expect_holds(instance, "expensive")
    instance.run("policy", "unset", "metered")
    expect_holds(instance)
    found = far_server.client().list_objects_v2(Bucket="bucket")["Contents"]
    assert sorted(entry["Key"] for entry in found) == ["first", "second"]


def test_a_metered_network_behind_which_a_remote_is_holds_it_alone(far_server, far_instance, network, modem, bus):
    """The usual way costs nothing; what goes over the other one counts against the budget, and only that."""
    instance = far_instance
    manager = bus.network_manager(metered=4)
    add_device(manager, bus, "modem", 4)
    cable = add_device(manager, bus, "cable", 1)
    instance.configure(expensive_daily="1M")
    mount = instance.mount("s3://bucket")
    write_file(mount / "first", b"1")
    expect_holds(instance, "expensive")
    instance.run("policy", "set", "allow_expensive=true")
    expect_done(instance)
    # More than a day's worth, which cannot be sent in parts.
    write_file(mount / "second", bytes(2 << 20))
    wait_until(lambda: reasons(instance) == {"quota"}, PATIENCE, "the budget to be too small")
    manager.update(DEVICE, cable, Metered="uint32 2")
    expect_done(instance)
    assert json.loads(instance.run("policy", "--json").stdout)["volumes"][0]["interface"] == "cable"
