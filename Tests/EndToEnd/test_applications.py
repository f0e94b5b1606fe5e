# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Everyday programs work in the mount, and what they wrote is remote and survives a remount without cache."""

import errno
import os
import threading
import time

import pytest

from harness.processes import shell
from harness.trees import all_keys, fingerprint, make_tree, write_file

GIT = "export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org;"


@pytest.fixture
def direct(make_instance, server):
    """An instance without the proxy between."""
    return make_instance(server.url)


@pytest.fixture
def mounted(direct):
    return direct.mount("s3://bucket")


def remount_without_cache(direct, mounted):
    direct.flush()
    mounted.unmount()
    direct.drop_cache()
    return mounted.mount_again()


@pytest.mark.limit(180)
def test_git_clone_commit_and_fsck(direct, mounted, local):
    shell(
        GIT + "git init -q -b main source && cd source && for i in $(seq 60); do mkdir -p d$((i % 7));"
        " echo line $i > d$((i % 7))/f$i; done && git add . && git commit -qm first && git tag one",
        local,
    )
    clone = mounted / "clone"
    shell(GIT + f"git clone -q {local}/source {clone}", timeout=90)
    shell(
        GIT + "echo more >> d1/f1 && git mv d2/f2 d3/moved && git add -A && git commit -qm second"
        " && git checkout -q -b side one && echo side > side && git add side && git commit -qm side"
        " && git checkout -q main && git merge -q -m merge side && git gc -q && git fsck --strict --no-dangling",
        clone,
        timeout=120,
    )
    assert shell("git status --porcelain", clone).stdout == ""
    head = shell("git rev-parse HEAD", clone).stdout
    again = remount_without_cache(direct, mounted)
    assert shell("git rev-parse HEAD", again / "clone").stdout == head
    shell("git fsck --strict --no-dangling", again / "clone", timeout=90)
    assert shell("git status --porcelain", again / "clone", timeout=90).stdout == ""


@pytest.mark.limit(180)
@pytest.mark.parametrize("mode", ["delete", "truncate", "wal"])
def test_sqlite_database(direct, mounted, mode):
    path = mounted / "data.db"
    script = (
        f"import sqlite3; db = sqlite3.connect({path!r}); db.execute('PRAGMA journal_mode={mode}');"
        "db.execute('CREATE TABLE t(i INTEGER PRIMARY KEY, v BLOB)');\n"
        "for i in range(40):\n"
        "  db.executemany('INSERT INTO t(v) VALUES (randomblob(500))', [()] * 50)\n"
        "  db.execute('DELETE FROM t WHERE i % 7 = ?', (i % 7,))\n"
        "  db.commit()\n"
        "db.execute('VACUUM'); db.close()"
    )
    shell(f"python3 - <<'END'\n{script}\nEND", timeout=90)
    check = f"sqlite3 {path} 'PRAGMA integrity_check; SELECT count(*), total(length(v)) FROM t'"
    before = shell(check).stdout
    assert before.startswith("ok\n")
    remount_without_cache(direct, mounted)
    assert shell(check).stdout == before


@pytest.mark.limit(120)
def test_tar_in_and_out(direct, mounted, local, seed):
    tree = os.path.join(local, "tree")
    make_tree(tree, 300, 3_000, seed, per_folder=30)
    os.symlink("../d000/f00000", os.path.join(tree, "d001", "link"))
    os.mkdir(os.path.join(tree, "empty"))
    shell(f"chmod 600 {tree}/d002/f00060 && tar -C {local} -cf {local}/a.tar tree && tar -C {mounted.path} -xf {local}/a.tar")
    assert fingerprint(mounted / "tree", attributes=True) == fingerprint(tree, attributes=True)
    again = remount_without_cache(direct, mounted)
    shell(f"tar -C {again.path} -cf {local}/b.tar tree && mkdir {local}/out && tar -C {local}/out -xf {local}/b.tar")
    assert fingerprint(os.path.join(local, "out", "tree"), attributes=True) == fingerprint(tree, attributes=True)


@pytest.mark.limit(120)
def test_copies_keep_modes_times_and_links(direct, mounted, local):
    shell(
        "mkdir -p a/b/c && echo 1 > a/x && echo 2 > 'a/b/with space' && echo 3 > a/b/c/$'\\xc3\\xa9' && ln -s ../x a/b/l"
        " && ln -s nowhere a/dangling && chmod 751 a/x && chmod 700 a/b && touch -d 1999-12-31T23:59:58 a/x && : > a/empty",
        local,
    )
    shell(f"cp -a {local}/a {mounted.path}/a")
    again = remount_without_cache(direct, mounted)
    listing = "find a -printf '%P %y %m %l %s\\n' | grep -v '^ d' | sed '/ d /s/ [0-9]*$//' | sort"
    assert shell(listing, again.path).stdout == shell(listing, local).stdout
    assert os.stat(again / "a/x").st_mtime == os.stat(os.path.join(local, "a/x")).st_mtime


@pytest.mark.limit(120)
def test_editors_save_dances(direct, mounted, client):
    text = mounted / "text"
    write_file(text, b"first\n")
    # Vim with backup files: write 4913, rename to a backup, write anew, delete the backup.
    shell(
        "vim -u NONE -es -c 'set nocompatible backup writebackup backupcopy=no backupskip=' -c 'normal Gosecond' -c 'wq' text",
        mounted.path,
        check=False,
    )
    assert b"second" in open(text, "rb").read()
    # Write a temporary file, fsync it, rename it over.
    write_file(mounted / ".text.tmp", b"third\n", synchronize=True)
    os.rename(mounted / ".text.tmp", text)
    assert open(text, "rb").read() == b"third\n"
    # sed -i and appending.
    shell("sed -i s/third/fourth/ text && echo fifth >> text", mounted.path)
    direct.flush()
    assert client.get_object(Bucket="bucket", Key="text")["Body"].read() == b"fourth\nfifth\n"
    keys = {item["Key"] for item in client.list_objects_v2(Bucket="bucket")["Contents"]}
    assert keys == {"text", "text~"}


@pytest.mark.limit(120)
def test_writing_in_the_middle_does_not_truncate(direct, mounted, client):
    client.put_object(Bucket="bucket", Key="f", Body=b"0123456789" * 1_000)
    again = remount_without_cache(direct, mounted)
    shell("printf XY | dd of=f bs=1 seek=5000 conv=notrunc status=none", again.path)
    expected = bytearray(b"0123456789" * 1_000)
    expected[5000:5002] = b"XY"
    assert open(again / "f", "rb").read() == bytes(expected)
    direct.flush()
    assert client.get_object(Bucket="bucket", Key="f")["Body"].read() == bytes(expected)
    shell("truncate -s 4000 f && truncate -s 6000 f && printf Z >> f", again.path)
    expected = expected[:4000] + bytes(2000) + b"Z"
    assert open(again / "f", "rb").read() == bytes(expected)
    direct.flush()
    assert client.get_object(Bucket="bucket", Key="f")["Body"].read() == bytes(expected)


@pytest.mark.limit(120)
def test_moving_and_removing_trees(direct, mounted, client, local, seed):
    contents = make_tree(os.path.join(local, "t"), 60, 1_000, seed, per_folder=10)
    shell(f"cp -r {local}/t {mounted.path}/one")
    direct.flush()
    shell("mv one two && mkdir -p deep/er && mv two deep/er/three && mv deep/er/three/d000/f00001 deep/moved", mounted.path)
    expected = {"er/three/" + name for name in contents} - {"er/three/d000/f00001"} | {"moved"}
    found = shell("find deep -type f -printf '%P\\n'", mounted.path).stdout.split()
    assert set(found) == expected
    direct.flush()
    keys = {item["Key"] for item in client.list_objects_v2(Bucket="bucket")["Contents"]}
    assert {key for key in keys if not key.endswith("/")} == {"deep/" + name for name in expected}
    for name, content in contents.items():
        target = "deep/moved" if name == "d000/f00001" else "deep/er/three/" + name
        assert client.get_object(Bucket="bucket", Key=target)["Body"].read() == content
    shell("rm -r deep/er && rmdir nothere 2>/dev/null && exit 1; rm -rf deep", mounted.path)
    direct.flush()
    assert client.list_objects_v2(Bucket="bucket").get("Contents", []) == []


@pytest.mark.limit(60)
def test_the_rules_of_names(mounted):
    """What POSIX programs rely on: exclusive creation, open files that are unlinked, rename over, errors."""
    root = mounted.path
    write_file(mounted / "a", b"a")
    with pytest.raises(FileExistsError):
        os.open(mounted / "a", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    with pytest.raises(FileNotFoundError):
        open(mounted / "missing")
    with pytest.raises(NotADirectoryError):
        open(mounted / "a/b")
    os.mkdir(mounted / "d")
    with pytest.raises(IsADirectoryError):
        open(mounted / "d", "w")
    write_file(mounted / "d/x", b"x")
    with pytest.raises(OSError, match="not empty"):
        os.rmdir(mounted / "d")
    descriptor = os.open(mounted / "a", os.O_RDWR)
    os.unlink(mounted / "a")
    assert not os.path.exists(mounted / "a")
    os.pwrite(descriptor, b"still here", 0)
    assert os.pread(descriptor, 100, 0) == b"still here"
    os.close(descriptor)
    assert sorted(os.listdir(root)) == ["d"]
    with pytest.raises(OSError) as problem:
        write_file(mounted / ("n" * 256), b"")
    assert problem.value.errno == 36  # ENAMETOOLONG
    os.symlink("d/x", mounted / "s")
    assert os.readlink(mounted / "s") == "d/x"
    assert open(mounted / "s", "rb").read() == b"x"
    assert os.statvfs(root).f_bavail > 0


@pytest.mark.limit(60)
def test_a_moved_folder_takes_names_when_it_has_been_uploaded(direct):
    """The kernel remembers that the names are free, so it does not look them up again before they are made."""
    mounted = direct.mount("s3://bucket", None, "kernel_age=60s", "metadata_age=60s")
    os.makedirs(mounted / "old/inner")
    os.rename(mounted / "old", mounted / "new")
    paths = [mounted / name for name in ("new/file", "new/folder", "new/inner/file")]
    assert not any(os.path.exists(path) for path in paths)
    direct.flush()
    write_file(paths[0], b"1")
    os.mkdir(paths[1])
    write_file(paths[2], b"2")
    direct.flush()


@pytest.mark.limit(120)
@pytest.mark.parametrize("prefix", ["", "a/prefix"])
@pytest.mark.parametrize("letter", ["n", "\u00fc"])
def test_a_path_has_to_fit_into_a_key_with_the_prefix(direct, client, make_instance, server, prefix, letter):
    """Keys have 1,024 bytes at most, those of folders with a slash at the end."""
    def name(length):
        """So many bytes."""
        return letter * (length // len(letter.encode())) + "x" * (length % len(letter.encode()))

    def refused(call, *paths):
        with pytest.raises(OSError) as problem:
            call(*paths)
        assert problem.value.errno == errno.ENAMETOOLONG

    mounted = direct.mount(f"s3://bucket/{prefix}")
    taken = len(prefix) + 1 if prefix else 0
    folder = mounted / "/".join([name(249)] * 4)
    os.makedirs(folder)
    room = 1024 - taken - 1000
    file, made = f"{folder}/{name(room)}", f"{folder}/{name(room - 1)}"
    refused(write_file, f"{folder}/{name(room + 1)}", b"x")
    write_file(file, b"long")
    refused(os.mkdir, f"{folder}/{name(room)[:-1]}y" if letter == "n" else f"{folder}/{name(room - 2)}yy")
    os.mkdir(made)
    refused(os.rename, mounted / name(249), mounted / name(250))
    direct.flush()
    longest = [key for key in all_keys(client, "bucket", prefix) if len(key.encode()) == 1024]
    assert sorted(key.endswith("/") for key in longest) == [False, True]
    # To a shorter name and back, and with a folder, which the server copies; then seen by another mount.
    os.rename(file, mounted / "short")
    os.rename(made, mounted / "folder")
    direct.flush()
    refused(os.rename, mounted / "folder", file)
    os.rename(mounted / "short", file)
    os.rename(mounted / "folder", made)
    os.rename(mounted / name(249), mounted / ("m" * 249))
    direct.flush()
    there = f"{'m' * 249}/" + "/".join([name(249)] * 3)
    other = make_instance(server.url, "other").mount(f"s3://bucket/{prefix}")
    assert sorted(os.listdir(other / there)) == sorted([name(room), name(room - 1)])
    with open(other / f"{there}/{name(room)}", "rb") as found:
        assert found.read() == b"long"
    os.unlink(mounted / f"{there}/{name(room)}")
    os.rmdir(mounted / f"{there}/{name(room - 1)}")
    direct.flush()
    assert not [key for key in all_keys(client, "bucket", prefix) if len(key.encode()) == 1024]


@pytest.mark.limit(60)
def test_cutting_a_file_at_open_leaves_no_hole_before_what_others_append(mounted):
    """As `: > log` does while a program writes on."""
    path = mounted / "log"
    write_file(path, b"")
    end = time.monotonic() + 6

    def append():
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
        while time.monotonic() < end:
            os.write(descriptor, b"y" * 70_000)
        os.close(descriptor)

    writers = [threading.Thread(target=append) for _ in range(2)]
    for writer in writers:
        writer.start()
    holes = 0
    while time.monotonic() < end:
        os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))
        time.sleep(0.02)
        with open(path, "rb") as file:
            holes += b"\0" in file.read()
    for writer in writers:
        writer.join()
    assert holes == 0
    assert set(open(path, "rb").read()) <= set(b"y")


@pytest.mark.limit(60)
def test_cutting_an_empty_file_counts_as_a_change(mounted):
    write_file(mounted / "stamp", b"")
    os.utime(mounted / "stamp", (1_000_000_000, 1_000_000_000))
    shell(": > stamp", mounted.path)
    assert os.stat(mounted / "stamp").st_mtime > 1_700_000_000


@pytest.mark.limit(60)
def test_a_file_is_not_uploaded_because_a_child_closed_it(direct, mounted, client):
    direct.configure(quiet_period="3s")
    again = remount_without_cache(direct, mounted)
    shell("exec 3> log; echo one >&3; /bin/true; sleep 7; test ! -e ../../../served/bucket/log; echo two >&3", again.path)
    direct.flush()
    assert client.get_object(Bucket="bucket", Key="log")["Body"].read() == b"one\ntwo\n"


@pytest.mark.limit(60)
@pytest.mark.parametrize("date", ["0001-01-01", "1677-09-21", "9999-12-31"])
def test_times_far_away_hurt_nobody(direct, mounted, date):
    write_file(mounted / "a", b"a")
    shell(f"touch -d {date} a && ls -l a", mounted.path)
    again = remount_without_cache(direct, mounted)
    shell("ls -l && cat a", again.path)


@pytest.mark.limit(60)
def test_files_tell_their_state(direct, mounted):
    write_file(mounted / "a", b"a")
    direct.flush()
    assert os.getxattr(mounted / "a", "user.moorage.state") == b"remote"
    assert os.getxattr(mounted / "a", "user.moorage.etag").strip(b'"')


@pytest.mark.limit(90)
def test_memory_mapped_writing(direct, mounted, client):
    script = (
        f"import mmap; f = open({mounted / 'm'!r}, 'w+b'); f.truncate(1 << 20); m = mmap.mmap(f.fileno(), 1 << 20);"
        "m[5:10] = b'hello'; m[-5:] = b'world'; m.flush(); m.close(); f.close()"
    )
    shell(f'python3 -c "{script}"')
    direct.flush()
    body = client.get_object(Bucket="bucket", Key="m")["Body"].read()
    assert len(body) == 1 << 20 and body[5:10] == b"hello" and body[-5:] == b"world"


