# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The same job in a folder of the mount and in one of the local disk, and what must be the same of it."""

import concurrent.futures
import hashlib
import os
import re
import stat
import time

from .processes import shell
from .trees import fail

# Whoever asks for it gets the same answer in both folders and in every run.
ENVIRONMENT = {
    "LC_ALL": "C.UTF-8", "TZ": "UTC", "SOURCE_DATE_EPOCH": "1000000000",
    "GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_AUTHOR_DATE": "1000000000 +0000",
    "GIT_COMMITTER_NAME": "A", "GIT_COMMITTER_EMAIL": "a@example.org", "GIT_COMMITTER_DATE": "1000000000 +0000",
    "GIT_CONFIG_NOSYSTEM": "1", "PYTHONDONTWRITEBYTECODE": "1",
}


def describe(path, root, status, old):
    """Kind, mode, and content or target of a file, with its own folder's path left out; its time when it is an old one."""
    if stat.S_ISDIR(status.st_mode):
        return ("folder", oct(status.st_mode & 0o7777))
    if stat.S_ISLNK(status.st_mode):
        return ("link", os.readlink(path).replace(root, "HERE"))
    entry = (stat.filemode(status.st_mode), oct(status.st_mode & 0o7777), status.st_uid, status.st_gid)
    if stat.S_ISREG(status.st_mode):
        with open(path, "rb") as file:
            content = file.read().replace(root.encode(), b"HERE")
        entry += (len(content), hashlib.sha256(content).hexdigest())
    # Times that the job set must be kept; those of its own writing differ by nature.
    return entry + (status.st_mtime_ns if status.st_mtime < old else "new",)


def tree(root, old, without=None):
    """Everything below a folder by its relative path, but for what `without`, a regular expression, matches."""
    found = {}
    for base, folders, files in os.walk(root, onerror=fail):
        for name in folders + files:
            path = os.path.join(base, name)
            relative = os.path.relpath(path, root)
            if not (without and re.search(without, relative)):
                found[relative] = describe(path, root, os.lstat(path), old)
    return found


def differences(mine, other):
    names = sorted(name for name in mine.keys() | other.keys() if mine.get(name) != other.get(name))
    return [f"{name}: {mine.get(name)} here, {other.get(name)} there" for name in names]


class Twins:
    """Two folders, the mount's and the local disk's."""

    def __init__(self, instance, client, mount, local):
        self.instance, self.client, self.mount = instance, client, mount
        self.old = time.time() - 3600
        self.roots = [mount / "work", os.path.join(local, "work")]
        for root in self.roots:
            os.mkdir(root)

    def each(self, action):
        """`action(root)` in both folders at once; its results."""
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            return list(pool.map(action, self.roots))

    def run(self, script, timeout=60):
        """Runs a script in both; output and exit status must be the same. Returns its output."""
        environment = os.environ | ENVIRONMENT

        def action(root):
            home = environment | {"HOME": os.path.join(self.instance.folder, "home"), "HERE": root}
            result = shell(script, root, timeout=timeout, check=False, env=home)
            return [text.replace(root, "HERE") for text in (str(result.returncode), result.stdout, result.stderr)]

        ours, theirs = self.each(action)
        assert ours[:2] == theirs[:2], f"on the mount: {ours}\non the local disk: {theirs}"
        assert ours[0] == "0", f"ended with {ours[0]}: {ours[1]}{ours[2]}"
        return ours[1]

    def compare(self, without=None):
        """The two trees must be the same, and not empty."""
        assert all(self.each(os.listdir)), "the job made nothing"
        ours, theirs = self.each(lambda root: tree(root, self.old, without))
        assert not differences(ours, theirs), differences(ours, theirs)[:20]

    def finish(self, without=None):
        """Both trees are the same; after a flush the remote has the mount's; without any cache the mount still shows it."""
        self.compare(without)
        before = tree(self.roots[0], self.old)
        self.instance.flush()
        self.agrees(before)
        self.mount.unmount()
        self.instance.drop_cache()
        self.mount = self.mount.mount_again()
        after = tree(self.roots[0], self.old)
        assert not differences(after, before), differences(after, before)[:20]
        assert self.instance.conflicts() == 0

    def agrees(self, expected):
        """The objects are those of the tree, with content, mode and time, and no others."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket="bucket", Prefix="work/")
        keys = {item["Key"].removeprefix("work/") for page in pages for item in page.get("Contents", [])} - {""}
        folders = {name for name, entry in expected.items() if entry[0] == "folder"}
        markers = {key.rstrip("/") for key in keys if key.endswith("/")}
        assert markers <= folders, f"folders at the remote only: {markers - folders}"
        files = {key for key in keys if not key.endswith("/")}
        assert files == expected.keys() - folders, f"not on both sides: {files ^ (expected.keys() - folders)}"
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            wrong = list(filter(None, pool.map(lambda key: self.object_problem(key, expected[key.rstrip("/")]), keys)))
        assert not wrong, wrong[:20]

    def object_problem(self, key, entry):
        """What an object has otherwise than the tree's entry; None when it agrees."""
        answer = self.client.get_object(Bucket="bucket", Key="work/" + key)
        body = answer["Body"].read().replace(self.roots[0].encode(), b"HERE")
        mode = int(answer["Metadata"]["mode"])
        if entry[0] == "link":
            found = ("link", body.decode())
        elif entry[0] == "folder":
            found = ("folder", oct(mode & 0o7777))
        else:
            found = (stat.filemode(mode), oct(mode & 0o7777), int(answer["Metadata"]["uid"]), int(answer["Metadata"]["gid"]))
            found += (len(body), hashlib.sha256(body).hexdigest()) if stat.S_ISREG(mode) else ()
            entry = entry[:-1] + (None if entry[-1] == "new" else round(entry[-1] / 1e9, 6),)
            found += (None if entry[-1] is None else round(float(answer["Metadata"]["mtime"]), 6),)
        return None if found == entry else f"{key}: {found} at the remote, {entry} here"
