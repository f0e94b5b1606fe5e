# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""However a mount ends, its process ends and what was closed is kept."""

import json
import os
import signal
import subprocess
import threading

import pytest

from harness.mounts import is_mounted
from harness.processes import is_alive, wait_until
from harness.trees import random_bytes, write_file

MIB = 1 << 20


@pytest.fixture
def keeper(mount):
    """A process in a mount namespace of its own, made while the bucket is mounted, so with a copy of the mount."""
    # A copy of other tests' disks would keep those in use.
    drop_others = 'findmnt -rno TARGET | grep /moorage-e2e- | grep -vF "$0" | tac | xargs -r umount --lazy; exec sleep 120'
    process = subprocess.Popen(["unshare", "--mount", "sh", "-c", drop_others, mount.path])
    table = f"/proc/{process.pid}/mountinfo"

    def has_own_copy():
        same = os.readlink("/proc/self/ns/mnt") == os.readlink(f"/proc/{process.pid}/ns/mnt")
        with open(table, encoding="utf-8") as lines:
            return not same and any(f" {mount.path} " in line for line in lines)

    wait_until(has_own_copy, what="the namespace with a copy of the mount")
    yield process
    process.kill()
    process.wait()


@pytest.mark.skipif(os.geteuid() != 0, reason="making a mount namespace needs root")
@pytest.mark.parametrize("command", ["moorage", "umount"])
def test_a_copy_of_the_mount_elsewhere_keeps_no_process(instance, mount, keeper, command):
    write_file(mount / "file", b"kept")
    pid = mount.pid
    if command == "moorage":
        mount.unmount()
    else:
        subprocess.run(["umount", mount.path], check=True, timeout=30)
    wait_until(lambda: not is_alive(pid), timeout=30, what="the end of the mount's process")
    mount.mount_again()
    with open(mount / "file", "rb") as file:
        assert file.read() == b"kept"
    assert keeper.poll() is None, "the copy was there all the time"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_unmounts(instance, mount, number):
    write_file(mount / "file", b"kept")
    pid = mount.pid
    os.kill(pid, number)
    wait_until(lambda: not is_alive(pid), timeout=30, what="the end of the mount's process")
    assert not is_mounted(mount.path)
    instance.flush()
    assert instance.pending_files() == 0


def test_a_signal_unmounts_although_a_file_is_open(instance, mount):
    pid = mount.pid
    file = os.open(mount / "open", os.O_WRONLY | os.O_CREAT)
    os.write(file, b"written")
    os.fsync(file)
    os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not is_alive(pid), timeout=30, what="the end of the mount's process")
    with pytest.raises(OSError):
        os.close(file)
    wait_until(lambda: not is_mounted(mount.path), what="the end of the mount")
    mount.mount_again()
    with open(mount / "open", "rb") as file:
        assert file.read() == b"written"


@pytest.mark.skipif(os.geteuid() != 0, reason="umount(8) of a mount of one's own needs root here")
def test_a_volume_is_mounted_while_the_mount_before_still_ends(instance, mount):
    """umount(8) returns before the process that served the mount has ended."""
    write_file(mount / "file", b"kept")
    pid = mount.pid
    os.kill(pid, signal.SIGSTOP)
    subprocess.run(["umount", "--lazy", "--no-canonicalize", mount.path], check=True, timeout=30)
    assert not is_mounted(mount.path)
    threading.Timer(1, lambda: os.kill(pid, signal.SIGCONT)).start()
    mount.mount_again()
    # It lets go of its lock before it ends.
    wait_until(lambda: not is_alive(pid), 20, "the end of the mount's process")
    with open(mount / "file", "rb") as file:
        assert file.read() == b"kept"


def test_what_is_in_use_for_an_instant_is_unmounted(instance, mount):
    """As by df(1), or whatever else walks through all mounts."""
    user = subprocess.Popen(["sleep", "0.3"], cwd=mount.path)
    result = instance.run("unmount", mount.path, check=False)
    assert result.returncode == 0 and result.stderr == "", result
    assert user.wait() == 0


@pytest.mark.parametrize("size", [MIB // 4, 12 * MIB], ids=["small", "large"])
def test_a_pin_that_gets_no_bytes_keeps_no_unmount_waiting(make_instance, proxy, client, seed, size):
    """Nothing but its being given up ends the request: the proxy holds it, and the mount would wait for an hour."""
    client.put_object(Bucket="bucket", Key="file", Body=random_bytes(seed, size))
    instance = make_instance(proxy.url)
    instance.configure(stall_timeout="1h", cache_free="0")
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == ["file"]
    rule = proxy.rule("stall", times="all", method="GET", path="/file", direction="response", after=10_000)
    instance.run("pin", mount / "file")
    rule.wait()
    mount.unmount()
    rule.release()
    with open(os.path.join(instance.directory("run"), mount_log(instance)), encoding="utf-8") as log:
        assert "still being fetched" not in log.read()
    # It goes on with the next mount.
    rule.remove()
    mount.mount_again()
    wait_until(lambda: whole_pin(instance, size), 40, "the pinned file")


def mount_log(instance):
    (name,) = [name for name in os.listdir(instance.directory("run")) if name.startswith("mount-") and name.endswith(".log")]
    return name


def whole_pin(instance, size):
    (pin,) = json.loads(instance.run("pins", "--json").stdout)["pins"]
    return pin["bytes_present"] == size and pin["problem"] is None
