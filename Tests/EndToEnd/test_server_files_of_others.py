# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""`moorage serve` over files that other programs have: still being written, not to be read, not to be changed."""

import os
import subprocess
import threading
import time

import pytest

from harness.bucket import clean_environment, s3_client
from harness.processes import Child

NOBODY = 65534


def keys(client):
    return [entry["Key"] for entry in client.list_objects_v2(Bucket="bucket").get("Contents", [])]


def test_a_file_that_keeps_growing_does_not_hide_the_others(server, client):
    place = os.path.join(server.root, "bucket")
    with open(os.path.join(place, "still"), "wb") as file:
        file.write(b"still")
    hasBegun, isOver = threading.Event(), threading.Event()

    def grow():
        with open(os.path.join(place, "log"), "wb", buffering=0) as file:
            file.write(bytes(8 << 20))
            hasBegun.set()
            while not isOver.is_set():
                file.write(b"line\n")
                time.sleep(0.0002)

    writer = threading.Thread(target=grow)
    writer.start()
    try:
        assert hasBegun.wait(30)
        for _ in range(5):
            assert keys(client) == ["log", "still"]
            answer = client.get_object(Bucket="bucket", Key="log")
            content = answer["Body"].read()
            assert len(content) == answer["ContentLength"] >= 8 << 20
            assert set(content[8 << 20 :]) <= set(b"line\n")
    finally:
        isOver.set()
        writer.join()
    # At rest the tag is the digest of the content again.
    tag = client.head_object(Bucket="bucket", Key="log")["ETag"]
    assert "-" not in tag
    assert client.get_object(Bucket="bucket", Key="log", IfMatch=tag)["ContentLength"] > 8 << 20


@pytest.fixture
def restricted(folder, stack, binary):
    """`moorage serve` as a user who may not read, or not change, some of the files; and the bucket's folder."""
    if os.geteuid() != 0:
        pytest.skip("only root can start it as somebody else")
    os.chmod(folder, 0o755)
    root = os.path.join(folder, "restricted")
    place = os.path.join(root, "bucket")
    os.makedirs(os.path.join(place, "closed"))
    for name, mode in {"foreign": 0o644, "secret": 0o600, "closed/below": 0o644}.items():
        with open(os.path.join(place, name), "wb") as file:
            file.write(name.encode())
        os.chmod(file.name, mode)
        os.utime(file.name, (1_000_000_000, 1_000_000_000))
    os.chmod(os.path.join(place, "closed"), 0o700)
    for path in (root, place):
        os.chown(path, NOBODY, NOBODY)
    user = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    if subprocess.run([*user, binary, "--version"], capture_output=True).returncode != 0:
        pytest.skip("nobody may run the product here")
    command = [*user, binary, "serve", root, "--listen", "127.0.0.1:0"]
    child = Child(command, ["listening on "], env=clean_environment(), log=os.path.join(folder, "restricted.log"))
    stack.callback(child.end)
    return s3_client(child.ready_lines[0]), place


def test_what_may_not_be_read_is_refused_and_does_not_hide_the_rest(restricted):
    client, _ = restricted
    assert keys(client) == ["foreign"]
    for key in ("secret", "closed/below"):
        for ask in (client.get_object, client.put_object):
            with pytest.raises(client.exceptions.ClientError) as refusal:
                ask(Bucket="bucket", Key=key, **({"IfNoneMatch": "*"} if ask == client.put_object else {}))
            assert refusal.value.response["Error"]["Code"] == "AccessDenied"
            assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    with pytest.raises(client.exceptions.ClientError) as refusal:
        client.list_objects_v2(Bucket="bucket", Prefix="closed/")
    assert refusal.value.response["Error"]["Code"] == "AccessDenied"


def test_what_may_not_be_changed_is_digested_once(restricted):
    client, place = restricted
    first = client.head_object(Bucket="bucket", Key="foreign")["ETag"]
    records = os.path.join(os.path.dirname(place), ".moorage", "records")
    assert len(os.listdir(records)) == 1
    assert client.head_object(Bucket="bucket", Key="foreign")["ETag"] == first
    with open(os.path.join(place, "foreign"), "ab") as file:
        file.write(b"er")
    assert client.head_object(Bucket="bucket", Key="foreign")["ETag"] != first
    client.put_object(Bucket="bucket", Key="foreign", Body=b"ours")
    assert client.get_object(Bucket="bucket", Key="foreign")["Body"].read() == b"ours"
    assert os.listdir(records) == []
