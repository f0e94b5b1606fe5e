# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""Counts what Scripts/test ran, group by group, and judges it. Its last line is the count, whatever was left behind.

usage: summary.py RESULTS EXPECTED-GROUPS

RESULTS holds swift*.xml and pytest.xml (JUnit), check.txt, demo.txt, and NAME.status with the exit status of each runner.
"""

import collections
import os
import re
import sys
import xml.etree.ElementTree


def read_text(path):
    """What a file holds; nothing when it is missing."""
    try:
        with open(path, errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def read_cases(path, problems):
    """(class name, result) of every test case of a JUnit file; one that breaks off is a problem."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except FileNotFoundError:
        return
    except xml.etree.ElementTree.ParseError as error:
        problems.append(f"{os.path.basename(path)} is damaged: {error}")
        return
    for case in root.iter("testcase"):
        result = "passed"
        for child in case:
            if child.tag in ("failure", "error"):
                result = "failed"
            elif child.tag == "skipped":
                result = "skipped"
        yield case.get("classname", ""), result


def collect(results, problems):
    groups = collections.defaultdict(collections.Counter)
    for name in sorted(os.listdir(results)):
        if name.startswith("swift") and name.endswith(".xml"):
            for classname, result in read_cases(os.path.join(results, name), problems):
                groups["unit " + classname.split(".")[0]][result] += 1
    for classname, result in read_cases(os.path.join(results, "pytest.xml"), problems):
        found = re.search(r"test_\w+", classname)
        groups["end-to-end " + (found.group() if found else classname)][result] += 1
    for line in read_text(os.path.join(results, "check.txt")).splitlines():
        if re.match(r"(ok   |FAIL ) \w", line):
            groups["check"]["passed" if line.startswith("ok") else "failed"] += 1
    demo = read_text(os.path.join(results, "demo.txt")).strip()
    if demo:
        groups["demo"]["passed" if demo == "passed" else "failed"] += 1
    return groups


def runner_problems(results, groups):
    """A runner that failed although none of its tests did: it crashed, or something beside the tests is wrong."""
    for name, kind in (("build", None), ("check", "check"), ("swift", "unit "), ("pytest", "end-to-end ")):
        status = read_text(os.path.join(results, name + ".status")).strip()
        failed = kind and any(groups[group]["failed"] for group in list(groups) if group.startswith(kind))
        if status != "0" and not failed:
            yield f"{name} ended with status {status or 'unknown'}"


def expected_groups(path):
    with open(path) as file:
        for line in file:
            line = line.split("#")[0].strip()
            if line:
                name, count = line.rsplit(None, 1)
                yield name, int(count)


def main():
    problems = []
    groups = collect(sys.argv[1], problems)
    problems += runner_problems(sys.argv[1], groups)
    expected = dict(expected_groups(sys.argv[2]))
    for name, count in expected.items():
        ran = groups[name]["passed"] + groups[name]["failed"]
        if os.geteuid() != 0:
            # Some need root, and say so.
            ran += groups[name]["skipped"]
        if ran < count:
            problems.append(f"{name}: {ran} tests ran, at least {count} were expected")
    for name in sorted(set(groups) - set(expected)):
        problems.append(f"{name}: not in {sys.argv[2]}, so nobody would notice when it does not run")
    for problem in problems:
        print(problem)
    for name in sorted(groups):
        counts = ", ".join(f"{groups[name][key]} {key}" for key in ("passed", "failed", "skipped") if groups[name][key])
        print(f"{name}: {counts}")
    total = sum(groups.values(), collections.Counter())
    failed = total["failed"] + len(problems)
    skipped = f", {total['skipped']} skipped" if total["skipped"] else ""
    print(f"{total['passed']} passed, {failed} failed{skipped}")
    return 1 if failed or not total["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
