# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Uploads in parts, and checksums, as boto3 makes them against `moorage serve`."""

import base64
import hashlib
import os
import zlib

import pytest
from botocore.exceptions import ClientError

from harness.s3_calls import code, get, put, refused

MIB = 1 << 20


def parts_of(content, size):
    return [content[at : at + size] for at in range(0, len(content), size)]


def upload_parts(client, key, parts, numbers=None, **more):
    upload = client.create_multipart_upload(Bucket="bucket", Key=key, **more)["UploadId"]
    listed = []
    for number, part in zip(numbers or range(1, len(parts) + 1), parts):
        tag = client.upload_part(Bucket="bucket", Key=key, UploadId=upload, PartNumber=number, Body=part)["ETag"]
        listed.append({"PartNumber": number, "ETag": tag})
    return upload, sorted(listed, key=lambda part: part["PartNumber"])


def complete(client, key, upload, parts, **more):
    return client.complete_multipart_upload(
        Bucket="bucket", Key=key, UploadId=upload, MultipartUpload={"Parts": parts}, **more
    )["ETag"]


@pytest.mark.parametrize("order", [[1, 2, 3, 4], [4, 3, 2, 1], [10, 500, 9999, 10000]])
def test_multipart(client, order):
    content = os.urandom(16 * MIB + 12345)
    parts = parts_of(content, 5 * MIB)
    numbered = sorted(order)
    sent = [parts[numbered.index(number)] for number in order]
    upload, listed = upload_parts(client, "big", sent, order, Metadata={"a": "b"}, ContentType="x/y")
    seen = client.list_parts(Bucket="bucket", Key="big", UploadId=upload)["Parts"]
    assert [(part["PartNumber"], part["Size"]) for part in seen] == [(n, len(p)) for n, p in zip(numbered, parts)]
    tag = complete(client, "big", upload, listed)
    digests = b"".join(hashlib.md5(part).digest() for part in parts)
    assert tag == f'"{hashlib.md5(digests).hexdigest()}-4"'
    head = client.head_object(Bucket="bucket", Key="big")
    assert (head["ETag"], head["Metadata"], head["ContentType"]) == (tag, {"a": "b"}, "x/y")
    assert get(client, "big") == content
    assert complete(client, "big", upload, listed) == tag
    assert client.list_multipart_uploads(Bucket="bucket").get("Uploads", []) == []


def test_multipart_rules(client):
    upload, parts = upload_parts(client, "key", [b"a" * (5 * MIB - 1), b"b"])
    arguments = {"Key": "key", "UploadId": upload}

    def completing(chosen):
        return refused(client.complete_multipart_upload, MultipartUpload={"Parts": chosen}, **arguments)

    assert completing(parts) == ("EntityTooSmall", 400)
    assert completing(parts[::-1]) == ("InvalidPartOrder", 400)
    assert completing([{"PartNumber": 1, "ETag": parts[1]["ETag"]}]) == ("InvalidPart", 400)
    assert completing([{"PartNumber": 3, "ETag": parts[1]["ETag"]}]) == ("InvalidPart", 400)
    assert refused(client.upload_part, PartNumber=10001, Body=b"", **arguments) == ("InvalidArgument", 400)
    assert refused(client.upload_part, PartNumber=0, Body=b"", **arguments) == ("InvalidArgument", 400)
    client.abort_multipart_upload(Bucket="bucket", **arguments)
    assert refused(client.abort_multipart_upload, **arguments) == ("NoSuchUpload", 404)
    assert refused(client.list_parts, **arguments) == ("NoSuchUpload", 404)
    assert refused(client.upload_part, Key="key", UploadId="../../x", PartNumber=1, Body=b"") == ("NoSuchUpload", 404)


def test_parts_sent_again_replace_earlier_ones(client):
    first, second, third = (os.urandom(5 * MIB) for _ in range(3))
    upload, _ = upload_parts(client, "key", [first, b"early", second, third], [1, 2, 1, 2])
    listed = client.list_parts(Bucket="bucket", Key="key", UploadId=upload)["Parts"]
    complete(client, "key", upload, [{"PartNumber": part["PartNumber"], "ETag": part["ETag"]} for part in listed])
    assert get(client, "key") == second + third


def test_conditional_complete(client):
    put(client, "key", b"old")
    upload, parts = upload_parts(client, "key", [b"new"])
    arguments = {"Key": "key", "UploadId": upload, "MultipartUpload": {"Parts": parts}}
    assert refused(client.complete_multipart_upload, IfNoneMatch="*", **arguments) == ("PreconditionFailed", 412)
    assert refused(client.complete_multipart_upload, IfMatch='"stale"', **arguments) == ("PreconditionFailed", 412)
    complete(client, "key", upload, parts, IfMatch=f'"{hashlib.md5(b"old").hexdigest()}"')
    assert get(client, "key") == b"new"


def test_part_copy(client):
    content = os.urandom(12 * MIB)
    put(client, "source", content)
    upload = client.create_multipart_upload(Bucket="bucket", Key="key")["UploadId"]
    source = {"Bucket": "bucket", "Key": "source"}
    parts = []
    for number, text in [(1, f"bytes=0-{6 * MIB - 1}"), (2, f"bytes={6 * MIB}-{12 * MIB - 1}")]:
        answer = client.upload_part_copy(
            Bucket="bucket", Key="key", UploadId=upload, PartNumber=number, CopySource=source, CopySourceRange=text
        )
        parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
    beyond = {"CopySourceRange": f"bytes=0-{12 * MIB}", "PartNumber": 3}
    assert refused(client.upload_part_copy, Key="key", UploadId=upload, CopySource=source, **beyond)[1] == 416
    complete(client, "key", upload, parts)
    assert get(client, "key") == content


def test_uploads_survive_a_restart(server, client):
    first, second = os.urandom(5 * MIB), os.urandom(MIB)
    upload, parts = upload_parts(client, "a/b", [first], Metadata={"a": "b"})
    server.kill()
    server.restart()
    assert [item["UploadId"] for item in client.list_multipart_uploads(Bucket="bucket")["Uploads"]] == [upload]
    tag = client.upload_part(Bucket="bucket", Key="a/b", UploadId=upload, PartNumber=2, Body=second)["ETag"]
    complete(client, "a/b", upload, parts + [{"PartNumber": 2, "ETag": tag}])
    assert get(client, "a/b") == first + second
    assert client.head_object(Bucket="bucket", Key="a/b")["Metadata"] == {"a": "b"}


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA1", "SHA256"])
def test_checksums_are_verified_kept_and_returned(client, algorithm):
    name = f"Checksum{algorithm}"
    value = put_checksum = client.put_object(Bucket="bucket", Key="key", Body=b"data", ChecksumAlgorithm=algorithm)[name]
    assert client.head_object(Bucket="bucket", Key="key", ChecksumMode="ENABLED")[name] == value == put_checksum
    assert name not in client.head_object(Bucket="bucket", Key="key")
    wrong = base64.b64encode(b"\0" * len(base64.b64decode(value))).decode()
    assert refused(client.put_object, Key="key", Body=b"other", **{name: wrong}) == ("BadDigest", 400)
    assert refused(client.put_object, Key="key", Body=b"other", ContentMD5="AAAAAAAAAAAAAAAAAAAAAA==") == ("BadDigest", 400)
    assert refused(client.put_object, Key="key", Body=b"other", ContentMD5="AAAA") == ("InvalidDigest", 400)
    assert get(client, "key") == b"data"


def test_checksum_of_a_whole_multipart_object(client):
    parts = [os.urandom(5 * MIB), os.urandom(5 * MIB), os.urandom(777)]
    upload = client.create_multipart_upload(
        Bucket="bucket", Key="key", ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT"
    )["UploadId"]
    listed = []
    for number, part in enumerate(parts, 1):
        answer = client.upload_part(
            Bucket="bucket", Key="key", UploadId=upload, PartNumber=number, Body=part, ChecksumAlgorithm="CRC32"
        )
        listed.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumCRC32": answer["ChecksumCRC32"]})
    whole = base64.b64encode(zlib.crc32(b"".join(parts)).to_bytes(4, "big")).decode()
    arguments = {"Key": "key", "UploadId": upload, "MultipartUpload": {"Parts": listed}}
    assert refused(client.complete_multipart_upload, ChecksumCRC32="AAAAAA==", **arguments) == ("BadDigest", 400)
    complete(client, "key", upload, listed, ChecksumCRC32=whole)
    head = client.head_object(Bucket="bucket", Key="key", ChecksumMode="ENABLED")
    assert head["ChecksumCRC32"] == whole and head["ChecksumType"] == "FULL_OBJECT"


@pytest.mark.parametrize("algorithm", ["CRC32", "SHA256"])
def test_checksums_of_parts_are_told_and_joined(client, algorithm):
    name = f"Checksum{algorithm}"
    parts = [os.urandom(5 * MIB), os.urandom(777)]
    upload = client.create_multipart_upload(Bucket="bucket", Key="key", ChecksumAlgorithm=algorithm)["UploadId"]
    arguments = {"Bucket": "bucket", "Key": "key", "UploadId": upload}
    listed, digests = [], b""
    for number, part in enumerate(parts, 1):
        answer = client.upload_part(PartNumber=number, Body=part, ChecksumAlgorithm=algorithm, **arguments)
        digest = zlib.crc32(part).to_bytes(4, "big") if algorithm == "CRC32" else hashlib.sha256(part).digest()
        assert answer[name] == base64.b64encode(digest).decode()
        digests += digest
        listed.append({"PartNumber": number, "ETag": answer["ETag"], name: answer[name]})
    seen = client.list_parts(**arguments)
    assert (seen["ChecksumAlgorithm"], seen["ChecksumType"]) == (algorithm, "COMPOSITE")
    assert [part[name] for part in seen["Parts"]] == [part[name] for part in listed]
    joined = zlib.crc32(digests).to_bytes(4, "big") if algorithm == "CRC32" else hashlib.sha256(digests).digest()
    composite = base64.b64encode(joined).decode() + "-2"
    wrong = {name: base64.b64encode(b"\0" * len(joined)).decode() + "-2"}
    last = {"MultipartUpload": {"Parts": listed}, **arguments}
    with pytest.raises(ClientError) as error:
        client.complete_multipart_upload(**last, **wrong)
    assert code(error) == ("BadDigest", 400)
    answer = client.complete_multipart_upload(**last, **{name: composite})
    assert (answer[name], answer["ChecksumType"]) == (composite, "COMPOSITE")
    source = {"Bucket": "bucket", "Key": "key"}
    kept = client.copy_object(Bucket="bucket", Key="kept", CopySource=source)["CopyObjectResult"]
    assert (kept[name], kept["ChecksumType"]) == (composite, "COMPOSITE")
    whole = base64.b64encode(hashlib.sha1(b"".join(parts)).digest()).decode()
    anew = client.copy_object(Bucket="bucket", Key="anew", CopySource=source, ChecksumAlgorithm="SHA1")
    assert anew["CopyObjectResult"]["ChecksumSHA1"] == whole
    assert client.head_object(Bucket="bucket", Key="anew", ChecksumMode="ENABLED")["ChecksumSHA1"] == whole
