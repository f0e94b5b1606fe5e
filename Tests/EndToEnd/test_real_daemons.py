# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The daemons themselves in place of mocks, on a bus and in a network of the test's own: do they say what we expect?"""

import os
import shutil
import subprocess
import time

import pytest

from harness.machine import OLD_PROFILES, PYTHON, Bus
from harness.network import missing
from harness.processes import run, wait_until
from harness.trees import sha256_of_object, write_file, write_random_file

MIB = 1 << 20
UPOWERD = "/usr/libexec/upowerd"
PROFILED = "/usr/libexec/power-profiles-daemon"

MANAGER_CONFIGURATION = """[main]
plugins=keyfile
auth-polkit=false
dns=none
rc-manager=unmanaged
[keyfile]
unmanaged-devices=except:interface-name:cable
[connectivity]
enabled=false
"""

# A laptop whose power and battery are files that umockdev shows to upowerd alone.
LAPTOP = """
import os, subprocess, sys
import gi
gi.require_version("UMockdev", "1.0")
from gi.repository import UMockdev
bed = UMockdev.Testbed.new()
mains = bed.add_device("power_supply", "AC", None, ["type", "Mains", "online", "1"], [])
battery = bed.add_device("power_supply", "BAT0", None, ["type", "Battery", "present", "1", "status", "Charging",
    "energy_full", "60000000", "energy_full_design", "80000000", "energy_now", "9000000", "voltage_now", "12000000"], [])
daemon = subprocess.Popen([sys.argv[1]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print("ready", flush=True)
for line in sys.stdin:
    online = line.strip() == "plug"
    bed.set_attribute(mains, "online", "1" if online else "0")
    bed.set_attribute(battery, "status", "Charging" if online else "Discharging")
    bed.uevent(mains, "change")
    bed.uevent(battery, "change")
    print("done", flush=True)
daemon.kill()
"""


@pytest.fixture
def bus(folder, stack):
    bus = Bus(folder)
    stack.callback(bus.stop)
    return bus


@pytest.fixture
def manager(network, folder, stack, bus):
    """NetworkManager on the machine's side of the cable; a function that runs nmcli there."""
    if shutil.which("NetworkManager") is None:
        pytest.skip("needs NetworkManager")
    configuration = os.path.join(folder, "nm.conf")
    write_file(configuration, MANAGER_CONFIGURATION.encode())
    for path in ("/run/NetworkManager", "/var/lib/NetworkManager", "/etc/NetworkManager"):
        os.makedirs(path, exist_ok=True)
    # Nothing of it stays on this machine; a /sys that can be written has it wait for udev.
    script = (
        "for at in /run/NetworkManager /var/lib/NetworkManager /etc/NetworkManager; do mount -t tmpfs none $at; done; "
        f"mount -o remount,ro,bind /sys; exec NetworkManager --no-daemon --config={configuration}"
    )
    command = [*network.words("machine"), "unshare", "-m", "sh", "-c", script]
    log = open(os.path.join(folder, "networkmanager.log"), "w")
    process = subprocess.Popen(command, env=bus.environment, stdout=log, stderr=log)
    stack.callback(process.wait)
    stack.callback(process.kill)
    bus.gdbus("wait", "--timeout", "20", "org.freedesktop.NetworkManager")

    def nmcli(*words):
        return run([*network.words("machine"), "nmcli", *words], env=bus.environment).stdout

    nmcli(
        *"connection add type ethernet ifname cable con-name hotel ipv4.method manual ipv4.addresses 10.77.0.1/24".split(),
        *"ipv4.gateway 10.77.0.2 ipv6.method disabled connection.metered no".split(),
    )
    nmcli("connection", "up", "hotel")
    return nmcli


@pytest.mark.limit(150)
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_networkmanager_says_that_the_network_costs(far_server, manager, far_instance, bus, seed):
    instance = far_instance
    instance.environment["DBUS_SYSTEM_BUS_ADDRESS"] = bus.address
    instance.configure(max_rate="1M")
    mount = instance.mount("s3://bucket")
    wait_until(lambda: instance.condition("metered")["value"] == "no", 30, "what NetworkManager says")
    assert instance.condition("connection")["value"] == "hotel (802-3-ethernet)"
    before = far_server.body_bytes()
    digest = write_random_file(mount / "big", 24 * MIB, seed)
    wait_until(lambda: far_server.body_bytes() - before >= 4 * MIB, 60, "an upload under way")
    manager("connection", "modify", "hotel", "connection.metered", "yes")
    manager("device", "reapply", "cable")
    wait_until(lambda: instance.holds() == ["expensive"], 10, "uploads that are held")
    time.sleep(5)
    stopped = far_server.body_bytes()
    time.sleep(3)
    assert far_server.body_bytes() == stopped
    manager("connection", "modify", "hotel", "connection.metered", "no")
    manager("device", "reapply", "cable")
    wait_until(lambda: far_server.body_bytes() > stopped, 30, "bytes that flow again")
    instance.run("policy", "set", "max_rate=off")
    wait_until(lambda: instance.pending_files() == 0, 60, "the upload to go on by itself")
    assert sha256_of_object(far_server.client(), "bucket", "big") == digest


@pytest.mark.skipif(not os.path.exists(UPOWERD) or shutil.which("umockdev-wrapper") is None, reason="needs upower, umockdev")
def test_upower_says_that_the_battery_is_low(server, instance, bus, folder, stack):
    script = os.path.join(folder, "laptop.py")
    write_file(script, LAPTOP.encode())
    laptop = subprocess.Popen(
        ["umockdev-wrapper", PYTHON, script, UPOWERD],
        env=bus.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )
    stack.callback(laptop.wait)
    stack.callback(laptop.stdin.close)
    assert laptop.stdout.readline() == "ready\n"
    bus.gdbus("wait", "--timeout", "20", "org.freedesktop.UPower")

    def tell(word):
        laptop.stdin.write(word + "\n")
        laptop.stdin.flush()
        assert laptop.stdout.readline() == "done\n"

    instance.environment["DBUS_SYSTEM_BUS_ADDRESS"] = bus.address
    mount = instance.mount("s3://bucket")
    wait_until(lambda: instance.condition("power")["value"] == "external", 30, "what UPower says")
    assert instance.condition("battery")["value"] == "15%"
    tell("unplug")
    wait_until(lambda: instance.holds() == ["battery"], 40, "uploads that are held")
    write_file(mount / "small", b"1")
    tell("plug")
    wait_until(lambda: instance.pending_files() == 0, 60, "the upload to go on by itself")


@pytest.mark.skipif(not os.path.exists(PROFILED), reason="needs power-profiles-daemon")
def test_the_profiles_daemon_says_that_power_is_saved(server, instance, bus, stack):
    # Whoever asks may; the profiles are of its own driver for tests, as there is no such hardware.
    authority = bus.serve(("org.freedesktop.PolicyKit1", "/org/freedesktop/PolicyKit1/Authority"), "--template", "polkitd")
    authority.call("org.freedesktop.DBus.Mock.AllowUnknown", "true")
    state = "/var/lib/power-profiles-daemon"
    os.makedirs(state, exist_ok=True)
    daemon = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", f"mount -t tmpfs none {state} && exec {PROFILED}"],
        env=bus.environment | {"POWER_PROFILE_DAEMON_FAKE_DRIVER": "1"},
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    stack.callback(daemon.wait)
    stack.callback(daemon.kill)
    name, path = OLD_PROFILES
    bus.gdbus("wait", "--timeout", "20", name)

    def choose(profile):
        words = ("org.freedesktop.DBus.Properties.Set", name, "ActiveProfile", f"<'{profile}'>")
        bus.gdbus("call", "-d", name, "-o", path, "-m", *words)

    instance.environment["DBUS_SYSTEM_BUS_ADDRESS"] = bus.address
    mount = instance.mount("s3://bucket")
    wait_until(lambda: instance.condition("power-profile")["value"] == "balanced", 30, "what the daemon says")
    choose("power-saver")
    wait_until(lambda: instance.holds() == ["power-saver"], 10, "uploads that are held")
    write_file(mount / "small", b"1")
    assert instance.condition("power-profile")["source"] == name
    choose("performance")
    wait_until(lambda: instance.pending_files() == 0, 60, "the upload to go on by itself")
