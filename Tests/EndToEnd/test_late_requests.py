# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Requests that the server carries out after the flusher that sent them is gone."""

import os
import time

from harness.processes import wait_until
from harness.trees import all_keys, write_file


def delivered(proxy, kind):
    """The status of what was held and is carried out now."""
    wait_until(lambda: proxy.requests(kind, "/bucket/a"), 20, "the held request to be delivered")
    return proxy.requests(kind, "/bucket/a")[-1]["upstream_status"]


def detained(proxy, method, change, **pattern):
    """Makes a change of which the request is in the proxy wholly and not at the server."""
    proxy.zero()
    held = proxy.rule("detain", method=method, **pattern)
    change()
    held.wait_detained()
    return held


def verified(instance):
    wait_until(lambda: instance.pending_files() == 0, 60, "the doubt to end")


def removed_file(instance, proxy, name):
    """A mount without a file, which a request that is held is to make."""
    instance.configure(late_requests="30s")
    mount = instance.mount("s3://bucket")
    held = detained(proxy, "PUT", lambda: write_file(mount / name, b"content"), path=f"/bucket/{name}")
    instance.kill_flusher()
    os.unlink(mount / name)
    instance.flush()
    return mount, held


def test_a_file_deleted_after_a_kill_does_not_come_back(instance, proxy, client):
    instance.configure(late_requests="15s")
    mount = instance.mount("s3://bucket")
    held = detained(proxy, "PUT", lambda: write_file(mount / "a", b"content"), path="/bucket/a")
    assert [upload["path"] for upload in instance.in_flight()] == ["a"]
    instance.kill_flusher()
    os.unlink(mount / "a")
    instance.flush()
    assert all_keys(client, "bucket") == {}
    held.release()
    assert delivered(proxy, "PUT object") == 200, "the held request was not carried out: the test proves nothing"
    assert os.listdir(mount.path) == []
    verified(instance)
    assert all_keys(client, "bucket") == {}
    assert os.listdir(mount.path) == []
    assert instance.conflicts() == 0


def test_an_older_version_that_comes_after_a_kill_is_replaced(instance, proxy, client):
    instance.configure(late_requests="15s")
    mount = instance.mount("s3://bucket")
    held = detained(proxy, "PUT", lambda: write_file(mount / "a", b"old"), path="/bucket/a")
    instance.kill_flusher()
    os.rename(mount / "a", mount / "b")
    instance.flush()
    assert set(all_keys(client, "bucket")) == {"b"}
    write_file(mount / "a", b"newer")
    held.release()
    assert delivered(proxy, "PUT object") in (200, 412)
    instance.flush()
    verified(instance)
    assert set(all_keys(client, "bucket")) == {"a", "b"}
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"newer"
    assert instance.conflicts() == 0


def test_an_older_version_that_came_while_the_file_was_open_is_no_others(instance, proxy, client):
    """Nothing of it was seen while it might have come, and it came; what is closed long after still replaces it."""
    instance.configure(late_requests="2s", quiet_period="0s")
    mount = instance.mount("s3://bucket")
    held = detained(proxy, "PUT", lambda: write_file(mount / "a", b"old"), path="/bucket/a")
    with open(mount / "a", "wb") as file:
        file.write(b"newer")
        file.flush()
        proxy.zero()
        instance.kill_flusher()
        # The next one looks after the upload that nobody wants any more.
        instance.run("uploads", "now", "--all")
        wait_until(lambda: proxy.requests("HEAD object", "/bucket/a"), 20, "a look at what came of it")
        held.release()
        assert delivered(proxy, "PUT object") == 200
        # Longer than it was in doubt, and than from one round of maintenance to the next.
        time.sleep(8)
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"newer"
    assert instance.conflicts() == 0


def test_a_late_deletion_does_not_take_what_was_made_again(instance, proxy, client):
    instance.configure(late_requests="15s")
    mount = instance.mount("s3://bucket")
    write_file(mount / "a", b"content")
    instance.flush()
    held = detained(proxy, "DELETE", lambda: os.unlink(mount / "a"), path="/bucket/a")
    instance.kill_flusher()
    write_file(mount / "a", b"content")
    # The next flusher starts, and would send the file, which the deletion would then take for the one it is about.
    instance.run("uploads", "now", "--all")
    time.sleep(1)
    held.release()
    assert delivered(proxy, "DELETE object") == 204
    instance.flush()
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"content"
    assert instance.conflicts() == 0


def mode_of(client, key):
    return int(client.head_object(Bucket="bucket", Key=key)["Metadata"]["mode"]) & 0o7777


def test_attributes_are_sent_where_the_same_bytes_come_with_others(instance, proxy, client):
    """The object is there when the file is to be made, with its bytes: by an earlier request, not by ours."""
    mount, held = removed_file(instance, proxy, "a")
    second = proxy.rule("hold", method="PUT", path="/bucket/a")
    with os.fdopen(os.open(mount / "a", os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
        file.write(b"content")
    second.wait()
    held.release()
    wait_until(lambda: "a" in all_keys(client, "bucket"), 20, "the held request to be carried out")
    assert mode_of(client, "a") == 0o644
    second.release()
    instance.flush()
    assert mode_of(client, "a") == 0o600
    verified(instance)
    assert client.get_object(Bucket="bucket", Key="a")["Body"].read() == b"content"
    assert instance.conflicts() == 0


def test_older_attributes_that_come_late_do_not_stay(instance, proxy, client):
    instance.configure(late_requests="15s")
    mount = instance.mount("s3://bucket")
    write_file(mount / "a", b"content")
    instance.flush()
    held = detained(proxy, "PUT", lambda: os.chmod(mount / "a", 0o600), path="/bucket/a")
    instance.kill_flusher()
    os.chmod(mount / "a", 0o640)
    # The next flusher starts, and would send the newer ones, which the older would then replace.
    instance.run("uploads", "now", "--all")
    time.sleep(1)
    held.release()
    wait_until(lambda: mode_of(client, "a") == 0o600, 20, "the held request to be carried out")
    instance.flush()
    verified(instance)
    assert mode_of(client, "a") == 0o640
    assert instance.conflicts() == 0


def test_a_file_takes_the_place_of_a_folder_that_something_comes_back_into(instance, proxy, client):
    """The server has no file and folder by one name: the one waits until the other is taken away again."""
    instance.configure(late_requests="30s")
    mount = instance.mount("s3://bucket")
    os.mkdir(mount / "d")
    instance.flush()
    held = detained(proxy, "PUT", lambda: write_file(mount / "d/a", b"content"), path="/bucket/d/a")
    instance.kill_flusher()
    os.unlink(mount / "d/a")
    os.rmdir(mount / "d")
    instance.flush()
    assert all_keys(client, "bucket") == {}
    held.release()
    wait_until(lambda: "d/a" in all_keys(client, "bucket"), 20, "the held request to be carried out")
    proxy.zero()
    write_file(mount / "d", b"file")
    instance.flush()
    refused = [request for request in proxy.requests("PUT object", "/bucket/d") if request["upstream_status"] >= 400]
    assert refused, "the file was not refused: the test proves nothing"
    assert set(all_keys(client, "bucket")) == {"d"}
    verified(instance)
    assert client.get_object(Bucket="bucket", Key="d")["Body"].read() == b"file"
    assert instance.conflicts() == 0


def test_what_was_in_the_way_may_be_gone_when_the_refusal_is_heard(instance, proxy, client):
    """A file in a new folder meets an object of the folder's name, which is taken away before the answer is there."""
    mount, late = removed_file(instance, proxy, "d")
    look = proxy.rule("hold", method="HEAD", path="/bucket/d")
    refusal = proxy.rule("hold-response", method="PUT", path="/bucket/d/a")
    late.release()
    wait_until(lambda: "d" in all_keys(client, "bucket"), 20, "the held request to be carried out")
    os.mkdir(mount / "d")
    write_file(mount / "d/a", b"file")
    instance.run("uploads", "now", "--all")
    refusal.wait()
    look.release()
    wait_until(lambda: set(all_keys(client, "bucket")) == {"d/"}, 20, "the object to be taken away")
    refusal.release()
    instance.flush()
    verified(instance)
    assert proxy.requests("PUT object", "/bucket/d/a")[0]["upstream_status"] >= 400, "it proves nothing"
    assert set(all_keys(client, "bucket")) == {"d/", "d/a"}
    assert client.get_object(Bucket="bucket", Key="d/a")["Body"].read() == b"file"
    assert instance.conflicts() == 0


def removed_folder(instance, proxy, client):
    """A mount without a folder in which a request that is held is to make an object."""
    instance.configure(late_requests="30s")
    mount = instance.mount("s3://bucket", None, "metadata_age=0s", "kernel_age=0s")
    os.makedirs(mount / "d/e")
    instance.flush()
    held = detained(proxy, "PUT", lambda: write_file(mount / "d/e/a", b"content"), path="/bucket/d/e/a")
    instance.kill_flusher()
    os.unlink(mount / "d/e/a")
    os.rmdir(mount / "d/e")
    os.rmdir(mount / "d")
    instance.flush()
    assert all_keys(client, "bucket") == {}
    return mount, held


def carried_out(held, client):
    held.release()
    wait_until(lambda: "d/e/a" in all_keys(client, "bucket"), 20, "the held request to be carried out")


def test_a_removed_folder_is_not_seen_again_by_what_comes_late_into_it(instance, proxy, client):
    mount, held = removed_folder(instance, proxy, client)
    proxy.rule("hold", method="DELETE", path="/bucket/d/e/a", times="all")
    carried_out(held, client)
    for _ in range(3):
        assert os.listdir(mount.path) == []
        assert not os.path.lexists(mount / "d")
    proxy.clear()
    verified(instance)
    assert all_keys(client, "bucket") == {}
    assert os.listdir(mount.path) == []
    assert instance.conflicts() == 0


def test_a_removed_folder_that_somebody_else_makes_again_is_seen(instance, proxy, client):
    mount, held = removed_folder(instance, proxy, client)
    client.put_object(Bucket="bucket", Key="d/other", Body=b"other")
    wait_until(lambda: os.path.isdir(mount / "d"), 20, "the folder to be seen")
    assert os.listdir(mount / "d") == ["other"]
    proxy.rule("hold", method="DELETE", path="/bucket/d/e/a", times="all")
    carried_out(held, client)
    assert os.listdir(mount / "d") == ["other"]
    proxy.clear()
    verified(instance)
    assert set(all_keys(client, "bucket")) == {"d/other"}
    assert os.listdir(mount / "d") == ["other"]
