# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""Samples of several subjects, and the table of their medians with ratios and goals."""

import dataclasses
import os
import platform
import statistics


@dataclasses.dataclass(frozen=True)
class Goal:
    """What a figure is to be; what is None does not matter."""

    least: float | None = None
    most: float | None = None
    #: It is to be less.
    below: float | None = None

    def is_reached(self, value):
        return (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def __str__(self):
        bounds = ((">=", self.least), ("<=", self.most), ("<", self.below))
        return ", ".join(f"{sign} {bound:g}" for sign, bound in bounds if bound is not None)


def missed_goals(figures):
    """The titles of those of (title, value, goal) that are not what they are to be, with their goals; most have none."""
    return [f"{title} ({goal})" for title, value, goal in figures if goal is not None and not goal.is_reached(value)]


def conclude(missed):
    """Prints which goals are missed; returns the exit status that says so."""
    print()
    print("missed: " + "; ".join(missed) if missed else "every goal is reached")
    return 1 if missed else 0


class Figures:
    """Samples by row and column."""

    def __init__(self):
        self.samples = {}

    def add(self, row, column, value):
        self.samples.setdefault(row, {}).setdefault(column, []).append(value)

    def median(self, row, column):
        values = self.samples.get(row, {}).get(column)
        return statistics.median(values) if values else None


def describe_machine(rounds, scale):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 30)
    times = f"{rounds} rounds" if rounds > 1 else "1 round"
    print(f"{os.cpu_count()} cores, {memory} GiB, {platform.system()} {platform.release()}, {times}, one server on loopback")
    if scale != 1:
        print(f"sizes and numbers times {scale:g}: the figures mean nothing")


def report(figures, rows, columns):
    """Prints `rows` of (row, title, the column that ours is compared with, whether more is better, the ratio's bound)."""
    print(f"\n| median | {' | '.join(columns)} | compared with | ratio | goal |")
    print("|---" * (len(columns) + 4) + "|")
    missed = []
    for row, title, other, is_more_better, bound in rows:
        if row not in figures.samples:
            continue
        cells = [figures.median(row, column) for column in columns]
        text = [f"{value:.3g}" if value is not None else "" for value in cells]
        theirs = other if isinstance(other, int) else figures.median(row, other)
        ratio = cells[0] / theirs if theirs else None
        goal = "" if bound is None else f"{'>=' if is_more_better else '<='} {bound:.2f}"
        if ratio is not None and bound is not None and (ratio < bound if is_more_better else ratio > bound):
            missed.append(title)
            goal += " missed"
        shown = f"{ratio:.2f}" if ratio is not None else ""
        print(f"| {title} | {' | '.join(text)} | {other or ''} | {shown} | {goal} |")
    conclude(missed)
