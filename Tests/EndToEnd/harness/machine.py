# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A machine as the flusher sees it: services of python-dbusmock on a system bus of the test's own, and power supplies."""

import contextlib
import os
import signal
import subprocess

from .processes import listens, run, wait_until

# Debian's python3-dbusmock is there for Debian's own interpreter.
PYTHON = "/usr/bin/python3"
MOCK = "org.freedesktop.DBus.Mock"

BUS_CONFIGURATION = """<busconfig><type>system</type><listen>unix:path={path}</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/>
<allow own="*"/><allow user="*"/></policy></busconfig>
"""

NETWORK_MANAGER = ("org.freedesktop.NetworkManager", "/org/freedesktop/NetworkManager")
UPOWER = ("org.freedesktop.UPower", "/org/freedesktop/UPower")
LOGIND = ("org.freedesktop.login1", "/org/freedesktop/login1")
OLD_PROFILES = ("net.hadess.PowerProfiles", "/net/hadess/PowerProfiles")
NEW_PROFILES = ("org.freedesktop.UPower.PowerProfiles", "/org/freedesktop/UPower/PowerProfiles")


class Service:
    """A mocked service; its verbs change properties and tell of it as the real one does."""

    def __init__(self, bus, place, words):
        self.bus = bus
        self.name, self.path = place
        command = [PYTHON, "-m", "dbusmock", "--system", *words]
        self.process = subprocess.Popen(
            command, env=bus.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )
        self.bus.gdbus("wait", "--timeout", "20", self.name)

    def call(self, method, *arguments, path=None):
        return self.bus.gdbus("call", "-d", self.name, "-o", path or self.path, "-m", method, *arguments)

    def add(self, interface, name, value):
        self.call(f"{MOCK}.AddProperty", interface, name, value)
        # Nothing tells of a property that is new; whoever asked before knows nothing of it.
        self.update(interface, **{name: value.strip("<>")})

    def update(self, interface=None, path=None, **values):
        """Changes properties, with the signal that tells of it; values are in GVariant's text form."""
        text = "{" + ", ".join(f"'{name}': <{value}>" for name, value in values.items()) + "}"
        self.call(f"{MOCK}.UpdateProperties", interface or self.name, text, path=path)

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(timeout=10)


class Bus:
    """A dbus-daemon of the test's own, in the place of the system bus."""

    def __init__(self, folder):
        self.folder = folder
        self.socket = os.path.join(folder, "bus.sock")
        self.address = f"unix:path={self.socket}"
        self.environment = os.environ | {"DBUS_SYSTEM_BUS_ADDRESS": self.address}
        self.services = []
        self.process = None
        self.start()

    def start(self):
        configuration = os.path.join(self.folder, "bus.conf")
        with open(configuration, "w") as file:
            file.write(BUS_CONFIGURATION.format(path=self.socket))
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.socket)
        self.process = subprocess.Popen(
            ["dbus-daemon", f"--config-file={configuration}", "--nofork", "--nopidfile"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        wait_until(lambda: listens(self.socket), 20, "the bus")

    def gdbus(self, verb, *words):
        return run(["gdbus", verb, "--system", *words], env=self.environment).stdout

    def serve(self, place, *words):
        service = Service(self, place, words)
        self.services.append(service)
        return service

    def network_manager(self, metered=4):
        service = self.serve(NETWORK_MANAGER, "--template", "networkmanager")
        # The template lacks these two.
        service.add(service.name, "Metered", f"<uint32 {metered}>")
        service.add(service.name, "PrimaryConnectionType", "<'802-3-ethernet'>")
        return service

    def upower(self, on_battery=False, percentage=None):
        service = self.serve(UPOWER, "--template", "upower")
        service.update(OnBattery=str(on_battery).lower())
        if percentage is not None:
            self.set_charge(service, percentage)
        return service

    @staticmethod
    def set_charge(service, percentage):
        values = {"Type": "uint32 2", "IsPresent": "true", "Percentage": str(float(percentage))}
        service.update(f"{UPOWER[0]}.Device", path=f"{UPOWER[1]}/devices/DisplayDevice", **values)

    def logind(self, on_external_power):
        service = self.serve(LOGIND, *LOGIND, "org.freedesktop.login1.Manager")
        service.add("org.freedesktop.login1.Manager", "OnExternalPower", f"<{str(on_external_power).lower()}>")
        return service

    def power_profiles(self, profile="balanced", place=OLD_PROFILES):
        service = self.serve(place, *place, place[0])
        service.add(place[0], "ActiveProfile", f"<'{profile}'>")
        return service

    def stop(self):
        for service in self.services:
            service.stop()
        self.services = []
        self.halt()

    def halt(self):
        """Ends the bus alone."""
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=10)


def write_supplies(root, **supplies):
    """Makes power supplies below a folder that stands for /sys: their attributes by their names."""
    for name, attributes in supplies.items():
        folder = os.path.join(root, "class/power_supply", name)
        os.makedirs(folder, exist_ok=True)
        for attribute, value in attributes.items():
            with open(os.path.join(folder, attribute), "w") as file:
                file.write(f"{value}\n")


def add_connection(manager, name):
    """Makes the connection that is in use have an object, with a name; returns its path."""
    path = "/org/freedesktop/NetworkManager/ActiveConnection/7"
    values = f"{{'Id': <'{name}'>, 'Type': <'802-11-wireless'>}}"
    manager.call("org.freedesktop.DBus.Mock.AddObject", path, f"{manager.name}.Connection.Active", values, "[]")
    # The mock cannot tell of a path that changes.
    manager.call("org.freedesktop.DBus.Mock.AddProperty", manager.name, "PrimaryConnection", f"<objectpath '{path}'>")
    return path


def system_bus(folder, stack, instance):
    """A system bus that an instance sees, with nothing on it yet."""
    bus = Bus(folder)
    stack.callback(bus.stop)
    instance.environment["DBUS_SYSTEM_BUS_ADDRESS"] = bus.address
    return bus
