# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""Counts what Scripts/test ran, group by group, and judges it.

usage: summary.py RESULTS EXPECTED-GROUPS
"""

import collections
import os
import re
import sys
import xml.etree.ElementTree


def read_cases(path):
    """(class name, result) of every test case of a JUnit file."""
    if not os.path.exists(path):
        return
    for case in xml.etree.ElementTree.parse(path).getroot().iter("testcase"):
        result = "passed"
        for child in case:
            if child.tag in ("failure", "error"):
                result = "failed"
            elif child.tag == "skipped":
                result = "skipped"
        yield case.get("classname", ""), result


def collect(results):
    groups = collections.defaultdict(collections.Counter)
    for name in os.listdir(results):
        if name.startswith("swift") and name.endswith(".xml"):
            for classname, result in read_cases(os.path.join(results, name)):
                groups["unit " + classname.split(".")[0]][result] += 1
    for classname, result in read_cases(os.path.join(results, "pytest.xml")):
        found = re.search(r"test_\w+", classname)
        groups["end-to-end " + (found.group() if found else classname)][result] += 1
    with open(os.path.join(results, "check.txt"), errors="replace") as file:
        for line in file:
            if re.match(r"(ok   |FAIL ) \w", line):
                groups["check"]["passed" if line.startswith("ok") else "failed"] += 1
    with open(os.path.join(results, "demo.txt")) as file:
        groups["demo"][file.read().strip()] += 1
    return groups


def expected_groups(path):
    with open(path) as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line:
                name, count = line.rsplit(None, 1)
                yield name, int(count)


def main():
    groups = collect(sys.argv[1])
    problems = 0
    for name, count in expected_groups(sys.argv[2]):
        ran = groups[name]["passed"] + groups[name]["failed"]
        if os.geteuid() != 0:
            # Some need root, and say so.
            ran += groups[name]["skipped"]
        if ran < count:
            print(f"{name}: {ran} tests ran, at least {count} were expected")
            problems += 1
    for name in sorted(groups):
        counts = ", ".join(f"{groups[name][key]} {key}" for key in ("passed", "failed", "skipped") if groups[name][key])
        print(f"{name}: {counts}")
    total = sum(groups.values(), collections.Counter())
    failed = total["failed"] + problems
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    print(f"{total['passed']} passed, {failed} failed{skipped}")
    return 1 if failed or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
