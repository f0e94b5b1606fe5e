# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The mount against servers that are not ours, with their quirks: nothing lost, clear errors."""

import errno
import os
import shutil
import signal
import socket
import sys
import tempfile
import urllib.request

import pytest

from harness.bucket import ACCESS_KEY, SECRET_KEY, clean_environment, s3_client
from harness.processes import Child, Failure, shell, wait_until
from harness.trees import all_keys, fingerprint, make_tree, random_bytes, sha256_of_object, write_file, write_random_file

MIB = 1 << 20
STAMP = 1_000_000_000


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
        self.folder = folder
        for _ in range(3):
            self.port = free_port()
            self.url = f"http://127.0.0.1:{self.port}"
            try:
                return self.start()
            except Failure:
                self.child.end()
        raise Failure(f"{name} did not start: {self.child.errors()}")

    def start(self):
        log = os.path.join(self.folder, "other.log")
        self.child = Child(self.command(self.folder), [], env=clean_environment(), log=log)
        wait_until(self.answers, 40, f"{self.name} to answer")

    def kill_and_restart(self):
        self.child.end(signal.SIGKILL)
        self.start()

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

    def empty(self):
        """Has moto forget everything, or starts it again when it does not answer."""
        try:
            urllib.request.urlopen(urllib.request.Request(self.url + "/moto-api/reset", method="POST"), timeout=20).close()
        except OSError:
            self.kill_and_restart()

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


@pytest.fixture(scope="session")
def moto():
    """One for all tests of a worker, as it takes seconds to start; each of them finds it empty."""
    with tempfile.TemporaryDirectory(prefix="moorage-moto-") as folder:
        server = OtherServer("moto", folder)
        yield server
        server.child.end()


@pytest.fixture(params=["rclone", "moto"])
def other(request, folder, stack):
    program = "moto_server" if request.param == "moto" else "rclone"
    if not tool(program):
        pytest.skip(f"there is no {program}")
    if request.param == "moto":
        server = request.getfixturevalue("moto")
        server.empty()
        os.symlink(server.child.log_path, os.path.join(folder, "other.log"))
    else:
        server = OtherServer(request.param, folder)
        stack.callback(lambda: server.child.end())
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


def bodies(client):
    """All objects but folders, and but what the volume found out about the server with."""
    found = [item["Key"] for item in client.list_objects_v2(Bucket="bucket").get("Contents", [])]
    return {key: client.get_object(Bucket="bucket", Key=key)["Body"].read() for key in found if not key.endswith("/")}


def folders(client):
    """The folders that the server lists at the top."""
    found = client.list_objects_v2(Bucket="bucket", Delimiter="/").get("CommonPrefixes", [])
    return [item["Prefix"].rstrip("/") for item in found if not item["Prefix"].startswith(".")]


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
    proxy.limit(up=2 * MIB)
    assert instance.in_flight(), "nothing was in flight at the kill"
    instance.kill_flusher()
    proxy.limit()
    instance.flush()
    assert sha256_of_object(other.client(), "bucket", "big") == digest
    assert instance.conflicts() == 0


@pytest.mark.limit(150)
def test_an_upload_is_begun_anew_when_the_server_forgot_it(other, elsewhere, seed):
    """Neither of them keeps uploads in progress, and moto keeps nothing at all, over a restart."""
    proxy, instance = elsewhere.proxy, elsewhere.instance
    instance.configure(upload_protocol="s3-multipart", part_size="5M")
    proxy.limit(up=12 * MIB)
    digest = write_random_file(elsewhere / "big", 32 * MIB, seed)
    wait_until(lambda: proxy.body_bytes() > 12 * MIB, 60, "a third of the upload")
    proxy.limit(up=2 * MIB)
    assert instance.in_flight(), "nothing was in flight at the kill"
    other.kill_and_restart()
    if other.name == "moto":
        other.client().create_bucket(Bucket="bucket")
    proxy.limit()
    instance.flush()
    assert sha256_of_object(other.client(), "bucket", "big") == digest
    assert instance.conflicts() == 0
    assert other.client().list_objects_v2(Bucket="bucket")["KeyCount"] == 1


@pytest.mark.limit(150)
@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.parametrize("what", ["put", "complete", "delete", "copy"])
def test_an_answer_lost_after_the_commit_is_recognised(other, elsewhere, seed, what, kill):
    """Whatever the server's entity tags are made of."""
    proxy, instance, client = elsewhere.proxy, elsewhere.instance, other.client()
    instance.configure(upload_protocol="auto", part_size="5M", metadata_age="1s")
    data = random_bytes(seed, 12 * MIB if what == "complete" else 70_000)
    if what in ("delete", "copy"):
        write_file(elsewhere / "a", data)
        instance.flush()
    patterns = {
        "put": dict(method="PUT", path="/bucket/b"),
        "complete": dict(method="POST", path="/bucket/b", query="uploadId="),
        "delete": dict(method="DELETE", path="/bucket/a"),
        "copy": dict(method="PUT", path="/bucket/b", field="x-amz-copy-source"),
    }
    proxy.zero()
    lost = proxy.rule("hold-response" if kill else "drop-response", **patterns[what])
    if what == "delete":
        os.unlink(elsewhere / "a")
    elif what == "copy":
        os.rename(elsewhere / "a", elsewhere / "b")
    else:
        write_file(elsewhere / "b", data)
    lost.wait()
    if kill:
        before = {"a"} if what in ("delete", "copy") else set()
        wait_until(lambda: {key for key in all_keys(client, "bucket") if key[0] != "."} != before, 30, "the commit")
        assert instance.pending_files() > 0, "the flusher knows already: the test proves nothing"
        instance.kill_flusher()
        lost.release()
    instance.flush()
    found = bodies(client)
    assert set(found) == (set() if what == "delete" else {"b"})
    assert what == "delete" or found["b"] == data
    assert instance.conflicts() == 0
    sent = sum(record["request_bytes"] for record in proxy.requests(path="/bucket/b"))
    assert sent <= (0 if what in ("delete", "copy") else len(data)) + (64 << 10), "the content was sent again"


@pytest.mark.limit(150)
def test_a_part_of_a_big_remote_file_is_changed(other, elsewhere, seed):
    """Also where a copied part would silently be an empty one."""
    instance, client = elsewhere.instance, other.client()
    data = bytearray(random_bytes(seed, 24 * MIB))
    client.put_object(Bucket="bucket", Key="big", Body=bytes(data))
    wait_until(lambda: os.path.exists(elsewhere / "big"), 30, "the file to show up")
    with open(elsewhere / "big", "r+b") as file:
        file.seek(11 * MIB + 5)
        file.write(b"changed")
        file.seek(0, os.SEEK_END)
        file.write(b"appended")
    data[11 * MIB + 5 : 11 * MIB + 12] = b"changed"
    data += b"appended"
    instance.flush()
    assert bodies(client) == {"big": bytes(data)}
    os.truncate(elsewhere / "big", 9 * MIB)
    os.rename(elsewhere / "big", elsewhere / "short")
    again = again_without_cache(elsewhere)
    assert bodies(client) == {"short": bytes(data[: 9 * MIB])}
    assert open(again / "short", "rb").read() == bytes(data[: 9 * MIB])
    assert instance.conflicts() == 0


@pytest.mark.limit(150)
def test_a_folder_is_moved_and_removed(other, elsewhere, local, seed):
    instance, client = elsewhere.instance, other.client()
    contents = make_tree(local, 30, 3_000, seed, per_folder=10)
    shell(f"cp -r {local} {elsewhere / 'one'}")
    instance.flush()
    os.rename(elsewhere / "one", elsewhere / "two")
    instance.flush()
    assert bodies(client) == {"two/" + name: body for name, body in contents.items()}
    again = again_without_cache(elsewhere)
    assert fingerprint(again / "two") == fingerprint(local)
    shutil.rmtree(again / "two")
    instance.flush()
    assert bodies(client) == {}
    left = folders(client)
    assert left == [] or other.name == "rclone", "it keeps folders now and then whose last file was deleted, and lists them"
    assert os.listdir(again.path) == left
    assert instance.conflicts() == 0


#: Control characters left out: rclone shows them now as they are, now as the signs that stand for them.
ODD_NAMES = [
    "back\\slash", "trailing ", " leading", "dot.", "é" * 100, "a'\"<>&", "%41", "a+b", "c:d", "q?x#y", "\U0001f600", "e\u0301",
    "\ufffd",
]


@pytest.mark.limit(150)
def test_odd_names_and_attributes_come_back(other, elsewhere):
    """What the server cannot keep is told."""
    instance = elsewhere.instance
    for name in ODD_NAMES:
        write_file(elsewhere / name, name.encode())
    os.symlink("back\\slash", elsewhere / "link")
    write_file(elsewhere / "mode", b"x")
    os.chmod(elsewhere / "mode", 0o741)
    # As much as may be: the servers take it, however they count.
    os.setxattr(elsewhere / "mode", "user.note", bytes(1251))
    with pytest.raises(OSError):
        os.setxattr(elsewhere / "mode", "user.note", bytes(1252))
    os.utime(elsewhere / "mode", (STAMP, STAMP))
    os.mkdir(elsewhere / "empty")
    instance.flush()
    assert bodies(other.client()) == {name: name.encode() for name in ODD_NAMES} | {"link": b"back\\slash", "mode": b"x"}
    if other.name == "moto":
        # It knows no key with a new line.
        write_file(elsewhere / "new\nline", b"x")
        result = instance.run("flush", "--timeout", "5", check=False)
        assert result.returncode == 1 and "new line: waiting: the server answered 404" in result.stderr, result.stderr
        os.unlink(elsewhere / "new\nline")
    again = again_without_cache(elsewhere)
    with open(os.path.join(instance.directory("run"), "flusher.log")) as log:
        is_told = "cannot keep folders" in log.read()
    kept = set(os.listdir(again.path)) - set(ODD_NAMES)
    assert kept == ({"link", "mode"} if is_told else {"link", "mode", "empty"})
    assert is_told == (other.name == "rclone")
    for name in ODD_NAMES:
        with open(again / name, "rb") as file:
            assert file.read() == name.encode()
    assert os.readlink(again / "link") == "back\\slash"
    status = os.stat(again / "mode")
    assert (status.st_mode & 0o7777, status.st_mtime) == (0o741, STAMP)
    assert os.getxattr(again / "mode", "user.note") == bytes(1251)


@pytest.mark.limit(150)
def test_reads_do_not_mix_versions_there(other, elsewhere, seed):
    """rclone ignores If-Match on reads: what comes tells by its entity tag."""
    client = other.client()
    old, new = (random_bytes(seed + i, 6 * MIB) for i in range(2))
    for number in range(3):
        client.put_object(Bucket="bucket", Key=f"f{number}", Body=old)
    stale = 0
    for number in range(3):
        with open(elsewhere / f"f{number}", "rb", buffering=0) as file:
            assert os.pread(file.fileno(), 4096, 0) == old[:4096]
            client.put_object(Bucket="bucket", Key=f"f{number}", Body=new)
            for offset in (5 * MIB, 3 * MIB, 0):
                try:
                    assert os.pread(file.fileno(), 65_536, offset) == old[offset : offset + 65_536]
                except OSError as problem:
                    assert problem.errno == errno.ESTALE, problem
                    stale += 1
    assert stale > 0, "everything was read before the change: the test proves nothing"


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
    found = bodies(client)
    assert sorted(found.values()) == [b"ours", b"theirs"]
    assert found["f"] == b"theirs"
    assert instance.conflicts() == 1


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
