# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What other programs store with objects and no file system shows, and attributes that they change."""

import glob
import os
import sqlite3
import stat
import subprocess
import threading
import time
import urllib.parse

import pytest

from harness.processes import wait_until
from harness.trees import all_keys, write_file
from test_late_requests import detained, verified

FIELDS = dict(
    ContentType="text/html; charset=utf-8",
    CacheControl="max-age=7",
    ContentDisposition='attachment; filename="a.html"',
    ContentEncoding="identity",
    ContentLanguage="en",
)
USER = {"colour": "blue", "of-two-words": "value, with = signs"}


@pytest.fixture(params=["listed", "asked for"])
def told(request, proxy):
    """How a server tells of metadata."""
    if request.param == "asked for":
        proxy.refuse_metadata()


def put(client, key, **fields):
    body = b"" if key.endswith("/") else b"content"
    client.put_object(Bucket="bucket", Key=key, Body=body, Metadata=USER, **FIELDS, **fields)


def check(client, key, **attributes):
    head = client.head_object(Bucket="bucket", Key=key)
    assert {name: head.get(name) for name in FIELDS} == FIELDS
    found = head["Metadata"]
    assert {name: found.get(name) for name in USER} == USER
    assert {name: found.get(name) for name in attributes} == attributes


def test_new_attributes_leave_it(instance, proxy, client, told):
    put(client, "f")
    expires = client.head_object(Bucket="bucket", Key="f").get("Expires")
    mount = instance.mount("s3://bucket")
    os.chmod(mount / "f", 0o600)
    instance.flush()
    check(client, "f", mode=str(stat.S_IFREG | 0o600))
    # The second time it is known of a copy of our own.
    os.setxattr(mount / "f", "user.x", b"1")
    instance.flush()
    check(client, "f", mode=str(stat.S_IFREG | 0o600))
    assert "xattr" in client.head_object(Bucket="bucket", Key="f")["Metadata"]
    assert client.head_object(Bucket="bucket", Key="f").get("Expires") == expires


def test_new_attributes_leave_it_with_a_folder(instance, proxy, client, told):
    put(client, "d/")
    mount = instance.mount("s3://bucket")
    for mode in (0o700, 0o711):
        os.chmod(mount / "d", mode)
        instance.flush()
        check(client, "d/", mode=str(stat.S_IFDIR | mode))


def test_it_moves_with_the_file(instance, proxy, client, told):
    put(client, "d/f")
    put(client, "d/e/g", Expires=1900000000)
    mount = instance.mount("s3://bucket")
    os.rename(mount / "d/f", mount / "d/h")
    instance.flush()
    os.rename(mount / "d", mount / "n")
    instance.flush()
    check(client, "n/h")
    check(client, "n/e/g")
    assert client.head_object(Bucket="bucket", Key="n/e/g")["Expires"].timestamp() == 1900000000


def test_it_does_not_stay_with_other_content(instance, proxy, client, told):
    put(client, "f")
    mount = instance.mount("s3://bucket")
    write_file(mount / "f", b"other")
    instance.flush()
    assert not set(USER) & set(client.head_object(Bucket="bucket", Key="f")["Metadata"])


def asked_for(proxy, text=None):
    return [request["path"] for request in proxy.requests("HEAD object", text)]


def test_what_has_none_is_not_asked_for_it(instance, proxy, client, told):
    """New attributes of own files and folders cost one request each."""
    mount = instance.mount("s3://bucket")
    names = [f"f{number}" for number in range(10)]
    for name in names:
        write_file(mount / name, b"content")
    write_file(mount / "first", b"content")
    os.mkdir(mount / "first folder")
    instance.flush()
    # What the server can do is tried with the first.
    os.chmod(mount / "first", 0o600)
    instance.flush()
    proxy.zero()
    for name in names:
        os.chmod(mount / name, 0o600)
        os.mkdir(mount / f"{name} folder")
        write_file(mount / f"{name} folder/g", b"content")
    instance.flush()
    for name in names:
        os.chmod(mount / f"{name} folder", 0o700)
    instance.flush()
    assert asked_for(proxy) == []


def walked(folder):
    return subprocess.run(["find", folder, "-ls"], check=True, capture_output=True)


def listed(proxy):
    """The folders that were listed."""
    queries = [urllib.parse.parse_qs(request["query"]) for request in proxy.requests("GET list")]
    return {query["prefix"][0] for query in queries if "prefix" in query}


def test_walking_through_own_folders_costs_their_listings_alone(instance, proxy, client, told):
    mount = instance.mount("s3://bucket", None, "metadata_age=1s", "kernel_age=0s")
    folders = {f"k/{number}/{name}" for number in range(10) for name in ("", "e/")} | {"k/"}
    for folder in sorted(folders):
        os.mkdir(mount / folder)
    instance.flush()
    # Markers of our own are asked for once, where listings tell nothing of them.
    for _ in range(2):
        proxy.zero()
        # What took long to list is believed longer than its age.
        wait_until(lambda: walked(mount.path) and folders <= listed(proxy), 30, "all folders to be listed", 1.1)
    proxy.zero()
    for _ in range(3):
        walked(mount.path)
        time.sleep(1.1)
    subprocess.run(["chmod", "-R", "g-w", mount / "k"], check=True)
    instance.flush()
    assert listed(proxy), "nothing was asked for: the test proves nothing"
    assert asked_for(proxy) == []


def list_until(is_over, folder):
    """Lists a folder, also again: what took long to list is believed longer than its age."""
    while not is_over.is_set():
        subprocess.run(["ls", "-l", folder], stdout=subprocess.DEVNULL)
        is_over.wait(0.2)


def test_many_folders_are_asked_for_at_once_each_time(instance, proxy, client, told):
    mode = {"mode": str(stat.S_IFDIR | 0o750)}
    for number in range(40):
        client.put_object(Bucket="bucket", Key=f"k/folder{number}/", Body=b"", Metadata=mode)
    mount = instance.mount("s3://bucket", None, "metadata_age=1s", "kernel_age=0s")
    for _ in range(3):
        held = proxy.rule("hold", method="HEAD", path="/bucket/k/folder", times="all")
        is_over = threading.Event()
        listing = threading.Thread(target=list_until, args=(is_over, mount / "k"))
        listing.start()
        try:
            # One after another there would never be two.
            held.wait(8)
        finally:
            is_over.set()
            held.release()
            held.remove()
            listing.join()


def test_asking_in_vain_leaves_no_request_in_doubt(instance, proxy, client):
    """Nothing was sent that might be carried out later, so nothing waits for that."""
    put(client, "f")
    put(client, "d/")
    mount = instance.mount("s3://bucket", None, "metadata_age=1h")
    assert {mode_of(mount / name) for name in ("f", "d")} == {0o644, 0o755}
    rules = [proxy.rule("respond", method="HEAD", path=f"/bucket/{key}", status=403) for key in ("f", "d/")]
    for name in ("f", "d"):
        os.chmod(mount / name, 0o700)
    for rule in rules:
        rule.wait()
    instance.flush()
    (journal,) = glob.glob(os.path.join(instance.directory("state"), "volumes/*/journal.sqlite"))
    with sqlite3.connect(f"file:{journal}?mode=ro", uri=True) as database:
        assert database.execute("SELECT key FROM doubt").fetchall() == []
    check(client, "f", mode=str(stat.S_IFREG | 0o700))
    check(client, "d/", mode=str(stat.S_IFDIR | 0o700))


def test_what_another_added_to_a_folder_meanwhile_is_not_lost(instance, proxy, client):
    """Its listing is known to be younger than its attributes, when the network goes."""
    mount = instance.mount("s3://bucket", None, "metadata_age=1s", "kernel_age=0s")
    os.mkdir(mount / "d")
    instance.flush()
    assert mode_of(mount / "d") == 0o755
    put(client, "d/")
    proxy.zero()
    wait_until(lambda: os.listdir(mount.path) == ["d"] and proxy.requests("GET list"), what="a new listing")
    proxy.offline()
    os.chmod(mount / "d", 0o700)
    proxy.online()
    instance.flush()
    check(client, "d/", mode=str(stat.S_IFDIR | 0o700))


@pytest.mark.parametrize("key", ["f", "d/"])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_kill_while_it_is_sent_loses_nothing_of_it(instance, proxy, client, key, is_late):
    """The request is carried out before the next flusher looks, or after it has sent its own."""
    instance.configure(late_requests="15s")
    put(client, key)
    mount = instance.mount("s3://bucket")
    path = mount / key.rstrip("/")
    kind = stat.S_IFMT(os.stat(path).st_mode)
    held = detained(proxy, "PUT", lambda: os.chmod(path, 0o700), path=f"/bucket/{key}")
    instance.kill_flusher()
    if not is_late:
        held.release()
    instance.run("uploads", "now", check=False)
    instance.flush()
    if is_late:
        held.release()
    verified(instance)
    check(client, key, mode=str(kind | 0o700))
    os.chmod(path, 0o711)
    instance.flush()
    check(client, key, mode=str(kind | 0o711))
    assert instance.conflicts() == 0


@pytest.mark.parametrize("key", ["f", "d/"])
def test_a_kill_while_it_is_asked_for_loses_nothing_of_it(instance, proxy, client, key):
    put(client, key)
    mount = instance.mount("s3://bucket")
    path = mount / key.rstrip("/")
    kind = stat.S_IFMT(os.stat(path).st_mode)
    held = proxy.rule("hold", method="HEAD", path=f"/bucket/{key}")
    os.chmod(path, 0o700)
    held.wait()
    instance.kill_flusher()
    held.release()
    instance.run("uploads", "now", check=False)
    instance.flush()
    check(client, key, mode=str(kind | 0o700))
    assert instance.conflicts() == 0


def said_of_any_object(proxy):
    proxy.rule(
        "set-field", method="HEAD", path="/bucket/", name="Cache-Control", value="private, max-age=0", times="all"
    )


def test_what_a_server_says_of_any_object_is_not_stored(instance, proxy, client):
    said_of_any_object(proxy)
    for key in ("f", "d/"):
        client.put_object(Bucket="bucket", Key=key, Body=b"", Metadata=USER, ContentLanguage="en")
    mount = instance.mount("s3://bucket")
    for name in ("f", "d"):
        os.chmod(mount / name, 0o700)
    instance.flush()
    for key in ("f", "d/"):
        head = client.head_object(Bucket="bucket", Key=key)
        assert int(head["Metadata"]["mode"]) & 0o7777 == 0o700
        assert (head.get("CacheControl"), head.get("ContentLanguage")) == (None, "en")
    assert set(all_keys(client, "bucket")) == {"f", "d/"}


@pytest.mark.parametrize("method", ["PUT", "HEAD", "DELETE"])
def test_a_kill_while_that_is_found_out_leaves_nothing(instance, proxy, client, method):
    client.put_object(Bucket="bucket", Key="f", Body=b"", ContentLanguage="en")
    mount = instance.mount("s3://bucket")
    held = proxy.rule("hold-response", method=method, path="-answer")
    said_of_any_object(proxy)
    os.chmod(mount / "f", 0o700)
    held.wait()
    instance.kill_flusher()
    held.release()
    instance.run("uploads", "now", check=False)
    instance.flush()
    head = client.head_object(Bucket="bucket", Key="f")
    assert int(head["Metadata"]["mode"]) & 0o7777 == 0o700
    assert (head.get("CacheControl"), head.get("ContentLanguage")) == (None, "en")
    assert set(all_keys(client, "bucket")) == {"f"}


def test_a_server_without_copy_is_sent_it_again(instance, proxy, client, told):
    put(client, "f")
    body = "<Error><Code>NotImplemented</Code></Error>"
    proxy.rule("respond", method="PUT", field="x-amz-copy-source", times="all", status=501, body=body)
    mount = instance.mount("s3://bucket")
    os.chmod(mount / "f", 0o600)
    instance.flush()
    check(client, "f", mode=str(stat.S_IFREG | 0o600))


def test_attributes_come_first_where_there_is_no_room_for_both(instance, proxy, client):
    for key in ("f", "d/"):
        client.put_object(Bucket="bucket", Key=key, Body=b"", Metadata={"large": "x" * 8130})
    mount = instance.mount("s3://bucket")
    for name in ("f", "d"):
        os.chmod(mount / name, 0o700)
    instance.flush()
    for key in ("f", "d/"):
        assert int(client.head_object(Bucket="bucket", Key=key)["Metadata"]["mode"]) & 0o7777 == 0o700


def set_mode(client, key, mode):
    metadata = client.head_object(Bucket="bucket", Key=key)["Metadata"] | {"mode": str(mode)}
    source = f"bucket/{key}"
    client.copy_object(Bucket="bucket", Key=key, CopySource=source, Metadata=metadata, MetadataDirective="REPLACE")


def mode_of(path):
    return stat.S_IMODE(os.stat(path).st_mode)


def test_a_mode_that_another_sets_after_our_upload_is_seen(instance, proxy, client, told):
    """The bytes are the same, and nobody has looked at the object since it was sent."""
    mount = instance.mount("s3://bucket", None, "metadata_age=1s", "kernel_age=0s")
    write_file(mount / "f", b"content")
    instance.flush()
    # Servers tell times to the second.
    time.sleep(1.1)
    set_mode(client, "f", stat.S_IFREG | 0o600)
    wait_until(lambda: mode_of(mount / "f") == 0o600, 10, "the mode that another set")
    os.setxattr(mount / "f", "user.x", b"1")
    instance.flush()
    assert int(client.head_object(Bucket="bucket", Key="f")["Metadata"]["mode"]) == stat.S_IFREG | 0o600


def test_a_mode_that_another_gives_a_folder_is_seen(instance, proxy, client, told):
    """No listing but the folder's own tells of its marker."""
    mount = instance.mount("s3://bucket", None, "metadata_age=1s", "kernel_age=0s")
    os.makedirs(mount / "k/d")
    instance.flush()
    assert mode_of(mount / "k/d") == 0o755
    set_mode(client, "k/d/", stat.S_IFDIR | 0o700)
    wait_until(lambda: mode_of(mount / "k/d") == 0o700, 10, "the mode that another set")
    os.setxattr(mount / "k/d", "user.x", b"1")
    instance.flush()
    assert int(client.head_object(Bucket="bucket", Key="k/d/")["Metadata"]["mode"]) == stat.S_IFDIR | 0o700


def test_what_was_written_here_is_known_without_a_request_a_file(instance, proxy, told):
    mount = instance.mount("s3://bucket")
    for number in range(50):
        path = mount / f"file{number}"
        with open(path, "wb") as file:
            file.write(b"%d" % number)
        os.chmod(path, 0o600 + number % 8)
        os.utime(path, ns=(1, 10**18 + number))
    os.symlink("file1", mount / "link")
    instance.flush()
    before = {name: os.lstat(mount / name) for name in os.listdir(mount.path)}
    mount.unmount()
    proxy.zero()
    mount = mount.mount_again()
    after = {name: os.lstat(mount / name) for name in os.listdir(mount.path)}
    assert len(after) == 51
    assert {name: (it.st_mode, it.st_mtime_ns, it.st_size) for name, it in after.items()} == {
        name: (it.st_mode, it.st_mtime_ns, it.st_size) for name, it in before.items()
    }
    assert os.readlink(mount / "link") == "file1"
    assert proxy.requests("GET list"), "nothing was listed: the test proves nothing"
    assert asked_for(proxy) == []
