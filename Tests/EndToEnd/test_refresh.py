# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What others change at the remote shows at once when the mount is told to look, however long it may believe."""

import errno
import os
import shutil
import time
import urllib.request

import pytest

from harness.processes import wait_until
from harness.trees import write_file
from test_plain_http_servers import age, make_web, mount_web, web_instance  # noqa: F401

LONG = {"metadata_age": "1h", "kernel_age": "1h"}


def read(path):
    with open(path, "rb") as file:
        return file.read()


@pytest.fixture
def believing(instance, client):
    """A mount that has seen two folders and believes for an hour that nothing changes in them."""
    for folder in ("one", "other"):
        for name in ("changed", "deleted", "below/changed"):
            client.put_object(Bucket="bucket", Key=f"{folder}/{name}", Body=b"old")
    instance.configure(**LONG)
    mount = instance.mount("s3://bucket")
    for folder in ("one", "other"):
        assert sorted(os.listdir(mount / folder)) == ["below", "changed", "deleted"]
        for name in ("changed", "deleted", "below/changed"):
            assert read(mount / f"{folder}/{name}") == b"old"
        for name in ("new", "below/new"):
            assert not os.path.exists(mount / f"{folder}/{name}")
    for folder in ("one", "other"):
        for name in ("changed", "new", "below/changed", "below/new"):
            client.put_object(Bucket="bucket", Key=f"{folder}/{name}", Body=b"of others")
        client.delete_object(Bucket="bucket", Key=f"{folder}/deleted")
        assert shows(mount / folder) == OLD
    return mount


def shows(folder):
    """What a folder's names look like one by one, and its content where they are files."""
    found = {}
    for name in ("changed", "deleted", "new", "below/changed", "below/new"):
        path = os.path.join(folder, name)
        found[name] = (os.stat(path).st_size, read(path)) if os.path.exists(path) else None
    return found | {"names": sorted(os.listdir(folder))}


OLD = {
    "changed": (3, b"old"), "deleted": (3, b"old"), "new": None, "below/changed": (3, b"old"), "below/new": None,
    "names": ["below", "changed", "deleted"],
}
NEW = {
    "changed": (9, b"of others"), "deleted": None, "new": (9, b"of others"), "below/changed": (9, b"of others"),
    "below/new": (9, b"of others"), "names": ["below", "changed", "new"],
}


def test_a_folder_is_refreshed_with_all_below_it(instance, believing):
    instance.run("cache", "refresh", believing / "one")
    assert shows(believing / "one") == NEW
    assert shows(believing / "other") == OLD
    instance.run("cache", "refresh", believing.path)
    assert shows(believing / "other") == NEW


def test_the_kernel_keeps_nothing_longer_than_it_is_believed(instance, client):
    for name in ("changed", "deleted", "below/changed"):
        client.put_object(Bucket="bucket", Key=f"one/{name}", Body=b"old")
    instance.configure(metadata_age="2s", kernel_age="1h")
    mount = instance.mount("s3://bucket")
    assert shows(mount / "one") == OLD
    for name in ("changed", "new", "below/changed", "below/new"):
        client.put_object(Bucket="bucket", Key=f"one/{name}", Body=b"of others")
    client.delete_object(Bucket="bucket", Key="one/deleted")
    wait_until(lambda: shows(mount / "one") == NEW, 60, "all that changed to be seen")


def test_files_are_refreshed_by_their_paths(instance, believing):
    instance.run("cache", "refresh", believing / "one/changed", believing / "other/below/new")
    assert read(believing / "one/changed") == b"of others"
    assert read(believing / "other/below/new") == b"of others"
    assert not os.path.exists(believing / "one/below/new"), "only what was named is asked for again"


def test_what_the_kernel_forgot_of_a_deleted_file_does_not_come_back(instance, believing):
    instance.run("cache", "refresh", believing / "one/deleted")
    assert not os.path.exists(believing / "one/deleted")
    with open(believing / "other/deleted", "rb") as file:
        instance.run("cache", "refresh", believing / "other/deleted")
        assert not os.path.exists(believing / "other/deleted")
        assert file.read() == b"old"


def test_the_attribute_can_be_set(believing):
    os.setxattr(believing / "one", "user.moorage.refresh", b"")
    # The kernel lets go of the folder's names as soon as it has the answer.
    wait_until(lambda: shows(believing / "one") == NEW, 10)
    with pytest.raises(PermissionError):
        os.setxattr(believing / "one", "user.moorage.state", b"")


def test_a_changed_file_is_written_at_the_version_that_a_refresh_showed(instance, believing, client):
    instance.run("cache", "refresh", believing / "one")
    with open(believing / "one/changed", "ab") as file:
        file.write(b" and mine")
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="one/changed")["Body"].read() == b"of others and mine"
    assert instance.conflicts() == 0


@pytest.mark.parametrize("kind", ["nginx-json", "nginx-none", "lighttpd-no-validators"])
def test_a_web_server_is_asked_again(make_web, web_instance, kind):  # noqa: F811
    web_instance.configure(**LONG)
    web = make_web(kind)
    os.makedirs(os.path.join(web.root, "folder"))
    for name in ("changed", "deleted"):
        write_file(os.path.join(web.root, "folder", name), b"old")
    age(web.root)
    mount = mount_web(web_instance, web.url)
    assert [read(mount / f"folder/{name}") for name in ("changed", "deleted")] == [b"old", b"old"]
    assert not os.path.exists(mount / "folder/new")
    for name in ("changed", "new"):
        write_file(os.path.join(web.root, "folder", name), b"of others")
    os.unlink(os.path.join(web.root, "folder/deleted"))
    age(web.root, 1800)
    assert read(mount / "folder/changed") == b"old" and not os.path.exists(mount / "folder/new")
    # lighttpd remembers sizes for two seconds, and then sends as much of the new content.
    wait_until(lambda: len(urllib.request.urlopen(web.url + "folder/changed").read()) == 9, 10)
    web_instance.run("cache", "refresh", mount / "folder")
    assert [read(mount / f"folder/{name}") for name in ("changed", "new")] == [b"of others", b"of others"]
    assert not os.path.exists(mount / "folder/deleted")
    shutil.rmtree(os.path.join(web.root, "folder"))
    web_instance.run("cache", "refresh", mount.path)
    assert not os.path.exists(mount / "folder/changed")


def test_what_cannot_be_refreshed_is_said(instance, believing, local):
    for words, text in [([], "name a file or folder"), ([local], "not in a mounted volume")]:
        result = instance.run("cache", "refresh", *words, check=False)
        assert result.returncode != 0 and text in result.stderr, result.stderr


def test_a_folder_made_here_shows_what_others_put_in_it(instance, client):
    """Also to a process whose working directory it is: the kernel asks for its name no more."""
    instance.configure(metadata_age="1s")
    mount = instance.mount("s3://bucket")
    os.mkdir(mount / "d")
    folder = os.open(mount / "d", os.O_RDONLY)
    try:
        assert os.listdir(folder) == []
        instance.flush()
        client.put_object(Bucket="bucket", Key="d/theirs", Body=b"of others")
        wait_until(lambda: os.listdir(f"/proc/self/fd/{folder}") == ["theirs"], what="the name of somebody else")
        client.put_object(Bucket="bucket", Key="d/another", Body=b"of others")
        wait_until(lambda: exists(folder, "another"), what="the other name")
    finally:
        os.close(folder)


def test_a_folder_made_here_and_not_sent_shows_what_others_put_in_it(instance, client):
    """As soon as the listing of the folder that it is in has its name."""
    instance.configure(metadata_age="1s", quiet_period="1h")
    mount = instance.mount("s3://bucket")
    os.makedirs(mount / "k/d/e")
    client.put_object(Bucket="bucket", Key="k/d/theirs", Body=b"of others")
    below = [(".", ["k"]), ("k", ["d"]), ("k/d", ["e", "theirs"])]
    wait_until(lambda: all(sorted(os.listdir(mount / path)) == names for path, names in below), what="their name")
    with open(mount / "k/d/theirs", "rb") as file:
        assert file.read() == b"of others"
    os.rmdir(mount / "k/d/e")
    with pytest.raises(OSError) as failure:
        os.rmdir(mount / "k/d")
    assert failure.value.errno == errno.ENOTEMPTY
    assert instance.pending_files() > 0, "it is sent: the test proves nothing"


def test_a_folder_that_others_put_something_in_is_not_removed_as_empty(instance, proxy, client):
    instance.configure(metadata_age="0s", quiet_period="1h")
    mount = instance.mount("s3://bucket")
    for name in ("d", "e"):
        os.mkdir(mount / name)
    client.put_object(Bucket="bucket", Key="d/theirs", Body=b"of others")
    with pytest.raises(OSError) as failure:
        os.rmdir(mount / "d")
    assert failure.value.errno == errno.ENOTEMPTY
    # Nobody is asked while nobody answers.
    proxy.offline()
    os.rmdir(mount / "e")
    assert instance.pending_files() > 0, "it is sent: the test proves nothing"


def test_a_folder_made_here_moves_with_what_others_put_in_it(instance, proxy, client):
    instance.configure(metadata_age="1s", quiet_period="1h")
    mount = instance.mount("s3://bucket")
    for name in ("d", "e", "src"):
        os.mkdir(mount / name)
        write_file(mount / f"{name}/mine", b"content")
    client.put_object(Bucket="bucket", Key="d/theirs", Body=b"of others")
    wait_until(lambda: sorted(os.listdir(mount.path)) == ["d", "e", "src"] and "theirs" in os.listdir(mount / "d"))
    os.rename(mount / "d", mount / "n")
    assert sorted(os.listdir(mount / "n")) == ["mine", "theirs"]
    os.unlink(mount / "e/mine")
    client.put_object(Bucket="bucket", Key="e/theirs", Body=b"of others")
    proxy.zero()
    wait_until(lambda: os.listdir(mount.path) and proxy.requests("GET list"), what="a new listing")
    with pytest.raises(OSError) as failure:
        os.rename(mount / "src", mount / "e")
    assert failure.value.errno == errno.ENOTEMPTY


def test_a_folder_made_here_stays_usable_when_the_network_goes_again(instance, proxy, client):
    """Although it is known that others have put something into it, which nobody tells of now."""
    instance.configure(metadata_age="1s", quiet_period="1h")
    mount = instance.mount("s3://bucket")
    assert os.listdir(mount.path) == []
    proxy.offline()
    time.sleep(1.1)
    os.mkdir(mount / "d")
    write_file(mount / "d/mine", b"content")
    client.put_object(Bucket="bucket", Key="d/theirs", Body=b"of others")
    proxy.zero()
    proxy.online()
    wait_until(lambda: os.listdir(mount.path) and proxy.requests("GET list"), what="a listing with the folder's name")
    proxy.offline()
    time.sleep(1.1)
    assert "mine" in os.listdir(mount / "d")
    assert not os.path.lexists(mount / "d/none")
    os.mkdir(mount / "d/sub")
    os.rename(mount / "d/mine", mount / "d/yours")
    os.unlink(mount / "d/yours")
    assert not os.path.lexists(mount / "d/yours")


def exists(folder, name):
    """Whether a name is in a folder given as a descriptor."""
    try:
        os.stat(name, dir_fd=folder)
    except FileNotFoundError:
        return False
    return True
