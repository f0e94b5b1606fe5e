# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Random operations on the mount and on a local folder, with a busy flusher, faults and kills: always the same tree.

The uploads run while names move under them, which is where mount and flusher could disagree.
"""

import errno
import os
import random

import pytest

from harness.processes import wait_until
from harness.settings import scaled
from harness.trees import all_keys, fingerprint


class Twin:
    """Does each operation on the mount and on a local folder, and expects the same outcome."""

    def __init__(self, mount, local, seed):
        self.roots = [local, mount]
        self.random = random.Random(seed)
        self.log = []

    def both(self, name, action):
        """Runs `action(root)` on both sides; a different error or result is a failure."""
        outcomes = []
        for root in self.roots:
            try:
                outcomes.append(action(root))
            except OSError as problem:
                outcomes.append(errno.errorcode.get(problem.errno, problem.errno))
        self.log.append(f"{name} : {str(outcomes[0])[:60]}")
        assert outcomes[0] == outcomes[1], f"{name}: {outcomes}; before it:\n" + "\n".join(self.log[-25:])

    # MARK: choosing

    def folders(self):
        found = [""]
        for base, folders, _ in os.walk(self.roots[0]):
            found += [os.path.relpath(os.path.join(base, name), self.roots[0]) for name in sorted(folders)]
        return [name for name in found if not os.path.islink(os.path.join(self.roots[0], name))]

    def files(self):
        found = []
        for base, _, files in os.walk(self.roots[0]):
            found += [os.path.relpath(os.path.join(base, name), self.roots[0]) for name in sorted(files)]
        return sorted(name for name in found if not os.path.islink(os.path.join(self.roots[0], name)))

    def new_name(self):
        folder = self.random.choice(self.folders())
        return os.path.join(folder, self.random.choice("abcdefgh") + self.random.choice(["", "1", ".txt"]))

    def old_name(self):
        files = self.files()
        return self.random.choice(files) if files else self.new_name()

    def data(self):
        return self.random.randbytes(self.random.choice([0, 1, 100, 5_000, 70_000, 400_000]))

    # MARK: operations

    def write(self):
        name, data = self.random.choice([self.new_name, self.old_name])(), self.data()
        synced = self.random.random() < 0.1

        def action(root):
            with open(os.path.join(root, name), "wb") as file:
                file.write(data)
                if synced:
                    file.flush()
                    os.fsync(file.fileno())

        self.both(f"write {name} {len(data)}", action)

    def patch(self):
        name, data, offset = self.old_name(), self.data()[:3_000], self.random.randrange(100_000)

        def action(root):
            with open(os.path.join(root, name), "r+b") as file:
                file.seek(offset)
                file.write(data)

        self.both(f"patch {name} {len(data)} at {offset}", action)

    def append(self):
        name, data = self.old_name(), self.data()[:3_000]

        def action(root):
            with open(os.path.join(root, name), "ab") as file:
                file.write(data)

        self.both(f"append {name} {len(data)}", action)

    def truncate(self):
        name, size = self.old_name(), self.random.choice([0, 10, 50_000, 200_000])
        path = os.path.join(self.roots[0], name)
        # Whether a truncation to the same size counts as a change differs between file systems.
        if os.path.exists(path) and os.path.getsize(path) == size:
            return
        self.both(f"truncate {name} {size}", lambda root: os.truncate(os.path.join(root, name), size))

    def unlink(self):
        name = self.old_name()
        self.both(f"unlink {name}", lambda root: os.unlink(os.path.join(root, name)))

    def make_folder(self):
        name = self.new_name()
        self.both(f"mkdir {name}", lambda root: os.mkdir(os.path.join(root, name)))

    def remove_folder(self):
        name = self.random.choice(self.folders())
        if name:
            self.both(f"rmdir {name}", lambda root: os.rmdir(os.path.join(root, name)))

    def rename(self):
        old, new = self.old_name(), self.random.choice([self.new_name, self.old_name])()
        self.both(f"rename {old} {new}", lambda root: os.rename(os.path.join(root, old), os.path.join(root, new)))

    def rename_folder(self):
        old, new = self.random.choice(self.folders()), self.new_name()
        if old:
            self.both(f"mv {old}/ {new}", lambda root: os.rename(os.path.join(root, old), os.path.join(root, new)))

    def link(self):
        name, target = self.new_name(), self.random.choice(["a", "../b", "nowhere/at all", "."])
        self.both(f"symlink {name}", lambda root: os.symlink(target, os.path.join(root, name)))

    def attributes(self):
        name, mode, time = self.old_name(), self.random.choice([0o600, 0o644, 0o755]), self.random.randrange(10**9)
        self.both(f"chmod {name} {mode:o}", lambda root: os.chmod(os.path.join(root, name), mode))
        self.both(f"utime {name}", lambda root: os.utime(os.path.join(root, name), (time, time)))

    def read(self):
        name = self.old_name()

        def action(root):
            with open(os.path.join(root, name), "rb") as file:
                return file.read()

        self.both(f"read {name}", action)

    def listing(self):
        name = self.random.choice(self.folders())
        self.both(f"list {name}", lambda root: sorted(os.listdir(os.path.join(root, name))))

    def step(self):
        weights = {
            self.write: 12, self.patch: 6, self.append: 5, self.truncate: 4, self.unlink: 6, self.make_folder: 5,
            self.remove_folder: 3, self.rename: 9, self.rename_folder: 3, self.link: 2, self.attributes: 3,
            self.read: 5, self.listing: 3,
        }
        self.random.choices(list(weights), list(weights.values()))[0]()


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
    dict(action="delay", ms=300),
]


def expected_keys(local):
    """The objects that a tree is: files and links as they are, folders as markers."""
    keys = set()
    for base, folders, files in os.walk(local):
        for name in folders + files:
            path = os.path.join(base, name)
            key = os.path.relpath(path, local)
            keys.add(key + "/" if os.path.isdir(path) and not os.path.islink(path) else key)
    return keys


def same(one, other):
    """Whether two entries are equal, but for what passed between the two sides of one operation."""
    if one is None or other is None or one[0] != "file" or other[0] != "file":
        return one == other
    return one[:-1] == other[:-1] and abs(one[-1] - other[-1]) <= 5


def story(twin, wrong, what):
    """What was done to the wrong names and to the folders above them, and the end of everything."""
    names = {"/".join(name.split("/")[:depth]) for name in wrong for depth in range(1, name.count("/") + 2)}
    words = [f" {name} " for name in names] + [f" {name}/ " for name in names]
    about = [f"{number}: {line}" for number, line in enumerate(twin.log) if any(word in line + " " for word in words)]
    return f"{what}\n" + "\n".join(about[-60:] + ["...", *twin.log[-20:]])


def compare(twin, instance, mount, client):
    instance.flush()
    local = fingerprint(twin.roots[0], attributes=True)
    found = fingerprint(mount.path, attributes=True)
    wrong = sorted(name for name in set(local) | set(found) if not same(local.get(name), found.get(name)))
    assert wrong == [], story(twin, wrong, [(name, local.get(name), found.get(name)) for name in wrong])
    remote = all_keys(client, "bucket")
    # A kill may leave one of the scratch objects that show what the server can do; the mount hides them.
    remote = {key: size for key, size in remote.items() if not key.startswith(".moorage-probe")}
    assert {key for key in remote if not key.endswith("/")} == {
        key for key in expected_keys(twin.roots[0]) if not key.endswith("/")
    }, story(twin, [], "the keys differ")
    for key, size in remote.items():
        path = os.path.join(twin.roots[0], key)
        if not key.endswith("/") and not os.path.islink(path):
            with open(path, "rb") as file:
                assert client.get_object(Bucket="bucket", Key=key)["Body"].read() == file.read(), story(twin, [key], "content differs")
    assert instance.conflicts() == 0, story(twin, [], "conflicts")
    assert client.list_multipart_uploads(Bucket="bucket").get("Uploads", []) == []


def kill(twin, instance, mount, proxy, generator):
    """SIGKILL to the flusher or the mount while something is on its way; returns the mount."""
    held = proxy.rule("hold", method="PUT", times="all")
    for _ in range(20):
        twin.write()
        if instance.pending_files() > 0:
            break
    else:
        raise AssertionError("nothing was dirty at the kill")
    if generator.random() < 0.5:
        wait_until(instance.flusher_pid, 30, "a flusher, which the mount has to start")
        instance.kill_flusher()
        held.remove()
        return mount
    mount.kill()
    held.remove()
    return mount.mount_again()


@pytest.mark.limit(240)
@pytest.mark.parametrize("trouble", ["none", "faults", "kills"])
def test_random_operations_give_the_same_tree(instance, proxy, client, local, seed, trouble):
    generator = random.Random(seed)
    instance.configure(quiet_period="0s", metadata_age="1s")
    mount = instance.mount("s3://bucket")
    twin = Twin(mount.path, local, seed + 1)
    for number in range(scaled(400)):
        twin.step()
        if trouble != "none" and generator.random() < 0.1:
            proxy.rule(**generator.choice(FAULTS))
        if trouble == "kills" and (generator.random() < 0.02 or number % 100 == 50):
            mount = kill(twin, instance, mount, proxy, generator)
        if number % 100 == 99:
            proxy.clear()
            compare(twin, instance, mount, client)
    mount.unmount()
    instance.drop_cache()
    mount = mount.mount_again()
    compare(twin, instance, mount, client)
