# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Answers that are lost after the remote has committed, and failures that look like success."""

import contextlib
import os
import time

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


def content(client, key):
    """An object's bytes, None when there is none."""
    with contextlib.suppress(client.exceptions.NoSuchKey):
        return client.get_object(Bucket="bucket", Key=key)["Body"].read()


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
    proxy.zero()
    lost = proxy.rule("drop-response", method="PUT", path="/bucket/")
    write_file(mount / "a", b"two")
    instance.flush()
    assert lost.matched() == 1
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"two"
    assert len(committed(proxy, "PUT object", "/bucket/a")) == 1
    assert_quiet(instance, client, {"a"})


def refused(proxy, kind, status):
    """The requests of a kind that the server refused with that status."""
    return [r for r in proxy.requests(kind, "/bucket/") if r["upstream_status"] == status]


@pytest.mark.parametrize("before", [None, b"base"], ids=["new", "overwritten"])
def test_our_own_lost_success_seen_as_412_is_no_conflict(instance, mount, proxy, client, before):
    """The first PUT is carried out late: nothing of it is to be seen, so it is sent again, and refused because of itself."""
    instance.configure(late_requests="30s")
    if before:
        write_file(mount / "a", before)
        instance.flush()
    late = proxy.rule("detain", method="PUT", path="/bucket/a", how="rst")
    again = proxy.rule("hold", method="PUT", path="/bucket/a")
    write_file(mount / "a", b"one")
    late.wait_detained()
    again.wait()
    late.release()
    wait_until(lambda: content(client, "a") == b"one", 20, "the first request to be carried out")
    again.release()
    instance.flush()
    assert refused(proxy, "PUT object", 412), "nothing was refused: the test proves nothing"
    assert content(client, "a") == b"one"
    assert_quiet(instance, client, {"a"})


def test_a_lost_success_that_nobody_could_look_at_is_no_conflict(instance, mount, proxy, client):
    """The answer is lost, every look at the object fails, and the flusher is killed."""
    lost = proxy.rule("drop-response", method="PUT", path="/bucket/a")
    blind = proxy.rule("respond", method="HEAD", path="/bucket/a", status=503, times="all")
    write_file(mount / "a", b"one")
    lost.wait()
    blind.wait()
    assert instance.pending_files() == 1, "nothing was in flight at the kill"
    instance.kill_flusher()
    blind.remove()
    instance.flush()
    assert content(client, "a") == b"one"
    assert len(committed(proxy, "PUT object", "/bucket/a")) == 1
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
        # The server has it a moment before the answer is on its way.
        lost.wait()
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


@pytest.mark.parametrize("status,code", [(404, "NoSuchUpload"), (412, "PreconditionFailed")])
def test_our_own_lost_completion_seen_as_a_refusal_is_no_conflict(server, instance, proxy, client, seed, status, code):
    """The first completion is carried out late: it is sent again, and servers refuse it because the upload is over."""
    instance.configure(upload_protocol="s3-multipart", part_size="5M", late_requests="30s")
    mount = instance.mount("s3://bucket")
    late = proxy.rule("detain", method="POST", path="/bucket/big", query="uploadId=", how="rst")
    # The looks before the first completion, after it, and before the second one.
    looks = server.requests("HEAD")
    again = proxy.rule("hold-response", method="HEAD", path="/bucket/big", skip=2)
    refusal = f"<Error><Code>{code}</Code><Message>refused</Message></Error>"
    refuse = proxy.rule("respond", method="POST", path="/bucket/big", query="uploadId=", status=status, body=refusal)
    digest = write_random_file(mount / "big", 12 * MIB, seed)
    late.wait_detained()
    again.wait()
    wait_until(lambda: server.requests("HEAD") >= looks + 3, 20, "the look before the second completion")
    time.sleep(0.2)  # it is being answered
    late.release()
    wait_until(lambda: "big" in all_keys(client, "bucket"), 20, "the first request to be carried out")
    again.release()
    instance.flush()
    assert refuse.matched() == 1, "nothing was refused: the test proves nothing"
    assert sha256_of_object(client, "bucket", "big") == digest
    assert len(committed(proxy, "PUT part")) == 3
    assert_quiet(instance, client, {"big"})


@pytest.mark.parametrize("forgotten", [False, True])
def test_a_lost_end_of_a_resumable_upload_is_recognised_after_a_kill(instance, proxy, client, seed, forgotten):
    """Also where the server does not know the upload any more: then the object itself tells."""
    instance.configure(upload_protocol="ietf-resumable")
    mount = instance.mount("s3://bucket")
    proxy.zero()
    lost = proxy.rule("hold-response", method="PATCH")
    if forgotten:
        proxy.rule("respond", method="HEAD", path="/_moorage/uploads/", status=404, times="all")
    digest = write_random_file(mount / "big", 16 * MIB, seed)
    wait_until(lambda: "big" in all_keys(client, "bucket"), 30, "the upload to be completed")
    lost.wait()
    assert instance.in_flight(), "the flusher knows already: the test proves nothing"
    instance.kill_flusher()
    lost.release()
    instance.flush()
    assert lost.matched() == 1
    assert sha256_of_object(client, "bucket", "big") == digest
    assert proxy.body_bytes() <= 16 * MIB + (64 << 10)
    assert_quiet(instance, client, {"big"})


def test_a_lost_answer_to_delete_is_recognised(instance, mount, proxy, client):
    write_file(mount / "a", b"one")
    write_file(mount / "b", b"two")
    instance.flush()
    lost = proxy.rule("drop-response", method="DELETE")
    os.unlink(mount / "a")
    instance.flush()
    assert lost.matched() == 1
    assert len(committed(proxy, "DELETE object", "/bucket/a")) == 1
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
    held = proxy.rule("hold", method="POST", query="uploadId=")
    digest = write_random_file(mount / "big", 12 * MIB, seed)
    held.wait()
    assert lie.matched() == 2
    assert "big" not in all_keys(client, "bucket")
    assert instance.pending_files() == 1, "a lie was taken for success"
    held.release()
    instance.flush()
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
