# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""A change of a part of a large object sends that part: the server copies the rest from what it has."""

import os
import random
import time

import pytest

from harness.processes import run, wait_until

MIB = 1 << 20
#: What the promise is about; the cases that are about something else take less.
LARGE = 1 << 30
SIZE = 160 * MIB
#: What an edit may send and fetch at most.
FEW = 16 * MIB
COPY = {"method": "PUT", "query": "partNumber", "field": "x-amz-copy-source"}


class Large:
    """An object in the bucket, and a file beside it that gets the same changes."""

    def __init__(self, server, folder, seed, size=SIZE):
        self.stored = os.path.join(server.root, "bucket", "large")
        self.reference = os.path.join(folder, "reference")
        generator = random.Random(seed)
        with open(self.reference, "wb") as file:
            file.truncate(size)
            # Holes between make it cheap; what is misplaced by a block or a MiB shows.
            for offset in range(0, size, MIB):
                file.seek(offset + generator.randrange(MIB - 64))
                file.write(generator.randbytes(64))
        run(["cp", "--sparse=always", self.reference, self.stored])
        # The server reads a file that others put there once, for its tag: not while a mount waits for the answer.
        server.client().head_object(Bucket="bucket", Key="large")

    def change(self, *files, action):
        for path in (self.reference, *files):
            action(path)

    def assert_stored(self, name="large"):
        path = os.path.join(os.path.dirname(self.stored), name)
        run(["cmp", self.reference, path], timeout=120)


def patch(offset, data):
    def action(path):
        with open(path, "r+b") as file:
            file.seek(offset)
            file.write(data)

    return action


def append(data):
    def action(path):
        with open(path, "ab") as file:
            file.write(data)

    return action


@pytest.fixture
def large(server, folder, seed):
    return Large(server, folder, seed)


@pytest.fixture
def cost(proxy):
    """Tells what went over the line in either direction since it was zeroed."""
    proxy.zero()

    def told():
        stats = proxy.stats()
        return stats["request_bytes"], stats["response_bytes"]

    return told


@pytest.mark.parametrize("where", ["the middle", "the beginning", "the end", "two places"])
def test_ten_bytes_send_few(instance, mount, large, cost, client, where):
    offsets = {"the middle": [80_000_000], "the beginning": [0], "the end": [SIZE - 10], "two places": [1, SIZE // 2]}
    for number, offset in enumerate(offsets[where]):
        large.change(mount / "large", action=patch(offset, b"%010d" % number))
    instance.flush()
    large.assert_stored()
    sent, received = cost()
    assert 0 < sent < FEW, f"{sent} bytes were sent"
    assert received < FEW, f"{received} bytes were fetched"
    assert client.list_multipart_uploads(Bucket="bucket").get("Uploads", []) == []
    assert instance.conflicts() == 0
    run(["cmp", large.reference, mount / "large"], timeout=120)


def test_a_gibibyte_is_edited_and_appended_to_for_few_bytes(instance, mount, server, folder, seed, cost, proxy):
    large = Large(server, folder, seed, size=LARGE)
    large.change(mount / "large", action=patch(500_000_000, b"0123456789"))
    instance.flush()
    sent, received = cost()
    assert sent < FEW and received < FEW, f"the edit: {sent} bytes were sent, {received} fetched"
    proxy.zero()
    large.change(mount / "large", action=append(os.urandom(MIB)))
    instance.flush()
    sent, received = cost()
    assert MIB <= sent < FEW and received < FEW, f"the append: {sent} bytes were sent, {received} fetched"
    large.assert_stored()


def test_an_edit_of_a_renamed_object_sends_few(instance, mount, large, cost, server):
    os.rename(mount / "large", mount / "moved")
    large.change(mount / "moved", action=patch(30_000_000, b"edited"))
    instance.flush()
    large.assert_stored("moved")
    assert sorted(os.listdir(os.path.dirname(large.stored))) == ["moved"]
    sent, received = cost()
    assert sent < FEW and received < FEW, f"{sent} bytes were sent, {received} fetched"


def test_a_file_cut_and_extended_is_put_together(instance, mount, large, cost):
    def action(path):
        os.truncate(path, 60_000_001)
        os.truncate(path, 70_000_000)

    large.change(mount / "large", action=action)
    instance.flush()
    large.assert_stored()
    # Zeros are sent, too; what is before them is not.
    assert cost()[0] < 30_000_000


NOT_IMPLEMENTED = dict(status=501, body="<Error><Code>NotImplemented</Code></Error>")
#: The entity tag is that of nothing: the server took the request for a part without bytes.
EMPTY = '<?xml version="1.0"?><CopyPartResult><ETag>"d41d8cd98f00b204e9800998ecf8427e"</ETag></CopyPartResult>'


@pytest.mark.parametrize("answer", [NOT_IMPLEMENTED, dict(status=200, body=EMPTY)], ids=["refuses", "takes-it-for-empty"])
def test_a_server_that_copies_no_parts_gets_everything(instance, proxy, server, folder, seed, client, answer):
    large = Large(server, folder, seed, size=40 * MIB)
    rule = proxy.rule("respond", times="all", **answer, **COPY)
    mount = instance.mount("s3://bucket")
    large.change(mount / "large", action=patch(20 * MIB, b"edited"))
    instance.flush()
    assert rule.matched() > 0, "no copy was asked for: the test proves nothing"
    large.assert_stored()
    assert client.list_multipart_uploads(Bucket="bucket").get("Uploads", []) == []


def test_lost_answers_and_a_kill_cost_no_byte_twice(instance, mount, large, proxy, cost):
    for action in (patch(30_000_000, b"one"), patch(120_000_000, b"two")):
        large.change(mount / "large", action=action)
    instance.configure(quiet_period="0s", parallel_parts=1)
    proxy.rule("drop-response", times=1, **COPY)
    held = proxy.rule("hold", times=1, method="POST", query="uploadId")
    try:
        instance.run("flush", "--timeout", "1", check=False)
        held.wait()
        instance.kill_flusher()
    finally:
        held.remove()
        proxy.cut()
    instance.flush()
    large.assert_stored()
    sent = cost()[0]
    assert 10 * MIB <= sent < FEW, f"{sent} bytes were sent"
    assert instance.conflicts() == 0


@pytest.mark.parametrize("step", [None, "GET", "HEAD", "POST"], ids=["start", "list", "look", "completion"])
def test_a_completion_that_arrives_late_is_known_for_ours(instance, mount, large, proxy, step):
    """What looks like a change of the source by somebody else is the edit itself."""
    large.change(mount / "large", action=patch(30_000_000, b"one"))
    instance.configure(quiet_period="0s", parallel_parts=1)
    late = proxy.rule("detain", times=1, method="POST", query="uploadId")
    instance.run("flush", "--timeout", "1", check=False)
    late.wait_detained()
    instance.kill_flusher()
    if step is not None:
        pattern = dict(path="/bucket/large") if step == "HEAD" else dict(query="uploadId")
        held = proxy.rule("hold", times=1, method=step, **pattern)
        instance.run("flush", "--timeout", "1", check=False)
        held.wait()
    late.release()
    time.sleep(1)
    if step is not None:
        held.release()
    instance.flush()
    large.assert_stored()
    assert instance.conflicts() == 0


def test_a_source_that_changes_meanwhile_is_not_mixed_in(instance, mount, large, proxy, client):
    """Nothing is put together from two versions, and nothing of the other's is overwritten."""
    large.change(mount / "large", action=patch(50_000_000, b"edited"))
    held = proxy.rule("hold", times=1, method="GET", query="uploadId")
    instance.run("flush", "--timeout", "1", check=False)
    held.wait()
    client.put_object(Bucket="bucket", Key="large", Body=b"theirs")
    held.remove()
    wait_until(lambda: [one for one in instance.uploads() if one["state"] == "attention"], 60, "a word about it")
    assert "changed" in instance.uploads()[0]["error"]
    assert client.get_object(Bucket="bucket", Key="large")["Body"].read() == b"theirs"
    wait_until(lambda: not client.list_multipart_uploads(Bucket="bucket").get("Uploads"), 30, "the end of the upload")


def test_what_was_cached_stays_cached(instance, mount, large, cost, proxy):
    """Neither an edit nor a new name or mode makes anybody fetch again what is here."""
    run(["cmp", large.reference, mount / "large"], timeout=120)
    large.change(mount / "large", action=patch(50_000_000, b"edited"))
    instance.flush()
    os.chmod(mount / "large", 0o600)
    instance.flush()
    os.rename(mount / "large", mount / "moved")
    instance.flush()
    mount.unmount()
    again = mount.mount_again()
    proxy.zero()
    run(["cmp", large.reference, again / "moved"], timeout=120)
    assert cost()[1] < MIB, f"{cost()[1]} bytes were fetched again"


def test_uploads_tell_what_is_copied(instance, mount, large, proxy):
    large.change(mount / "large", action=patch(50_000_000, b"edited"))
    held = proxy.rule("hold", times=1, method="POST", query="uploadId")
    instance.run("flush", "--timeout", "1", check=False)
    held.wait()
    upload = instance.uploads()[0]
    assert upload["protocol"] == "s3-multipart" and upload["copied"] > SIZE - FEW, upload
    assert "copied by the server" in instance.run("uploads", "why", "--all").stdout
    held.remove()
    instance.flush()
