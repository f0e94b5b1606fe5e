# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Wrong use: one clear line, the right exit status, nothing lost."""

import errno
import glob
import os
import shutil
import stat

import pytest

from harness.disks import SmallDisk, needs_root
from harness.mounts import is_mounted
from harness.processes import kill, run, wait_until
from harness.trees import random_bytes, write_file

MIB = 1 << 20
MOUNT_FAILED = 1
USAGE = 2


def refused(instance, *arguments, status, words=(), env=None):
    """Runs a command that must fail with one line that begins with the program's name and has all `words`."""
    result = instance.run(*arguments, check=False, env=env, timeout=60)
    assert result.returncode == status, (result.returncode, result.stderr)
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("moorage: "), result.stderr
    for word in words:
        assert word.lower() in lines[0].lower(), lines[0]
    return lines[0]


@pytest.fixture
def point(instance):
    path = instance.directory("mnt/point")
    os.makedirs(path)
    return path


def options(instance, *more):
    return ["-o", ",".join([f"endpoint={instance.endpoint}", *more])]


def test_unknown_bucket(instance, point):
    words = ["no-such-bucket", "create the bucket"]
    refused(instance, "mount", "s3://no-such-bucket", point, *options(instance), status=MOUNT_FAILED, words=words)
    assert not is_mounted(point)


@pytest.mark.parametrize("name", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
def test_bad_credentials(instance, point, name):
    wrong = {name: "WRONGWRONGWRONG0001"}
    line = refused(instance, "mount", "s3://bucket", point, *options(instance), status=MOUNT_FAILED, env=wrong)
    assert "WRONGWRONG" not in line or name == "AWS_ACCESS_KEY_ID", "a secret in a message"
    assert "; check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in line
    code = "InvalidAccessKeyId" if name == "AWS_ACCESS_KEY_ID" else "SignatureDoesNotMatch"
    assert line.count(code) == 1, line


def test_a_mount_that_is_refused_leaves_a_known_volume_its_settings(instance, point):
    """By them its uploads go on."""
    instance.mount("s3://bucket").unmount()
    known, = glob.glob(os.path.join(glob.escape(instance.directory("state")), "volumes", "*", "volume.json"))
    with open(known) as file:
        before = file.read()
    wrong = {"AWS_SECRET_ACCESS_KEY": "WRONGWRONGWRONG0001"}
    arguments = ["mount", "s3://bucket", point, *options(instance, "part_size=7M")]
    refused(instance, *arguments, status=MOUNT_FAILED, env=wrong)
    with open(known) as file:
        assert file.read() == before
    instance.run(*arguments)
    instance.run("unmount", point)
    with open(known) as file:
        assert file.read() != before


def test_no_credentials(instance, point):
    del instance.environment["AWS_ACCESS_KEY_ID"], instance.environment["AWS_SECRET_ACCESS_KEY"]
    instance.environment["AWS_EC2_METADATA_DISABLED"] = "true"
    refused(instance, "mount", "s3://bucket", point, *options(instance), status=MOUNT_FAILED, words=["credentials"])


def test_unreachable_endpoint(instance, point, proxy):
    proxy.offline()
    line = refused(instance, "mount", "s3://bucket", point, *options(instance), status=MOUNT_FAILED)
    assert proxy.address in line or "connect" in line.lower()
    assert line.endswith("; the first mount of a volume needs its server")
    assert not is_mounted(point)


def test_missing_mountpoint(instance):
    path = instance.directory("mnt/missing")
    refused(instance, "mount", "s3://bucket", path, *options(instance), status=MOUNT_FAILED, words=[path])


def test_mountpoint_that_is_a_file(instance):
    path = instance.directory("mnt/file")
    write_file(path, b"")
    refused(instance, "mount", "s3://bucket", path, *options(instance), status=MOUNT_FAILED, words=[path])


def test_mountpoint_that_is_not_empty(instance, point):
    write_file(os.path.join(point, "precious"), b"here before")
    refused(instance, "mount", "s3://bucket", point, *options(instance), status=MOUNT_FAILED, words=[point, "empty"])
    assert os.listdir(point) == ["precious"]


def test_busy_mountpoint(instance, mount, server):
    server.make_bucket("second")
    refused(instance, "mount", "s3://second", mount.path, *options(instance), status=MOUNT_FAILED, words=[mount.path])
    write_file(mount / "still", b"works")
    assert open(mount / "still", "rb").read() == b"works"


def test_second_mount_of_a_volume(instance, mount, point):
    refused(instance, "mount", "s3://bucket", point, *options(instance), status=MOUNT_FAILED, words=[mount.path])
    assert not is_mounted(point)
    write_file(mount / "still", b"works")
    instance.flush()


@pytest.mark.parametrize(
    "arguments",
    [
        ["frobnicate"],
        ["mount"],
        ["mount", "s3://bucket"],
        ["mount", "s3://bucket", "/mnt", "--no-such-flag"],
        ["status", "--no-such-flag"],
        ["uploads", "explode"],
        ["flush", "--timeout", "soon"],
        ["serve"],
    ],
)
def test_wrong_words(instance, arguments):
    refused(instance, *arguments, status=USAGE)


@pytest.mark.parametrize("option", ["no_such_option=1", "cache_size=lots", "upload_protocol=carrier-pigeon", "block_size=3M"])
def test_wrong_options(instance, point, option):
    name = option.split("=")[0]
    refused(instance, "mount", "s3://bucket", point, *options(instance, option), status=USAGE, words=[name])
    assert not is_mounted(point)


def test_wrong_configuration_file_names_file_and_line(instance, point):
    instance.configure(no_such_key="1")
    path = instance.environment["MOORAGE_CONFIG"]
    line = open(path).read().splitlines().index("no_such_key = 1") + 1
    words = [f"{path}:{line}", "no_such_key"]
    refused(instance, "mount", "s3://bucket", point, *options(instance), status=1, words=words)
    assert not is_mounted(point)


def test_wrong_remotes(instance, point):
    for remote in ("bucket", "s3://", "ftp://host/", "s3:bucket"):
        refused(instance, "mount", remote, point, *options(instance), status=USAGE, words=[remote])
    assert not is_mounted(point)


def test_the_mount_helper_has_the_statuses_of_mount(instance, folder, point):
    """mount(8) wants 32 for a mount that failed and 1 for wrong words."""
    helper = os.path.join(folder, "mount.moorage")
    os.symlink(instance.binary, helper)

    def status(*words):
        result = run([helper, *words], check=False, env=instance.environment)
        lines = result.stderr.strip().splitlines()
        assert len(lines) <= 1, result.stderr
        assert (result.returncode == 0) == (not lines), result.stderr
        return result.returncode

    given = options(instance)[1]
    assert status("s3://no-such-bucket", point, "-o", given) == 32
    assert status("s3://bucket", point + "/missing", "-o", given) == 32
    assert status("s3://bucket", point, "-o", given + ",no_such_option=1") == 1
    assert status("s3://bucket", point, "-o", given + ",rw,_netdev,nofail") == 0
    assert is_mounted(point)
    instance.adopt("s3://bucket", point).unmount()


def test_unmounting_what_is_not_mounted(instance, point):
    refused(instance, "unmount", point, status=1, words=[point])


def test_a_busy_mount_is_not_torn_away(instance, mount, client):
    with open(mount / "open", "w") as file:
        file.write("half")
        result = instance.run("unmount", mount.path, check=False, timeout=30)
        assert result.returncode == 1 and "busy" in result.stderr.lower()
        file.write(" and half")
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="open")["Body"].read() == b"half and half"


def test_unmount_may_wait_and_give_up(instance, mount, proxy, client):
    held = proxy.rule("hold", method="PUT", times="all")
    write_file(mount / "a", b"a")
    result = mount.instance.run("unmount", mount.path, "--wait", "--timeout", "2", check=False, timeout=30)
    assert result.returncode == 1 and result.stderr.strip()
    assert instance.pending_files() == 1
    held.remove()
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"a"


def test_unmount_wait_returns_when_all_is_remote(instance, mount, client):
    write_file(mount / "a", b"a" * MIB)
    mount.unmount("--wait", "--timeout", "60")
    assert not is_mounted(mount.path)
    assert len(client.get_object(Bucket="bucket", Key="a")["Body"].read()) == MIB


def writes(path, data):
    """Whether there is room for a file now."""
    try:
        write_file(path, data)
        return True
    except OSError as problem:
        assert problem.errno == errno.ENOSPC
        return False


@needs_root
@pytest.mark.limit(120)
def test_full_disk_of_the_state(make_instance, proxy, client, folder, stack, seed):
    """A write that finds no room says so; what was acknowledged before arrives; room again, all works again."""
    disk = SmallDisk(os.path.join(folder, "small"), "24m")
    stack.callback(disk.unmount)
    instance = make_instance(proxy.url)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_STATE_DIR"] = os.path.join(disk.path, "state")
    mount = instance.mount("s3://bucket", None, "staging_wait=1s")
    assert os.listdir(mount.path) == []
    proxy.offline()
    write_file(mount / "small", b"acknowledged")
    with pytest.raises(OSError) as problem:
        write_file(mount / "huge", random_bytes(seed, 64 * MIB), synchronize=True)
    assert problem.value.errno in (errno.ENOSPC, errno.EDQUOT)
    assert open(mount / "small", "rb").read() == b"acknowledged"
    if os.path.exists(mount / "huge"):
        os.unlink(mount / "huge")
    proxy.online()
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="small")["Body"].read() == b"acknowledged"
    wait_until(lambda: writes(mount / "later", random_bytes(seed, 4 * MIB)), 20, "the room of the removed file")
    instance.flush()
    assert client.head_object(Bucket="bucket", Key="later")["ContentLength"] == 4 * MIB
    assert "huge" not in {item["Key"] for item in client.list_objects_v2(Bucket="bucket")["Contents"]}


def fill(disk):
    """Leaves not a byte."""
    path = os.path.join(disk.path, "filler")
    run(["dd", "if=/dev/zero", f"of={path}", "bs=64k"], check=False)
    run(["dd", "if=/dev/zero", f"of={path}2", "bs=512"], check=False)
    return path


def empty(filler):
    os.unlink(filler)
    os.unlink(filler + "2")


@needs_root
@pytest.mark.limit(120)
@pytest.mark.parametrize("known", [False, True])
def test_mounting_with_a_full_disk_of_the_state(make_instance, proxy, client, folder, stack, known):
    """One line, and what was pending before is there when there is room again.

    A recovery empties the journal's log, and may make the room that its mount needs.
    """
    disk = SmallDisk(os.path.join(folder, "small"), "32m")
    stack.callback(disk.unmount)
    instance = make_instance(proxy.url)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_STATE_DIR"] = os.path.join(disk.path, "state")
    point = instance.directory("mnt/point")
    os.makedirs(point)
    if known:
        before = instance.mount("s3://bucket", point)
        assert os.listdir(point) == []
        proxy.offline()
        write_file(before / "pending", b"acknowledged")
        before.unmount()
        assert instance.pending_files() == 1, "nothing was dirty at the kill"
        kill(instance.running_flusher())
        proxy.online()
    filler = fill(disk)
    result = instance.run("mount", "s3://bucket", point, *options(instance), check=False)
    if known and result.returncode == 0:
        assert open(os.path.join(point, "pending"), "rb").read() == b"acknowledged"
        instance.run("unmount", point)
    else:
        assert result.returncode == 1 and not is_mounted(point), (result.returncode, result.stderr)
        lines = result.stderr.strip().splitlines()
        assert len(lines) == 1 and lines[0].startswith("moorage: mount: "), result.stderr
        assert disk.path in lines[0] and ("No space left" in lines[0] or "disk is full" in lines[0]), lines[0]
    empty(filler)
    mount = instance.mount("s3://bucket", point)
    if known:
        assert open(mount / "pending", "rb").read() == b"acknowledged"
    write_file(mount / "new", b"new")
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="new")["Body"].read() == b"new"
    if known:
        assert client.get_object(Bucket="bucket", Key="pending")["Body"].read() == b"acknowledged"


@needs_root
@pytest.mark.limit(120)
def test_mounting_with_a_full_disk_of_the_cache(make_instance, proxy, client, folder, stack, seed):
    """The cache is not needed: all works, only slower."""
    disk = SmallDisk(os.path.join(folder, "small"), "4m")
    stack.callback(disk.unmount)
    data = random_bytes(seed, 3 * MIB)
    client.put_object(Bucket="bucket", Key="folder/big", Body=data)
    instance = make_instance(proxy.url)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_CACHE_DIR"] = os.path.join(disk.path, "cache")
    fill(disk)
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount / "folder") == ["big"]
    assert open(mount / "folder/big", "rb").read() == data
    write_file(mount / "folder/new", data[::-1])
    instance.flush()
    assert open(mount / "folder/new", "rb").read() == data[::-1]
    assert client.get_object(Bucket="bucket", Key="folder/new")["Body"].read() == data[::-1]
    mount.unmount()


@needs_root
@pytest.mark.limit(120)
def test_full_disk_of_the_cache(make_instance, proxy, client, folder, stack, seed):
    """Reads go past a cache that is full."""
    disk = SmallDisk(os.path.join(folder, "small"), "12m")
    stack.callback(disk.unmount)
    data = random_bytes(seed, 32 * MIB)
    client.put_object(Bucket="bucket", Key="big", Body=data)
    instance = make_instance(proxy.url)
    stack.callback(instance.abandon)
    instance.environment["MOORAGE_CACHE_DIR"] = os.path.join(disk.path, "cache")
    instance.configure(cache_free="0")
    mount = instance.mount("s3://bucket")
    filler = os.path.join(disk.path, "filler")
    run(["dd", "if=/dev/zero", f"of={filler}", "bs=1M"], check=False)
    assert open(mount / "big", "rb").read() == data
    write_file(mount / "new", data[: 5 * MIB])
    instance.flush()
    assert client.head_object(Bucket="bucket", Key="new")["ContentLength"] == 5 * MIB
    os.unlink(filler)
    assert open(mount / "big", "rb").read() == data


@pytest.mark.limit(90)
def test_a_deleted_cache_loses_nothing(instance, mount, client, seed):
    data = random_bytes(seed, 3 * MIB)
    client.put_object(Bucket="bucket", Key="a", Body=data)
    wait_until(lambda: os.path.exists(mount / "a"), 20, "the file to show up")
    assert open(mount / "a", "rb").read() == data
    for name in os.listdir(instance.directory("cache")):
        shutil.rmtree(os.path.join(instance.directory("cache"), name), ignore_errors=True)
    write_file(mount / "b", b"after")
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="b")["Body"].read() == b"after"
    mount.unmount()
    again = mount.mount_again()
    assert open(again / "a", "rb").read() == data


def test_nothing_of_the_state_is_open_to_others(instance, mount):
    """Staging, journal, cache and runtime folders are the user's own; secrets are nowhere on disk."""
    write_file(mount / "a", b"a")
    instance.flush()
    for part in ("state", "cache", "run"):
        for base, folders, files in os.walk(instance.directory(part)):
            for name in folders + files:
                mode = os.lstat(os.path.join(base, name)).st_mode & 0o077
                assert mode == 0, os.path.join(base, name)
            for name in files:
                if stat.S_ISSOCK(os.lstat(os.path.join(base, name)).st_mode):
                    continue
                with open(os.path.join(base, name), "rb") as file:
                    assert instance.environment["AWS_SECRET_ACCESS_KEY"].encode() not in file.read()
