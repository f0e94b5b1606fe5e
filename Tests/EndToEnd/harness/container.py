# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A container with a systemd of its own, out of this machine's programs: /usr is shared, all else is made anew."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import time

from .processes import Failure, run, wait_until

USER = "tester"
UID = 1000
PASSWD = f"""root:x:0:0:root:/root:/bin/bash
messagebus:x:100:100::/nonexistent:/usr/sbin/nologin
{USER}:x:{UID}:{UID}::/home/{USER}:/bin/bash
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
"""
GROUP = f"root:x:0:\ntty:x:5:\nmessagebus:x:100:\nfuse:x:101:\nsystemd-journal:x:999:\n{USER}:x:{UID}:\nnogroup:x:65534:\n"
SHADOW = f"root:*:19000:0:99999:7:::\n{USER}:*:19000:0:99999:7:::\n"
# Of this machine's settings, those without which nobody can log in.
SHARED = ("alternatives", "dbus-1", "fuse.conf", "ld.so.cache", "login.defs", "nsswitch.conf", "pam.d", "security")
# What a container has no use for.
MASKED = ("console-getty.service", "getty.target", "systemd-networkd.service", "systemd-resolved.service",
          "systemd-timesyncd.service")


def reason_against():
    """Why no container is booted here; None when one is."""
    if os.geteuid() != 0:
        return "needs root"
    for program in ("systemd-nspawn", "nsenter", "tc"):
        if not shutil.which(program):
            return f"{program} is not installed"
    return None if os.path.exists("/dev/fuse") else "no /dev/fuse"


class NoContainer(Exception):
    """None boots on this machine."""


class Container:
    """Boots when it is made; `run` and `as_user` run commands in it."""

    def __init__(self, root, shared, files=None):
        """Shares folders of this machine read-only; `files` are further ones of the container, by their paths."""
        self.root = root
        self.leader = None
        self._make_root()
        for name, text in (files or {}).items():
            self.write(name, text)
        binds = ["--bind-ro=/usr", "--bind=/dev/fuse"] + [f"--bind-ro={path}" for path in shared]
        self.log = open(os.path.join(os.path.dirname(root), "container.log"), "wb")
        self.process = subprocess.Popen(
            ["systemd-nspawn", "--quiet", f"--directory={root}", "--register=no", "--keep-unit", "--private-network",
             *binds, "--console=pipe", "--boot"],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True,
        )
        try:
            self.leader = wait_until(self._find_leader, 60, "the container's first process")
            wait_until(lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip() == "running", 120,
                       "the container to run")
        except Failure as failure:
            self.stop()
            with open(self.log.name, errors="replace") as file:
                raise NoContainer(f"{failure}\n{file.read()[-4000:]}") from None

    def _make_root(self):
        for name in ("dev", "etc/systemd/system", "home", "power", "proc", "root", "run", "sys", "tmp", "usr", "var/lib",
                     "var/log/journal", "var/tmp"):
            os.makedirs(os.path.join(self.root, name))
        os.chmod(os.path.join(self.root, "var/tmp"), 0o1777)
        for name in ("bin", "sbin", "lib", "lib64"):
            os.symlink(f"usr/{name}", os.path.join(self.root, name))
        for name in SHARED:
            if os.path.exists(f"/etc/{name}"):
                run(["cp", "-a", f"/etc/{name}", os.path.join(self.root, "etc")])
        shutil.copy("/usr/lib/os-release", os.path.join(self.root, "etc/os-release"))
        # Without one it would be a first boot, at which everything is enabled.
        self.write("etc/machine-id", "0123456789abcdef0123456789abcdef\n")
        passwd, group = PASSWD, GROUP
        # Its rules, in the shared /usr, are readable for itself alone.
        with contextlib.suppress(KeyError):
            polkit = pwd.getpwnam("polkitd")
            passwd += f"polkitd:x:{polkit.pw_uid}:{polkit.pw_gid}::/nonexistent:/usr/sbin/nologin\n"
            group += f"polkitd:x:{polkit.pw_gid}:\n"
        for name, text in (("passwd", passwd), ("group", group), ("shadow", SHADOW), ("environment", "")):
            self.write(f"etc/{name}", text)
        # With control groups of the first version a container is not always told that one is empty.
        self.write("etc/systemd/system.conf", "[Manager]\nDefaultTimeoutStopSec=10s\n")
        self.write("etc/systemd/system/user@.service.d/test.conf", "[Service]\nTimeoutStopSec=10s\n")
        self.write("etc/systemd/logind.conf", "[Login]\nUserStopDelaySec=0\n")
        for unit in MASKED:
            os.symlink("/dev/null", os.path.join(self.root, "etc/systemd/system", unit))
        os.symlink("/usr/lib/systemd/system/multi-user.target",
                   os.path.join(self.root, "etc/systemd/system/default.target"))
        os.makedirs(os.path.join(self.root, "home", USER))
        os.chown(os.path.join(self.root, "home", USER), UID, UID)

    def write(self, name, text):
        """Writes a file of the container."""
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)

    def _find_leader(self):
        if self.process.poll() is not None:
            raise Failure(f"systemd-nspawn ended with {self.process.returncode}")
        with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as file:
            children = file.read().split()
        for child in children:
            with contextlib.suppress(OSError), open(f"/proc/{child}/comm") as file:
                # Before there is one, others make its place ready.
                if file.read().strip() == "systemd":
                    return int(child)
        return None

    # MARK: commands

    def run(self, *words, check=True, timeout=60):
        return run(["nsenter", f"--target={self.leader}", "--all", *words], check=check, timeout=timeout)

    def as_user(self, *words, check=True, timeout=60):
        """As the user, with the environment of a session."""
        variables = [f"HOME=/home/{USER}", f"XDG_RUNTIME_DIR=/run/user/{UID}", "PATH=/usr/bin:/usr/sbin"]
        return self.run("runuser", "-u", USER, "--", "env", "-i", "-C", "/", *variables, *words, check=check,
                        timeout=timeout)

    def log_in(self):
        """A login session of the user, in which nothing happens."""
        self.run("systemd-run", "--quiet", "--collect", "--property=PAMName=login", f"--property=User={USER}",
                 "--unit=session", "sleep", "infinity")
        wait_until(lambda: self.user_manager() == "active", 60, "the user's manager")

    def log_out(self):
        self.run("systemctl", "stop", "session.service")

    def user_manager(self):
        return self.run("systemctl", "is-active", f"user@{UID}.service", check=False).stdout.strip()

    def property(self, unit, name):
        """A property of a unit of the user's manager."""
        return self.as_user("systemctl", "--user", "show", "--value", f"--property={name}", unit).stdout.strip()

    # MARK: the end

    def wait(self, timeout):
        """Waits until it has ended by itself."""
        wait_until(lambda: self.process.poll() is not None, timeout, "the end of the container")

    def stop(self):
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGTERM)
            for _ in range(50):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
        if self.process.poll() is None:
            # All of the container ends with its first process, which is no child's end by that of its parent.
            if self.leader is not None:
                os.kill(self.leader, signal.SIGKILL)
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(timeout=10)
        self.log.close()
