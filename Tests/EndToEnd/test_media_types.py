# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""The media types that files get, and what an object keeps when it gets other content."""

import glob
import os
import sqlite3

import pytest

from harness.trees import write_file
from test_late_requests import detained, verified
from test_metadata_of_others import FIELDS, USER, asked_for, check, put, told  # noqa: F401

MIB = 1 << 20
# Of a place, not of the bytes that were there.
KEPT = dict(
    ContentType="text/html; charset=utf-8",
    CacheControl="max-age=7",
    ContentDisposition='attachment; filename="a.html"',
    ContentLanguage="en",
)
UNTOLD = "binary/octet-stream"


def type_of(client, key):
    return client.head_object(Bucket="bucket", Key=key)["ContentType"]


def keeps(client, key, body):
    answer = client.get_object(Bucket="bucket", Key=key)
    assert {name: answer.get(name) for name in KEPT} == KEPT
    assert answer.get("ContentEncoding") is None
    assert not set(USER) & set(answer["Metadata"])
    assert answer["Body"].read() == body


@pytest.mark.parametrize("protocol", ["put", "s3-multipart", "ietf-resumable"])
def test_a_new_file_has_the_type_of_its_name(instance, client, protocol):
    instance.configure(upload_protocol=protocol, part_size="5M")
    mount = instance.mount("s3://bucket")
    content = os.urandom(6 * MIB if protocol == "s3-multipart" else 1000)
    types = {
        "page.html": "text/html",
        "d/PICTURE.JPEG": "image/jpeg",
        "live.m3u8": "application/vnd.apple.mpegurl",
        "live.1.ts": "video/mp2t",
        "no extension": UNTOLD,
        ".html": UNTOLD,
        "what.is-this": UNTOLD,
    }
    os.mkdir(mount / "d")
    os.symlink("page.html", mount / "link.html")
    for name in types:
        write_file(mount / name, content)
    instance.flush()
    assert {name: type_of(client, name) for name in types} == types
    assert type_of(client, "link.html") == UNTOLD
    assert type_of(client, "d/") == "application/x-directory"


def test_a_renamed_file_has_the_type_of_its_new_name(instance, client, told):
    mount = instance.mount("s3://bucket")
    for name in ("a.txt", "b.html", "c"):
        write_file(mount / name, b"content")
    instance.flush()
    for old, new in {"a.txt": "a.css", "b.html": "b", "c": "c.png"}.items():
        os.rename(mount / old, mount / new)
    instance.flush()
    assert [type_of(client, name) for name in ("a.css", "b", "c.png")] == ["text/css", UNTOLD, "image/png"]


def test_a_type_that_somebody_chose_moves_with_the_file(instance, client, told):
    client.put_object(Bucket="bucket", Key="a.txt", Body=b"content", ContentType="text/x-own")
    # Nobody told a type though the name does: it was not wanted, or its program knows none.
    client.put_object(Bucket="bucket", Key="b.html", Body=b"content")
    mount = instance.mount("s3://bucket")
    os.rename(mount / "a.txt", mount / "a.css")
    os.rename(mount / "b.html", mount / "b.png")
    instance.flush()
    assert [type_of(client, name) for name in ("a.css", "b.png")] == ["text/x-own", UNTOLD]


def test_new_attributes_and_content_give_no_type(instance, client, told):
    for name in ("a.html", "b.html"):
        client.put_object(Bucket="bucket", Key=name, Body=b"content")
    mount = instance.mount("s3://bucket")
    os.chmod(mount / "a.html", 0o600)
    write_file(mount / "b.html", b"other")
    instance.flush()
    assert [type_of(client, name) for name in ("a.html", "b.html")] == [UNTOLD, UNTOLD]


def in_place(path, mount):
    with open(path, "r+b") as file:
        file.write(b"C")
    return b"Content"


def anew(path, mount):
    write_file(path, b"other")
    return b"other"


def cut(path, mount):
    os.truncate(path, 3)
    return b"con"


def moved_over(path, mount):
    write_file(mount / "temporary.txt", b"other")
    os.rename(mount / "temporary.txt", path)
    return b"other"


def sent_and_moved_over(path, mount):
    write_file(mount / "temporary.txt", b"other")
    mount.instance.flush()
    os.rename(mount / "temporary.txt", path)
    return b"other"


@pytest.mark.parametrize("change", [in_place, anew, cut, moved_over, sent_and_moved_over])
def test_new_content_keeps_what_is_said_of_its_place(instance, client, told, change):
    put(client, "f.bin")
    mount = instance.mount("s3://bucket")
    body = change(mount / "f.bin", mount)
    instance.flush()
    keeps(client, "f.bin", body)
    # It is known now, or asked for again.
    write_file(mount / "f.bin", b"third")
    instance.flush()
    keeps(client, "f.bin", b"third")


def test_an_edit_that_copies_parts_keeps_it(instance, client, told):
    body = os.urandom(16 * MIB)
    client.put_object(Bucket="bucket", Key="f.bin", Body=body, **KEPT, Metadata=USER)
    instance.configure(part_size="5M")
    mount = instance.mount("s3://bucket")
    with open(mount / "f.bin", "ab") as file:
        file.write(b"more")
    instance.flush()
    keeps(client, "f.bin", body + b"more")


def test_a_file_of_others_that_is_moved_over_another_brings_its_own(instance, client, told):
    put(client, "a")
    client.put_object(Bucket="bucket", Key="b", Body=b"x", ContentType="text/x-own", CacheControl="no-store")
    mount = instance.mount("s3://bucket")
    os.rename(mount / "a", mount / "b")
    instance.flush()
    check(client, "b")


def test_own_files_are_not_asked_for_it(instance, proxy, client, told):
    """New attributes, new content and another name of own files cost one request each."""
    mount = instance.mount("s3://bucket")
    names = [f"f{number}.html" for number in range(5)] + [f"g{number}" for number in range(5)]
    others = [f"first{number}" for number in range(10)]
    for name in others + names:
        write_file(mount / name, b"content")
    instance.flush()
    # What the server can do is tried with the first copy, and with the first removals: those look before.
    os.chmod(mount / others[0], 0o600)
    instance.flush()
    for name in others:
        os.remove(mount / name)
    instance.flush()
    proxy.zero()
    for name in names:
        os.chmod(mount / name, 0o600)
    instance.flush()
    for name in names:
        write_file(mount / name, b"other content")
    instance.flush()
    assert asked_for(proxy) == []
    for name in names:
        os.rename(mount / name, mount / f"new-{name}")
    instance.flush()
    assert asked_for(proxy, "/bucket/f") + asked_for(proxy, "/bucket/g") == []
    assert {type_of(client, f"new-{name}") for name in names} == {"text/html", UNTOLD}


@pytest.mark.parametrize("is_late", [False, True])
def test_a_kill_while_new_content_is_sent_loses_nothing_of_it(instance, proxy, client, is_late):
    """The request is carried out before the next flusher looks, or after it has sent its own."""
    instance.configure(late_requests="15s")
    put(client, "f.bin")
    mount = instance.mount("s3://bucket")
    held = detained(proxy, "PUT", lambda: write_file(mount / "f.bin", b"other"), path="/bucket/f.bin")
    instance.kill_flusher()
    if not is_late:
        held.release()
    instance.run("uploads", "now", check=False)
    instance.flush()
    if is_late:
        held.release()
    verified(instance)
    keeps(client, "f.bin", b"other")
    write_file(mount / "f.bin", b"third")
    instance.flush()
    keeps(client, "f.bin", b"third")
    assert instance.conflicts() == 0


def test_a_kill_while_it_is_asked_for_loses_nothing(instance, proxy, client):
    put(client, "f.bin")
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == ["f.bin"]
    held = proxy.rule("hold", method="HEAD", path="/bucket/f.bin", times="all")
    write_file(mount / "f.bin", b"other")
    held.wait()
    instance.kill_flusher()
    held.release()
    held.remove()
    instance.run("uploads", "now", check=False)
    instance.flush()
    keeps(client, "f.bin", b"other")
    assert instance.conflicts() == 0


def test_one_refusal_to_tell_loses_nothing_and_leaves_no_request_in_doubt(instance, proxy, client):
    put(client, "f.bin")
    mount = instance.mount("s3://bucket", None, "metadata_age=1h")
    assert os.listdir(mount.path) == ["f.bin"] and os.path.getsize(mount / "f.bin") == 7
    rule = proxy.rule("respond", method="HEAD", path="/bucket/f.bin", status=403)
    write_file(mount / "f.bin", b"other")
    rule.wait()
    instance.flush()
    keeps(client, "f.bin", b"other")
    (journal,) = glob.glob(os.path.join(instance.directory("state"), "volumes/*/journal.sqlite"))
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
        assert database.execute("SELECT key FROM doubt").fetchall() == []


def test_a_server_that_never_tells_gets_the_content_all_the_same(instance, proxy, client):
    put(client, "f.html")
    mount = instance.mount("s3://bucket", None, "metadata_age=1h")
    assert os.listdir(mount.path) == ["f.html"] and os.path.getsize(mount / "f.html") == 7
    proxy.rule("respond", method="HEAD", path="/bucket/f.html", status=403, times="all")
    write_file(mount / "f.html", b"other")
    instance.flush()
    head = client.head_object(Bucket="bucket", Key="f.html")
    assert (head["ContentType"], head["ContentLength"]) == ("text/html", 5)
    with open(os.path.join(instance.directory("run"), "flusher.log")) as log:
        assert "cannot be kept" in log.read()


@pytest.mark.parametrize("status", [405, 501])
def test_a_server_that_cannot_tell_gets_the_content_all_the_same(instance, proxy, client, status):
    put(client, "f.html")
    mount = instance.mount("s3://bucket", None, "metadata_age=1h")
    assert os.listdir(mount.path) == ["f.html"] and os.path.getsize(mount / "f.html") == 7
    rule = proxy.rule("respond", method="HEAD", path="/bucket/f.html", status=status)
    write_file(mount / "f.html", b"other")
    rule.wait()
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="f.html")["Body"].read() == b"other"


def test_other_trouble_before_is_no_refusal_to_tell(instance, proxy, client):
    put(client, "f.bin")
    mount = instance.mount("s3://bucket", None, "metadata_age=1h")
    assert os.listdir(mount.path) == ["f.bin"] and os.path.getsize(mount / "f.bin") == 7
    trouble = proxy.rule("respond", method="PUT", path="/bucket/f.bin", status=400)
    write_file(mount / "f.bin", b"other")
    trouble.wait()
    proxy.rule("respond", method="HEAD", path="/bucket/f.bin", status=403)
    instance.flush()
    keeps(client, "f.bin", b"other")


@pytest.mark.parametrize("is_refused", [False, True])
@pytest.mark.parametrize("order", ["edit first", "rename first"])
def test_an_edit_and_a_rename_at_once_are_as_one_by_one(instance, proxy, client, order, is_refused):
    """Also in a second attempt, when what the edit left out was fetched."""
    body = os.urandom(100_000)
    client.put_object(Bucket="bucket", Key="f.bin", Body=body, Metadata=USER, **FIELDS)
    instance.configure(quiet_period="3s")
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == ["f.bin"]
    for step in sorted(("edit first", "rename first"), key=lambda step: step != order):
        if step == "rename first":
            os.rename(mount / "f.bin", mount / "g.bin")
        else:
            with open(mount / ("f.bin" if order == step else "g.bin"), "r+b") as file:
                file.write(b"other")
    if is_refused:
        proxy.rule("respond", method="PUT", path="/bucket/g.bin", status=400).wait()
    instance.flush()
    keeps(client, "g.bin", b"other" + body[5:])


def test_the_name_of_a_folder_tells_no_type(instance, proxy, client):
    client.put_object(Bucket="bucket", Key="d.html/", ContentType="text/html")
    mount = instance.mount("s3://bucket")
    for mode in (0o700, 0o711):
        os.chmod(mount / "d.html", mode)
        instance.flush()
        assert type_of(client, "d.html/") == "text/html"
