# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What is pinned is fetched whole in the background and kept, whatever else is read; new versions and files come in."""

import json
import os

import pytest

from harness.processes import wait_until
from harness.trees import random_bytes, write_file

MIB = 1 << 20
KIB = 1 << 10
pytestmark = pytest.mark.limit(150)


@pytest.fixture
def instance(make_instance, server):
    instance = make_instance(server.url)
    instance.configure(metadata_age="1s", kernel_age="0s", cache_free="0")
    return instance


def pins(instance):
    return {pin["path"]: pin for pin in json.loads(instance.run("pins", "--json").stdout)["pins"]}


def is_whole(instance, path, size):
    pin = pins(instance).get(path)
    return pin and pin["bytes_present"] == pin["bytes_total"] == size and pin["problem"] is None


def wait_for(instance, path, size):
    wait_until(lambda: is_whole(instance, path, size), 40, f"{size} bytes of {path}: {pins(instance)}")


def read(path):
    """Reads a file as the cache has it, not as the kernel remembers it."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
    try:
        size = os.fstat(descriptor).st_size
        return b"".join(os.pread(descriptor, MIB, offset) for offset in range(0, size, MIB))
    finally:
        os.close(descriptor)


def test_pinned_files_come_and_stay(instance, server, client, seed):
    bodies = {"d/a": random_bytes(seed, 3 * MIB), "d/e/b": random_bytes(seed + 1, 700 * KIB), "x": random_bytes(seed + 2, MIB)}
    for key, body in bodies.items():
        client.put_object(Bucket="bucket", Key=key, Body=body)
    scan = {f"scan/{number:02}": random_bytes(seed + 10 + number, MIB) for number in range(16)}
    for key, body in scan.items():
        client.put_object(Bucket="bucket", Key=key, Body=body)
    instance.configure(cache_size="8M")
    mount = instance.mount("s3://bucket")
    instance.run("pin", mount / "d", mount / "x")
    wait_for(instance, "d", 3 * MIB + 700 * KIB)
    wait_for(instance, "x", MIB)
    assert os.getxattr(mount / "d", "user.moorage.pin") == b"1"
    assert os.getxattr(mount / "d/a", "user.moorage.pin") == b"inherited"
    with pytest.raises(OSError):
        os.getxattr(mount / "scan", "user.moorage.pin")

    # Others come and go; what is pinned stays, also over a remount and `cache clear`.
    for _ in range(2):
        for key in scan:
            assert read(mount / key) == scan[key]
        wait_until(lambda: cache_bytes(instance) <= 8 * MIB, 30, "the cache to keep its size")
        mount.unmount()
        instance.run("cache", "clear")
        mount = mount.mount_again()
    before = received(server)
    for key, body in bodies.items():
        assert read(mount / key) == body
    # Listings are received too.
    assert received(server) - before < 100 * KIB, "what was pinned had to be fetched again"

    # A new version of a file and a new file in the folder come in; the old version goes.
    bodies["d/a"] = random_bytes(seed + 3, 2 * MIB)
    bodies["d/new"] = random_bytes(seed + 4, 100 * KIB)
    client.put_object(Bucket="bucket", Key="d/a", Body=bodies["d/a"])
    write_file(mount / "d/new", bodies["d/new"])
    instance.flush()
    wait_for(instance, "d", 2 * MIB + 800 * KIB)
    wait_until(lambda: len(held(instance)) == 4, 20, "the old version to be let go")
    for key, body in bodies.items():
        assert read(mount / key) == body

    # Let go, it is a cached file as others are.
    assert instance.run("unpin", mount / "d/a", check=False).returncode == 1
    os.removexattr(mount / "x", "user.moorage.pin")
    instance.run("unpin", mount / "d")
    wait_until(lambda: held(instance) == [], 20, "the pins to be taken away")
    assert pins(instance) == {} and "nothing is pinned" in instance.run("pins").stdout
    instance.run("cache", "clear")


def received(server):
    """How many body bytes were fetched from the bucket so far."""
    return server.stats()["body_bytes_sent"].get("GET", 0)


def cache_bytes(instance):
    (volume,) = instance.status()["volumes"]
    return volume["cache"]["bytes"]


def held(instance):
    walk = os.walk(instance.directory("cache"))
    return [os.path.join(base, name) for base, _, names in walk for name in names if base.endswith("/pinned")]


def test_a_pin_by_attribute_and_one_that_does_not_fit(instance, client, seed):
    client.put_object(Bucket="bucket", Key="small", Body=random_bytes(seed, 50_000))
    client.put_object(Bucket="bucket", Key="large", Body=random_bytes(seed, 3 * MIB))
    instance.configure(cache_size="2M")
    mount = instance.mount("s3://bucket")
    os.setxattr(mount / "large", "user.moorage.pin", b"1")
    os.setxattr(mount / "small", "user.moorage.pin", b"1")
    with pytest.raises(OSError):
        os.setxattr(mount / "small", "user.moorage.pin", b"maybe")
    wait_for(instance, "small", 50_000)
    wait_until(lambda: pins(instance)["large"]["problem"], 20, "a word about the pin that does not fit")
    assert "cache_size" in pins(instance)["large"]["problem"]
    assert "does not fit" in instance.run("pins").stdout
    os.setxattr(mount / "large", "user.moorage.pin", b"0")
    assert list(pins(instance)) == ["small"]
    mount.unmount()
    assert list(pins(instance)) == ["small"]


def test_pins_are_fetched_when_the_network_is_back(make_instance, proxy, client, seed):
    instance = make_instance(proxy.url)
    instance.configure(metadata_age="1s", cache_free="0")
    client.put_object(Bucket="bucket", Key="f", Body=random_bytes(seed, 2 * MIB))
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == ["f"]
    proxy.offline()
    instance.run("pin", mount / "f")
    wait_until(lambda: pins(instance)["f"]["problem"], 30, "the failure to be told")
    proxy.online()
    wait_for(instance, "f", 2 * MIB)


def test_a_pinned_file_that_lost_a_block_is_fetched_again(make_instance, proxy, client, seed):
    instance = make_instance(proxy.url)
    instance.configure(metadata_age="1s", cache_free="0")
    body = random_bytes(seed, 2 * MIB)
    client.put_object(Bucket="bucket", Key="f", Body=body)
    mount = instance.mount("s3://bucket")
    instance.run("pin", mount / "f")
    wait_for(instance, "f", 2 * MIB)
    # What has come just now is answered from memory this once.
    assert read(mount / "f") == body
    (kept,) = held(instance)

    def stored():
        with open(kept, "rb") as file:
            file.seek(MIB)
            return file.read(200)

    with open(kept, "r+b") as file:
        file.seek(MIB)
        file.write(bytes(200))
    proxy.offline()
    with pytest.raises(OSError):
        read(mount / "f")
    proxy.online()
    wait_until(lambda: stored() == body[MIB : MIB + 200], 30, "the block to be fetched again")
    wait_for(instance, "f", 2 * MIB)
    proxy.offline()
    assert read(mount / "f") == body
