# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Scripts/bench read measures what it says at a scale that tells nothing of the figures themselves."""

import os
import re

import pytest

from harness.bucket import clean_environment
from harness.processes import run
from harness.settings import BINARY, ROOT

COLUMNS = [
    "Moorage", "rclone mount", "s3fs", "curl", "moorage list", "passthrough_ll", "local disk", "compared with", "ratio", "goal",
]
FIGURES = COLUMNS[:-3]
#: The groups, and the beginning of each of their rows' titles, how many columns have a figure, and the goal.
GROUPS = {
    "cold": [
        ("cold sequential", 3, "<= 1.43"), ("the same beside rclone", 3, "<= 0.40"), ("CPU seconds", 3, ""),
        ("memory of one stream", 2, "<= 1.00"),
    ],
    "shaped": [("share of a line", 2, ">= 0.95")] * 4 + [("first byte", 2, "<= 1.50")] * 4,
    "random": [("random 4 KiB", 2, "<= 1.20"), ("KiB fetched", 2, "<= 1.00"), ("16 readers", 2, "")],
    "warm": [("warm from the disk", 4, "<= 1.11"), ("again from memory", 4, "<= 1.05")],
    "small": [("4 KiB warm", 2, ">= 0.80"), ("the same from the kernel's memory", 2, ">= 0.80")],
    "read-only": [
        ("read-only, cache on XFS", 2, ""), ("again from memory", 2, ""), ("once more", 2, "<= 1.05"),
        ("4 KiB from memory", 2, ""),
    ],
    "list": [("ls -l of 100,000", 5, "<= 1.30"), ("the same warm", 4, "<= 2.00")],
    "million": [
        ("mounting", 1, "<= 1.00"), ("find", 1, ""), ("memory after it", 1, "<= 1.00"), ("memory after 64", 1, "<= 1.00"),
        ("bytes of the catalog", 1, "<= 1.00"),
    ],
    "memory": [("memory of 64 streams", 2, "<= 1.00")],
}


def bench(folder, binary, groups):
    settings = {"BENCH_BINARY": binary, "BENCH_ROUNDS": "1", "BENCH_SCALE": "0.001", "TMPDIR": folder}
    environment = clean_environment() | settings | {"BENCH_ONLY": ",".join(groups)}
    return run([os.path.join(ROOT, "Scripts", "bench"), "read"], env=environment, timeout=280, check=False)


def table(output):
    """The rows, each a dictionary by column; that of the titles is "median"."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines() if line.startswith("| ")]
    assert rows and rows[0] == ["median", *COLUMNS], output
    return [dict(zip(rows[0], row, strict=True)) for row in rows[1:]]


def expect_rows(rows, groups, output):
    """Every row of the groups and no other; their order is the program's."""
    wanted = [row for group in groups for row in GROUPS[group]]
    found = [(row["median"], sum(1 for column in FIGURES if row[column]), row["goal"].removesuffix(" missed")) for row in rows]
    for title, count, goal in wanted:
        match = next((row for row in found if row[0].startswith(title) and row[1:] == (count, goal)), None)
        assert match, (title, count, goal, output)
        found.remove(match)
    assert found == [], output


def compared(row):
    """What ours is compared with, as a number."""
    other = row["compared with"]
    return float(row[other] if other in FIGURES else other or 0)


def expect_ratio(row):
    """It is that of the figures, and the goal is missed where it says so."""
    assert all(float(row[column]) >= 0 for column in FIGURES if row[column]), row
    theirs = compared(row)
    assert (row["ratio"] == "") == (theirs == 0), row
    if not theirs:
        return
    ratio = float(row["Moorage"]) / theirs
    assert float(row["ratio"]) == pytest.approx(ratio, rel=0.02, abs=0.01), row
    if goal := re.match(r"(..) ([\d.]+)", row["goal"]):
        bound = float(goal[2])
        is_missed = ratio < bound if goal[1] == ">=" else ratio > bound
        # Of three digits of each nothing follows for what is as near as that.
        assert row["goal"].endswith(" missed") == is_missed or ratio == pytest.approx(bound, rel=0.02), row


def expect_verdict(rows, output):
    """The last line names what is missed; returns that."""
    missed = [row["median"] for row in rows if row["goal"].endswith(" missed")]
    assert output.splitlines()[-1] == ("missed: " + "; ".join(missed) if missed else "every goal is reached"), output
    return missed


@pytest.mark.limit(300)
def test_every_row_of_reading_is_measured(folder):
    """Goals that are missed, as those of lines are for a file that is read within a second, are told and no failure."""
    # A disk of its own is for root.
    groups = [group for group in GROUPS if group != "read-only" or os.geteuid() == 0]
    result = bench(folder, BINARY, groups)
    assert result.returncode == 0, result
    rows = table(result.stdout)
    expect_rows(rows, groups, result.stdout)
    for row in rows:
        expect_ratio(row)
    assert expect_verdict(rows, result.stdout), "a goal that is missed"


@pytest.mark.limit(300)
def test_what_of_reading_cannot_be_measured_takes_nothing_along(folder):
    """Without a fault proxy beside the program there is no line; the memory of streams is measured all the same."""
    binary = os.path.join(folder, "moorage")
    os.symlink(BINARY, binary)
    result = bench(folder, binary, ["random", "memory"])
    assert result.returncode == 1 and "FileNotFoundError" in result.stderr, result
    rows = table(result.stdout)
    expect_rows(rows, ["memory"], result.stdout)
    expect_verdict(rows, result.stdout)
