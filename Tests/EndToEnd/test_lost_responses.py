# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Answers that are lost after the remote has committed, and failures that look like success."""

import os

import pytest

from harness.processes import wait_until
from harness.trees import all_keys, random_bytes, sha256_of_object, write_file, write_random_file

MIB = 1 << 20
ERROR_BODY = (
    '<?xml version="1.0" encoding="UTF-8"?>\n   <Error><Code>InternalError</Code>'
    "<Message>We encountered an internal error. Please try again.</Message></Error>"
)


def committed(proxy, kind, path="/bucket/"):
    """The requests of a kind that the server really did."""
    return [r for r in proxy.requests(kind, path) if r["upstream_status"] and 200 <= r["upstream_status"] < 300]


def assert_quiet(instance, client, keys):
    """Nothing is pending, nothing was taken for a conflict, and the bucket holds exactly `keys`."""
    assert instance.pending_files() == 0
    assert instance.conflicts() == 0
    assert set(all_keys(client, "bucket")) == set(keys)


@pytest.mark.parametrize("how", ["rst", "fin"])
def test_a_lost_answer_to_put_is_recognised(instance, mount, proxy, client, how):
    lost = proxy.rule("drop-response", method="PUT", path="/bucket/", how=how)
    write_file(mount / "a", b"one")
    instance.flush()
    assert lost.matched() == 1
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"one"
    assert len(committed(proxy, "PUT object")) == 1
    assert_quiet(instance, client, {"a"})


def test_a_lost_answer_to_an_overwriting_put_is_recognised(instance, mount, proxy, client):
    write_file(mount / "a", b"one")
    instance.flush()
    lost = proxy.rule("drop-response", method="PUT", path="/bucket/")
    write_file(mount / "a", b"two")
    instance.flush()
    assert lost.matched() == 1
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"two"
    assert_quiet(instance, client, {"a"})


def test_our_own_lost_success_seen_as_412_is_no_conflict(instance, mount, proxy, client):
    """The answer is lost, and so is what would have told: the repeated PUT gets 412 for our own object."""
    lost = proxy.rule("drop-response", method="PUT", path="/bucket/")
    blind = proxy.rule("respond", method="HEAD", path="/bucket/a", status=503, times=2)
    write_file(mount / "a", b"one")
    lost.wait()
    instance.kill_flusher()
    instance.flush()
    blind.remove()
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"one"
    assert_quiet(instance, client, {"a"})


def test_a_lost_answer_to_a_part_does_not_repeat_the_part(instance, proxy, client, seed):
    instance.configure(upload_protocol="s3-multipart", part_size="5M", parallel_parts=1)
    mount = instance.mount("s3://bucket")
    lost = proxy.rule("drop-response", method="PUT", query="partNumber=2")
    digest = write_random_file(mount / "big", 16 * MIB, seed)
    instance.flush()
    assert lost.matched() == 1
    assert sha256_of_object(client, "bucket", "big") == digest
    parts = [record["query"] for record in committed(proxy, "PUT part")]
    assert len(parts) == 4, parts
    assert_quiet(instance, client, {"big"})


def test_a_lost_answer_to_an_append_does_not_repeat_the_bytes(instance, proxy, client, seed):
    instance.configure(upload_protocol="ietf-resumable")
    mount = instance.mount("s3://bucket")
    proxy.zero()
    lost = proxy.rule("drop-response", method="PATCH", times=2)
    digest = write_random_file(mount / "big", 16 * MIB, seed)
    instance.flush()
    assert lost.matched() >= 1
    assert sha256_of_object(client, "bucket", "big") == digest
    assert proxy.body_bytes() <= 16 * MIB + (64 << 10)
    assert_quiet(instance, client, {"big"})


@pytest.mark.parametrize("kill", [False, True])
def test_a_lost_answer_to_complete_is_recognised(instance, proxy, client, seed, kill):
    instance.configure(upload_protocol="s3-multipart", part_size="5M")
    mount = instance.mount("s3://bucket")
    fault = "hold-response" if kill else "drop-response"
    lost = proxy.rule(fault, method="POST", query="uploadId=")
    digest = write_random_file(mount / "big", 12 * MIB, seed)
    if kill:
        wait_until(lambda: "big" in all_keys(client, "bucket"), 30, "the upload to be completed")
        assert instance.in_flight(), "the flusher knows already: the test proves nothing"
        instance.kill_flusher()
        lost.release()
    instance.flush()
    assert lost.matched() == 1
    assert sha256_of_object(client, "bucket", "big") == digest
    assert len(committed(proxy, "PUT part")) == 3
    assert len(committed(proxy, "POST upload")) == 1
    assert_quiet(instance, client, {"big"})
    assert client.list_multipart_uploads(Bucket="bucket").get("Uploads", []) == []


def test_a_lost_answer_to_delete_is_recognised(instance, mount, proxy, client):
    write_file(mount / "a", b"one")
    write_file(mount / "b", b"two")
    instance.flush()
    lost = proxy.rule("drop-response", method="DELETE")
    os.unlink(mount / "a")
    instance.flush()
    assert lost.matched() == 1
    assert_quiet(instance, client, {"b"})
    assert sorted(os.listdir(mount.path)) == ["b"]


def test_a_lost_answer_to_copy_is_recognised(instance, mount, proxy, client, seed):
    data = random_bytes(seed, 3 * MIB)
    client.put_object(Bucket="bucket", Key="a", Body=data)
    wait_until(lambda: os.path.exists(mount / "a"), 20, "the remote file to show up")
    proxy.zero()
    lost = proxy.rule("drop-response", method="PUT", path="/bucket/b", field="x-amz-copy-source")
    os.rename(mount / "a", mount / "b")
    instance.flush()
    assert lost.matched() == 1
    assert client.get_object(Bucket="bucket", Key="b")["Body"].read() == data
    assert len(committed(proxy, "PUT copy", "/bucket/b")) == 1
    sent = [record for record in proxy.requests(path="/bucket/b") if record["request_bytes"] > 0]
    assert sent == [], "a rename of a remote file sends no content"
    assert_quiet(instance, client, {"b"})


def test_an_error_with_status_200_to_complete_is_a_failure(instance, proxy, client, seed):
    instance.configure(upload_protocol="s3-multipart", part_size="5M")
    mount = instance.mount("s3://bucket")
    lie = proxy.rule("respond", method="POST", query="uploadId=", status=200, times=2, body=ERROR_BODY)
    digest = write_random_file(mount / "big", 12 * MIB, seed)
    lie.wait(1)
    assert "big" not in all_keys(client, "bucket")
    assert instance.pending_files() == 1, "a lie was taken for success"
    instance.flush()
    assert lie.matched() == 2
    assert sha256_of_object(client, "bucket", "big") == digest
    assert_quiet(instance, client, {"big"})


def test_an_error_with_status_200_to_copy_is_a_failure(instance, mount, proxy, client):
    client.put_object(Bucket="bucket", Key="a", Body=b"content")
    wait_until(lambda: os.path.exists(mount / "a"), 20, "the remote file to show up")
    lie = proxy.rule("respond", method="PUT", path="/bucket/b", field="x-amz-copy-source", status=200, times=2, body=ERROR_BODY)
    os.rename(mount / "a", mount / "b")
    lie.wait(1)
    assert "a" in all_keys(client, "bucket"), "the source was deleted though the copy failed"
    instance.flush()
    assert lie.matched() == 2
    assert client.get_object(Bucket="bucket", Key="b")["Body"].read() == b"content"
    assert_quiet(instance, client, {"b"})


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_in_trouble_is_asked_again(instance, mount, proxy, client, status):
    trouble = proxy.rule("respond", method="PUT", status=status, times=3, add="Retry-After: 1")
    for number in range(5):
        write_file(mount / f"f{number}", b"x" * number)
    instance.flush()
    assert trouble.matched() == 3
    assert_quiet(instance, client, {f"f{number}" for number in range(5)})
