# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The mount against servers that are not ours, with their quirks: nothing lost, clear errors."""

import os
import shutil
import socket
import sys

import pytest

from harness.bucket import ACCESS_KEY, SECRET_KEY, clean_environment, s3_client
from harness.processes import Child, Failure, shell, wait_until
from harness.trees import fingerprint, make_tree, random_bytes, sha256_of_object, write_file, write_random_file

MIB = 1 << 20


def tool(name):
    """A program of the tests' own Python environment, or of the system."""
    beside = os.path.join(os.path.dirname(sys.executable), name)
    return beside if os.path.exists(beside) else shutil.which(name)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class OtherServer:
    """A server on a free port; tried again on another one when that port was taken meanwhile."""

    def __init__(self, name, folder):
        self.name = name
        for _ in range(3):
            self.port = free_port()
            self.child = Child(self.command(folder), [], env=clean_environment(), log=os.path.join(folder, "other.log"))
            self.url = f"http://127.0.0.1:{self.port}"
            try:
                wait_until(self.answers, 40, f"{name} to answer")
                return
            except Failure:
                self.child.end()
        raise Failure(f"{name} did not start: {self.child.errors()}")

    def command(self, folder):
        if self.name == "moto":
            return [tool("moto_server"), "-H", "127.0.0.1", "-p", str(self.port)]
        root = os.path.join(folder, "rclone-served")
        os.makedirs(root, exist_ok=True)
        key = f"{ACCESS_KEY},{SECRET_KEY}"
        address = f"127.0.0.1:{self.port}"
        return [
            tool("rclone"), "serve", "s3", "--addr", address, "--auth-key", key, "--max-header-bytes", "65536",
            "--vfs-cache-mode", "off", "--dir-cache-time", "1s", root,
        ]

    def answers(self):
        if self.child.process.poll() is not None:
            raise Failure("it ended")
        try:
            self.client().list_buckets()
            return True
        except Exception:
            return False

    def client(self):
        return s3_client(self.url)


@pytest.fixture(params=["rclone", "moto"])
def other(request, folder, stack):
    program = "moto_server" if request.param == "moto" else "rclone"
    if not tool(program):
        pytest.skip(f"there is no {program}")
    server = OtherServer(request.param, folder)
    stack.callback(server.child.end)
    server.client().create_bucket(Bucket="bucket")
    return server


@pytest.fixture
def elsewhere(other, make_instance, make_proxy):
    """The other server's bucket, mounted through the fault proxy."""
    proxy = make_proxy(f"127.0.0.1:{other.port}")
    instance = make_instance(proxy.url)
    mount = instance.mount("s3://bucket")
    mount.proxy = proxy
    return mount


def again_without_cache(mount):
    mount.instance.flush()
    mount.unmount()
    mount.instance.drop_cache()
    return mount.mount_again()


@pytest.mark.limit(150)
def test_a_tree_goes_there_and_comes_back(other, elsewhere, local, seed):
    make_tree(local, 60, 2_000, seed, per_folder=20)
    write_file(os.path.join(local, "empty"), b"")
    write_file(os.path.join(local, "middle"), random_bytes(seed, 3 * MIB))
    shell(f"cp -r {local} {elsewhere / 'tree'}")
    again = again_without_cache(elsewhere)
    assert fingerprint(again / "tree") == fingerprint(local)
    assert again.instance.conflicts() == 0


@pytest.mark.limit(150)
def test_a_big_file_is_sent_in_parts(other, elsewhere, seed):
    digest = write_random_file(elsewhere / "big", 40 * MIB, seed)
    again = again_without_cache(elsewhere)
    assert sha256_of_object(other.client(), "bucket", "big") == digest
    assert shell(f"sha256sum < {again / 'big'}").stdout.split()[0] == digest
    with open(again / "big", "rb") as file:
        file.seek(30 * MIB)
        assert len(file.read(4096)) == 4096


@pytest.mark.limit(150)
def test_an_upload_survives_cuts_and_a_killed_flusher(other, elsewhere, seed):
    proxy, instance = elsewhere.proxy, elsewhere.instance
    instance.configure(upload_protocol="s3-multipart", part_size="5M")
    proxy.limit(up=24 * MIB)
    proxy.cut_at_totals([7 * MIB, 19 * MIB, 31 * MIB])
    digest = write_random_file(elsewhere / "big", 48 * MIB, seed)
    wait_until(lambda: proxy.body_bytes() > 24 * MIB, 60, "half of the upload")
    assert instance.in_flight(), "nothing was in flight at the kill"
    instance.kill_flusher()
    instance.flush()
    assert sha256_of_object(other.client(), "bucket", "big") == digest


@pytest.mark.limit(120)
def test_edits_renames_and_deletions(other, elsewhere):
    instance = elsewhere.instance
    os.mkdir(elsewhere / "d")
    write_file(elsewhere / "d/a", b"0123456789" * 1000)
    instance.flush()
    shell("printf XY | dd of=d/a bs=1 seek=5 conv=notrunc status=none && cp d/a d/b && mv d/b c && echo x > d/x", elsewhere.path)
    instance.flush()
    os.unlink(elsewhere / "d/x")
    os.rename(elsewhere / "c", elsewhere / "e")
    again = again_without_cache(elsewhere)
    expected = b"01234XY789" + b"0123456789" * 999
    assert sorted(os.listdir(again.path)) == ["d", "e"]
    assert os.listdir(again / "d") == ["a"]
    assert open(again / "d/a", "rb").read() == expected
    assert open(again / "e", "rb").read() == expected


@pytest.mark.limit(120)
def test_a_change_of_theirs_is_not_overwritten(other, elsewhere):
    """Also where the server ignores the conditions of a write: a look before the write must do there."""
    instance = elsewhere.instance
    client = other.client()
    client.put_object(Bucket="bucket", Key="f", Body=b"base")
    wait_until(lambda: os.path.exists(elsewhere / "f"), 30, "the file to show up")
    assert open(elsewhere / "f", "rb").read() == b"base"
    instance.configure(quiet_period="3s")
    elsewhere.proxy.offline()
    write_file(elsewhere / "f", b"ours")
    client.put_object(Bucket="bucket", Key="f", Body=b"theirs")
    elsewhere.proxy.online()
    instance.flush()
    found = {
        item["Key"]: client.get_object(Bucket="bucket", Key=item["Key"])["Body"].read()
        for item in client.list_objects_v2(Bucket="bucket")["Contents"]
    }
    assert found["f"] == b"theirs"
    assert b"ours" in found.values()


@pytest.mark.limit(120)
def test_wrong_keys_are_named(other, make_instance):
    if other.name == "moto":
        pytest.skip("moto checks no signatures")
    instance = make_instance(other.url)
    instance.environment["AWS_SECRET_ACCESS_KEY"] = "certainly-not-the-right-secret"
    path = instance.directory("mnt/wrong")
    os.makedirs(path)
    result = instance.run("mount", "s3://bucket", path, "-o", f"endpoint={other.url}", check=False)
    assert result.returncode == 1
    assert len(result.stderr.strip().splitlines()) == 1, result.stderr
