# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""An instance of the product: folders, environment and mounts of its own."""

import contextlib
import glob
import json
import os
import shutil
import signal
import subprocess

from .bucket import ACCESS_KEY, SECRET_KEY, clean_environment
from .mounts import is_mounted
from .processes import Failure, command_line, find_processes, is_alive, kill, run, wait_until


class Mount:
    """A mounted volume."""

    def __init__(self, instance, remote, path, options):
        self.instance = instance
        self.remote = remote
        self.path = path
        self.options = options

    def __truediv__(self, name):
        return os.path.join(self.path, name)

    @property
    def pid(self):
        """The process that serves the mount."""
        found = [pid for pid in find_processes("mount", self.path) if is_alive(pid)]
        if not found:
            raise Failure(f"no process serves {self.path}")
        return found[0]

    def unmount(self, *words, timeout=60, check=True):
        return self.instance.run("unmount", self.path, *words, timeout=timeout, check=check)

    def kill(self):
        """SIGKILL to the process, then removes the dead mount point."""
        kill(self.pid)
        detach(self.path)

    def mount_again(self):
        return self.instance.mount(self.remote, self.path, *self.options)


def detach(path):
    for _ in range(3):
        if is_mounted(path):
            run(["fusermount3", "-uz", path], check=False, timeout=20)


class Instance:
    """Configuration, state, cache and runtime folders that belong to one test."""

    def __init__(self, binary, folder, endpoint, name="instance"):
        self.binary = binary
        self.folder = os.path.join(folder, name)
        self.endpoint = endpoint
        self.mounts = []
        # What a request may still do when its client is gone, it does here within milliseconds.
        self.settings = {"quiet_period": "0.2s", "late_requests": "2s"}
        for part in ("state", "cache", "run", "mnt", "home"):
            os.makedirs(os.path.join(self.folder, part), mode=0o700, exist_ok=True)
        self.environment = clean_environment() | {
            "HOME": os.path.join(self.folder, "home"),
            "MOORAGE_CONFIG": os.path.join(self.folder, "config"),
            "MOORAGE_STATE_DIR": os.path.join(self.folder, "state"),
            "MOORAGE_CACHE_DIR": os.path.join(self.folder, "cache"),
            "MOORAGE_RUNTIME_DIR": os.path.join(self.folder, "run"),
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_REGION": "us-east-1",
            # The machine that the tests run on, a laptop in a train perhaps, is not what they are about.
            "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={os.path.join(self.folder, 'no-bus')}",
            "MOORAGE_SYSFS": os.path.join(self.folder, "no-sysfs"),
            "MOORAGE_PROCFS": os.path.join(self.folder, "no-procfs"),
        }
        self.configure()

    def directory(self, part):
        return os.path.join(self.folder, part)

    def configure(self, **settings):
        """Writes the configuration file: keys of its `[policy]` section."""
        self.settings |= settings
        with open(self.environment["MOORAGE_CONFIG"], "w") as file:
            file.write("[policy]\n" + "".join(f"{key} = {value}\n" for key, value in self.settings.items()))
        os.chmod(self.environment["MOORAGE_CONFIG"], 0o600)

    # MARK: commands

    def run(self, *arguments, timeout=60, check=True, env=None):
        """Runs `moorage ARGUMENTS`."""
        environment = self.environment | (env or {})
        return run([self.binary, *arguments], timeout=timeout, check=check, env=environment)

    def status(self):
        return json.loads(self.run("status", "--json").stdout)

    def uploads(self):
        return json.loads(self.run("uploads", "list", "--json").stdout)["uploads"]

    def policy(self):
        return json.loads(self.run("policy", "show", "--json").stdout)

    def condition(self, name):
        return self.policy()["conditions"][name]

    def holds(self):
        """The reasons why the machine's conditions hold uploads of the one volume."""
        return [hold["reason"] for hold in self.policy()["volumes"][0]["holds"]]

    def pending_files(self):
        return sum(volume["pending"]["files"] for volume in self.status()["volumes"])

    def conflicts(self):
        return sum(volume["conflicts"] for volume in self.status()["volumes"])

    def flush(self, *arguments, timeout=120):
        """Waits until everything is remote; fails with what is left."""
        result = self.run("flush", *arguments, "--timeout", str(timeout), timeout=timeout + 20, check=False)
        if result.returncode != 0:
            raise Failure(f"flush ended with {result.returncode}: {result.stdout}{result.stderr}{self.describe()}")
        return result

    def describe(self):
        """What the product says of itself, and the end of the flusher's log, for a failure's message."""
        parts = []
        with contextlib.suppress(Exception):
            parts.append(self.run("uploads", "list", "--json", timeout=10, check=False).stdout[:4000])
        for path in glob.glob(os.path.join(self.folder, "run", "*.log")):
            with open(path, errors="replace") as file:
                parts.append(path + ":\n" + file.read()[-4000:])
        return "\n".join(parts)

    # MARK: mounts

    def mount(self, remote, path=None, *options, endpoint=None, timeout=60):
        """Mounts and returns when the mount answers."""
        path = path or self.directory(f"mnt/{len(self.mounts)}")
        os.makedirs(path, exist_ok=True)
        words = [f"endpoint={endpoint or self.endpoint}", *options]
        self.run("mount", remote, path, "-o", ",".join(words), timeout=timeout)
        return self.adopt(remote, path, *options)

    def adopt(self, remote, path, *options):
        """Takes in a mount that somebody else makes."""
        mount = Mount(self, remote, path, options)
        self.mounts.append(mount)
        return mount

    def flusher_pid(self):
        """The flusher's pid as `status --json` tells it; None when none runs."""
        flusher = self.status()["flusher"]
        return flusher["pid"] if flusher["running"] else None

    def running_flusher(self):
        """The flusher's pid, once one runs: a mount is there before the flusher that it starts."""
        return wait_until(self.flusher_pid, 20, "the flusher to run")

    def kill_flusher(self):
        """SIGKILL to the flusher; fails when none runs."""
        pid = self.flusher_pid()
        assert pid and "flusher" in command_line(pid), f"no flusher to kill: {pid}"
        kill(pid)
        return pid

    def in_flight(self):
        """The uploads that were begun and are not finished."""
        return [upload for upload in self.uploads() if upload["state"] == "uploading" or upload["sent"] > 0]

    def overlooked(self):
        """The lines of the flusher's log that tell of work which no event brought on: there must be none."""
        log = os.path.join(self.directory("run"), "flusher.log")
        if not os.path.exists(log):
            return []
        with open(log, errors="replace") as file:
            return [line.rstrip() for line in file if "overlooked" in line]

    # MARK: the end

    def processes(self):
        """All processes that have this instance's folders in their environment or on their command line."""
        marks = (b"MOORAGE_STATE_DIR=" + self.environment["MOORAGE_STATE_DIR"].encode() + b"\0",)
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            with contextlib.suppress(OSError):
                with open(f"/proc/{name}/environ", "rb") as file:
                    if any(mark in file.read() + b"\0" for mark in marks):
                        found.append(int(name))
        for mount in self.mounts:
            found += find_processes("mount", mount.path)
        with contextlib.suppress(OSError, ValueError):
            with open(os.path.join(self.directory("run"), "flusher.lock")) as file:
                pid = int(file.read())
                found += [pid] if "flusher" in command_line(pid) else []
        return sorted(set(found))

    def abandon(self):
        """Ends all of the instance's processes and mounts, whatever state they are in."""
        for mount in reversed(self.mounts):
            detach(mount.path)
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(Failure):
            wait_until(lambda: not [pid for pid in self.processes() if is_alive(pid)], 10, "the end of all processes")
        for mount in reversed(self.mounts):
            detach(mount.path)

    def drop_cache(self):
        """Deletes everything that may be deleted at any time."""
        wait_until(lambda: shutil.rmtree(self.directory("cache"), ignore_errors=True) or not self._has_cache(), 10)
        # A flusher that runs may have made it again already.
        os.makedirs(self.directory("cache"), mode=0o700, exist_ok=True)

    def drop_contents(self):
        """Deletes the cache when all there was to upload is in it; nothing may be mounted or pending."""
        volumes = self.directory("state/volumes")
        for volume in os.listdir(volumes):
            staging = os.path.join(volumes, volume, "staging")
            wait_until(lambda: os.listdir(staging) == [], 30, "an empty staging folder")
        self.drop_cache()

    def _has_cache(self):
        return os.path.exists(self.directory("cache"))


def read_in_child(path, timeout=30):
    """Reads a file in another process, so that a mount that hangs fails the test instead of stopping it."""
    command = ["cat", path]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Failure(f"reading {path} did not end within {timeout} s") from None
    if process.returncode != 0:
        raise OSError(f"cat {path}: {errors.decode(errors='replace').strip()}")
    return output
