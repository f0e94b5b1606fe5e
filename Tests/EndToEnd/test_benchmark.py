# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Scripts/bench measures what it says, for every column; the figures themselves are for a machine that does nothing else."""

import os
import sys

import pytest

from harness.bucket import clean_environment
from harness.processes import run
from harness.settings import BINARY, ROOT

sys.path.append(os.path.join(ROOT, "Scripts", "benchmarks"))
from figures import Goal, conclude, missed_goals  # noqa: E402

COLUMNS = ["Moorage", "rclone mount", "rclone / Moorage", "curl", "passthrough_ll", "local disk"]
#: The columns without a figure, by the beginning of the row's title.
EMPTY = {
    "cold sequential read": [],
    "warm sequential read": ["curl"],
    "write 256 MiB, until close": ["curl"],
    "write 256 MiB, until remote": ["passthrough_ll", "local disk"],
    "cp -r of 2,000 files": ["curl"],
    "the same, until remote": ["curl", "passthrough_ll", "local disk"],
    "ls -l of 5,000 entries, cold": ["curl"],
    "ls -l of 5,000 entries, warm": ["curl"],
}


@pytest.mark.limit(300)
def test_every_row_is_measured(folder):
    settings = {"BENCH_BINARY": BINARY, "BENCH_ROUNDS": "1", "BENCH_SCALE": "0.01", "TMPDIR": folder}
    output = run([os.path.join(ROOT, "Scripts", "bench")], env=clean_environment() | settings, timeout=280).stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines() if line.startswith("| ")]
    assert rows[0][1:] == COLUMNS, output
    for title, cells in zip(EMPTY, rows[1:], strict=True):
        assert cells[0].startswith(title), output
        assert [name for name, cell in zip(COLUMNS, cells[1:]) if not cell] == EMPTY[title], output
        assert all(float(cell.split()[0]) >= 0 for cell in cells[1:] if cell), output
    assert "rclone mount on every row" in output or "behind rclone mount: " in output


WRITING_COLUMNS = ["Moorage", "rclone mount", "s3fs", "passthrough_ll", "local disk", "compared with", "ratio", "goal"]
#: The beginning of each row's title, and how many columns have a figure: those of the server, or the limits too.
WRITING_ROWS = {
    "dd of 1 GiB": 5, "until it is remote": 3, "cp -r of 10,000 files": 5, "the same beside rclone": 5,
    "CPU milliseconds": 4, "until all are remote": 3, "rename of their folder": 5, "until that is remote": 3,
    "untar of /usr/include": 5, "until all of it is remote": 3, "rm -r of it": 5, "until nothing of it": 3,
    "cp -r of 6,400 files": 5, "until all of them are remote": 3,
}


@pytest.mark.limit(300)
def test_every_row_of_writing_is_measured(folder):
    settings = {"BENCH_BINARY": BINARY, "BENCH_ROUNDS": "1", "BENCH_SCALE": "0.002", "TMPDIR": folder}
    output = run([os.path.join(ROOT, "Scripts", "bench"), "write"], env=clean_environment() | settings, timeout=280).stdout
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in output.splitlines() if line.startswith("| ")]
    assert rows[0][1:] == WRITING_COLUMNS, output
    for (title, count), cells in zip(WRITING_ROWS.items(), rows[1:], strict=True):
        assert cells[0].startswith(title), output
        assert len([cell for cell in cells[1:6] if cell]) == count, output
        assert all(float(cell) >= 0 for cell in cells[1:6] if cell), output
    goals = {cells[0].split(",")[0]: cells[-1].split()[0] for cells in rows[1:] if cells[-1]}
    assert goals == {"dd of 1 GiB": ">=", "cp -r of 10": ">=", "the same beside rclone": ">="}, output
    assert "every goal is reached" in output or "missed: " in output


@pytest.mark.parametrize(
    "goal,reached,missed",
    [
        (Goal(below=50), [0, 49.9], [50, float("inf")]),
        (Goal(least=0.95, most=1.05), [0.95, 1, 1.05], [0.94, 1.06, 0]),
        (Goal(most=2), [0.03, 2], [2.1, float("inf"), float("nan")]),
        (Goal(least=0.9), [0.9, 1.2], [0.89]),
    ],
    ids=str,
)
def test_goals_are_judged(goal, reached, missed):
    assert missed_goals([("some", value, goal) for value in reached]) == []
    assert missed_goals([(str(value), value, goal) for value in missed]) == [f"{value} ({goal})" for value in missed]


def test_missed_goals_are_told_and_are_the_exit_status(capsys):
    figures = [("status", 16, Goal(below=50)), ("memory", 101, Goal(below=100)), ("files a second", 0, None)]
    assert conclude(missed_goals(figures)) == 1
    assert capsys.readouterr().out == "\nmissed: memory (< 100)\n"
    assert conclude(missed_goals(figures[:1])) == 0
    assert capsys.readouterr().out == "\nevery goal is reached\n"


def test_a_long_queue_is_measured_and_judged(folder):
    """Whether it is fast enough here does not matter, but that the exit status says so does."""
    settings = {"BENCH_BINARY": BINARY, "BENCH_ROUNDS": "1", "BENCH_SCALE": "0.002", "TMPDIR": folder}
    command = [os.path.join(ROOT, "Scripts", "bench"), "queue"]
    result = run(command, env=clean_environment() | settings, timeout=100, check=False)
    *table, _, verdict = result.stdout.splitlines()
    missed = [line for line in table if line.endswith(": no |")]
    assert len([line for line in table if line.endswith((": yes |", ": no |"))]) == 4, result
    assert result.returncode == (1 if missed else 0), result
    assert verdict.startswith("missed: ") if missed else verdict == "every goal is reached", result
