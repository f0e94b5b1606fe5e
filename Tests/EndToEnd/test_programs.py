# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Programs do in the mount what they do on the local disk, side by side, and the remote has the outcome."""

import os
import sqlite3

import pytest

from harness.jobs import APART, JOBS, PYTHON
from harness.processes import run, shell
from harness.trees import write_file
from harness.twins import ENVIRONMENT, Twins


@pytest.fixture
def twins(make_instance, server, client, local):
    instance = make_instance(server.url)
    yield Twins(instance, client, instance.mount("s3://bucket"), local)
    assert instance.overlooked() == []


@pytest.mark.limit(120)
@pytest.mark.parametrize("job", JOBS)
def test_each_does_the_same_as_on_the_local_disk(job, twins):
    print(twins.run(JOBS[job]))
    twins.finish(APART.get(job))


# MARK: several at once

WRITER = """
import sqlite3, sys
path, mode, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
db = sqlite3.connect(path, timeout=60, isolation_level=None)
assert db.execute(f"PRAGMA journal_mode={mode}").fetchone() == (mode,)
for i in range(20):
    db.execute("BEGIN IMMEDIATE")
    count, = db.execute("SELECT count FROM counter").fetchone()
    db.execute("INSERT INTO t VALUES (?, ?, zeroblob(?))", (number, i, (number * 7919 + i * 104729) % 9000))
    if i % 3 == 2:
        db.execute("DELETE FROM t WHERE writer = ? AND i = ?", (number, i - 1))
    db.execute("UPDATE counter SET count = ?", (count + 1,))
    db.execute("ROLLBACK" if i % 5 == 4 else "COMMIT")
    assert db.execute("PRAGMA quick_check").fetchone() == ("ok",)
db.close()
"""


@pytest.mark.limit(120)
@pytest.mark.parametrize("mode", ["delete", "persist", "wal"])
def test_a_database_with_several_writers(mode, twins, local):
    write_file(os.path.join(local, "writer.py"), WRITER.encode())
    script = f"""
        sqlite3 data.db 'PRAGMA journal_mode={mode}; CREATE TABLE t(writer, i, content); CREATE TABLE counter(count)'
        sqlite3 data.db 'INSERT INTO counter VALUES (0); CREATE INDEX by_writer ON t(writer, i)'
        for number in 1 2 3 4; do {PYTHON} {local}/writer.py data.db {mode} $number & writers+=($!); done
        for writer in "${{writers[@]}}"; do wait "$writer"; done
        sqlite3 data.db 'PRAGMA integrity_check; SELECT * FROM counter; SELECT writer, i, length(content) FROM t ORDER BY 1, 2'
    """
    assert twins.run(script, timeout=100).startswith(f"{mode}\nok\n64\n")
    # The order of the writers is chance, and with it where in the file the rows are.
    twins.finish("^data.db")
    copy = os.path.join(local, "copy.db")
    twins.client.download_file("bucket", "work/data.db", copy)
    for path in (copy, twins.mount / "work/data.db"):
        database = sqlite3.connect(path)
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("SELECT count FROM counter").fetchall() == [(64,)]
        database.close()


DELIVERY = """
import mailbox, sys
box = mailbox.Maildir(sys.argv[1], create=True)
for i in range(15):
    message = mailbox.MaildirMessage(f"Subject: {sys.argv[2]} {i}\\n\\n" + "line\\n" * i * 50)
    box.add(message)
"""

READER = """
import mailbox, sys, time
box, seen = mailbox.Maildir(sys.argv[1]), 0
while seen < 45:
    time.sleep(0.02)
    for key in sorted(box.keys()):
        message = box[key]
        if message.get_subdir() == "new":
            message.set_subdir("cur")
            message.add_flag("S")
            box[key] = message
            seen += 1
            if seen % 5 == 0:
                box.remove(key)
print(seen)
"""


@pytest.mark.limit(120)
def test_mail_is_delivered_while_it_is_read(twins, local):
    write_file(os.path.join(local, "delivery.py"), DELIVERY.encode())
    write_file(os.path.join(local, "reader.py"), READER.encode())
    script = f"""
        {PYTHON} -c 'import mailbox; mailbox.Maildir("box", create=True)'
        for who in a b c; do {PYTHON} {local}/delivery.py box $who & deliveries+=($!); done
        timeout 60 {PYTHON} {local}/reader.py box; for one in "${{deliveries[@]}}"; do wait "$one"; done
        ls box/new box/tmp; ls box/cur | wc -l; ls box/cur | sed 's/.*://' | sort | uniq -c
    """
    assert twins.run(script).splitlines() == ["45", "box/new:", "", "box/tmp:", "36", "     36 2,S"]
    # Which five went is chance, and the names hold times and process numbers.
    twins.finish("^box/cur/")


OFFICE = """
import os, shutil, sys
name, content = "letter.odt", sys.argv[1].encode()
lock = os.open(".~lock.letter.odt#", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
os.write(lock, b",user,host,21.11.2026 10:00,file:///home/user;")
os.close(lock)
def write(path):
    with open(path, "wb") as file:
        for part in (content[:1000], content[1000:]):
            file.write(part)
        file.seek(0)
        file.write(b"PK")
        file.flush()
        os.fsync(file.fileno())
if os.path.exists(name):
    # A backup, then the new content in a temporary file that takes the name, mode and all.
    shutil.copy2(name, "letter.bak")
    write("lu4711xyz.tmp")
    shutil.copymode(name, "lu4711xyz.tmp")
    os.replace("lu4711xyz.tmp", name)
    # And once more in place, as where no file may be made beside it.
    with open(name, "r+b") as file:
        file.truncate(0)
        file.write(content)
else:
    write(name)
    os.chmod(name, 0o640)
os.unlink(".~lock.letter.odt#")
print(open(name, "rb").read() == content or "first", sorted(os.listdir(".")))
"""


@pytest.mark.limit(60)
def test_an_office_saves_with_lock_and_backup(twins, local):
    write_file(os.path.join(local, "office.py"), OFFICE.encode())
    script = f"""for size in 100 5000 90000; do {PYTHON} {local}/office.py "$(head -c $size /dev/zero | tr '\\0' $((size % 7)))"; done
        test ! -e '.~lock.letter.odt#'; stat -c '%a %s' letter.odt letter.bak"""
    twins.run(script)
    twins.finish()


@pytest.mark.limit(60)
def test_tail_follows_a_log_that_is_rotated(twins):
    script = """
        echo one > log; tail -n +1 -s 0.05 -F log > ../followed 2> /dev/null & tail=$!
        arrived() { for i in $(seq 600); do ! grep -q "$1" ../followed || return 0; sleep 0.05; done; return 1; }
        arrived one; echo two >> log; arrived two; mv log log.1; echo three > log; arrived three; : > log; echo four >> log
        arrived four; rm log; echo five > log; arrived five; kill $tail; cat ../followed
    """
    assert twins.run(script) == "one\ntwo\nthree\nfour\nfive\n"
    twins.finish()


# MARK: what makes hard links

LINKS = """
    links() { find "$@" -type f -printf '%P %n\\n' | sort; }
    mkdir a; seq 9999 > a/x; seq 9 > a/y; touch -d 2001-02-03 a/x a/y; rsync -a a/ first; cp -a a b; seq 8 > b/y
    rsync -a --link-dest=../first b/ second; links first second; ln a/y a/z; tar --sort=name -cf a.tar a
    mkdir out; tar -C out -xf a.tar; links out; rsync -aH a/ h; links h; cp -al first third; links third first second
    cp -a h copied; links copied; rm -r first; links second third; echo changed >> third/x; cmp second/x third/x
    cp --remove-destination a/y third/x; ! cmp -s second/x third/x; links second third
    git init -q r; seq 999 > r/f; git -C r add f; git -C r commit -qm one; git clone -q r cloned
    links r/.git/objects | grep -v pack | cut -d' ' -f2; git -C cloned fsck --strict; rm -rf r; git -C cloned fsck --strict
    mkdir m; for n in 1 2 3; do echo $n > m/tmp$n; ln m/tmp$n m/new$n && rm m/tmp$n; done; ls m; cat m/*
    find . -type f -links +1 | sort; rm a.tar
"""


@pytest.mark.limit(120)
def test_programs_that_make_hard_links(twins):
    """Backups by --link-dest, archives, copies of trees of links, clones, and deliveries that link and unlink."""
    print(twins.run(LINKS))
    twins.finish(r"/index$")
    # Remembered, though all of the cache was deleted.
    assert twins.run("find second third h out -type f -links +1 | sort").split() == ["h/y", "h/z", "out/a/y", "out/a/z"]
