# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""boto3 against `moorage serve`: objects, listings, conditions, buckets."""

import concurrent.futures
import hashlib
import os
import random
import urllib.error
import urllib.request

import pytest
from botocore.exceptions import ClientError

from harness.bucket import s3_client
from harness.s3_calls import code, get, keys, put, refused, signing_client
from harness.settings import scaled


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
