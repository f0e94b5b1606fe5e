# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors

"""Says in a few lines why each test of Scripts/test failed: the seed, the place, what was found. Bounded.

usage: failures.py RESULTS

RESULTS holds swift*.xml and pytest.xml (JUnit), the latter with what failed tests printed.
"""

import os
import re
import sys
import xml.etree.ElementTree

MOST_TESTS = 40
MOST_LINES = 16
LONGEST_LINE = 300
#: What repeats a failure, and the lines that name it where several exceptions are told of.
ALWAYS = re.compile(r"MOORAGE_TEST_SEED=|MOORAGE_SEED|\bMismatch\b|\bFailure\b")


def cases(results):
    """(name, what is known of it) of every test that failed."""
    for file in sorted(os.listdir(results)):
        if not re.fullmatch(r"(swift|pytest).*\.xml", file):
            continue
        try:
            root = xml.etree.ElementTree.parse(os.path.join(results, file)).getroot()
        except xml.etree.ElementTree.ParseError as error:
            yield file, [f"is damaged: {error}"]
            continue
        for case in root.iter("testcase"):
            problems = [child for child in case if child.tag in ("failure", "error")]
            if problems:
                yield f"{case.get('classname', '')}::{case.get('name', '')}", lines_of(case, problems)


def lines_of(case, problems):
    """The lines that tell most: what repeats it, then errors and places in their order, as many as there is room for."""
    printed = "".join(child.text or "" for child in case if child.tag in ("system-out", "system-err")).splitlines()
    told = []
    for problem in problems:
        text = (problem.text or problem.get("message") or "").splitlines()
        errors = [line for line in text if re.match(r"E +\S|\S+\.(py|swift):\d+", line)]
        told += errors or text
    marked = [line for line in printed + told if ALWAYS.search(line)][:MOST_LINES // 2]
    others = [line for line in told if line not in marked]
    room = MOST_LINES - len(marked)
    if len(others) > room:
        others = [*others[:room - 1], f"... {len(others) - room + 1} lines more in its log"]
    return [line.strip()[:LONGEST_LINE] for line in marked + others]


def main():
    found = list(cases(sys.argv[1]))
    for name, lines in found[:MOST_TESTS]:
        print(f"FAILED {name}")
        for line in lines:
            print(f"    {line}")
    if len(found) > MOST_TESTS:
        print(f"... and {len(found) - MOST_TESTS} more")


if __name__ == "__main__":
    main()
