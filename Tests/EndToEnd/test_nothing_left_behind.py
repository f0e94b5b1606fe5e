# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What was begun at the remote is finished or ended, also where the answer that names it is lost; others' stays."""

import os
import time

from harness.processes import wait_until
from harness.trees import random_bytes, sha256_of_object, write_random_file

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


def test_an_upload_is_ended_though_its_file_is_gone_meanwhile(instance, proxy, client, seed):
    instance.configure(upload_protocol="s3-multipart", part_size="5M")
    mount = instance.mount("s3://bucket")
    held = proxy.rule("hold-response", method="POST", path="/bucket/big", query="uploads")
    write_random_file(mount / "big", 12 * MIB, seed)
    wait_until(lambda: uploads(client), 20, "the upload to be begun")
    instance.kill_flusher()
    os.unlink(mount / "big")
    held.release()
    instance.flush()
    wait_for_end(client, set())
    assert client.list_objects_v2(Bucket="bucket")["KeyCount"] == 0
