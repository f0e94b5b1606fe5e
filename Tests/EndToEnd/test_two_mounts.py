# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Two mounts on two state folders change one bucket: each row of the table in Docs/Semantics.md, *Two mounts*.

`one` sends first what it did, `two` did its part without seeing that, and sends it then.
"""

import contextlib
import itertools
import os
import shutil
import stat
import tempfile
import threading

import pytest

from harness.bucket import BucketServer, s3_client
from harness.instance import Instance
from harness.processes import wait_until
from harness.proxy import FaultProxy
from harness.settings import PROXY
from harness.trees import write_file

CONFLICT = "f (conflict)"


class Side:
    """One of the two: a mount, seen from a folder in it."""

    def __init__(self, mount):
        self.mount = mount
        self.instance = mount.instance
        self.folder = None

    def __truediv__(self, name):
        return os.path.join(self.mount.path, self.folder, name)

    def read(self, name="f"):
        with open(self / name, "rb") as file:
            return file.read()

    def write(self, content, name="f"):
        write_file(self / name, content)

    def send(self):
        assert self.instance.pending_files() > 0, "it is remote already: the test proves nothing"
        self.instance.flush()

    def fails(self, reason):
        """What it did cannot be sent without a person."""
        result = self.instance.run("flush", "--timeout", "20", check=False)
        assert result.returncode == 1 and reason in result.stderr, result

    def uploads(self):
        return {os.path.basename(upload["path"]): upload["state"] for upload in self.instance.uploads()}

    def tree(self):
        """Every name and what is in it; folders without."""
        root, found = self.mount / self.folder, {}
        for base, folders, files in os.walk(root):
            for name in folders:
                found[plain(os.path.relpath(os.path.join(base, name), root))] = None
            for name in files:
                path = os.path.relpath(os.path.join(base, name), root)
                found[plain(path)] = self.read(path)
        return found

    def hold(self, quiet_period):
        """Sets how long a change waits for a flush: the mount tells it when it is made."""
        self.instance.configure(quiet_period=quiet_period)
        self.mount.unmount()
        # One that runs learns of it a moment later.
        self.instance.kill_flusher()
        self.mount.mount_again()
        self.tree()

    def forget(self):
        """What it read is cached no more; it has only looked at the file."""
        self.mount.unmount()
        self.instance.run("cache", "clear")
        self.mount.mount_again()
        assert os.path.getsize(self / "f") > 0

    def conflicts(self):
        return self.instance.conflicts()


class Pair:
    """Both sides, and the bucket between them."""

    def __init__(self, binary, folder, stack):
        self.server = BucketServer(binary, os.path.join(folder, "served"))
        stack.callback(self.server.stop)
        self.server.make_bucket("bucket")
        self.proxy = FaultProxy(PROXY, self.server.address, folder)
        stack.callback(self.proxy.stop)
        self.client = s3_client(self.server.url)
        self.sides = []
        for name, url in (("one", self.server.url), ("two", self.proxy.url)):
            instance = Instance(binary, folder, url, name)
            stack.callback(instance.abandon)
            instance.configure(quiet_period="10m")
            self.sides.append(Side(instance.mount("s3://bucket", None, "metadata_age=0s", "kernel_age=0s")))
        self.numbers = itertools.count()

    def begin(self, **files):
        """A new folder with these files, which both have looked at."""
        self.folder = f"case{next(self.numbers)}"
        self.client.put_object(Bucket="bucket", Key=f"{self.folder}/", Body=b"")
        for name, content in files.items():
            self.client.put_object(Bucket="bucket", Key=f"{self.folder}/{name.replace('__', '/')}", Body=content)
        for side in self.sides:
            side.folder = self.folder
            assert side.tree() == {plain(name.replace("__", "/")): content for name, content in files.items()} | {
                name.split("__")[0]: None for name in files if "__" in name
            }
        self.before = [side.conflicts() for side in self.sides]
        return self.sides

    def objects(self):
        prefix = self.folder + "/"
        listed = self.client.list_objects_v2(Bucket="bucket", Prefix=prefix).get("Contents", [])
        keys = [entry["Key"] for entry in listed if entry["Key"] != prefix]
        return {plain(key.removeprefix(prefix)): self.client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in keys}

    def ends(self, conflicts=0, **tree):
        """The remote and both mounts have just this now, and `two` as many more conflicts."""
        expected = {name.replace("__", "/").replace("CONFLICT", CONFLICT): content for name, content in tree.items()}
        files = {name: content for name, content in expected.items() if content is not None}
        found = {name: content for name, content in self.objects().items() if not name.endswith("/")}
        assert found == files
        for side in self.sides:
            wait_until(lambda: side.tree() == expected, 10, lambda: f"{side.instance.folder}: {side.tree()}")
            assert side.instance.pending_files() == 0, side.instance.uploads()
        assert [side.conflicts() - before for side, before in zip(self.sides, self.before)] == [0, conflicts]


def plain(name):
    """Without the time and the host in the name of a conflict copy."""
    head, mark, _ = name.partition(" (conflict ")
    return f"{head} (conflict)" if mark else name


@pytest.fixture(scope="module")
def pair(binary):
    folder = tempfile.mkdtemp(prefix="moorage-pair-")
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        made = Pair(binary, folder, stack)
        watchdog = threading.Timer(400, lambda: [side.instance.abandon() for side in made.sides])
        watchdog.daemon = True
        watchdog.start()
        stack.callback(watchdog.cancel)
        yield made
        for side in made.sides:
            assert side.instance.overlooked() == []


def test_a_file_edited_on_both(pair):
    one, two = pair.begin(f=b"base")
    one.write(b"one")
    two.write(b"two")
    one.send()
    two.send()
    pair.ends(f=b"one", CONFLICT=b"two", conflicts=1)


def test_a_file_edited_on_both_while_one_is_away(pair):
    one, two = pair.begin(f=b"base")
    two.hold("0s")
    try:
        pair.proxy.offline()
        two.write(b"two")
        one.write(b"one")
        one.send()
        assert two.read() == b"two"
        pair.proxy.online()
        # Without a command.
        wait_until(lambda: two.instance.pending_files() == 0, 60, "the upload of what was written meanwhile")
    finally:
        pair.proxy.online()
        two.hold("10m")
    pair.ends(f=b"one", CONFLICT=b"two", conflicts=1)


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_part_of_a_file_edited_that_the_other_replaced(pair, is_cached):
    base = bytes(200_000)
    one, two = pair.begin(f=base)
    if not is_cached:
        two.forget()
    one.write(b"one")
    with open(two / "f", "r+b") as file:
        file.seek(100_000)
        file.write(b"two")
    one.send()
    if is_cached:
        two.send()
        return pair.ends(f=b"one", CONFLICT=base[:100_000] + b"two" + base[100_003:], conflicts=1)
    two.fails("changed or went away at the remote, and is not cached")
    assert pair.objects() == {"f": b"one"}
    assert two.uploads() == {"f": "attention"}
    two.instance.run("uploads", "cancel", two / "f")
    pair.ends(f=b"one")


def test_the_same_content_created_on_both(pair):
    one, two = pair.begin()
    one.write(b"same")
    two.write(b"same")
    one.send()
    two.send()
    pair.ends(f=b"same")


def test_a_file_created_on_both(pair):
    one, two = pair.begin()
    one.write(b"one")
    two.write(b"two")
    one.send()
    two.send()
    pair.ends(f=b"one", CONFLICT=b"two", conflicts=1)


def test_a_folder_made_on_both(pair):
    one, two = pair.begin()
    for side in (one, two):
        os.mkdir(side / "d")
        side.write(side.instance.folder[-3:].encode(), "d/" + side.instance.folder[-3:])
    one.send()
    two.send()
    pair.ends(d=None, d__one=b"one", d__two=b"two")


@pytest.mark.parametrize("first", ["removal", "file"])
def test_a_folder_removed_while_the_other_writes_into_it(pair, first):
    one, two = pair.begin(d__old=b"old") if first == "removal" else reversed(pair.begin(d__old=b"old"))
    os.unlink(one / "d/old")
    os.rmdir(one / "d")
    two.write(b"new", "d/new")
    for side in (one, two) if first == "removal" else (two, one):
        side.send()
    pair.ends(d=None, d__new=b"new")


@pytest.mark.parametrize("first", ["rename", "file"])
def test_a_folder_renamed_while_the_other_writes_into_it(pair, first):
    one, two = pair.begin(d__old=b"old") if first == "rename" else reversed(pair.begin(d__old=b"old"))
    os.rename(one / "d", one / "e")
    two.write(b"new", "d/new")
    for side in (one, two) if first == "rename" else (two, one):
        side.send()
    pair.ends(d=None, d__new=b"new", e=None, e__old=b"old")


def test_a_file_and_a_folder_by_the_same_name(pair):
    one, two = pair.begin()
    one.write(b"one", "x")
    os.mkdir(two / "x")
    two.write(b"two", "x/y")
    one.send()
    # Of servers that hold both, as Amazon's does, the mounts show the folder.
    two.fails("is an object")
    assert pair.objects() == {"x": b"one"} and two.uploads() == {"x": "attention", "y": "attention"}
    two.instance.run("uploads", "cancel", two / "x")
    pair.ends(x=b"one")


def test_a_file_renamed_then_edited(pair):
    one, two = pair.begin(f=b"base")
    os.rename(one / "f", one / "g")
    two.write(b"two")
    one.send()
    two.send()
    pair.ends(f=b"two", g=b"base")


def test_a_file_edited_then_renamed(pair):
    one, two = pair.begin(f=b"base")
    one.write(b"one")
    os.rename(two / "f", two / "g")
    one.send()
    two.send()
    pair.ends(f=b"one", g=b"one")


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_file_renamed_on_both(pair, is_cached):
    one, two = pair.begin(f=b"base")
    if not is_cached:
        two.forget()
    os.rename(one / "f", one / "g")
    os.rename(two / "f", two / "h")
    one.send()
    if is_cached:
        two.send()
        return pair.ends(g=b"base", h=b"base")
    two.fails("changed or went away at the remote, and is not cached")
    assert pair.objects() == {"g": b"base"}
    assert set(os.listdir(two / "")) == {"g", "h"}
    assert two.uploads() == {"h": "attention", "f": "waiting"}
    two.instance.run("uploads", "cancel", two / "h")
    pair.ends(g=b"base")


def test_a_file_renamed_over_one_that_was_edited(pair):
    one, two = pair.begin(f=b"base", other=b"other")
    one.write(b"one")
    os.rename(two / "other", two / "f")
    one.send()
    two.send()
    pair.ends(f=b"one", CONFLICT=b"other", conflicts=1)


def test_a_file_deleted_then_edited(pair):
    one, two = pair.begin(f=b"base")
    os.unlink(one / "f")
    two.write(b"two")
    one.send()
    two.send()
    pair.ends(f=b"two")


def test_a_file_edited_then_deleted(pair):
    one, two = pair.begin(f=b"base")
    one.write(b"one")
    os.unlink(two / "f")
    one.send()
    two.send()
    pair.ends(f=b"one")


def test_a_file_deleted_on_both(pair):
    one, two = pair.begin(f=b"base")
    for side in (one, two):
        os.unlink(side / "f")
    one.send()
    two.send()
    pair.ends()


def mode(side, name="f"):
    return stat.S_IMODE(os.stat(side / name).st_mode)


def test_a_file_edited_then_given_a_mode(pair):
    one, two = pair.begin(f=b"base")
    one.write(b"one")
    os.chmod(two / "f", 0o600)
    one.send()
    two.send()
    pair.ends(f=b"one")
    assert mode(one) == mode(two) == 0o600


def test_a_file_given_a_mode_then_edited(pair):
    one, two = pair.begin(f=b"base")
    before = mode(two)
    assert before != 0o600
    os.chmod(one / "f", 0o600)
    two.write(b"two")
    one.send()
    two.send()
    pair.ends(f=b"two")
    assert mode(one) == mode(two) == before


def test_attributes_set_on_both(pair):
    one, two = pair.begin(f=b"base")
    os.setxattr(one / "f", "user.one", b"1")
    os.chmod(one / "f", 0o640)
    os.setxattr(two / "f", "user.two", b"2")
    one.send()
    two.send()
    pair.ends(f=b"base")
    for side in (one, two):
        assert os.listxattr(side / "f") == ["user.two"] and mode(side) == 0o644


def test_a_file_open_on_one_and_replaced_on_the_other(pair):
    one, two = pair.begin(f=b"base")
    with open(two / "f", "rb") as file:
        assert file.read(2) == b"ba"
        one.write(b"other")
        one.send()
        # Who has it open goes on with what it began.
        assert file.read() == b"se"
    pair.ends(f=b"other")


# MARK: files with several names on one of them

@pytest.fixture
def linked(pair):
    """`f` and `g` are one file of `two`; of `one` they are two of the same content."""
    one, two = pair.begin(f=b"base")
    os.link(two / "f", two / "g")
    two.send()
    assert one.tree() == {"f": b"base", "g": b"base"} and os.stat(one / "f").st_nlink == 1
    return one, two


def test_a_file_edited_then_given_a_name(pair):
    one, two = pair.begin(f=b"base")
    one.write(b"one")
    os.link(two / "f", two / "g")
    one.send()
    two.send()
    pair.ends(f=b"one", g=b"one")


def test_a_file_given_a_mode_then_a_name(pair):
    one, two = pair.begin(f=b"base")
    os.chmod(one / "f", 0o600)
    os.link(two / "f", two / "g")
    one.send()
    two.send()
    pair.ends(f=b"base", g=b"base")
    assert mode(two, "f") == mode(two, "g") == mode(one, "f") == 0o600 and mode(one, "g") == 0o644
    two.write(b"two")
    two.send()
    pair.ends(f=b"two", g=b"two")
    assert mode(one, "g") == 0o600


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_file_deleted_then_given_a_name(pair, is_cached):
    one, two = pair.begin(f=b"base")
    if not is_cached:
        two.forget()
    os.unlink(one / "f")
    os.link(two / "f", two / "g")
    one.send()
    if is_cached:
        two.send()
        return pair.ends(g=b"base")
    two.fails("changed or went away at the remote, and is not cached")
    two.instance.run("uploads", "cancel", two / "g")
    pair.ends()


def test_the_first_name_edited_on_both(pair, linked):
    one, two = linked
    one.write(b"one")
    two.write(b"two", "g")
    one.send()
    two.send()
    pair.ends(f=b"one", CONFLICT=b"two", g=b"two", conflicts=1)


def test_another_name_edited_on_both(pair, linked):
    one, two = linked
    one.write(b"one", "g")
    two.write(b"two")
    one.send()
    two.send()
    pair.ends(f=b"two", g=b"one")


@pytest.mark.parametrize("name", ["f", "g"])
def test_a_name_deleted_then_edited(pair, linked, name):
    one, two = linked
    os.unlink(one / name)
    two.write(b"two", name)
    one.send()
    two.send()
    pair.ends(f=b"two", g=b"two")


def test_the_first_name_renamed_then_edited(pair, linked):
    one, two = linked
    os.rename(one / "f", one / "h")
    two.write(b"two")
    one.send()
    two.send()
    pair.ends(f=b"two", g=b"two", h=b"base")


@pytest.mark.parametrize("name", ["f", "g"])
def test_a_name_edited_then_deleted(pair, linked, name):
    one, two = linked
    one.write(b"one", name)
    os.unlink(two / name)
    one.send()
    two.send()
    pair.ends(**{"f": b"base", "g": b"base", name: b"one"})


def test_a_name_edited_by_who_does_not_know_of_the_others(pair, linked):
    two, one = linked
    two.write(b"two")
    two.send()
    assert one.read("g") == b"two"
    one.send()
    pair.ends(f=b"two", g=b"two")
