# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Files with several names: one file here, and at the remote an object by each name."""

import errno
import os
import stat
import subprocess
import threading

import pytest

from harness.processes import wait_until
from harness.trees import all_keys, write_file


def content(client, key):
    return client.get_object(Bucket="bucket", Key=key)["Body"].read()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def is_one(mount, *names):
    """Whether names are of one file, which has no others."""
    found = [os.stat(mount / name) for name in names]
    return len({status.st_ino for status in found}) == 1 and all(s.st_nlink == len(names) for s in found)


@pytest.fixture(params=["pending", "remote"])
def file(request, mount, instance):
    """A file `f` that is at the remote, or only here."""
    write_file(mount / "f", b"first")
    if request.param == "remote":
        instance.flush()
    else:
        instance.run("uploads", "pause", "--all")
    return mount / "f"


def settle(instance):
    instance.run("uploads", "resume", "--all")
    instance.flush()


def test_names_are_of_one_file(file, mount, instance, client):
    os.mkdir(mount / "d")
    os.link(file, mount / "d/g")
    os.link(mount / "d/g", mount / "h")
    assert is_one(mount, "f", "d/g", "h")
    with open(mount / "h", "ab") as other:
        other.write(b" and more")
    assert {read(mount / name) for name in ("f", "d/g", "h")} == {b"first and more"}
    os.chmod(mount / "d/g", 0o640)
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o640
    settle(instance)
    for key in ("f", "d/g", "h"):
        assert content(client, key) == b"first and more"
        assert client.head_object(Bucket="bucket", Key=key)["Metadata"]["mode"] == str(stat.S_IFREG | 0o640)
    assert is_one(mount, "f", "d/g", "h")


def test_they_stay_so_after_a_remount(file, mount, instance, client):
    os.link(file, mount / "g")
    mount.unmount()
    mount = mount.mount_again()
    assert is_one(mount, "f", "g")
    settle(instance)
    mount.unmount()
    instance.drop_cache()
    mount = mount.mount_again()
    assert is_one(mount, "f", "g")
    write_file(mount / "g", b"second")
    instance.flush()
    assert content(client, "f") == content(client, "g") == b"second" == read(mount / "f")


def test_bytes_are_sent_once(mount, instance, proxy, client):
    body = os.urandom(3 << 20)
    write_file(mount / "f", body)
    for number in range(5):
        os.link(mount / "f", mount / f"g{number}")
    instance.flush()
    assert all(content(client, f"g{number}") == body for number in range(5))
    assert proxy.body_bytes() < 1.5 * len(body)
    proxy.zero()
    os.rename(mount / "f", mount / "e")
    os.chmod(mount / "g1", 0o600)
    instance.flush()
    assert sorted(all_keys(client, "bucket")) == ["e", "g0", "g1", "g2", "g3", "g4"]
    assert proxy.body_bytes() < len(body) / 2


@pytest.mark.parametrize("name", ["f", "g", "h"])
def test_a_name_that_goes_leaves_the_others(file, mount, instance, client, name):
    os.link(file, mount / "g")
    os.link(file, mount / "h")
    number = os.stat(file).st_ino
    os.unlink(mount / name)
    others = [other for other in ("f", "g", "h") if other != name]
    assert is_one(mount, *others) and os.stat(mount / others[0]).st_ino == number
    assert {read(mount / other) for other in others} == {b"first"}
    with open(mount / others[0], "ab") as last:
        last.write(b"!")
    settle(instance)
    assert sorted(all_keys(client, "bucket")) == others
    assert {content(client, other) for other in others} == {b"first!"}
    os.unlink(mount / others[0])
    assert os.stat(mount / others[1]).st_nlink == 1 and read(mount / others[1]) == b"first!"
    instance.flush()
    assert list(all_keys(client, "bucket")) == [others[1]]


def test_who_writes_goes_on_by_another_name(file, mount, instance, client):
    """Maildir, lock files and mail spools: link, unlink, and write on."""
    os.link(file, mount / "g")
    with open(file, "r+b") as writer:
        writer.write(b"F")
        os.unlink(file)
        writer.write(b"IRST and on")
        writer.flush()
        os.fsync(writer.fileno())
        assert os.fstat(writer.fileno()).st_nlink == 1
        assert read(mount / "g") == b"FIRST and on"
    settle(instance)
    assert list(all_keys(client, "bucket")) == ["g"] and content(client, "g") == b"FIRST and on"


def test_renames(file, mount, instance, client):
    os.link(file, mount / "g")
    # To another name of the same file nothing happens (rename(2)).
    os.rename(file, mount / "g")
    assert is_one(mount, "f", "g")
    os.mkdir(mount / "d")
    os.rename(mount / "g", mount / "d/g")
    os.rename(file, mount / "e")
    assert is_one(mount, "e", "d/g")
    os.rename(mount / "d", mount / "n")
    assert is_one(mount, "e", "n/g")
    write_file(mount / "x", b"other")
    os.rename(mount / "x", mount / "e")
    assert read(mount / "e") == b"other" and os.stat(mount / "n/g").st_nlink == 1
    assert read(mount / "n/g") == b"first"
    settle(instance)
    assert {key: content(client, key) for key in all_keys(client, "bucket") if not key.endswith("/")} == {
        "e": b"other", "n/g": b"first"
    }


def test_names_change_places(file, mount, instance, client):
    os.link(file, mount / "g")
    write_file(mount / "x", b"other")
    os.mkdir(mount / "d")
    write_file(mount / "d/y", b"below")
    exchange(mount / "g", mount / "x")
    assert read(mount / "g") == b"other" and is_one(mount, "f", "x")
    exchange(mount / "x", mount / "d")
    assert is_one(mount, "f", "d") and read(mount / "x/y") == b"below"
    settle(instance)
    assert content(client, "d") == content(client, "f") == b"first"
    assert content(client, "x/y") == b"below" and content(client, "g") == b"other"


def exchange(one, two):
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(two), 2) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


def test_what_cannot_be_linked(mount, instance):
    os.mkdir(mount / "d")
    write_file(mount / "f", b"1")
    for source, target, code in (("d", "e", errno.EPERM), ("f", "d", errno.EEXIST), ("f", "no/x", errno.ENOENT),
                                 ("no", "x", errno.ENOENT), ("f", "x" * 256, errno.ENAMETOOLONG)):
        with pytest.raises(OSError) as refusal:
            os.link(mount / source, mount / target)
        assert refusal.value.errno == code, (source, target)
    with open(mount / "f", "rb") as file:
        os.unlink(mount / "f")
        assert os.fstat(file.fileno()).st_nlink == 0


def test_links_and_special_files(mount, instance, client):
    os.symlink("target", mount / "s")
    os.link(mount / "s", mount / "t", follow_symlinks=False)
    os.mkfifo(mount / "p")
    os.link(mount / "p", mount / "q")
    assert os.readlink(mount / "t") == "target" and stat.S_ISFIFO(os.stat(mount / "q").st_mode)
    instance.flush()
    mount.unmount()
    instance.drop_cache()
    assert content(client, "t") == b"target"
    mount = mount.mount_again()
    assert os.readlink(mount / "t") == "target" and os.lstat(mount / "t").st_nlink == 2
    assert stat.S_ISFIFO(os.stat(mount / "q").st_mode) and is_one(mount, "p", "q")


def test_a_listing_shows_them(file, mount, instance):
    os.mkdir(mount / "d")
    os.link(file, mount / "d/g")
    settle(instance)
    for _ in range(2):
        found = {entry.name: entry.stat(follow_symlinks=False) for entry in os.scandir(mount / "d")}
        assert found["g"].st_nlink == 2 and found["g"].st_ino == os.stat(file).st_ino
        mount.unmount()
        mount = mount.mount_again()
        file = mount / "f"
    listed = subprocess.run(["find", mount.path, "-samefile", file], check=True, capture_output=True, text=True).stdout
    assert len(listed.split()) == 2


def test_what_others_change_by_one_name(mount, instance, client):
    write_file(mount / "f", b"first")
    os.link(mount / "f", mount / "g")
    os.link(mount / "f", mount / "h")
    instance.flush()
    # By a further name: it is a file of its own.
    client.put_object(Bucket="bucket", Key="g", Body=b"theirs")
    instance.run("cache", "refresh", mount.path)
    assert read(mount / "g") == b"theirs" and is_one(mount, "f", "h")
    # By the first: the file has changed, and so by its other names.
    client.put_object(Bucket="bucket", Key="f", Body=b"new")
    instance.run("cache", "refresh", mount.path)
    assert read(mount / "f") == b"new" and read(mount / "h") == b"new"
    instance.flush()
    assert content(client, "h") == b"new" and content(client, "g") == b"theirs"
    # The first one goes: the file goes on by the other.
    client.delete_object(Bucket="bucket", Key="f")
    instance.run("cache", "refresh", mount.path)
    assert sorted(os.listdir(mount.path)) == ["g", "h"] and read(mount / "h") == b"new"
    wait_until(lambda: os.stat(mount / "h").st_nlink == 1)


def test_a_conflict_leaves_both(mount, instance, client):
    write_file(mount / "f", b"first")
    os.link(mount / "f", mount / "g")
    instance.flush()
    instance.run("uploads", "pause", "--all")
    write_file(mount / "f", b"second")
    client.put_object(Bucket="bucket", Key="g", Body=b"theirs")
    settle(instance)
    assert content(client, "g") == b"theirs" and content(client, "f") == b"second"
    assert [key for key in all_keys(client, "bucket") if key not in ("f", "g")] == []
    assert read(mount / "f") == b"second"
    wait_until(lambda: read(mount / "g") == b"theirs")


@pytest.mark.parametrize("change", ["rename", "unlink"])
def test_attributes_on_their_way_when_the_first_name_moves_reach_the_others(mount, instance, proxy, client, change):
    """The server's tags are made of the bytes: they do not tell that the copies are older."""
    write_file(mount / "f", b"first")
    for name in ("g", "h"):
        os.link(mount / "f", mount / name)
    instance.flush()
    sent = proxy.rule("hold-response", method="PUT", path="/bucket/f", field="x-amz-copy-source")
    os.chmod(mount / "f", 0o750)
    sent.wait()
    if change == "rename":
        os.rename(mount / "f", mount / "e")
    else:
        os.unlink(mount / "f")
    sent.release()
    instance.flush()
    names = sorted(os.listdir(mount.path))
    assert names == (["e", "g", "h"] if change == "rename" else ["g", "h"]) and is_one(mount, *names)
    assert sorted(all_keys(client, "bucket")) == names
    modes = {key: client.head_object(Bucket="bucket", Key=key)["Metadata"]["mode"] for key in names}
    assert set(modes.values()) == {str(stat.S_IFREG | 0o750)}, modes


def test_where_the_server_cannot_copy(mount, instance, proxy, client):
    body = "<Error><Code>NotImplemented</Code></Error>"
    refused = proxy.rule("respond", method="PUT", field="x-amz-copy-source", times="all", status=501, body=body)
    write_file(mount / "f", b"first")
    os.link(mount / "f", mount / "g")
    instance.flush()
    assert content(client, "f") == content(client, "g") == b"first" and refused.matched() > 0


@pytest.mark.parametrize("who", ["mount", "flusher"])
def test_kills_lose_no_name(mount, instance, client, who):
    instance.running_flusher()
    stop = threading.Event()

    def work():
        for number in range(40):
            try:
                write_file(mount / f"f{number}", b"%d" % number)
                os.link(mount / f"f{number}", mount / f"g{number}")
                if number % 3 == 0:
                    os.unlink(mount / f"f{number}")
            except OSError:
                break
            done.append(number)
        stop.set()

    done = []
    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: len(done) >= 20)
    if who == "mount":
        mount.kill()
    else:
        instance.kill_flusher()
    thread.join()
    if who == "mount":
        mount = mount.mount_again()
    for number in done:
        assert read(mount / f"g{number}") == b"%d" % number
    instance.flush()
    for number in done:
        assert content(client, f"g{number}") == b"%d" % number
        assert (f"f{number}" in all_keys(client, "bucket")) == (number % 3 != 0)


def test_programs_that_live_on_them(mount, instance, client, local):
    """rsync's backups by --link-dest, and a copy of links as links."""
    os.makedirs(f"{local}/source/d")
    for name in ("a", "d/b"):
        write_file(f"{local}/source/{name}", name.encode())
    subprocess.run(["rsync", "-a", f"{local}/source/", mount / "one/"], check=True)
    write_file(f"{local}/source/c", b"new")
    subprocess.run(["rsync", "-a", "--link-dest=../one", f"{local}/source/", mount / "two/"], check=True)
    assert os.stat(mount / "two/a").st_ino == os.stat(mount / "one/a").st_ino
    subprocess.run(["cp", "-a", mount / "two", mount / "three"], check=True)
    subprocess.run(["cp", "-al", mount / "two", mount / "four"], check=True)
    assert os.stat(mount / "four/d/b").st_nlink == 3
    instance.flush()
    for folder in ("one", "two", "three", "four"):
        assert content(client, f"{folder}/d/b") == b"d/b"
    subprocess.run(["rm", "-r", mount / "one"], check=True)
    instance.flush()
    assert read(mount / "two/a") == b"a" and os.stat(mount / "four/a").st_nlink == 2
    assert not [key for key in all_keys(client, "bucket") if key.startswith("one/")]
