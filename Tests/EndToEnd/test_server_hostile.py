# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""`moorage serve` and requests that nobody honest sends: numbers without measure, names that lead elsewhere."""

import hashlib
import http.client
import os
import re
import urllib.parse

import pytest

from harness.bucket import clean_environment
from harness.processes import Child
from harness.wire import Wire

HUGE = "999999999999999999"


@pytest.fixture
def address(folder, stack, binary):
    """`moorage serve` without a key, with the empty bucket `bucket`."""
    root = os.path.join(folder, "open")
    os.makedirs(os.path.join(root, "bucket"))
    command = [binary, "serve", root, "--listen", "127.0.0.1:0"]
    child = Child(command, ["listening on "], env=clean_environment(), log=os.path.join(folder, "open.log"))
    stack.callback(child.end)
    return child.ready_lines[0].removeprefix("http://")


def ask(address, method, target, body=b"", **fields):
    """One request on a connection of its own; the status, the fields and the content of the answer."""
    peer = http.client.HTTPConnection(address, timeout=20)
    try:
        peer.putrequest(method, target, skip_accept_encoding=True)
        fields = {name.replace("_", "-"): value for name, value in fields.items()}
        for name, value in ({"Content-Length": str(len(body))} | fields).items():
            peer.putheader(name, value)
        peer.endheaders()
        peer.send(body)
        answer = peer.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        peer.close()


def begin_upload(address, key="k"):
    answer = ask(address, "POST", f"/bucket/{key}?uploads")[2].decode()
    return re.search("<UploadId>(.*)</UploadId>", answer).group(1)


@pytest.mark.parametrize("number", [1, 20, 10_000])
def test_a_part_without_measure_is_refused(address, number):
    upload = begin_upload(address)
    target = f"/bucket/k?uploadId={upload}&partNumber={number}"
    status, _, body = ask(address, "PUT", target, Content_Length=HUGE)
    assert (status, b"EntityTooLarge" in body) == (400, True)
    assert ask(address, "GET", "/bucket?list-type=2")[0] == 200, "the server has ended"


@pytest.mark.parametrize("prefix", ["../", "./", "a/../a/", "a//", "/a/", "/", "a/./", "x" * 300 + "/", "a/../../"])
def test_a_listing_of_what_is_no_key_is_empty(address, prefix):
    assert ask(address, "PUT", "/bucket/a/f", b"x")[0] == 200
    status, _, body = ask(address, "GET", "/bucket?list-type=2&prefix=" + urllib.parse.quote(prefix, safe=""))
    assert status == 200 and b"<Key>" not in body and b"<KeyCount>0</KeyCount>" in body, body


def test_deep_folders_do_not_end_the_server(address):
    deep = "/bucket/" + "/".join(["d"] * 511) + "/x"
    assert ask(address, "PUT", deep, b"deep")[0] == 200
    assert ask(address, "PUT", "/bucket/d", b"in the way")[0] == 409
    assert ask(address, "DELETE", "/bucket")[0] == 409
    assert ask(address, "GET", deep)[2] == b"deep"
    assert ask(address, "DELETE", deep)[0] == 204
    assert ask(address, "DELETE", "/bucket")[0] == 204


def test_content_for_no_key_is_refused(address):
    """Whoever leaves the bucket out of a file's URL must not be told that the file is stored."""
    status, _, body = ask(address, "PUT", "/name.txt", b"content")
    assert (status, b"MalformedXML" in body) == (400, True)
    assert ask(address, "PUT", "/other.txt", b"<Other/>")[0] == 400
    for target in ("/name.txt", "/bucket", "/bucket/"):
        for method in ("PUT", "POST"):
            with Wire(address) as wire:
                response = wire.ask(method, target, {"Upload-Complete": "?1"}, b"content")[1]
            assert response.status == 400, (method, target, response)
    assert re.findall("<Name>(.*?)</Name>", ask(address, "GET", "/")[2].decode()) == ["bucket"]
    place = b"<CreateBucketConfiguration><LocationConstraint>eu</LocationConstraint></CreateBucketConfiguration>"
    assert ask(address, "PUT", "/there", place)[0] == 200


def test_framed_content_is_known_by_its_coding(address):
    """Also where no signature says so: the framing must not become content."""
    fields = {"Content-Encoding": "gzip, aws-chunked", "x-amz-decoded-content-length": "5"}
    trailer = fields | {"x-amz-trailer": "x-amz-checksum-crc32"}
    framed = b"5\r\nhello\r\n0\r\n"
    assert ask(address, "PUT", "/bucket/a", framed + b"\r\n", **fields)[0] == 200
    assert ask(address, "PUT", "/bucket/b", framed + b"x-amz-checksum-crc32:NhCmhg==\r\n\r\n", **trailer)[0] == 200
    assert ask(address, "PUT", "/bucket/c", framed + b"x-amz-checksum-crc32:AAAAAA==\r\n\r\n", **trailer)[0] == 400
    assert ask(address, "PUT", "/bucket/d", framed + b"\r\n", **fields, Upload_Complete="?1")[0] == 501
    for key in ("a", "b"):
        _, headers, body = ask(address, "GET", f"/bucket/{key}")
        assert (body, headers["Content-Encoding"]) == (b"hello", "gzip")
    assert ask(address, "GET", "/bucket/c")[0] == 404
    # The coding alone is what other servers keep and clients repeat.
    assert ask(address, "PUT", "/bucket/e", b"hello", Content_Encoding="aws-chunked")[0] == 200
    assert ask(address, "GET", "/bucket/e")[2] == b"hello"


def test_a_weak_tag_does_not_allow_a_write(address):
    tag = ask(address, "PUT", "/bucket/k", b"one")[1]["ETag"]
    assert ask(address, "PUT", "/bucket/k", b"two", If_Match="W/" + tag)[0] == 412
    assert ask(address, "PUT", "/bucket/k", b"two", If_None_Match="W/" + tag)[0] == 412
    assert ask(address, "PUT", "/bucket/k", b"two", If_Match=tag)[0] == 200


def test_a_refused_completion_keeps_its_part(address):
    upload = begin_upload(address)
    tag = ask(address, "PUT", f"/bucket/k?uploadId={upload}&partNumber=1", b"part")[1]["ETag"]
    part = f"<Part><PartNumber>1</PartNumber><ETag>{tag}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{part}</CompleteMultipartUpload>".encode()
    assert ask(address, "PUT", "/bucket/k/below", b"")[0] == 200
    assert ask(address, "POST", f"/bucket/k?uploadId={upload}", document)[0] == 409
    assert tag.strip('"') + "&quot;" in ask(address, "GET", f"/bucket/k?uploadId={upload}")[2].decode()
    assert ask(address, "DELETE", "/bucket/k/below")[0] == 204
    assert ask(address, "POST", f"/bucket/k?uploadId={upload}", document)[0] == 200
    assert ask(address, "GET", "/bucket/k")[2] == b"part"


def test_pages_of_nothing_end(address):
    upload = begin_upload(address)
    ask(address, "PUT", f"/bucket/k?uploadId={upload}&partNumber=1", b"part")
    targets = ["?uploads&max-uploads=0", f"/k?uploadId={upload}&max-parts=0", "?list-type=2&max-keys=0", "?max-keys=0"]
    for target in targets:
        status, _, body = ask(address, "GET", "/bucket" + target)
        assert (status, b"<IsTruncated>false" in body) == (200, True), target


def test_a_deletion_of_another_version_deletes_nothing(address):
    assert ask(address, "PUT", "/bucket/k", b"x")[0] == 200
    document = b"<Delete><Object><Key>k</Key><VersionId>3HL4kqtJlcpXroDTDmJ</VersionId></Object></Delete>"
    status, _, body = ask(address, "POST", "/bucket?delete", document)
    assert status == 200 and b"<Error>" in body and b"<Deleted>" not in body, body
    assert ask(address, "GET", "/bucket/k")[2] == b"x"
    document = b"<Delete><Object><Key>k</Key><VersionId>null</VersionId></Object></Delete>"
    assert b"<Error>" not in ask(address, "POST", "/bucket?delete", document)[2]
    assert ask(address, "GET", "/bucket/k")[0] == 404


@pytest.mark.parametrize("field, status, content", [
    ("bytes=2-9223372036854775807", 206, b"cdef"), ("bytes=2-99999999999999999999999", 206, b"cdef"),
    ("bytes=99999999999999999999-", 416, None), ("bytes=-99999999999999999999", 206, b"abcdef"),
    ("bytes=99999999999999999999-99999999999999999998", 416, None), ("bytes=5-2", 200, b"abcdef"),
    ("bytes=-0", 416, None), ("bytes=0-0,2-3", 200, b"abcdef"), ("lines=1-2", 200, b"abcdef"),
])
def test_ranges_of_any_size(address, field, status, content):
    assert ask(address, "PUT", "/bucket/k", b"abcdef")[0] == 200
    answer = ask(address, "GET", "/bucket/k", Range=field)
    assert answer[0] == status and (content is None or answer[2] == content), answer


def test_metadata_may_begin_with_any_character(address):
    value = "\u0301 x \u0301y"
    fields = {"x-amz-meta-a": value.encode(), "x-amz-meta-b": "2"}
    assert ask(address, "PUT", "/bucket/k", b"x", **fields)[0] == 200
    status, headers, _ = ask(address, "HEAD", "/bucket/k")
    assert status == 200 and headers["x-amz-meta-b"] == "2"
    assert headers["x-amz-meta-a"].encode("latin-1").decode() == value.strip()


@pytest.mark.parametrize("fields", [
    {"x-amz-content-sha256": "STREAMING-UNSIGNED-PAYLOAD-TRAILER", "x-amz-decoded-content-length": "3"},
    {"x-amz-content-sha256": "STREAMING-AWS4-HMAC-SHA256-PAYLOAD", "x-amz-decoded-content-length": "3"},
    {"x-amz-content-sha256": hashlib.sha256(b"other").hexdigest()},
])
def test_a_resumable_upload_is_what_its_signature_says(address, fields):
    body = b"3\r\nabc\r\n0\r\n\r\n"

    def send(method, target, body, **more):
        with Wire(address) as wire:
            return wire.ask(method, target, {name.replace("_", "-"): value for name, value in more.items()}, body)[1]

    assert send("PUT", "/bucket/k", body, Upload_Complete="?1", **fields).status in (400, 501)
    assert ask(address, "GET", "/bucket/k")[0] == 404
    location = send("PUT", "/bucket/k", b"", Upload_Complete="?0")["Location"]
    fields |= {"Upload-Offset": "0", "Upload-Complete": "?1", "Content-Type": "application/partial-upload"}
    assert send("PATCH", location, body, **fields).status in (400, 501)
    assert ask(address, "GET", "/bucket/k")[0] == 404
    good = fields | {"x-amz-content-sha256": hashlib.sha256(body).hexdigest()}
    assert send("PATCH", location, body, **good).status == 200
    assert ask(address, "GET", "/bucket/k")[2] == body
