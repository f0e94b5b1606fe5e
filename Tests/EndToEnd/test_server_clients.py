# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Independent clients against `moorage serve`: boto3, rclone, curl."""

import base64
import concurrent.futures
import email.utils
import hashlib
import os
import random
import shutil
import subprocess
import time
import urllib.error
import urllib.request
import zlib

import boto3
import botocore.config
import pytest
from botocore.exceptions import ClientError

from harness.bucket import ACCESS_KEY, SECRET_KEY, clean_environment, s3_client
from harness.processes import run
from harness.settings import scaled

MIB = 1 << 20


def signing_client(server):
    """A client whose links are signed with version 4; boto3's own default for links is still version 2."""
    return boto3.client(
        "s3",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=botocore.config.Config(signature_version="s3v4", s3={"addressing_style": "path"}),
    )


def code(error):
    return error.value.response["Error"]["Code"], error.value.response["ResponseMetadata"]["HTTPStatusCode"]


def refused(call, **arguments):
    """The S3 error code and status that a call meets."""
    with pytest.raises(ClientError) as error:
        call(Bucket="bucket", **arguments)
    return code(error)


def put(client, key, body=b"content", **more):
    return client.put_object(Bucket="bucket", Key=key, Body=body, **more)["ETag"]


def get(client, key, **more):
    return client.get_object(Bucket="bucket", Key=key, **more)["Body"].read()


def keys(client, **more):
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="bucket", **more)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def test_objects_are_plain_files(server, client):
    put(client, "a/b/c.txt", b"hello", Metadata={"mtime": "12", "ümlaut".encode().hex(): "x"})
    path = os.path.join(server.root, "bucket", "a", "b", "c.txt")
    assert open(path, "rb").read() == b"hello"
    mask = os.umask(0)
    os.umask(mask)
    assert os.stat(path).st_mode & 0o777 == 0o666 & ~mask
    client.delete_object(Bucket="bucket", Key="a/b/c.txt")
    assert os.listdir(os.path.join(server.root, "bucket")) == []


def test_files_of_other_programs_are_objects(server, client):
    folder = os.path.join(server.root, "bucket", "photos")
    os.makedirs(folder)
    with open(os.path.join(folder, "one"), "wb") as file:
        file.write(b"one")
    assert client.head_object(Bucket="bucket", Key="photos/one")["ETag"] == f'"{hashlib.md5(b"one").hexdigest()}"'
    put(client, "photos/two", b"two", Metadata={"a": "b"}, ContentType="text/x")
    with open(os.path.join(folder, "two"), "wb") as file:
        file.write(b"changed")
    head = client.head_object(Bucket="bucket", Key="photos/two")
    assert head["ETag"] == f'"{hashlib.md5(b"changed").hexdigest()}"'
    assert head["ContentType"] == "text/x" and head["Metadata"] == {"a": "b"}
    assert keys(client) == ["photos/one", "photos/two"]


def test_links_and_pipes_are_not_served(server, client, folder):
    secret = os.path.join(folder, "secret")
    with open(secret, "w") as file:
        file.write("secret")
    bucket = os.path.join(server.root, "bucket")
    os.symlink(secret, os.path.join(bucket, "link"))
    os.symlink(folder, os.path.join(bucket, "folder"))
    os.symlink(folder, os.path.join(server.root, "linked-bucket"))
    os.mkfifo(os.path.join(bucket, "pipe"))
    assert refused(client.get_object, Key="link") == ("NoSuchKey", 404)
    assert refused(client.get_object, Key="folder/secret") == ("NoSuchKey", 404)
    assert refused(client.get_object, Key="pipe") == ("NoSuchKey", 404)
    assert refused(client.put_object, Key="folder/new", Body=b"x") == ("ParentIsObject", 400)
    assert keys(client) == []
    assert [bucket["Name"] for bucket in client.list_buckets()["Buckets"]] == ["bucket"]
    with pytest.raises(ClientError) as error:
        client.list_objects_v2(Bucket="linked-bucket")
    assert code(error) == ("NoSuchBucket", 404)


@pytest.mark.parametrize("key", ["../x", "a/../../x", "./x", "a//b", "/a", "a/./b", "a/..", "x" * 1025, "a" * 256])
def test_keys_that_a_folder_cannot_hold_are_refused(server, client, key):
    assert refused(client.put_object, Key=key, Body=b"x")[1] == 400
    assert sorted(os.listdir(server.root)) == [".moorage", "bucket"]


@pytest.mark.parametrize("key", ["a b", "ü/é+&=?#%", "new\nline", "back\\slash", "a'\"<>", ".hidden", "...", "é" * 120])
def test_odd_keys_are_kept_to_the_byte(client, key):
    put(client, key, key.encode())
    assert get(client, key) == key.encode()
    assert keys(client) == [key]
    client.copy_object(Bucket="bucket", Key="copy", CopySource={"Bucket": "bucket", "Key": key})
    assert get(client, "copy") == key.encode()
    client.delete_objects(Bucket="bucket", Delete={"Objects": [{"Key": key}]}) if "\n" not in key else None


def test_an_object_and_a_folder_cannot_have_one_name(client):
    put(client, "a/b")
    assert refused(client.put_object, Key="a", Body=b"x") == ("ExistingObjectIsDirectory", 409)
    assert refused(client.put_object, Key="a/b/c", Body=b"x") == ("ParentIsObject", 400)
    assert refused(client.put_object, Key="a/b/", Body=b"") == ("ParentIsObject", 400)
    assert keys(client) == ["a/b"]


def test_folder_markers(server, client):
    put(client, "dir/", b"", Metadata={"mode": "16877"})
    assert keys(client) == ["dir/"]
    put(client, "dir/file")
    client.delete_object(Bucket="bucket", Key="dir/file")
    assert client.head_object(Bucket="bucket", Key="dir/")["Metadata"] == {"mode": "16877"}
    assert refused(client.get_object, Key="dir") == ("NoSuchKey", 404)
    put(client, "dir/sub/file")
    client.delete_object(Bucket="bucket", Key="dir/")
    assert refused(client.get_object, Key="dir/") == ("NoSuchKey", 404)
    assert keys(client) == ["dir/sub/file"]
    client.delete_object(Bucket="bucket", Key="dir/sub/file")
    assert os.listdir(os.path.join(server.root, "bucket")) == []


def test_listing_is_sorted_by_bytes_and_pages_well(server, client, seed):
    names = random.Random(seed)
    wanted = set()
    while len(wanted) < 5000:
        parts = ["".join(names.choices("abcß-/.Z0", k=names.randint(1, 4))) for _ in range(names.randint(1, 3))]
        key = "/".join(part.replace("/", "-").strip(".") or "e" for part in parts) + f"f{len(wanted)}"
        wanted.add(key)
    root = os.path.join(server.root, "bucket")
    for key in wanted:
        os.makedirs(os.path.dirname(os.path.join(root, key)), exist_ok=True)
        with open(os.path.join(root, key), "w") as file:
            file.write(key)
    expected = sorted(wanted, key=str.encode)
    assert keys(client) == expected
    assert keys(client, PaginationConfig={"PageSize": 7}, Prefix="a") == [key for key in expected if key.startswith("a")]
    markers = client.get_paginator("list_objects").paginate(Bucket="bucket", PaginationConfig={"PageSize": 333})
    assert [item["Key"] for page in markers for item in page["Contents"]] == expected
    for _ in range(scaled(20)):
        after = names.choice(expected) + names.choice(["", "0", "/"])
        listed = client.list_objects_v2(Bucket="bucket", StartAfter=after, MaxKeys=5)
        assert [item["Key"] for item in listed.get("Contents", [])] == [key for key in expected if key.encode() > after.encode()][:5]


@pytest.mark.parametrize("delimiter", ["/", "-", "bb"])
@pytest.mark.parametrize("prefix", ["", "a", "a/", "a/b/", "zz"])
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_common_prefixes(client, delimiter, prefix, size):
    names = ["a-1", "a-2", "a/b/c", "a/b/d", "a/b-c", "a/e", "abbc", "abb/d", "b", "c/d/e/f", "c/d/g"]
    for name in names:
        put(client, name)
    found, prefixes = [], []
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket="bucket", Delimiter=delimiter, Prefix=prefix, PaginationConfig={"PageSize": size}
    )
    for page in pages:
        assert page["KeyCount"] <= size
        found += [item["Key"] for item in page.get("Contents", [])]
        prefixes += [item["Prefix"] for item in page.get("CommonPrefixes", [])]
    matching = sorted(name for name in names if name.startswith(prefix))
    cut = [name.find(delimiter, len(prefix)) for name in matching]
    assert found == [name for name, at in zip(matching, cut) if at < 0]
    assert prefixes == sorted({name[: at + len(delimiter)] for name, at in zip(matching, cut) if at >= 0})


def test_ranges(client):
    content = bytes(range(256)) * 16
    tag = put(client, "key", content)
    for text, low, high in [("bytes=0-0", 0, 1), ("bytes=5-9", 5, 10), ("bytes=4000-", 4000, 4096), ("bytes=-3", 4093, 4096), ("bytes=4095-9999", 4095, 4096)]:
        answer = client.get_object(Bucket="bucket", Key="key", Range=text)
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert answer["ContentRange"] == f"bytes {low}-{high - 1}/4096" and answer["ETag"] == tag
        assert answer["Body"].read() == content[low:high]
    assert refused(client.get_object, Key="key", Range="bytes=4096-") == ("InvalidRange", 416)
    assert get(client, "key", Range="bytes=9-2") == content
    put(client, "empty", b"")
    assert refused(client.get_object, Key="empty", Range="bytes=0-") == ("InvalidRange", 416)


def test_conditional_reads(client):
    tag = put(client, "key")
    modified = client.head_object(Bucket="bucket", Key="key")["LastModified"]
    assert refused(client.get_object, Key="key", IfMatch='"other"') == ("PreconditionFailed", 412)
    assert get(client, "key", IfMatch=f'"other", {tag}') == b"content"
    assert refused(client.get_object, Key="key", IfNoneMatch=tag)[1] == 304
    assert get(client, "key", IfNoneMatch='"other"') == b"content"
    assert refused(client.get_object, Key="key", IfModifiedSince=modified)[1] == 304
    assert refused(client.get_object, Key="key", IfUnmodifiedSince="Thu, 01 Jan 2015 00:00:00 GMT") == ("PreconditionFailed", 412)
    assert refused(client.head_object, Key="key", IfMatch='"other"')[1] == 412


def test_if_range(server):
    client = signing_client(server)
    tag = put(client, "key", b"0123456789")
    for value, status in [(tag, 206), ('"stale"', 200), ("W/" + tag, 200)]:
        url = client.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": "key"})
        request = urllib.request.Request(url, headers={"Range": "bytes=2-4", "If-Range": value})
        with urllib.request.urlopen(request) as answer:
            assert answer.status == status
            assert answer.read() == (b"234" if status == 206 else b"0123456789")


def test_conditional_writes(client):
    first = put(client, "key", b"1", IfNoneMatch="*")
    assert refused(client.put_object, Key="key", Body=b"2", IfNoneMatch="*") == ("PreconditionFailed", 412)
    assert refused(client.put_object, Key="key", Body=b"2", IfMatch='"stale"') == ("PreconditionFailed", 412)
    second = put(client, "key", b"2", IfMatch=first)
    assert refused(client.put_object, Key="missing", Body=b"2", IfMatch=first) == ("NoSuchKey", 404)
    assert refused(client.delete_object, Key="key", IfMatch=first) == ("PreconditionFailed", 412)
    source = {"Bucket": "bucket", "Key": "key"}
    assert refused(client.copy_object, Key="copy", CopySource=source, CopySourceIfMatch=first) == ("PreconditionFailed", 412)
    client.copy_object(Bucket="bucket", Key="copy", CopySource=source, CopySourceIfMatch=second, IfNoneMatch="*")
    assert refused(client.copy_object, Key="copy", CopySource=source, IfNoneMatch="*") == ("PreconditionFailed", 412)
    client.delete_object(Bucket="bucket", Key="key", IfMatch=second)
    assert keys(client) == ["copy"]


def test_only_one_of_many_creators_wins(server):
    def create(number):
        try:
            put(s3_client(server.url), "key", str(number).encode(), IfNoneMatch="*")
            return number
        except ClientError as error:
            assert error.response["Error"]["Code"] == "PreconditionFailed"

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        winners = [number for number in pool.map(create, range(24)) if number is not None]
    assert len(winners) == 1
    assert get(s3_client(server.url), "key") == str(winners[0]).encode()


def test_copy_keeps_or_replaces_metadata(client):
    tag = put(client, "key", Metadata={"a": "1"}, ContentType="text/plain", CacheControl="no-cache")
    source = {"Bucket": "bucket", "Key": "key"}
    client.copy_object(Bucket="bucket", Key="kept", CopySource=source)
    kept = client.head_object(Bucket="bucket", Key="kept")
    assert (kept["Metadata"], kept["ContentType"], kept["CacheControl"]) == ({"a": "1"}, "text/plain", "no-cache")
    client.copy_object(Bucket="bucket", Key="key", CopySource=source, Metadata={"b": "2"}, MetadataDirective="REPLACE")
    own = client.head_object(Bucket="bucket", Key="key")
    assert own["Metadata"] == {"b": "2"} and own["ETag"] == tag and get(client, "key") == b"content"
    assert refused(client.copy_object, Key="key", CopySource=source) == ("InvalidRequest", 400)
    assert refused(client.copy_object, Key="x", CopySource={"Bucket": "bucket", "Key": "no"}) == ("NoSuchKey", 404)


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


def test_wrong_keys_are_refused(server):
    wrong = s3_client(server.url, secret_key="wrong" * 5)
    assert refused(wrong.put_object, Key="key", Body=b"x") == ("SignatureDoesNotMatch", 403)
    assert refused(wrong.list_objects_v2) == ("SignatureDoesNotMatch", 403)
    unknown = s3_client(server.url, access_key="UNKNOWN")
    assert refused(unknown.put_object, Key="key", Body=b"x") == ("InvalidAccessKeyId", 403)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(server.url + "/bucket/key")
    assert error.value.code == 403 and b"AccessDenied" in error.value.read()


def test_the_time_of_a_signature_may_be_the_date(server):
    client = s3_client(server.url)

    def add(params, **_):
        # A Date that is there makes botocore sign with it, in the form of mail.
        params["headers"]["Date"] = email.utils.formatdate(usegmt=True)

    client.meta.events.register("before-call.s3.PutObject", add)
    put(client, "key")
    assert get(client, "key") == b"content"


def test_presigned_links(server):
    client = signing_client(server)
    target = {"Bucket": "bucket", "Key": "a b/ü"}
    link = client.generate_presigned_url("put_object", target, ExpiresIn=60)
    with urllib.request.urlopen(urllib.request.Request(link, data=b"content", method="PUT", headers={"Content-Type": ""})) as answer:
        assert answer.status == 200
    link = client.generate_presigned_url("get_object", target | {"ResponseContentType": "x/y"}, ExpiresIn=60)
    with urllib.request.urlopen(link) as answer:
        assert answer.read() == b"content" and answer.headers["Content-Type"] == "x/y"
    for broken in [link.replace("a%20b", "a%20c"), link + "0", link.replace("Expires=60", "Expires=61")]:
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(broken)
        assert error.value.code == 403
    # Without a wish botocore signs links with version 2.
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(server.client().generate_presigned_url("get_object", target))
    assert error.value.code == 400 and b"only AWS4-HMAC-SHA256" in error.value.read()
    short = client.generate_presigned_url("get_object", target, ExpiresIn=1)
    time.sleep(2.1)
    with pytest.raises(urllib.error.HTTPError) as error:
        urllib.request.urlopen(short)
    assert error.value.code == 403 and b"expired" in error.value.read()


def presigned_with(server, argument, target):
    """A request whose link is signed with one more query argument."""
    client = signing_client(server)
    name, _, value = argument.partition("=")

    def add(request, **_):
        request.params = {name: value}

    client.meta.events.register("before-sign.s3.PutObject", add)
    link = client.generate_presigned_url("put_object", {"Bucket": target["Bucket"], "Key": target["Key"]}, ExpiresIn=60)
    assert f"{name}=" in link
    return urllib.request.Request(link, data=b"x", method=target["Method"], headers={"Content-Type": ""})


def test_unknown_sub_resources_do_not_become_writes(server, client):
    tag = put(client, "key")
    for name in ["renameObject", "position=3", "tagging", "acl", "retention"]:
        target = {"Method": "PUT", "Bucket": "bucket", "Key": "key"}
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(presigned_with(server, name, target))
        assert error.value.code == 501
    assert refused(client.get_object_acl, Key="key") == ("NotImplemented", 501)
    assert refused(client.put_object_tagging, Key="key", Tagging={"TagSet": []}) == ("NotImplemented", 501)
    assert client.head_object(Bucket="bucket", Key="key")["ETag"] == tag


def test_buckets(client):
    client.create_bucket(Bucket="other")
    with pytest.raises(ClientError) as error:
        client.create_bucket(Bucket="other")
    assert code(error) == ("BucketAlreadyOwnedByYou", 409)
    for name in ["Not_Valid", "a..b", "a.-b", "a-.b", "127.0.0.1"]:
        with pytest.raises(ClientError) as error:
            client.create_bucket(Bucket=name)
        assert code(error) == ("InvalidBucketName", 400), name
    assert client.get_bucket_location(Bucket="other")["LocationConstraint"] is None
    client.put_object(Bucket="other", Key="a/b", Body=b"")
    with pytest.raises(ClientError) as error:
        client.delete_bucket(Bucket="other")
    assert code(error) == ("BucketNotEmpty", 409)
    client.delete_object(Bucket="other", Key="a/b")
    client.delete_bucket(Bucket="other")
    with pytest.raises(ClientError) as error:
        client.head_bucket(Bucket="other")
    assert code(error)[1] == 404
    with pytest.raises(ClientError) as error:
        client.put_object(Bucket="other", Key="key", Body=b"")
    assert code(error) == ("NoSuchBucket", 404)


def test_buckets_are_listed_in_pages(client):
    names = ["bucket"] + sorted(f"many-{number}" for number in range(7))
    for name in names[1:]:
        client.create_bucket(Bucket=name)

    def pages(**more):
        found = client.get_paginator("list_buckets").paginate(PaginationConfig={"PageSize": 3}, **more)
        return [[bucket["Name"] for bucket in page["Buckets"]] for page in found]

    assert pages() == [names[:3], names[3:6], names[6:]]
    assert pages(Prefix="many-") == [names[1:4], names[4:7], names[7:]]
    assert pages(Prefix="no") == [[]] == pages(BucketRegion="eu-north-1")


def test_listings_tell_the_owner_where_asked(client):
    put(client, "key")
    assert client.list_objects(Bucket="bucket")["Contents"][0]["Owner"]["ID"]
    assert client.list_objects_v2(Bucket="bucket", FetchOwner=True)["Contents"][0]["Owner"]["ID"]
    assert "Owner" not in client.list_objects_v2(Bucket="bucket")["Contents"][0]


def test_deleting_many(client):
    for number in range(30):
        put(client, f"d/{number}")
    answer = client.delete_objects(
        Bucket="bucket", Delete={"Objects": [{"Key": f"d/{number}"} for number in range(20)] + [{"Key": "a//b"}, {"Key": "no"}]}
    )
    assert len(answer["Deleted"]) == 21 and [error["Key"] for error in answer["Errors"]] == ["a//b"]
    assert len(keys(client)) == 10


def rclone(server, folder, *arguments, check=True):
    program = shutil.which("rclone", path=f"{os.path.dirname(os.sys.executable)}:{os.environ['PATH']}")
    config = os.path.join(folder, "rclone.conf")
    with open(config, "w") as file:
        file.write(
            "[s]\ntype = s3\nprovider = Other\nenv_auth = false\nregion = us-east-1\n"
            f"access_key_id = {ACCESS_KEY}\nsecret_access_key = {SECRET_KEY}\nendpoint = {server.url}\n"
        )
    return run([program, "--config", config, *arguments], timeout=120, check=check, env=clean_environment())


def test_rclone_copies_and_checks(server, folder, seed):
    source = os.path.join(folder, "source")
    chooser = random.Random(seed)
    for number in range(200):
        path = os.path.join(source, f"d{number % 7}", f"e {number % 3}", f"f{number}.txt")
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(chooser.randbytes(chooser.choice([0, 1, 4096, 70_000])))
    with open(os.path.join(source, "big"), "wb") as file:
        file.write(chooser.randbytes(23 * MIB + 7))
    options = ["--s3-upload-cutoff", "8M", "--s3-chunk-size", "5M"]
    rclone(server, folder, "copy", *options, source, "s:bucket/tree")
    rclone(server, folder, "check", "--download", source, "s:bucket/tree")
    assert "0 differences" in rclone(server, folder, "check", source, "s:bucket/tree").stderr
    assert subprocess.run(["diff", "-r", source, os.path.join(server.root, "bucket", "tree")]).returncode == 0
    before = server.body_bytes()
    rclone(server, folder, "sync", *options, source, "s:bucket/tree")
    assert server.body_bytes() == before
    rclone(server, folder, "purge", "s:bucket/tree")
    assert os.listdir(os.path.join(server.root, "bucket")) == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_signs_and_expects(server, folder):
    path = os.path.join(folder, "file")
    with open(path, "wb") as file:
        file.write(os.urandom(3 * MIB))
    signed = ["--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{ACCESS_KEY}:{SECRET_KEY}"]
    unsigned = ["-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    command = ["curl", "-sS", "--fail", *signed, *unsigned]
    run([*command, "-H", "Expect: 100-continue", "-T", path, f"{server.url}/bucket/key"])
    copy = os.path.join(folder, "copy")
    run([*command, "-o", copy, f"{server.url}/bucket/key"])
    assert open(path, "rb").read() == open(copy, "rb").read()


def needs(program):
    missing = shutil.which(program) is None or not os.access("/dev/fuse", os.R_OK | os.W_OK)
    return pytest.mark.skipif(missing, reason=f"{program} or /dev/fuse is missing")


def work_in(mountpoint, folder, seed):
    """What a user does in a mounted bucket."""
    source = os.path.join(folder, "source")
    with open(source, "wb") as file:
        file.write(random.Random(seed).randbytes(25 * MIB))
    script = f"""
        cd {mountpoint}
        mkdir d; echo hello > d/a; cp {source} big; mv d/a d/b; cmp {source} big
        mv d e; test "$(cat e/b)" = hello; rm big; echo again > e/c; ls e
    """
    assert run(["bash", "-euc", script], timeout=100).stdout.split() == ["b", "c"]


def unmounted(mountpoint):
    return lambda: subprocess.run(["fusermount3", "-uz", mountpoint], stderr=subprocess.DEVNULL)


@needs("s3fs")
def test_s3fs_mounts(server, folder, stack, seed):
    mountpoint, password = os.path.join(folder, "mnt"), os.path.join(folder, "password")
    os.mkdir(mountpoint)
    with open(os.open(password, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
        file.write(f"{ACCESS_KEY}:{SECRET_KEY}\n")
    options = f"url={server.url},use_path_request_style,passwd_file={password},multipart_size=10"
    run(["s3fs", "bucket", mountpoint, "-o", options])
    stack.callback(unmounted(mountpoint))
    work_in(mountpoint, folder, seed)
    assert sorted(keys(server.client())) == ["e/", "e/b", "e/c"]


@needs("fusermount3")
def test_rclone_mounts(server, folder, stack, seed):
    mountpoint = os.path.join(folder, "mnt")
    os.mkdir(mountpoint)
    cache = os.path.join(folder, "cache")
    rclone(server, folder, "mount", "s:bucket", mountpoint, "--daemon", "--vfs-cache-mode", "writes", "--vfs-write-back", "0", "--cache-dir", cache)
    stack.callback(unmounted(mountpoint))
    work_in(mountpoint, folder, seed)
    run(["fusermount3", "-u", mountpoint])
    deadline = time.monotonic() + 30
    while sorted(keys(server.client())) != ["e/b", "e/c"] and time.monotonic() < deadline:
        time.sleep(0.2)
    assert sorted(keys(server.client())) == ["e/b", "e/c"]
