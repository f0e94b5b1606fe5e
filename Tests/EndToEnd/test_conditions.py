# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Uploads that nobody waits for wait for the machine: its network, its power, and what a person set."""

import json
import os
import random
import re
import signal
import stat
import subprocess
import time

import pytest

from harness.held import PATIENCE, expect_all_held, expect_done, keys
from harness.machine import NETWORK_MANAGER, NEW_PROFILES, OLD_PROFILES, add_connection, write_supplies
from harness.processes import listens, run, wait_until
from harness.trees import write_file

MIB = 1 << 20


def write_small(mount, name="a"):
    write_file(mount / name, b"content of " + name.encode())


def mount_held(instance, *reasons):
    """A mount whose flusher knows why it has to wait: after three seconds it begins with what it knows by then."""
    mount = instance.mount("s3://bucket")
    instance.running_flusher()
    wait_until(lambda: instance.policy()["volumes"], PATIENCE, "the flusher to know of the mount")
    wait_until(lambda: sorted(instance.holds()) == sorted(reasons), PATIENCE, f"reasons to wait: {reasons}")
    return mount


def test_a_low_battery_holds_uploads(client, instance, bus):
    upower = bus.upower(on_battery=True, percentage=10)
    mount = mount_held(instance, "battery")
    write_small(mount)
    expect_all_held(instance, "battery")
    assert instance.condition("battery")["value"] == "10%" and instance.condition("power")["value"] == "battery"
    assert instance.condition("power")["source"] == "UPower"
    assert keys(client) == []
    upower.update(OnBattery="false")
    expect_done(instance)


def test_logind_tells_of_external_power_where_nobody_else_does(client, instance, bus):
    login = bus.logind(on_external_power=False)
    instance.configure(require_power="true")
    mount = mount_held(instance, "battery")
    write_small(mount)
    expect_all_held(instance, "battery")
    assert instance.condition("power")["source"] == "logind"
    login.update("org.freedesktop.login1.Manager", OnExternalPower="true")
    expect_done(instance)


def test_mobile_networks_may_be_spared(client, instance, bus):
    manager = bus.network_manager(metered=2)
    manager.update(PrimaryConnectionType="'gsm'")
    instance.configure(allow_cellular="false")
    mount = mount_held(instance, "cellular")
    write_small(mount)
    expect_all_held(instance, "cellular")
    # Without a word of the user's on what it costs it is expensive too.
    manager.update(Metered="uint32 0")
    expect_all_held(instance, "cellular", "expensive")
    manager.update(PrimaryConnectionType="'802-11-wireless'")
    expect_done(instance)


@pytest.mark.parametrize("place", [OLD_PROFILES, NEW_PROFILES], ids=["old-name", "new-name"])
def test_saving_power_holds_uploads(client, instance, bus, place):
    profiles = bus.power_profiles("power-saver", place)
    mount = mount_held(instance, "power-saver")
    write_small(mount)
    expect_all_held(instance, "power-saver")
    assert instance.condition("power-profile")["source"] == place[0]
    profiles.update(ActiveProfile="'balanced'")
    expect_done(instance)


def test_every_reason_is_told_and_all_must_pass(client, proxy, instance, bus):
    manager = bus.network_manager(metered=1)
    upower = bus.upower(on_battery=True, percentage=19)
    profiles = bus.power_profiles("power-saver")
    mount = mount_held(instance, "battery", "expensive", "power-saver")
    write_small(mount)
    expect_all_held(instance, "battery", "expensive", "power-saver")
    login = proxy.rule("respond", times="all", status=511, body="<html>Welcome to the hotel</html>")
    manager.update(Connectivity="uint32 2")
    expect_all_held(instance, "battery", "captive-portal", "expensive", "power-saver")
    profiles.update(ActiveProfile="'performance'")
    manager.update(Connectivity="uint32 4")
    login.remove()
    expect_all_held(instance, "battery", "expensive", timeout=PATIENCE)
    bus.set_charge(upower, 60)
    expect_all_held(instance, "expensive")
    assert keys(client) == []
    manager.update(Metered="uint32 2")
    expect_done(instance)


def test_what_only_networkmanager_takes_for_a_login_holds_nothing_for_long(client, proxy, instance, bus):
    """Its own page is held back by somebody, and the remote answers: one small request finds that out."""
    manager = bus.network_manager()
    mount = instance.mount("s3://bucket")
    instance.flush()
    manager.update(Connectivity="uint32 2")
    wait_until(lambda: instance.condition("connectivity")["value"] == "portal", PATIENCE, "it to be known")

    def asked():
        return sum(request["query"].endswith("max-keys=1") for request in proxy.requests("GET list"))

    before = asked()
    write_small(mount)
    expect_done(instance)
    write_small(mount, "b")
    expect_done(instance)
    assert keys(client) == ["a", "b"] and instance.holds() == []
    assert asked() - before == 1, "asked once, not all the time"


def test_services_and_buses_may_die_and_return(client, instance, bus):
    manager = bus.network_manager(metered=1)
    mount = mount_held(instance, "expensive")
    write_small(mount)
    expect_all_held(instance, "expensive")
    manager.stop()
    # Nobody says any more that it is metered.
    expect_done(instance)
    assert instance.condition("metered")["value"] == "unknown" and instance.condition("metered")["source"] == "none"
    bus.network_manager(metered=1)
    wait_until(lambda: instance.holds() == ["expensive"], PATIENCE, "the service to be seen again")
    write_small(mount, "b")
    expect_all_held(instance, "expensive")
    bus.halt()
    expect_done(instance)
    bus.start()
    bus.network_manager(metered=3)
    wait_until(lambda: instance.holds() == ["expensive"], PATIENCE, "the bus to be seen again")
    assert keys(client) == ["a", "b"]


@pytest.mark.parametrize(
    "settings,serve,reason,condition",
    [
        ({}, lambda bus: bus.upower(on_battery=True, percentage=10), "battery", "power"),
        ({}, lambda bus: bus.power_profiles("power-saver"), "power-saver", "power-profile"),
        ({"require_power": "true"}, lambda bus: bus.logind(on_external_power=False), "battery", "power"),
    ],
    ids=["upower", "power-profiles", "logind"],
)
def test_daemons_that_tell_of_power_may_die_and_return(client, instance, bus, settings, serve, reason, condition):
    service = serve(bus)
    instance.configure(**settings)
    mount = mount_held(instance, reason)
    write_small(mount)
    expect_all_held(instance, reason)
    source = instance.condition(condition)["source"]
    service.process.kill()
    service.process.wait(timeout=10)
    # What nobody says any more holds nothing.
    expect_done(instance)
    fact = instance.condition(condition)
    assert (fact["value"], fact["source"]) == ("unknown", "none")
    serve(bus)
    wait_until(lambda: instance.holds() == [reason], PATIENCE, "the service to be seen again")
    assert instance.condition(condition)["source"] == source
    write_small(mount, "b")
    expect_all_held(instance, reason)
    assert keys(client) == ["a"]


def test_without_a_bus_uploads_go(client, instance):
    mount = instance.mount("s3://bucket")
    write_small(mount)
    expect_done(instance)
    conditions = instance.policy()["conditions"]
    for name in ("metered", "cellular", "connectivity", "power", "battery", "power-profile"):
        assert (conditions[name]["value"], conditions[name]["source"]) == ("unknown", "none")
    assert conditions["route"]["source"] == "kernel"
    assert instance.holds() == []


def test_a_bus_that_hangs_holds_nothing_up(client, instance, bus, folder):
    """It takes connections and never answers: what the kernel says is known all the same."""
    root = os.path.join(folder, "sys")
    instance.environment["MOORAGE_SYSFS"] = root
    write_supplies(root, AC={"type": "Mains", "online": 1})
    os.kill(bus.process.pid, signal.SIGSTOP)
    mount = instance.mount("s3://bucket")
    write_small(mount)
    expect_done(instance)
    fact = instance.condition("power")
    assert (fact["value"], fact["source"]) == ("external", "sysfs")


def test_networks_are_low_data_by_their_names(client, instance, bus):
    manager = bus.network_manager()
    name = manager.name
    path = add_connection(manager, "My phone")
    instance.configure(low_data_networks="Train, My phone")
    mount = mount_held(instance, "constrained")
    write_small(mount)
    expect_all_held(instance, "constrained")
    assert instance.condition("connection")["value"] == "My phone (802-3-ethernet)"
    manager.update(f"{name}.Connection.Active", path, Id="'Home'")
    expect_done(instance)
    # The same connection, found by the name of the wireless network that it is of.
    point = "/org/freedesktop/NetworkManager/AccessPoint/1"
    values = "{'Ssid': <b'Train'>}".replace("b'Train'", "[byte 0x54, 0x72, 0x61, 0x69, 0x6e]")
    manager.call("org.freedesktop.DBus.Mock.AddObject", point, f"{name}.AccessPoint", values, "[]")
    manager.call("org.freedesktop.DBus.Mock.AddProperty", f"{name}.Connection.Active", "SpecificObject",
                 f"<objectpath '{point}'>", path=path)
    manager.update(f"{name}.Connection.Active", path, Id="'Mobile'")
    write_file(mount / "in the train", b"x")
    expect_all_held(instance, "constrained")
    manager.update(f"{name}.AccessPoint", point, Ssid="[byte 0x48]")
    manager.update(f"{name}.Connection.Active", path, Id="'Mobile 2'")
    expect_done(instance)


def test_power_supplies_tell_without_upower(client, instance, folder):
    root = os.path.join(folder, "sys")
    instance.environment["MOORAGE_SYSFS"] = root
    battery = {"type": "Battery", "present": 1, "status": "Discharging", "capacity": 7}
    mouse = {"type": "Battery", "scope": "Device", "status": "Discharging", "capacity": 99}
    write_supplies(root, AC={"type": "Mains", "online": 0}, BAT0=battery, mouse=mouse)
    mount = mount_held(instance, "battery")
    write_small(mount)
    expect_all_held(instance, "battery")
    fact = instance.condition("battery")
    assert (fact["value"], fact["source"]) == ("7%", "sysfs")
    assert keys(client) == []


def test_a_person_decides_for_a_while(client, instance):
    mount = instance.mount("s3://bucket")
    report = json.loads(instance.run("policy", "set", "metered=yes", "--for", "15s", "--json").stdout)
    [override] = report["overrides"]
    assert (override["key"], override["value"]) == ("metered", "yes") and override["until"] > override["since"]
    write_small(mount)
    expect_all_held(instance, "expensive")
    assert instance.condition("metered")["source"] == "policy set"
    assert "metered=yes until" in instance.run("policy", "show").stdout
    # It ends by itself, although nothing observed changes, and before everything is looked at again.
    expect_done(instance, 30)
    assert instance.policy()["overrides"] == []


def test_what_a_person_set_outlives_the_flusher(client, instance):
    mount = instance.mount("s3://bucket")
    instance.run("policy", "set", "low-data=on", "battery_min=50", "--for", "2h")
    path = os.path.join(instance.environment["MOORAGE_STATE_DIR"], "policy.json")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    instance.kill_flusher()
    write_small(mount)
    expect_all_held(instance, "constrained")
    volume = instance.policy()["volumes"][0]
    assert volume["rules"]["battery_min"] == 50 and volume["class"] == "background"
    instance.run("policy", "set", "allow_constrained=true")
    expect_done(instance)
    instance.run("policy", "unset")
    assert instance.policy()["overrides"] == []
    assert instance.policy()["volumes"][0]["rules"]["battery_min"] == 20


def test_a_damaged_file_of_what_was_set_is_told_and_holds_nothing(client, instance):
    path = os.path.join(instance.environment["MOORAGE_STATE_DIR"], "policy.json")
    write_file(path, b'{"overrides": [')
    os.chmod(path, 0o600)
    mount = instance.mount("s3://bucket")
    write_small(mount)
    expect_done(instance)
    with open(os.path.join(instance.directory("run"), "flusher.log")) as log:
        assert "policy.json" in log.read()


@pytest.mark.parametrize("command", [("flush",), ("uploads", "now", "--all")], ids=["flush", "now"])
def test_who_waits_is_served_and_told(client, instance, command):
    mount = instance.mount("s3://bucket")
    instance.run("policy", "set", "metered=yes", "low-data=on")
    write_small(mount)
    expect_all_held(instance, "constrained", "expensive")
    result = instance.run(*command)
    assert re.search(r"^moorage: s3://bucket: .*although: expensive, constrained$", result.stderr, re.M)
    expect_done(instance)
    assert keys(client) == ["a"]
    # What comes later waits as before, and an empty flush has nothing to tell.
    assert instance.run("flush").stderr == ""
    write_small(mount, "b")
    expect_all_held(instance, "constrained", "expensive")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a network namespace")
def test_without_any_route_uploads_wait_for_one(client, instance, proxy, stack):
    """The flusher runs where there is no network but loopback; the address is this machine's without saying so."""
    command = ["unshare", "-n", instance.binary, "flusher", "--foreground"]
    flusher = subprocess.Popen(
        command, env=instance.environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    stack.callback(flusher.wait)
    stack.callback(flusher.kill)
    wait_until(lambda: listens(instance.directory("run/control.sock")), PATIENCE, "the flusher")
    mount = instance.mount("s3://bucket", endpoint=proxy.url.replace("127.0.0.1", "0.0.0.0"))
    write_small(mount)
    expect_all_held(instance, "offline")
    assert instance.condition("route")["value"] == "none"
    assert instance.holds() == ["offline"]
    setup = "ip link add veth0 type veth peer name veth1; ip addr add 10.9.8.7/24 dev veth0; ip link set veth0 up"
    run(["nsenter", "-t", str(flusher.pid), "-n", "sh", "-ec", setup])
    wait_until(lambda: instance.holds() == [], PATIENCE, "the interface to be seen")
    assert instance.condition("route")["value"] == "local"
    assert keys(client) == []


def test_discretionary_uploads_wait_for_power(client, instance, bus):
    upower = bus.upower(on_battery=True, percentage=90)
    instance.configure(discretionary="true")
    mount = mount_held(instance, "battery")
    write_small(mount)
    expect_all_held(instance, "battery")
    assert instance.policy()["volumes"][0]["class"] == "discretionary"
    upower.update(OnBattery="false")
    expect_done(instance)


def test_the_device_that_traffic_takes_is_asked_for(client, instance, bus):
    """The manager's word is about its primary connection; what the device says that has the route goes before."""
    manager = bus.network_manager(metered=4)
    [interface] = default_interfaces() or pytest.skip("no default route here")
    path = manager.call(
        "org.freedesktop.DBus.Mock.AddEthernetDevice", "mock", interface, "100"
    ).split("'")[1]
    bus.gdbus(
        "call", "-d", NETWORK_MANAGER[0], "-o", path, "-m", "org.freedesktop.DBus.Mock.AddProperty",
        "org.freedesktop.NetworkManager.Device", "Metered", "<uint32 1>",
    )
    mount = mount_held(instance, "expensive")
    write_small(mount)
    expect_all_held(instance, "expensive")
    manager.update("org.freedesktop.NetworkManager.Device", path, Metered="uint32 2")
    expect_done(instance)


def default_interfaces():
    with open("/proc/net/route") as table:
        rows = [line.split() for line in table.read().splitlines()[1:]]
    return [row[0] for row in rows if row[1] == "00000000"][:1]


@pytest.mark.parametrize(
    "words,problem",
    [
        (("set",), "KEY=VALUE"),
        (("set", "metered"), "KEY=VALUE"),
        (("set", "metered=maybe"), "yes, no, auto"),
        (("set", "meterd=yes"), "did you mean metered"),
        (("set", "battery_min=101"), "0 to 100"),
        (("set", "quiet_period=1s"), "unknown key"),
        (("unset", "nothing"), "unknown key"),
        (("show", "--for", "2h"), "--for goes with set"),
        (("set", "metered=yes", "--for", "soon"), "not a time"),
        (("forget",), "unknown verb"),
    ],
)
def test_wrong_policies_are_refused(instance, words, problem):
    result = instance.run("policy", *words, check=False)
    assert result.returncode in (1, 2) and problem in result.stderr
    assert result.stderr.startswith("moorage: ") and result.stderr.count("\n") == 1
    assert json.loads(instance.run("policy", "--json").stdout)["overrides"] == []


def test_reading_ahead_and_pins_spare_a_network_that_costs(server, instance, client, seed):
    size = 3 * MIB
    client.put_object(Bucket="bucket", Key="pinned", Body=random.Random(seed).randbytes(size))
    for index in range(60):
        client.put_object(Bucket="bucket", Key=f"large-{index}", Body=bytes(size))
    instance.run("policy", "set", "metered=yes")
    mount = instance.mount("s3://bucket")
    unread = iter(range(60))

    def fetched():
        return server.stats()["body_bytes_sent"]["GET"]

    def cost_of_a_page():
        """How many bytes are fetched when the first ones of a file are read."""
        before = fetched()
        with open(mount / f"large-{next(unread)}", "rb", buffering=0) as file:
            os.pread(file.fileno(), 4096, 0)
            # What is fetched ahead is given up when the file is closed.
            time.sleep(0.5)
            return fetched() - before

    wait_until(lambda: cost_of_a_page() < MIB // 2, PATIENCE, "reading ahead to end")
    before = fetched()
    instance.run("pin", mount / "pinned")
    wait_until(lambda: "need not be spared" in instance.run("pins").stdout, PATIENCE, "the pin to wait")
    assert fetched() - before < MIB
    instance.run("policy", "unset")
    wait_until(lambda: cost_of_a_page() >= MIB, PATIENCE, "reading ahead to go on")
    wait_until(lambda: fetched() - before > size, PATIENCE, "the pin to be fetched")
