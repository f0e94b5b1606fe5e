# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The flusher under a real systemd: watchdog, restart, activation, sleep, logout, shutdown."""

import json
import os
import re
import signal

import pytest
from harness.container import USER, Container, NoContainer, reason_against
from harness.processes import run, wait_until
from harness.settings import BINARY

MIB = 1 << 20
SERVICE = "moorage-flusher.service"
SOCKET = "moorage-flusher.socket"
HOME = f"/home/{USER}"
MOORAGE = os.path.realpath(BINARY)
SETTINGS = """[policy]
quiet_period = 0.2s
late_requests = 2s
upload_protocol = s3-multipart
part_size = 5M
parallel_parts = 1
"""
# Nothing is to sleep but logind's idea of the machine: it sees a kernel that could, and is asleep for six seconds.
SLEEP = {
    "power/state": "freeze mem disk\n",
    "power/mem_sleep": "[s2idle] deep\n",
    "etc/systemd/system/systemd-logind.service.d/test.conf":
        "[Service]\nTemporaryFileSystem=/sys\nBindReadOnlyPaths=/sys/fs\nBindPaths=/power:/sys/power\n"
        # What would be kept from /sys is not there.
        "ProtectControlGroups=no\nProtectKernelTunables=no\nProtectKernelModules=no\nProtectKernelLogs=no\n"
        "ProtectClock=no\nProtectSystem=no\nPrivateTmp=no\nReadWritePaths=\n",
    "etc/systemd/system/systemd-suspend.service.d/test.conf": "[Service]\nExecStart=\nExecStart=sleep 6\n",
}
FLUSHER_LOG = "_SYSTEMD_USER_UNIT=moorage-flusher.service"


def shared_folders():
    """Where the product and the libraries are that it needs and /usr has not."""
    libraries = re.findall(r"=> (/\S+)", run(["ldd", BINARY]).stdout)
    folders = {os.path.dirname(os.path.realpath(path)) for path in [BINARY, *libraries]}
    # The units name the program by the path it has after all links.
    return sorted(folder for folder in folders if not folder.startswith(("/usr/", "/lib")))


@pytest.fixture
def container(folder, stack):
    try:
        container = Container(os.path.join(folder, "root"), shared_folders(), SLEEP)
    except NoContainer as reason:
        # A machine that is a container itself may not let another one be.
        pytest.skip(str(reason))
    stack.callback(container.stop)
    container.run("mkdir", "-p", "/var/lib/bucket/bucket")
    container.write(f"{HOME[1:]}/.config/moorage/config", SETTINGS)
    container.run("chown", "-R", f"{USER}:", f"{HOME}/.config")
    container.run("systemd-run", "--quiet", "--unit=bucket", MOORAGE, "serve", "/var/lib/bucket", "--listen",
                  "127.0.0.1:9000", "--foreground")
    stats = ("curl", "-sf", "http://127.0.0.1:9000/_moorage/stats")
    wait_until(lambda: container.run(*stats, check=False).returncode == 0, 60, "the server")
    return container


class User:
    """What the user does in the container."""

    def __init__(self, container):
        self.container = container

    def moorage(self, *words, check=True):
        return self.container.as_user(MOORAGE, *words, check=check)

    def report(self, *words):
        """What a command prints with --json; a machine that has much else to do may need more than one try."""
        results = []
        wait_until(lambda: results.append(self.moorage(*words, "--json", check=False)) or results[-1].returncode == 0, 90,
                   f"{words}, got {results[-1:]}")
        return json.loads(results[-1].stdout)

    def status(self):
        return self.report("status")

    def uploads(self):
        return self.report("uploads", "list")["uploads"]

    def reasons(self):
        return {item["reason"] for upload in self.uploads() for item in upload["waiting"]}

    def pid(self):
        return int(self.container.property(SERVICE, "MainPID"))

    def mount(self):
        self.container.as_user("mkdir", "-p", f"{HOME}/mnt")
        return self.moorage("mount", "s3://bucket", f"{HOME}/mnt", "-o", "endpoint=http://127.0.0.1:9000,anonymous")

    def write(self, name, size):
        self.container.as_user("dd", "if=/dev/urandom", f"of={HOME}/mnt/{name}", "bs=1M", f"count={size // MIB}")

    def kill(self, number):
        """A signal to the service's process."""
        self.container.run("kill", f"-{int(number)}", str(self.pid()))

    def log(self):
        return self.container.run("journalctl", "--no-pager", "--output=cat", FLUSHER_LOG).stdout


def lives_as_root_wants(container):
    """The machine's own service, within all that its unit forbids it."""

    def shown(name):
        return container.run("systemctl", "show", "--value", f"--property={name}", SERVICE).stdout.strip()

    def moorage(*words):
        return container.run("env", "HOME=/root", MOORAGE, *words).stdout

    moorage("service", "install")
    assert (shown("ActiveState"), shown("ProtectSystem")) == ("active", "strict")
    container.run("mkdir", "-p", "/mnt/root")
    moorage("mount", "s3://bucket/root", "/mnt/root", "-o", "endpoint=http://127.0.0.1:9000,anonymous")
    container.run("dd", "if=/dev/urandom", "of=/mnt/root/first", "bs=1M", "count=3")
    moorage("flush", "--timeout", "60")
    old = shown("MainPID")
    assert f"pid {old}" in moorage("status")
    container.run("kill", "-9", old)
    wait_until(lambda: shown("MainPID") not in ("0", old), 60, "another process")
    container.run("sh", "-c", "echo later > /mnt/root/second")
    moorage("flush", "--timeout", "60")
    assert {name for name in container.run("ls", "/var/lib/bucket/bucket/root").stdout.split()} == {"first", "second"}
    moorage("unmount", "/mnt/root")
    moorage("service", "uninstall")
    assert shown("ActiveState") == "inactive" and shown("FragmentPath") == ""


def received(container):
    """The content bytes that the server has taken in."""
    stats = json.loads(container.run("curl", "-s", "http://127.0.0.1:9000/_moorage/stats").stdout)
    return stats["body_bytes_received"].get("PUT", 0)


def slow(container, rate):
    container.run("tc", "qdisc", "replace", "dev", "lo", "root", "tbf", "rate", rate, "burst", "256kb", "latency", "300ms")


@pytest.mark.skipif(reason_against() is not None, reason=str(reason_against()))
@pytest.mark.limit(600)
def test_the_flusher_lives_as_systemd_wants(container):
    user = User(container)
    lives_as_root_wants(container)
    container.log_in()
    installed = user.moorage("service", "install")
    assert "wrote " in installed.stdout and "enable-linger" in installed.stderr
    assert container.property(SERVICE, "ActiveState") == "active"
    wait_until(lambda: container.property(SERVICE, "StatusText") == "nothing pending", 60, "the line of status")
    report = user.report("service", "status")
    assert report["socket_active"] and report["service_active"] and report["linger"] is False

    # Who connects starts it.
    container.as_user("systemctl", "--user", "stop", SERVICE)
    assert container.property(SERVICE, "ActiveState") == "inactive"
    assert container.property(SOCKET, "ActiveState") == "active"
    assert user.status()["flusher"]["pid"] == user.pid() > 0
    assert f"user@1000.service/app.slice/{SERVICE}" in container.run("cat", f"/proc/{user.pid()}/cgroup").stdout

    # It is started again after SIGKILL, and goes on where the upload stopped.
    user.mount()
    slow(container, "16mbit")
    before = received(container)
    user.write("first", 30 * MIB)
    wait_until(lambda: received(container) - before > 11 * MIB, 60, "two parts at the server")
    wait_until(lambda: "sending 1" in container.property(SERVICE, "StatusText"), 60, "the line of status")
    old = user.pid()
    user.kill(signal.SIGKILL)
    wait_until(lambda: user.pid() not in (0, old), 90, "another process")
    assert int(container.property(SERVICE, "NRestarts")) >= 1
    slow(container, "400mbit")
    wait_until(lambda: not user.uploads(), 60, "the end of the upload")
    assert received(container) - before <= 30 * MIB + 6 * MIB

    # It is ended and started again when it hangs.
    container.write(f"home/{USER}/.config/systemd/user/{SERVICE}.d/test.conf", "[Service]\nWatchdogSec=3\n")
    container.as_user("systemctl", "--user", "daemon-reload")
    container.as_user("systemctl", "--user", "restart", SERVICE)
    old, restarts = user.pid(), int(container.property(SERVICE, "NRestarts"))
    user.kill(signal.SIGSTOP)
    wait_until(lambda: user.pid() not in (0, old), 60, "another process")
    assert int(container.property(SERVICE, "NRestarts")) > restarts
    assert "Watchdog timeout" in container.run("journalctl", "--no-pager", "-b").stdout
    assert user.status()["flusher"]["pid"] == user.pid()

    # The machine sleeps: logind waits for the parts, and nothing goes meanwhile.
    slow(container, "16mbit")
    before = received(container)
    user.write("second", 40 * MIB)
    wait_until(lambda: received(container) - before > 6 * MIB, 60, "a part at the server")
    wait_until(lambda: "Moorage" in container.run("systemd-inhibit", "--list", "--no-pager").stdout, 60, "an inhibitor")
    container.run("systemctl", "suspend")
    wait_until(lambda: user.reasons() == {"sleep"}, 60, "everything to be held")
    wait_until(lambda: "sleep" not in user.reasons(), 90, "the machine to be back")
    wait_until(lambda: "the machine is back" in user.log(), 60, "the log")
    asleep = received(container)
    wait_until(lambda: received(container) > asleep, 90, "uploads that go on")

    # Without lingering a logout stops it; with it, it goes on with nobody there.
    user.moorage("unmount", f"{HOME}/mnt")
    container.log_out()
    wait_until(lambda: container.user_manager() in ("inactive", "failed"), 90, "the end of the user's manager")
    stopped = received(container)
    slow(container, "2mbit")
    container.run("loginctl", "enable-linger", USER)
    wait_until(lambda: received(container) > stopped, 60, "uploads that go on without a login")
    report = user.report("service", "status")
    assert report["linger"] and report["warning"] is None

    # The machine ends: what is left is told, and does not keep it.
    wait_until(lambda: "Moorage" in container.run("systemd-inhibit", "--list", "--no-pager").stdout, 60, "an inhibitor")
    assert [upload["path"] for upload in user.uploads()] == ["second"]
    container.run("systemctl", "poweroff")
    container.wait(60)
    told = run(["journalctl", f"--directory={container.root}/var/log/journal", "--no-pager", "--output=cat"]).stdout
    assert "the machine is about to shut down" in told and "1 not remote yet" in told
