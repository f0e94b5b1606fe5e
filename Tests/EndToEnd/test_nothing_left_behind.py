# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What was begun at the remote is finished or ended, also where the answer that names it is lost; others' stays."""

import os
import time

from harness.processes import wait_until
from harness.trees import all_keys, random_bytes, sha256_of_object, write_random_file

MIB = 1 << 20


def uploads(client):
    """The uploads in progress by name."""
    return {upload["UploadId"]: upload for upload in client.list_multipart_uploads(Bucket="bucket").get("Uploads", [])}


def begin(client, key="big"):
    """Begins an upload as somebody else."""
    return client.create_multipart_upload(Bucket="bucket", Key=key)["UploadId"]


def send_part(client, upload, seed, key="big"):
    client.upload_part(Bucket="bucket", Key=key, UploadId=upload, PartNumber=1, Body=random_bytes(seed, MIB))


def wait_for_end(client, expected, timeout=20):
    wait_until(lambda: set(uploads(client)) == expected, timeout, f"all uploads but {expected} to be ended", 0.2)


def test_uploads_whose_names_are_lost_are_ended_and_those_of_others_are_not(instance, proxy, client, seed):
    """Once by a lost answer, once by SIGKILL before it; beside uploads of others to the same key and others."""
    instance.configure(upload_protocol="s3-multipart", part_size="5M")
    mount = instance.mount("s3://bucket")
    before = begin(client)
    longer = begin(client, "big, but another")
    time.sleep(3)  # the listing is exact to a second or two: what was begun before is told by its time

    lost = proxy.rule("drop-response", method="POST", path="/bucket/big", query="uploads")
    held = proxy.rule("hold-response", method="POST", path="/bucket/killed", query="uploads")
    digest = write_random_file(mount / "big", 12 * MIB, seed)
    killed = write_random_file(mount / "killed", 12 * MIB, seed + 1)
    lost.wait()
    meanwhile = begin(client)
    send_part(client, meanwhile, seed)
    wait_until(lambda: any(u["Key"] == "killed" for u in uploads(client).values()), 20, "the upload to be begun")
    held.wait()
    assert instance.in_flight(), "nothing was in flight"
    instance.kill_flusher()
    held.release()

    instance.flush()
    assert sha256_of_object(client, "bucket", "big") == digest
    assert sha256_of_object(client, "bucket", "killed") == killed
    wait_for_end(client, {before, longer, meanwhile})
    for upload, key in [(before, "big"), (longer, "big, but another"), (meanwhile, "big")]:
        send_part(client, upload, seed, key)
        client.abort_multipart_upload(Bucket="bucket", Key=key, UploadId=upload)


def test_scratch_objects_go_though_the_flusher_is_killed_beside_them(instance, mount, proxy, client):
    """A rename at the remote tries a copy first; nobody sees, and nobody keeps, what that needs."""
    client.put_object(Bucket="bucket", Key="a", Body=b"content")
    client.put_object(Bucket="bucket", Key=".moorage-probe-another-source", Body=b"x")
    wait_until(lambda: os.path.exists(mount / "a"), 20, "the remote file to show up")
    held = proxy.rule("hold", method="PUT", path="/bucket/.moorage-probe", field="x-amz-copy-source")
    os.rename(mount / "a", mount / "b")
    held.wait()
    assert len(all_keys(client, "bucket")) == 3, "no scratch object is there"
    instance.kill_flusher()
    held.remove()
    instance.flush()
    assert set(all_keys(client, "bucket")) == {"b", ".moorage-probe-another-source"}
    assert os.listdir(mount.path) == ["b"]


def test_an_upload_is_ended_though_its_file_is_gone_meanwhile(instance, proxy, client, seed):
    instance.configure(upload_protocol="s3-multipart", part_size="5M")
    mount = instance.mount("s3://bucket")
    held = proxy.rule("hold-response", method="POST", path="/bucket/big", query="uploads")
    write_random_file(mount / "big", 12 * MIB, seed)
    wait_until(lambda: uploads(client), 20, "the upload to be begun")
    held.wait()
    instance.kill_flusher()
    os.unlink(mount / "big")
    held.release()
    instance.flush()
    wait_for_end(client, set())
    assert client.list_objects_v2(Bucket="bucket")["KeyCount"] == 0


def test_an_upload_that_the_server_loses_is_begun_anew_and_nothing_else_is_left(instance, proxy, client, seed):
    instance.configure(upload_protocol="s3-multipart", part_size="5M")
    mount = instance.mount("s3://bucket")
    proxy.limit(up=16 * MIB)
    digest = write_random_file(mount / "big", 24 * MIB, seed)
    wait_until(lambda: proxy.body_bytes() > 6 * MIB, 30, "a part to arrive", 0.02)
    proxy.limit(up=MIB)
    assert instance.in_flight(), "nothing was in flight"
    (lost,) = uploads(client)
    client.abort_multipart_upload(Bucket="bucket", Key="big", UploadId=lost)
    proxy.limit()
    instance.flush()
    assert sha256_of_object(client, "bucket", "big") == digest
    assert uploads(client) == {}
    assert instance.conflicts() == 0
