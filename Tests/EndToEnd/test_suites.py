# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Suites that Debian packages bring run on a mount, and end as expected: as no worse, and as no better unnoticed."""

import concurrent.futures
import os
import re

import pytest

from harness.processes import run
from harness.settings import ROOT, scaled
from harness.trees import all_keys, fingerprint

EXPECTED = os.path.join(ROOT, "Tests", "EndToEnd", "expected", "stress-ng.txt")
#: What no operation takes, on the slowest machine.
LIMIT = 80


@pytest.fixture
def mounted(make_instance, server, request):
    """A mount that uploads while the suites run, or after the quiet period of the test's parameter."""
    instance = make_instance(server.url)
    instance.configure(quiet_period=getattr(request, "param", "0.2s"))
    mount = instance.mount("s3://bucket")
    pid = mount.pid
    yield mount
    assert mount.pid == pid, "the mount is not the one that the suite began with"
    assert instance.overlooked() == [] and instance.conflicts() == 0


def expectations():
    """Name of the stressor: its outcome, and the words of its command line."""
    found = {}
    with open(EXPECTED) as file:
        for line in file:
            words, _, reason = line.partition("#")
            if words.strip():
                name, outcome, *options = words.split()
                assert outcome == "passed" or reason.strip(), f"{name}: {outcome}, and nobody says why"
                found[name] = (outcome, options)
    return found


def stress(folder, name, options):
    """Runs a stressor in a folder of its own; what it says of itself in one word, and all that it printed."""
    home = os.path.join(folder, name)
    os.mkdir(home)
    words = [word.replace("FOLDER", folder) for word in options]
    words = [str(scaled(int(word))) if before.endswith("-ops") else word for before, word in zip(["", *words], words)]
    limit = [] if "-t" in words else ["-t", str(LIMIT)]
    result = run(
        ["stress-ng", f"--{name}", "1", *words, *limit, "--verify", "--metrics-brief", "--temp-path", home],
        timeout=2 * LIMIT, check=False, cwd=folder,
    )
    output = result.stdout + result.stderr
    counted = re.search(rf"metrc: \[\d+\] {name} +(\d+) ", output)
    if "skipp" in output:
        outcome = "skipped"
    elif result.returncode != 0 or re.search(r"\bfail:|\berror:", output):
        outcome = "failed"
    elif "-t" not in words and not (counted and int(counted[1])):
        outcome = "did nothing"
    elif os.listdir(home):
        outcome = f"left {os.listdir(home)[:3]}"
    else:
        outcome = "passed"
    return outcome, output


def test_every_stressor_has_an_expectation():
    known = run(["stress-ng", "--class", "filesystem?"], check=False)
    assert set((known.stdout + known.stderr).split("stressors:")[1].split()) == set(expectations()), "another stress-ng"


@pytest.mark.skipif(os.geteuid() != 0, reason="what others may not do, stress-ng skips")
@pytest.mark.limit(400)
@pytest.mark.parametrize(
    "mounted, many", [("0.2s", False), ("1h", True)], indirect=["mounted"], ids=["while uploading", "many links"]
)
def test_stress_ng_finds_what_is_expected(mounted, many, client):
    """Thousands of links, made and removed, would keep the flusher busy for long: those are made when it waits."""
    expected = expectations()
    todo = [name for name in expected if expected[name][0] != "apart" and (name == "symlink") == many]
    folder = mounted / "stress"
    os.mkdir(folder)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = dict(zip(todo, pool.map(lambda name: stress(folder, name, expected[name][1]), todo)))
    changes = [
        f"{name}: {expected[name][0]} was expected, now it is {outcome}; change {EXPECTED} and Docs/Conformance.md"
        f" if that is better, else see\n{output}"
        for name, (outcome, output) in results.items() if outcome != expected[name][0]
    ]
    assert not changes, "\n".join(changes)
    mounted.instance.flush()
    assert set(all_keys(client, "bucket")) == {"stress/"} | {f"stress/{name}/" for name in todo}


def dbench_load(count):
    """A load of dbench with each of its operations for `count` files: its own one is so long that a slow machine would do
    only the beginning of it in the time, which is all that bounds it."""
    root = "\\clients\\client1"
    lines = [f'Deltree "{root}" OK', 'Mkdir "\\clients" OK', f'NTCreateX "{root}" 0x1 0x2 1 OK', "Close 1 OK"]
    for fid in range(2, 2 + count):
        name, other = f'"{root}\\FILE{fid}.DOC"', f'"{root}\\~SAVE{fid}.TMP"'
        lines += [
            f"QUERY_PATH_INFORMATION {name} 1004 OBJECT_NAME_NOT_FOUND", f"NTCreateX {name} 0x40 0x1 0 OBJECT_NAME_NOT_FOUND",
            f"NTCreateX {name} 0x40 0x2 {fid} OK", f"WriteX {fid} 0 65536 65536 OK", f"WriteX {fid} 99999 1 1 OK",
            f"LockX {fid} 2147483538 1 OK", f"Flush {fid} OK", f"UnlockX {fid} 2147483538 1 OK", f"ReadX {fid} 4096 60000 60000 OK",
            f"QUERY_FILE_INFORMATION {fid} 258 OK", f"SET_FILE_INFORMATION {fid} 1004 OK", f"Close {fid} OK",
            "QUERY_FS_INFORMATION 259 OK", f"Rename {name} {other} OK", f"NTCreateX {other} 0x40 0x1 {fid} OK", f"Close {fid} OK",
            f'FIND_FIRST "{root}\\~SAVE*.*" 260 1366 1 OK', f"QUERY_PATH_INFORMATION {other} 1004 OK",
        ]
        lines += [f"Unlink {other} 0x6 OK"] if fid % 2 == 0 else []
    return "".join(re.sub(r"(\w+)$", r"NT_STATUS_\1", line) + "\n" for line in lines)


@pytest.mark.limit(120)
def test_dbench_runs_its_load(mounted, server, folder):
    load = os.path.join(folder, "load.txt")
    with open(load, "w") as file:
        file.write(dbench_load(10))
    os.mkdir(mounted / "dbench")
    result = run(["dbench", "-t", "2", "-c", load, "-D", mounted / "dbench", "--skip-cleanup", "3"], cwd=folder)
    # It can do without the semaphore, which containers may not have.
    assert "failed" not in (result.stdout + result.stderr).replace("failed to create barrier semaphore", ""), result
    done = dict(re.findall(r"^ (\w+) +(\d+) +[\d.]+ +[\d.]+$", result.stdout, re.MULTILINE))
    kinds = {"NTCreateX", "Close", "Rename", "Unlink", "Deltree", "Mkdir", "Qpathinfo", "Qfileinfo", "Qfsinfo", "Sfileinfo",
             "Find", "WriteX", "ReadX", "LockX", "UnlockX", "Flush"}
    assert all(int(done.get(kind, 0)) > 0 for kind in kinds), result.stdout
    mounted.instance.flush()
    tree = fingerprint(mounted / "dbench")
    assert len(tree) > 4 and fingerprint(os.path.join(server.root, "bucket", "dbench")) == tree


@pytest.mark.limit(300)
@pytest.mark.parametrize("mounted", ["2s"], indirect=True)
def test_bonnie_makes_finds_and_removes_its_files(mounted, client):
    os.mkdir(mounted / "bonnie")
    words = ["-u", "root", "-r", "8", "-s", "16", "-f", "-n", "1:5000:10:4", "-x", str(scaled(1))]
    # It does not run as root unless told so, and nobody else can become another.
    words = words if os.geteuid() == 0 else words[2:]
    result = run(["/usr/sbin/bonnie++", "-d", mounted / "bonnie", *words], timeout=250)
    assert not re.search("can't|error|fail|drastic", result.stderr, re.IGNORECASE), result.stderr
    for phase in ("Create files in sequential order", "Stat files in random order", "Delete files in random order"):
        assert f"{phase}...done." in result.stderr, result.stderr
    assert len(result.stdout.splitlines()) == scaled(1) and os.listdir(mounted / "bonnie") == []
    mounted.instance.flush()
    assert set(all_keys(client, "bucket")) == {"bonnie/"}


@pytest.mark.limit(120)
def test_fs_mark_files_are_all_there(mounted, client):
    """Two threads with a folder each and four folders below it; it takes no path above 40 bytes."""
    for name in ("a", "b"):
        os.mkdir(mounted / name)
    log = os.path.join(mounted.instance.folder, "fs_mark.log")
    command = ["fs_mark", "-d", "a", "-d", "b", "-t", "2", "-D", "4", "-n", "40", "-L", "2", "-s", "5003", "-w", "1000", "-k"]
    # fsync before close; of all afterwards, the last first; of all afterwards.
    for number, method in enumerate(("1", "3", "5")):
        result = run([*command, "-S", method, "-l", log], cwd=mounted.path)
        assert re.findall(r"^ +\d+ +(\d+) +5003 ", result.stdout, re.MULTILINE) == ["80", "160"], result.stdout
        files = {name: entry[1] for name, entry in fingerprint(mounted.path).items() if entry[0] == "file"}
        assert len(files) == 160 * (number + 1) and set(files.values()) == {5003}
    mounted.instance.flush()
    assert {key: size for key, size in all_keys(client, "bucket").items() if not key.endswith("/")} == files
