# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""`moorage serve` speaks every version of IETF resumable uploads: checked on the wire, byte by byte."""

import base64
import hashlib
import json

import pytest
from harness.bucket import ACCESS_KEY, SECRET_KEY
from harness.open_server import TARGET, content, cut_creation, stored
from harness.resumable import Dialect, sha256_field

# Discovery


def test_options_tell_the_limits(dialect):
    response = dialect.options(TARGET)
    assert response.status in (200, 204)
    dialect.check_version(response)
    limits = dialect.limits(response)
    assert limits and all(value >= 0 for value in limits.values())
    assert "expires" not in limits or dialect.number <= 6
    assert "max-age" not in limits or dialect.number >= 7
    if dialect.number >= 6:
        assert response["Accept-Patch"] == "application/partial-upload"


@pytest.mark.parametrize("version", ["2", "10", "0", "-9", "nine", "9, 8"])
def test_an_unknown_version_is_told_ours(open_server, version):
    dialect = Dialect("9", open_server.address)
    for method in ("OPTIONS", "PUT"):
        fields = {"Upload-Draft-Interop-Version": version, "Upload-Complete": "?1"}
        _, response = dialect.ask(method, TARGET, fields, b"x" if method == "PUT" else b"")
        assert response.status == 400
        assert response["Upload-Draft-Interop-Version"] == "9"
    assert stored(dialect) is None


def test_a_request_without_the_protocol_is_a_plain_one(open_server):
    dialect = Dialect("9", open_server.address)
    interim, response = dialect.ask("PUT", TARGET, {"Upload-Draft-Interop-Version": "9"}, b"plain")
    assert response.status == 200 and not [r for r in interim if r.status == 104]
    assert response.get("Upload-Complete") is None
    assert stored(dialect) == b"plain"


# Creation


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_whole_upload_in_one_request(dialect, method):
    data = content(300_000)
    with dialect.wire() as wire:
        interim, response = wire.ask(method, TARGET, dialect.fields(complete=True), data)
    announced = [r for r in interim if r.status == 104]
    assert announced and announced[0].get("Location"), "no 104 before the content"
    dialect.check_version(announced[0])
    assert all(r.get("Location") is None for r in announced[1:])
    assert response.status in (200, 201)
    dialect.check_version(response)
    assert dialect.complete(response) is True
    assert response["ETag"].strip('"') == hashlib.md5(data).hexdigest()
    assert stored(dialect) == data
    assert dialect.offset(announced[0]["Location"]) == (len(data), True)


def test_the_announcement_comes_before_the_content_is_sent(dialect):
    with dialect.wire() as wire:
        wire.begin("PUT", TARGET, dialect.fields(complete=True, Expect="100-continue"), 4)
        first = wire.response()
        assert first.status == 104 and first["Location"]
        if dialect.number >= 8:
            assert dialect.limits(first)
        assert wire.response().status == 100
        wire.send(b"data")
        assert wire.final()[1].status in (200, 201)
    assert stored(dialect) == b"data"


def test_an_empty_incomplete_creation_is_followed_by_appends(dialect):
    data = content(100_000)
    url, response = dialect.create(TARGET, length=len(data))
    assert response.status == 201
    dialect.check_version(response)
    assert response["Location"] == url
    assert dialect.complete(response) is False
    if dialect.number >= 8:
        assert dialect.limits(response)
    assert dialect.offset(url) == (0, False)
    assert stored(dialect) is None
    response = dialect.append(url, 0, data[:40_000], False)
    assert response.status == (201 if dialect.number <= 6 else 204)
    dialect.check_version(response)
    assert dialect.complete(response) is False
    assert int(response["Upload-Offset"]) == 40_000
    assert dialect.offset(url) == (40_000, False)
    assert stored(dialect) is None
    response = dialect.append(url, 40_000, data[40_000:], True)
    assert response.status in (200, 201) and dialect.complete(response) is True
    assert response["ETag"].strip('"') == hashlib.md5(data).hexdigest()
    assert stored(dialect) == data


def test_an_empty_append_completes(dialect):
    url, response = dialect.create(TARGET, body=b"all of it")
    assert response.status == 201
    assert dialect.offset(url) == (9, False)
    response = dialect.append(url, 9, b"", True)
    assert dialect.complete(response) is True
    assert stored(dialect) == b"all of it"


def test_an_empty_object(dialect):
    url, response = dialect.create(TARGET, complete=True)
    assert dialect.complete(response) is True
    assert stored(dialect) == b""


def test_a_chunked_append(dialect):
    url, _ = dialect.create(TARGET)
    with dialect.wire() as wire:
        wire.begin("PATCH", url, dialect.fields(complete=True, offset=0, Transfer_Encoding="chunked"))
        wire.send(b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n")
        assert dialect.complete(wire.final()[1]) is True
    assert stored(dialect) == b"hello world"


def test_the_fields_of_the_creation_describe_the_object(dialect):
    url, _ = dialect.create(TARGET, Content_Type="text/x-test", x_amz_meta_color="blue")
    assert dialect.append(url, 0, b"x", True).status in (200, 201)
    with dialect.wire() as wire:
        _, response = wire.ask("HEAD", TARGET)
    assert response["Content-Type"] == "text/x-test"
    assert response["x-amz-meta-color"] == "blue"
    assert not [name for name in response.fields if name.startswith("upload-")]


def test_bad_completion_fields_are_refused(open_server):
    dialect = Dialect("9", open_server.address)
    for value in ("1", "true", "?2", ""):
        fields = dialect.fields() | {"Upload-Complete": value}
        assert dialect.ask("PUT", TARGET, fields, b"x")[1].status == 400, value
    assert stored(dialect) is None


# Offsets


def test_a_wrong_offset_is_refused_and_told(dialect):
    url, _ = dialect.create(TARGET, body=b"0123456789")
    for wrong in (0, 9, 11, 10**12):
        response = dialect.append(url, wrong, b"abc", True)
        assert response.status == 409
        assert int(response["Upload-Offset"]) == 10
        assert dialect.complete(response) is False
        assert response["Content-Type"] == "application/problem+json"
        problem = json.loads(response.body)
        assert problem["type"] == "https://iana.org/assignments/http-problem-types#mismatching-upload-offset"
        assert (problem["expected-offset"], problem["provided-offset"]) == (10, wrong)
    assert dialect.offset(url) == (10, False)
    assert dialect.complete(dialect.append(url, 10, b"abc", True)) is True
    assert stored(dialect) == b"0123456789abc"


def test_appends_without_their_fields_are_refused(dialect):
    url, _ = dialect.create(TARGET, body=b"12345")
    good = dialect.fields(complete=False, offset=5)
    for name in ("Upload-Offset", "Upload-Complete", "Content-Type"):
        if name in good:
            fields = {key: value for key, value in good.items() if key != name}
            _, response = dialect.ask("PATCH", url, fields, b"abc")
            assert response.status == (415 if name == "Content-Type" else 400), name
    for offset in ("-1", "5.0", "five", "1e3", "5, 5"):
        _, response = dialect.ask("PATCH", url, good | {"Upload-Offset": offset}, b"abc")
        assert response.status == 400, offset
    assert dialect.offset(url) == (5, False)


def test_without_its_field_an_append_of_version_three_completes(open_server):
    dialect = Dialect("3", open_server.address)
    url, _ = dialect.create(TARGET, body=b"12345")
    _, response = dialect.ask("PATCH", url, dialect.fields(offset=5), b"678")
    assert dialect.complete(response) is True
    assert stored(dialect) == b"12345678"


def test_lengths_must_agree(dialect):
    if dialect.number >= 6:
        _, response = dialect.create(TARGET, body=b"12345", complete=True, length=6)
        assert response.status == 400
        url, _ = dialect.create(TARGET, length=10)
        assert dialect.append(url, 0, b"x" * 9, True).status == 400
        assert dialect.append(url, 0, b"x" * 10, True).status in (200, 201)
    # A creation that ends the upload fixes its length, also when it is cut.
    url = cut_creation(dialect, b"x" * 5, declared=20)
    offset, _ = dialect.offset(url)
    assert dialect.append(url, offset, b"y" * (19 - offset), True).status == 400
    assert dialect.offset(url) == (offset, False)
    assert dialect.append(url, offset, b"y" * (20 - offset), True).status in (200, 201)


def test_content_behind_the_known_end_ends_the_upload(dialect):
    url = cut_creation(dialect, b"x" * 5, declared=20)
    offset, _ = dialect.offset(url)
    assert dialect.append(url, offset, b"y" * (30 - offset), True).status == 400
    assert dialect.ask("HEAD", url, dialect.fields())[1].status == 404
    assert dialect.append(url, offset, b"y" * (20 - offset), True).status == 404


def test_the_offset_is_also_told_to_get(open_server):
    dialect = Dialect("9", open_server.address)
    url, _ = dialect.create(TARGET, body=b"123", length=5)
    _, response = dialect.ask("GET", url, dialect.fields())
    assert response.status in (200, 204) and response["Upload-Offset"] == "3"
    assert response["Upload-Length"] == "5" and response["Upload-Complete"] == "?0"
    assert dialect.limits(response)["max-age"] > 3600


def test_retrieval_and_cancellation_take_no_upload_fields(open_server):
    for version in ("3", "5", "8"):
        dialect = Dialect(version, open_server.address)
        url, _ = dialect.create(TARGET)
        for method in ("HEAD", "DELETE"):
            fields = dialect.fields() | {"Upload-Offset": "0"}
            assert dialect.ask(method, url, fields)[1].status == 400
        assert dialect.offset(url) == (0, False)


# Digests and limits


def test_a_wrong_content_digest_takes_nothing(dialect):
    url, _ = dialect.create(TARGET, body=b"12345")
    response = dialect.append(url, 5, b"67890", False, Content_Digest=sha256_field(b"other"))
    assert response.status == 400 and dialect.complete(response) is not True
    assert dialect.offset(url) == (5, False)
    response = dialect.append(url, 5, b"67890", True, Content_Digest=sha256_field(b"67890"))
    assert dialect.complete(response) is True
    assert stored(dialect) == b"1234567890"


def test_the_older_digest_is_verified_too(dialect):
    def md5(data):
        return base64.b64encode(hashlib.md5(data).digest()).decode()

    _, response = dialect.create(TARGET, body=b"content", complete=True, Content_MD5=md5(b"other"))
    assert response.status == 400 and dialect.complete(response) is not True
    url, _ = dialect.create(TARGET)
    for wrong in (md5(b"other"), "no digest"):
        response = dialect.append(url, 0, b"content", True, Content_MD5=wrong)
        assert response.status == 400 and dialect.complete(response) is not True
    assert dialect.offset(url) == (0, False)
    assert stored(dialect) is None
    assert dialect.complete(dialect.append(url, 0, b"content", True, Content_MD5=md5(b"content"))) is True
    assert stored(dialect) == b"content"


def test_a_target_that_cannot_be_is_refused_before_the_content(dialect):
    for target, status in {"/missing/key": 404, "/bucket/a//b": 400, "/bucket/../x": 400, "/.moorage/x": 400}.items():
        with dialect.wire() as wire:
            wire.begin("PUT", target, dialect.fields(complete=True), 1 << 30)
            interim, response = wire.final()
        assert (interim, response.status) == ([], status), target


def test_a_wrong_representation_digest_stores_nothing(dialect):
    url, _ = dialect.create(TARGET, Repr_Digest=sha256_field(b"what was meant"))
    response = dialect.append(url, 0, b"what was sent", True)
    assert response.status == 400
    assert stored(dialect) is None
    url, _ = dialect.create(TARGET, Repr_Digest=sha256_field(b"right"))
    dialect.append(url, 0, b"ri", False)
    assert dialect.append(url, 2, b"ght", True).status in (200, 201)
    assert stored(dialect) == b"right"


def test_what_is_too_large_is_refused_at_once(dialect):
    limits = dialect.limits(dialect.options(TARGET))
    too_large = limits["max-size"] + 1
    with dialect.wire() as wire:
        wire.begin("PUT", TARGET, dialect.fields(complete=True), too_large)
        responses = [wire.final()[1]]
    if dialect.number >= 6:
        responses.append(dialect.create(TARGET, length=too_large)[1])
    url, _ = dialect.create(TARGET)
    with dialect.wire() as wire:
        wire.begin("PATCH", url, dialect.fields(complete=False, offset=0), too_large)
        responses.append(wire.final()[1])
    for response in responses:
        assert response.status == 413
        assert (dialect.limits(response) or {}).get("max-size") == (limits["max-size"] if dialect.number >= 6 else None)


# Authority


def signed(server, method, path, fields, body=b""):
    """The fields with a signature by botocore, which is over the content too."""
    from botocore.auth import S3SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    request = AWSRequest(method, server.url.rstrip("/") + path, headers=dict(fields), data=body)
    S3SigV4Auth(Credentials(ACCESS_KEY, SECRET_KEY), "s3", "us-east-1").add_auth(request)
    return {name: value for name, value in request.headers.items() if name.lower() != "host"}


def test_every_request_needs_authority(server):
    dialect = Dialect("9", server.address)
    path = "/bucket/object"
    fields = dialect.fields(complete=False)
    assert dialect.ask("PUT", path, fields)[1].status == 403
    interim, response = dialect.ask("PUT", path, signed(server, "PUT", path, fields))
    assert response.status == 201, response
    url = response["Location"]
    for method in ("HEAD", "DELETE", "PATCH"):
        fields = dialect.fields() if method != "PATCH" else dialect.fields(complete=True, offset=0)
        assert dialect.ask(method, url, fields)[1].status == 403, method
    fields = dialect.fields(complete=True, offset=0)
    content = b"signed content"
    _, response = dialect.ask("PATCH", url, signed(server, "PATCH", url, fields, b"other content"), content)
    assert (response.status, response["Upload-Offset"]) == (400, "0"), response
    _, response = dialect.ask("PATCH", url, signed(server, "PATCH", url, fields, content), content)
    assert response.status == 200, response
    assert server.client().get_object(Bucket="bucket", Key="object")["Body"].read() == b"signed content"
