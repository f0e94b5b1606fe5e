# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Plays operations on a mount and on a model at once, with kills, cuts and other clients in between."""

import collections
import contextlib
import decimal
import errno
import hashlib
import os
import shutil
import stat
import time

from .attended import CLOCK
from .instance import detach
from .model import SKIP, File, Mismatch, piece, require
from .model_calls import Calls
from .model_operations import NameOperations
from .processes import command_line, is_alive, kill, wait_until

UMASK = 0o022
#: How long a new file that is not closed may be unsafe from SIGKILL, in seconds: 0.05 where the machine is not busy.
JUST_MADE = 5
FAULTS = [
    dict(action="drop-response", method="PUT"),
    dict(action="drop-response", method="DELETE"),
    dict(action="drop-response", method="POST"),
    dict(action="drop-response", method="HEAD"),
    dict(action="respond", status=503, add="Retry-After: 0"),
    dict(action="respond", status=500),
    dict(action="detain", ms=400, how="rst", method="PUT"),
    dict(action="detain", ms=400, how="rst", method="DELETE"),
    dict(action="cut-request", after=1_000, method="PUT"),
    dict(action="cut-response", after=10),
    dict(action="stall", after=500, direction="request", method="PUT"),
    dict(action="delay", ms=300),
]
# What may need bytes or names that only the remote has, and fails without it. Cutting a file to the length it has is a
# change of attributes.
NEED_THE_REMOTE = {
    "open", "read", "copy", "map", "mkdir", "mkfifo", "symlink", "link", "readlink", "unlink", "rmdir", "rename",
    "truncate", "ftruncate", "chmod", "chown", "utime", "stat", "listing",
}
READING = {"read", "copy", "map"}


class Player:
    """An instance with a mount of a bucket, and the model of it."""

    def __init__(self, instance, bucket, client, proxy):
        self.instance, self.bucket, self.client, self.proxy = instance, bucket, client, proxy
        self.mount = instance.mount(f"s3://{bucket}")
        self.model = NameOperations(UMASK)
        self.calls = Calls(self.mount.path)
        self.is_away = self.was_cut = False
        # Nothing was changed since mount, model and remote agreed.
        self.is_settled = True
        self.counts = collections.Counter()

    def step(self, operation):
        """One operation on both; fails when they do not agree."""
        name, *arguments = operation
        try:
            if hasattr(NameOperations, name):
                self._both(name, arguments)
            else:
                getattr(self, name)(*arguments)
        except (Mismatch, OSError) as problem:
            raise Mismatch(f"{name}{tuple(arguments)}: {problem}") from problem

    def _both(self, name, arguments):
        plan = getattr(self.model, name)(*arguments)
        if plan is SKIP:
            return
        self.is_settled = False
        self.counts["operations"] += 1
        try:
            result = self._call(name, arguments)
        except OSError as problem:
            if self._is_allowed(plan, name, arguments, problem.errno):
                return
            wanted = "success" if callable(plan) else [errno.errorcode[number] for number in plan]
            raise Mismatch(f"{errno.errorcode.get(problem.errno, problem.errno)} and not {wanted}") from None
        require(callable(plan), "succeeded, and not", [] if callable(plan) else [errno.errorcode[number] for number in plan])
        plan(result)
        self.counts["succeeded"] += 1

    def _call(self, name, arguments):
        call = getattr(self.calls, "read_on" if name == "read" and self.was_cut else name)
        return self._patiently(lambda: call(*arguments)) if name in NEED_THE_REMOTE else call(*arguments)

    def _patiently(self, action):
        """Does something; again where the network was cut before, and a late failure of then may have been heard."""
        deadline = CLOCK.now() + 10
        while True:
            try:
                return action()
            except OSError as problem:
                is_late = self.was_cut and not self.is_away and problem.errno == errno.EIO
                if not is_late or CLOCK.is_over(deadline):
                    raise
                self.counts["late failures"] += 1
                time.sleep(0.1)

    def _is_allowed(self, plan, name, arguments, number):
        if not callable(plan) and number in plan:
            return True
        if number == errno.EIO and self.is_away and name in NEED_THE_REMOTE:
            self.counts["without the remote"] += 1
            return True
        if not callable(plan):
            return False
        if name == "seek":
            return number == errno.ENXIO and self.model.may_be_all_hole(*arguments)
        # What of a removed file was never fetched goes with its object.
        file = self.model.handles[arguments[0]].file if name in READING else None
        return number == errno.ESTALE and file is not None and file.links == 0 and file.is_remote

    # MARK: processes and network

    def _staged(self):
        """The staging files: what is not remote yet."""
        volumes = os.path.join(self.instance.directory("state"), "volumes")
        return [name for volume in os.listdir(volumes) for name in os.listdir(os.path.join(volumes, volume, "staging"))]

    def kill_mount(self):
        """SIGKILL of the mount, whatever is open, and a new one."""
        self.counts["dirty kills of the mount"] += bool(self._staged())
        kill(self.mount.pid)
        killed_at = CLOCK.now()
        self.calls.close_all()
        self._mount_again()
        changed = self.model.was_killed()
        if changed and self.is_away:
            self.online()
        for path, file in changed.items():
            # Nobody but the mount knew of a file that was made just before and not closed.
            if file.is_new and killed_at - file.made_at < JUST_MADE and not os.path.lexists(self.mount / path):
                self.model.forget(path)
                continue
            # Where an open is tried again after a cut, the first try may have made the file, which was then sent.
            file.is_new = file.is_new and not self.was_cut
            try:
                file.check_after_kill(self._patiently(lambda: self.calls.whole(path)))
            except (Mismatch, OSError) as problem:
                raise Mismatch(f"{path}: {problem}") from problem

    def _mount_again(self):
        detach(self.mount.path)
        self.mount = self.mount.mount_again()

    def kill_flusher(self):
        """SIGKILL of the flusher, if one runs."""
        with contextlib.suppress(OSError, ValueError):
            with open(os.path.join(self.instance.directory("run"), "flusher.lock")) as file:
                pid = int(file.read())
            if "flusher" in command_line(pid) and is_alive(pid):
                self.counts["dirty kills of the flusher"] += bool(self._staged())
                kill(pid)

    def remount(self):
        """An orderly end of the mount, and a new one; uploads go on."""
        self._close(self.model.handles)
        # Whoever else looks at all mounts of the machine keeps it busy for a moment.
        wait_until(lambda: self.mount.unmount(check=False).returncode == 0, 30, "the unmount")
        self._mount_again()

    def network(self, mode):
        """Takes the network away: refuse, reset or blackhole."""
        self.is_away = self.was_cut = True
        self.counts["cuts of the network"] += 1
        self.proxy.mode(mode)
        self.proxy.cut()

    def online(self):
        """Brings it back, and waits for the mount to notice."""
        if self.is_away:
            self.proxy.online()
            wait_until(self._is_reached, 40, "the mount to reach the remote again")
            self.is_away = False

    def _is_reached(self):
        try:
            self._refresh()
            os.listdir(self.mount.path)
            return True
        except OSError as problem:
            require(problem.errno == errno.EIO, "a new look at the remote:", problem)
            return False

    def _refresh(self):
        os.getxattr(self.mount.path, "user.moorage.refresh")

    def fault(self, number):
        """One request fails, not more of them in a row than are tried again."""
        if not self.is_away:
            self.proxy.clear()
            self.proxy.rule(**FAULTS[number])

    def drop_cache(self):
        """Deletes what may be deleted at any time."""
        folder = self.instance.directory("cache")
        for name in os.listdir(folder):
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
        self.model.lost_the_cache()

    # MARK: other clients

    def _object(self, path):
        """Where another client may change a file, so that what comes of it is certain: its folder, name and node."""
        found = self.model.find(path)
        if not self.is_settled or isinstance(found, int):
            return None
        node = found[2]
        # What becomes of other names of a file depends on which of them is the first.
        if node is not None and (node.kind != stat.S_IFREG or node.links > 1 or node in self.model.open_files()):
            return None
        return found

    def remote_put(self, path, start, length):
        """Another client writes an object."""
        if found := self._object(path):
            self.client.put_object(Bucket=self.bucket, Key=path, Body=piece(start, length))
            file = File(0o666 & ~UMASK, piece(start, length))
            file.mtime, file.is_remote = (0, None), True
            self.model.put(found[0], found[1], file)
            self.counts["changes by others"] += 1

    def remote_delete(self, path):
        """Another client deletes an object."""
        found = self._object(path)
        if found and found[2]:
            self.client.delete_object(Bucket=self.bucket, Key=path)
            self.model.take(found[0], found[1]).links = 0
            self.counts["changes by others"] += 1

    def refresh(self):
        """Has the mount look at the remote anew, and waits until it shows what others did."""
        if self.is_settled:
            self._refresh()
            wait_until(self._shows_changes, 30, "the changes of others")

    def _shows_changes(self):
        try:
            for path, node in self.model.paths().items():
                if node.kind == stat.S_IFREG:
                    self.model.check_status(node, self.calls.stat(path))
                elif node.kind == stat.S_IFDIR:
                    self.model.listing(path)(self.calls.listing(path))
            self.model.listing("")(self.calls.listing(""))
            return True
        except (Mismatch, FileNotFoundError):
            return False

    # MARK: agreement

    def _close(self, slots):
        for slot in list(slots):
            self.step(("close", slot))

    def settle(self):
        """Closes what is written to, waits for the remote, and compares mount, model and remote."""
        self.proxy.clear()
        self.is_away, was_away = False, self.is_away
        if was_away:
            self.is_away = True
            self.online()
        self._close(slot for slot, handle in self.model.handles.items() if handle.writes)
        self.instance.flush()
        # A request that a fault let arrive late may still make an object of what was removed: a flush does not wait for the
        # tombstone that watches for it.
        wait_until(lambda: self.instance.pending_files() == 0, 60, "the end of all doubt")
        for path, node in [("", self.model.root), *self.model.paths().items()]:
            try:
                self._patiently(lambda: self._compare(path, node))
            except (Mismatch, OSError) as problem:
                raise Mismatch(f"{path}: {problem}") from problem
        self._compare_remote()
        self.is_settled, self.was_cut = True, False
        self.counts["settled"] += 1

    def _compare(self, path, node):
        if path:
            status = self.calls.stat(path)
            self.model.check_status(node, status)
        if node.kind == stat.S_IFDIR:
            self.model.listing(path)(self.calls.listing(path))
        elif node.kind == stat.S_IFLNK:
            self.model.readlink(path)(self.calls.readlink(path))
        elif node.kind == stat.S_IFREG:
            found = self.calls.whole(path)
            require(found == node.data, "the mount has", len(found), "bytes for", len(node.data))
            # From here on it stays, whatever happens to processes and cache.
            node.mtime = (status.st_mtime_ns, status.st_mtime_ns)

    def _compare_remote(self):
        wanted = {}
        for path, node in self.model.paths().items():
            key = path + "/" if node.kind == stat.S_IFDIR else path
            wanted[key] = node.data if node.kind == stat.S_IFREG else (node.target or "").encode()
        found = {}
        for page in self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket):
            found |= {item["Key"]: item for item in page.get("Contents", []) if not item["Key"].startswith(".moorage-probe")}
        extra, missing = sorted(set(found) - set(wanted)), sorted(set(wanted) - set(found))
        require(not extra and not missing, "the remote has", extra, "and lacks", missing)
        for key, data in wanted.items():
            self._compare_object(key, found[key], bytes(data))
        for path, node in self.model.paths().items():
            self._compare_metadata(path + "/" if node.kind == stat.S_IFDIR else path, node)
        require(self.instance.conflicts() == 0, "there are conflicts")
        uploads = self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", [])
        require(uploads == [], "unfinished uploads are left", uploads)

    def _compare_metadata(self, key, node):
        """What others made, and nobody changed here, has none: it is then what the mount says of such objects."""
        metadata = self.client.head_object(Bucket=self.bucket, Key=key)["Metadata"]
        if node.kind != stat.S_IFLNK:
            mode, found = node.kind | node.mode, int(metadata.get("mode", stat.S_IFREG | 0o666 & ~UMASK))
            require(found == mode, key, "at the remote has the mode", oct(found), "and not", oct(mode))
            owner = int(metadata.get("uid", os.geteuid())), int(metadata.get("gid", os.getegid()))
            require(owner == node.owner, key, "at the remote belongs to", owner, "and not to", node.owner)
        if node.kind == stat.S_IFREG and "mtime" in metadata:
            time = int(decimal.Decimal(metadata["mtime"]) * 1_000_000_000)
            require(time == node.mtime[0], key, "at the remote was changed at", time, "and not at", node.mtime[0])

    def _compare_object(self, key, item, data):
        tag = item["ETag"].strip('"')
        if tag != hashlib.md5(data).hexdigest():
            body = self.client.get_object(Bucket=self.bucket, Key=key)["Body"].read()
            require(body == data, key, "at the remote has", len(body), "bytes for", len(data))
