# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What `moorage serve` does not implement it refuses: nothing is taken for a plain request of another kind."""

import datetime
import hashlib
import os
import urllib.error
import urllib.request
import xml.etree.ElementTree

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from harness.bucket import ACCESS_KEY, SECRET_KEY

CONTENT = b"content"


def ask(server, method, target, body=b"", fields=None):
    """The status, S3 error code and content that a signed request is answered with."""
    request = AWSRequest(method, server.url + target, data=body, headers=fields or {})
    S3SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", "us-east-1").add_auth(request)
    request = urllib.request.Request(server.url + target, data=body or None, method=method, headers=dict(request.headers))
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, None, answer.read()
    except urllib.error.HTTPError as error:
        content = error.read()
        return error.code, content and xml.etree.ElementTree.fromstring(content).findtext("Code"), content


@pytest.fixture
def served(server, client):
    """A server with one object, `key`; another bucket is empty."""
    client.put_object(Bucket="bucket", Key="key", Body=CONTENT)
    client.create_bucket(Bucket="empty")
    yield server
    assert sorted(os.listdir(server.root)) == [".moorage", "bucket", "empty"]
    assert os.listdir(os.path.join(server.root, "bucket")) == ["key"]
    assert client.get_object(Bucket="bucket", Key="key")["Body"].read() == CONTENT
    assert "Uploads" not in client.list_multipart_uploads(Bucket="bucket")


SUBRESOURCES = ["acl", "versioning", "tagging", "policy", "lifecycle", "cors", "location", "uploads", "delete", "logging"]


def test_a_sub_resource_is_not_the_bucket(served):
    for name in SUBRESOURCES:
        for target in ["/empty", "/new-bucket", "/empty/"]:
            for method in ["PUT", "DELETE"]:
                assert ask(served, method, f"{target}?{name}", b"<x/>")[:2] == (501, "NotImplemented"), (method, name)
    for name in set(SUBRESOURCES) - {"location", "versioning", "uploads"}:
        assert ask(served, "GET", f"/bucket?{name}")[:2] == (501, "NotImplemented"), name


def test_a_sub_resource_is_not_the_object(served):
    for name in SUBRESOURCES + ["versionId=1", "restore", "append&position=7", "select&select-type=2"]:
        for method in ["PUT", "DELETE", "GET"]:
            assert ask(served, method, f"/bucket/key?{name}", b"<x/>")[:2] == (501, "NotImplemented"), (method, name)
        if name != "uploads":
            assert ask(served, "POST", f"/bucket/key?{name}", b"<x/>")[:2] == (501, "NotImplemented"), name


@pytest.mark.parametrize(
    "field",
    [
        "x-amz-server-side-encryption: AES256",
        "x-amz-server-side-encryption-customer-key: a",
        "x-amz-acl: public-read",
        "x-amz-grant-read: uri=x",
        "x-amz-tagging: a=b",
        "x-amz-object-lock-legal-hold: ON",
        "x-amz-storage-class: GLACIER",
        "x-amz-website-redirect-location: /other",
        "Content-Range: bytes 0-0/7",
    ],
)
def test_a_field_with_a_meaning_of_its_own_is_not_dropped(served, field):
    fields = dict([field.split(": ")])
    for method, target in [("PUT", "/bucket/key"), ("PUT", "/bucket/other"), ("POST", "/bucket/key?uploads")]:
        assert ask(served, method, target, b"x", fields)[:2] == (501, "NotImplemented")
    copy = fields | {"x-amz-copy-source": "/bucket/key"}
    assert ask(served, "PUT", "/bucket/copy", b"", copy)[:2] == (501, "NotImplemented")
    # The same for a resumable upload, at its beginning.
    draft = fields | {"Upload-Draft-Interop-Version": "6", "Upload-Complete": "?1"}
    assert ask(served, "PUT", "/bucket/other", b"x", draft)[0] == 501


def test_fields_that_say_what_is_so_are_taken(server, client):
    client.put_object(Bucket="bucket", Key="key", Body=CONTENT, ACL="private", StorageClass="STANDARD")
    client.put_object(Bucket="bucket", Key="key", Body=CONTENT, ACL="bucket-owner-full-control")


def test_a_range_is_not_copied_as_the_whole(served):
    fields = {"x-amz-copy-source": "/bucket/key", "x-amz-copy-source-range": "bytes=0-1"}
    assert ask(served, "PUT", "/bucket/copy", b"", fields)[:2] == (400, "InvalidRequest")


def test_a_deletion_under_conditions_spares_other_objects(served, client):
    modified = client.head_object(Bucket="bucket", Key="key")["LastModified"]
    earlier = modified - datetime.timedelta(seconds=60)
    spared = [
        {"x-amz-if-match-size": "8"},
        {"x-amz-if-match-last-modified-time": earlier.strftime("%a, %d %b %Y %H:%M:%S GMT")},
        {"If-Unmodified-Since": earlier.strftime("%a, %d %b %Y %H:%M:%S GMT")},
    ]
    for fields in spared:
        assert ask(served, "DELETE", "/bucket/key", b"", fields)[:2] == (412, "PreconditionFailed"), fields
    assert ask(served, "PUT", "/bucket/key", b"x", spared[2])[:2] == (412, "PreconditionFailed")
    for fields in [{"x-amz-if-match-size": "x"}, {"x-amz-if-match-last-modified-time": "x"}]:
        assert ask(served, "DELETE", "/bucket/key", b"", fields)[:2] == (400, "InvalidArgument"), fields
    many = [{"Size": 8}, {"LastModifiedTime": earlier}, {"ETag": "other"}, {"VersionId": "1"}]
    for condition in many:
        answer = client.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": "key", **condition}]})
        assert [error["Key"] for error in answer["Errors"]] == ["key"] and "Deleted" not in answer, condition


def test_a_deletion_whose_conditions_hold_is_done(server, client):
    for condition in [{"IfMatchSize": 7}, {"IfMatchLastModifiedTime": None}, {"IfMatch": "*"}]:
        client.put_object(Bucket="bucket", Key="key", Body=CONTENT)
        head = client.head_object(Bucket="bucket", Key="key")
        condition = {name: value or head["LastModified"] for name, value in condition.items()}
        client.delete_object(Bucket="bucket", Key="key", **condition)
    client.put_object(Bucket="bucket", Key="key", Body=CONTENT)
    head = client.head_object(Bucket="bucket", Key="key")
    tag = hashlib.md5(CONTENT).hexdigest()
    wanted = {"Key": "key", "Size": 7, "LastModifiedTime": head["LastModified"], "ETag": tag, "VersionId": "null"}
    assert "Errors" not in client.delete_objects(Bucket="bucket", Delete={"Objects": [wanted]})
    assert "Contents" not in client.list_objects_v2(Bucket="bucket")
