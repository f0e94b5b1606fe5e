# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Who may do what at `moorage serve`: signatures of requests and of links."""

import email.utils
import time
import urllib.error
import urllib.request

import pytest

from harness.bucket import s3_client
from harness.s3_calls import get, put, refused, signing_client


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
