# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Files that a web server sends whole only: given up when nobody wants them, read also where the cache's disk fails."""

import errno
import os
import random
import subprocess
import time

import pytest

from harness.disks import SmallDisk, needs_root
from harness.one_answer import OneAnswerServer
from harness.processes import wait_until
from harness.trees import random_bytes
from test_plain_http_servers import mount_web

MIB = 1 << 20
pytestmark = pytest.mark.limit(150)


@pytest.fixture
def web_instance(make_instance):
    instance = make_instance(None, "web-client")
    # Nothing but being given up ends an answer that gets no further.
    instance.configure(stall_timeout="1h", cache_free="0", metadata_age="1s", kernel_age="0s")
    return instance


@pytest.fixture
def web(seed, folder, stack):
    server = OneAnswerServer({"small": random_bytes(seed, 3 * MIB), "large": random_bytes(seed + 1, 40 * MIB)})
    stack.callback(server.stop)
    return server


@pytest.fixture
def tiny(web_instance, folder, stack):
    """A disk for the cache that takes neither file."""
    disk = SmallDisk(os.path.join(folder, "tiny"), "8m")
    stack.callback(disk.unmount)
    stack.callback(web_instance.abandon)
    web_instance.environment["MOORAGE_CACHE_DIR"] = os.path.join(disk.path, "cache")
    return disk


def fill(disk):
    """Takes all room there is on a disk."""
    with open(os.path.join(disk.path, "filler"), "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(65_536))
        except OSError as problem:
            assert problem.errno == errno.ENOSPC


def warning(instance):
    (volume,) = instance.status()["volumes"]
    return volume["cache"]["warning"] or ""


def direct(path):
    return os.open(path, os.O_RDONLY | os.O_DIRECT)


def test_an_answer_ends_with_the_last_reader(web, web_instance):
    mount = mount_web(web_instance, web.url)
    web.limit = 10 * MIB
    first, second = direct(mount / "large"), direct(mount / "large")
    assert os.pread(first, 4096, 0) == web.files["large"][:4096]
    os.close(first)
    # Longer than an answer goes on that nobody wants.
    time.sleep(2)
    assert os.pread(second, 4096, 4096) == web.files["large"][4096:8192]
    os.close(second)
    web.wait_until_left(1)
    assert web.asked == ["large"]
    # What comes again is compared with what was read.
    web.limit = None
    with open(mount / "large", "rb") as file:
        assert file.read() == web.files["large"]
    assert web.asked == ["large"] * 2


def test_an_answer_ends_with_a_reader_that_is_killed(web, web_instance):
    mount = mount_web(web_instance, web.url)
    web.limit = 5 * MIB
    words = [f"if={mount.path}/large", "of=/dev/null", "bs=1M", "iflag=direct"]
    reader = subprocess.Popen(["dd", *words], stderr=subprocess.DEVNULL)
    wait_until(lambda: web.asked, 30, "the file to be asked for")
    reader.kill()
    reader.wait()
    web.wait_until_left(1)


def test_an_answer_keeps_no_unmount_waiting(web, web_instance):
    mount = mount_web(web_instance, web.url)
    web.limit = MIB
    os.listdir(mount.path)
    web_instance.run("pin", mount / "large")
    wait_until(lambda: web.asked, 30, "the file to be asked for")
    mount.unmount()
    web.wait_until_left(1)
    with open(os.path.join(web_instance.directory("run"), log_of(web_instance)), encoding="utf-8") as log:
        assert "still being fetched" not in log.read()


def log_of(instance):
    (name,) = [name for name in os.listdir(instance.directory("run")) if name.startswith("mount-") and name.endswith(".log")]
    return name


@needs_root
@pytest.mark.parametrize("room", ["none", "some"])
def test_files_are_read_without_room_for_them(web, web_instance, tiny, seed, room):
    mount = mount_web(web_instance, web.url)
    if room == "none":
        fill(tiny)
    with open(mount / "small", "rb") as file:
        assert file.read() == web.files["small"]
        assert web.asked == ["small"]
    with open(mount / "large", "rb") as file:
        assert file.read(MIB) == web.files["large"][:MIB]
        wait_until(lambda: "only as a whole" in warning(web_instance), 30, "a warning about the file")
        assert "No space left on device" in warning(web_instance)
        assert file.read() == web.files["large"][MIB:]
    # Reading forward is one answer, which waits for the reader.
    assert web.asked.count("large") == 1
    choice = random.Random(seed)
    descriptor = direct(mount / "large")
    for _ in range(12):
        offset = choice.randrange(len(web.files["large"])) // 4096 * 4096
        assert os.pread(descriptor, 65_536, offset) == web.files["large"][offset:offset + 65_536]
    os.close(descriptor)
    wait_until(lambda: "only as a whole" not in warning(web_instance), 30, "the end of the warning")


@needs_root
@pytest.mark.parametrize("kind", ["tag", "content"])
def test_what_is_asked_for_again_is_never_another_version(web, web_instance, tiny, kind):
    mount = mount_web(web_instance, web.url)
    fill(tiny)
    old = web.files["large"]
    descriptor = direct(mount / "large")
    for offset in range(0, 30 * MIB, MIB):
        assert os.pread(descriptor, MIB, offset) == old[offset:offset + MIB]
    if kind == "tag":
        web.tag = 'W/"two"'
    web.files["large"] = new = bytes([old[0] ^ 1]) + old[1:35 * MIB] + old[35 * MIB:][::-1]
    with pytest.raises(OSError) as problem:
        os.pread(descriptor, MIB, 0)
    assert problem.value.errno == errno.ESTALE
    os.close(descriptor)
    wait_until(lambda: is_read(mount / "large", new), 40, "the new version")


def is_read(path, content):
    try:
        with open(path, "rb") as file:
            return file.read() == content
    except OSError as problem:
        assert problem.errno == errno.ESTALE
        return False
