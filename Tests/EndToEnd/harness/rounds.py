# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The same operations again and again, each time with another step of mount or flusher ending or failing."""

import contextlib
import glob
import os
import signal
import sqlite3
import subprocess
import threading

from .injection import Injection
from .instance import detach
from .processes import Failure, listens, run, wait_until
from .trees import all_keys, fingerprint, random_bytes, write_file

MIB = 1 << 20
STAMP = 1_000_000_000
OLD = {
    "keep": 3_000, "old": 70_000, "gone": 10, "private": 500, "over": 900, "clash": 40, "big": 6 * MIB, "dir/a": 100,
    "dir/b": 20_000, "dir/sub/c": 3,
}


class Operation:
    """Something done to a tree; `parts`: what there may be of it when it was cut short."""

    def __init__(self, name, paths, action, parts=False):
        self.name = name
        self.paths = paths
        self.action = action
        self.parts = parts

    def concerns(self, path):
        return any(path == mine or path.startswith(mine + "/") for mine in self.paths)


def write(path, data, synchronize=False):
    return Operation(f"write {path}", [path], lambda root: write_file(f"{root}/{path}", data, synchronize), parts=True)


def patch(path, data, offset):
    def action(root):
        with open(f"{root}/{path}", "r+b") as file:
            file.seek(offset)
            file.write(data)

    return Operation(f"patch {path}", [path], action, parts=True)


def exists(path):
    """Whether there is something; unlike os.path.lexists, fails where the mount is dead."""
    with contextlib.suppress(FileNotFoundError):
        os.lstat(path)
        return True
    return False


def rename(old, new):
    def action(root):
        if exists(f"{root}/{old}"):
            os.rename(f"{root}/{old}", f"{root}/{new}")

    return Operation(f"rename {old} {new}", [old, new], action)


def change(path, call):
    return Operation(f"change {path}", [path], lambda root: call(f"{root}/{path}"))


def unlink(path):
    return change(path, lambda name: exists(name) and os.unlink(name))


def link(path, target):
    return change(path, lambda name: exists(name) or os.symlink(target, name))


def first_operations(seed):
    """On a bucket with the objects OLD."""
    return [
        write("new", random_bytes(seed, 5_000)),
        write("safe", random_bytes(seed + 1, 8_000), synchronize=True),
        write("multi", random_bytes(seed + 2, 9 * MIB)),
        write("old", random_bytes(seed + 3, 60_000)),
        patch("dir/b", random_bytes(seed + 4, 1_000), 20_000),
        patch("big", random_bytes(seed + 5, 4_096), 3 * MIB),
        rename("keep", "kept"),
        rename("dir", "folder"),
        change("empty", lambda name: exists(name) or os.mkdir(name)),
        unlink("gone"),
        change("private", lambda name: os.chmod(name, 0o600)),
        change("private", lambda name: os.utime(name, (STAMP, STAMP))),
        link("link", "new"),
        write("over.tmp", random_bytes(seed + 6, 1_500)),
        rename("over.tmp", "over"),
        write("clash", b"ours"),
    ]


def second_operations(seed):
    """When the first ones are remote."""
    return [
        rename("multi", "folder/moved"),
        write("new", random_bytes(seed + 7, 2_000)),
        patch("folder/sub/c", b"longer than before", 2),
        rename("folder", "again"),
        change("old", lambda name: os.chmod(name, 0o640)),
        unlink("safe"),
        unlink("link"),
        change("empty", lambda name: exists(name) and os.rmdir(name)),
    ]


def tree(root):
    """The tree with modes, and the time where it was set."""
    found = {}
    for name, entry in fingerprint(root, attributes=True).items():
        if entry[0] == "file":
            entry = entry[:-1] + (entry[-1] if entry[-1] == STAMP else None,)
        found[name] = entry
    return found


class Round:
    """One bucket, one instance, one process with an injection."""

    def __init__(self, make_instance, server, folder, number, seed, settings):
        self.name = f"round-{number}"
        self.bucket = self.name
        self.seed = seed
        self.client = server.client()
        self.client.create_bucket(Bucket=self.bucket)
        self.twin = os.path.join(folder, self.name + "-twin")
        for name, size in OLD.items():
            data = random_bytes(name, size)
            self.client.put_object(Bucket=self.bucket, Key=name, Body=data)
            os.makedirs(os.path.dirname(f"{self.twin}/{name}"), exist_ok=True)
            write_file(f"{self.twin}/{name}", data)
        self.instance = make_instance(server.url, self.name)
        self.instance.configure(quiet_period="60s", part_size="5M", **settings)
        self.log = os.path.join(folder, self.name + ".steps")
        self.process = None
        self.watcher = None
        self.pending_at_end = 0
        self.injection = None
        self.mount = None
        self.is_mounted_by_it = False
        self.is_revived = False
        self.kills_mount = False

    def folders(self):
        return [self.instance.directory("state"), self.instance.directory("cache")]

    def inject(self, command, places=None, **what):
        """The environment of a process with an injection, by default into all that it does to disk and network."""
        self.kills_mount = command == "mount" and what.get("action") == "kill"
        self.injection = Injection(self.log, command, places or [*self.folders(), "/dev/fuse", "network"], **what)
        return self.instance.environment | self.injection.settings

    def start(self, words, environment):
        log = open(os.path.join(self.instance.directory("run"), "injected.log"), "ab")
        self.process = subprocess.Popen(
            [self.instance.binary, *words], env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            start_new_session=True,
        )
        log.close()
        self.watcher = threading.Thread(target=self.watch, daemon=True)
        self.watcher.start()

    def watch(self):
        """Notes how much was pending when the process ended: nobody else does anything to it without being told."""
        self.process.wait()
        for path in glob.glob(os.path.join(self.instance.directory("state"), "volumes", "*", "journal.sqlite")):
            with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
                self.pending_at_end += journal.execute("SELECT count(*) FROM node").fetchone()[0]

    def was_killed_dirty(self):
        """Whether the injected kill came, and when something was pending."""
        if not self.injection.hits() or not self.has_ended():
            return False
        self.watcher.join(30)
        return self.process.returncode == -signal.SIGKILL and self.pending_at_end > 0

    def start_flusher(self, environment):
        self.start(["flusher", "--foreground", "--exit-when-idle", "600"], environment)
        socket = os.path.join(self.instance.directory("run"), "control.sock")
        wait_until(lambda: listens(socket) or self.has_ended(), 20, "the flusher")

    def start_mount(self, environment):
        """Mounts with the process in the foreground; it may be killed before it answers."""
        self.is_mounted_by_it = True
        path = self.instance.directory("mnt/0")
        os.makedirs(path, exist_ok=True)
        self.mount = self.instance.adopt(f"s3://{self.bucket}", path)
        words = ["mount", f"s3://{self.bucket}", path, "-o", f"endpoint={self.instance.endpoint}", "--foreground"]
        self.start(words, environment)
        wait_until(lambda: os.path.ismount(path) or self.has_ended(), 20, "the mount")

    def has_ended(self):
        return self.process.poll() is not None

    # MARK: operations

    def perform(self, operations):
        """Does the operations on the mount and on the twin; one that the kill cut short is done again after a look."""
        for operation in operations:
            try:
                operation.action(self.mount.path)
                operation.action(self.twin)
            except OSError as problem:
                # The kernel ends the requests before the process is seen to be gone.
                wait_until(self.has_ended, 5, f"the kill that explains {problem} of {operation.name}")
                self.recover(operation)

    def revive(self):
        """Mounts again where the process was killed between two operations."""
        if self.has_ended() and not self.is_revived and self.is_mounted_by_it:
            detach(self.mount.path)
            self.mount = self.mount.mount_again()
            self.is_revived = True

    def recover(self, operation):
        self.revive()
        self.repeat(operation, wholly=True)

    def perform_with_errors(self, operations):
        """Does the operations on the mount and on the twin; those that fail are done again after a look.

        Returns what failed.
        """
        problems = []
        for operation in operations:
            try:
                operation.action(self.mount.path)
                operation.action(self.twin)
            except OSError as problem:
                assert not self.has_ended(), f"{operation.name}: {problem}, and the process has ended"
                problems.append(f"{operation.name}: {problem}")
                # What went on from a step to here is over; that it failed stays true.
                self.injection.end()
                self.repeat(operation, wholly=False)
        return problems

    def repeat(self, operation, wholly):
        """Looks at what became of an operation that was cut short, and does it again if need be.

        `wholly`: files that were there before have their old content or the new one.
        """
        before = tree(self.twin)
        operation.action(self.twin)
        after = tree(self.twin)
        found = tree(self.mount.path)
        for path in set(before) | set(after) | set(found):
            states = [before.get(path)]
            if operation.concerns(path):
                states += [after.get(path)]
                if operation.parts and not (wholly and path in OLD) and self.is_part(path, found.get(path)):
                    continue
            assert found.get(path) in states, f"{operation.name}: {path} is {found.get(path)}, not in {states}"
        if found != after:
            operation.action(self.mount.path)

    def is_part(self, path, entry):
        """Whether a file has the beginning of its content."""
        if not entry:
            return False
        with open(f"{self.twin}/{path}", "rb") as file, open(self.mount / path, "rb") as other:
            return file.read().startswith(other.read())

    # MARK: looking at it

    def looking(self, look):
        """Looks at the mount; once more when the kill comes meanwhile."""
        try:
            self.revive()
            return look()
        except OSError as problem:
            wait_until(self.has_ended, 5, f"the kill that explains {problem}")
            assert not self.is_revived, problem
            self.revive()
            return look()

    def story(self):
        hits = self.injection.hits() if self.injection else []
        return f"{self.name}: hit {hits[0]} and {len(hits) - 1} more" if hits else f"{self.name}: not hit"

    def flush(self):
        self.instance.flush(timeout=60)

    def await_completion(self):
        """Nothing counts as open: what could not be completed when it was closed is, once the disk is well again."""
        wait_until(lambda: [journal for journal in self.journals() if self.open_rows(journal)] == [], 20, "all files to be complete")

    def journals(self):
        volumes = os.path.join(self.instance.directory("state"), "volumes")
        return [os.path.join(volumes, name, "journal.sqlite") for name in os.listdir(volumes)]

    def open_rows(self, path):
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as journal:
            return journal.execute("SELECT name FROM node WHERE is_open <> 0").fetchall()

    def flush_at_last(self):
        """Flushes; what failed too often and waits for a person is tried again first."""
        if self.instance.run("flush", "--timeout", "60", timeout=80, check=False).returncode != 0:
            uploads = self.instance.uploads()
            assert [upload for upload in uploads if upload["state"] == "attention" and upload["error"]], uploads
            self.instance.run("uploads", "retry", "--all")
            self.instance.flush(timeout=60)

    def check_refusal(self):
        """A mount that did not come to be says why, in one line, and what to do."""
        assert self.process.returncode == 1, self.process.returncode
        with open(os.path.join(self.instance.directory("run"), "injected.log")) as file:
            lines = [line for line in file.read().splitlines() if line.startswith("moorage: ")]
        assert len(lines) == 1 and lines[0].startswith("moorage: "), lines

    def expect_conflict(self):
        """Ours went beside what the remote has: the twin learns it."""
        for name in os.listdir(self.mount.path):
            if name.startswith("clash (conflict "):
                os.rename(f"{self.twin}/clash", f"{self.twin}/{name}")
        write_file(f"{self.twin}/clash", b"theirs")

    def check(self, conflicts):
        wanted = tree(self.twin)
        # The kernel may show names and attributes for a moment that the flusher's commits have changed since.
        with contextlib.suppress(Failure):
            wait_until(lambda: tree(self.mount.path) == wanted, 3)
        found = tree(self.mount.path)
        wrong = [(name, wanted.get(name), found.get(name)) for name in set(found) | set(wanted) if found.get(name) != wanted.get(name)]
        assert not wrong, f"the mount shows {wrong}"
        self.check_remote(wanted)
        # What a killed request may still do at the remote is looked after for a while.
        wait_until(lambda: self.instance.uploads() == [], 30, "the end of all uploads")
        assert self.instance.conflicts() == conflicts, f"{self.instance.conflicts()} conflicts: {self.instance.describe()}"
        wait_until(self.has_no_unfinished_upload, 30, "the end of unfinished uploads at the remote")
        self.check_state()

    def has_no_unfinished_upload(self):
        return self.client.list_multipart_uploads(Bucket=self.bucket).get("Uploads", []) == []

    def check_remote(self, wanted):
        keys = {key for key in all_keys(self.client, self.bucket) if not key.startswith(".moorage-probe")}
        files = {name for name, entry in wanted.items() if entry[0] != "folder"}
        assert {key for key in keys if not key.endswith("/")} == files, f"the remote has {keys}"
        folders = {key[:-1] for key in keys if key.endswith("/")}
        assert folders <= {name for name in wanted if name not in files}, f"the remote has the folders {folders}"
        for name in files:
            found = self.client.get_object(Bucket=self.bucket, Key=name)
            if wanted[name][0] == "link":
                assert found["Body"].read() == os.readlink(f"{self.twin}/{name}").encode(), name
                continue
            with open(f"{self.twin}/{name}", "rb") as file:
                assert found["Body"].read() == file.read(), f"{name} at the remote"
            if mode := found["Metadata"].get("mode"):
                assert int(mode) & 0o7777 == int(wanted[name][3], 8), name

    def check_state(self):
        """The journal is sound; no staging file stays; nothing was set aside but a new file that nobody had closed."""
        volumes = os.path.join(self.instance.directory("state"), "volumes")
        for volume in (os.path.join(volumes, name) for name in os.listdir(volumes)):
            staging = os.path.join(volume, "staging")
            wait_until(lambda: os.listdir(staging) == [], 15, "an empty staging folder")
            aside = os.listdir(os.path.join(volume, "quarantine"))
            unclosed = [name for name in aside if name.endswith("-orphan")] if self.kills_mount else []
            assert len(unclosed) <= 1 and aside == unclosed, f"set aside: {aside}"
            # The mount writes some files anew now and then.
            wait_until(lambda: not [name for name in os.listdir(volume) if name.endswith("~")], 15, "no file half written")
            with contextlib.closing(sqlite3.connect(f"file:{volume}/journal.sqlite?mode=ro", uri=True)) as journal:
                assert journal.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
                for table in ("node", "transfer", "part", "generation"):
                    wait_until(lambda: journal.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)], 15, f"the end of each {table}")

    def end(self):
        self.steps = self.injection.steps() if self.injection else []
        self.instance.abandon()
        run(["rm", "-rf", self.twin, *(self.instance.directory(part) for part in ("state", "cache"))], check=False)
