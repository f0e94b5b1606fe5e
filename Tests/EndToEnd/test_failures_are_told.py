# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What Scripts/test says of tests that failed: the reason is there, also when it stands in the middle of much else."""

import os
import sys

from harness.processes import run
from harness.settings import ROOT

FAILING = '''
import pytest

class Mismatch(AssertionError): pass

def test_good():
    print("MOORAGE_TEST_SEED=1")

def test_bad():
    print("x" * 10_000)
    print("MOORAGE_TEST_SEED=4711")
    print("y\\n" * 500)
    try:
        raise Mismatch("lists ['a'] and not ['b']")
    except Mismatch:
        raise AssertionError("operations\\n" + "z\\n" * 500)

@pytest.fixture
def torn():
    yield
    raise AssertionError("it could not be unmounted")

def test_torn(torn): pass
'''
SWIFT = '<testsuites><testsuite><testcase classname="T.S" name="f()"><failure message="Expectation failed: 1 == 2"/></testcase>'


def told(folder, source):
    """What is said of the tests in a file, as Scripts/test has it said."""
    with open(os.path.join(folder, "failing_test.py"), "w") as file:
        file.write(source)
    with open(os.path.join(ROOT, "Scripts", "test")) as script:
        options = [word for word in script.read().split() if word.startswith("junit_")]
    assert len(options) == 3, options
    words = ["-q", "--tb=short", "-p", "no:cacheprovider", "--rootdir", folder, "--junit-xml", f"{folder}/pytest.xml"]
    for option in options:
        words += ["-o", option]
    result = run([sys.executable, "-m", "pytest", *words, f"{folder}/failing_test.py"], check=False, cwd=folder)
    assert result.returncode == 1, result.stdout
    return report(folder)


def report(folder):
    return run([sys.executable, os.path.join(ROOT, "Scripts", "failures.py"), folder]).stdout.splitlines()


def test_seed_and_reason_of_each_failure_are_told(folder):
    lines = told(folder, FAILING)
    start = lines.index("FAILED failing_test::test_torn")
    bad, torn = "\n".join(lines[:start]), "\n".join(lines[start:])
    assert lines[0] == "FAILED failing_test::test_bad"
    assert "MOORAGE_TEST_SEED=4711" in bad and "lists ['a'] and not ['b']" in bad and "failing_test.py:16" in bad
    assert "it could not be unmounted" in torn
    assert "MOORAGE_TEST_SEED=1\n" not in bad + torn, "what passed is told of"


def test_however_much_failed_little_is_told(folder):
    failing = "".join(f"\ndef test_{number}(): assert not {'q' * 1000!r}, 'z\\n' * 50\n" for number in range(50))
    lines = told(folder, failing)
    assert len(lines) < 40 * 17 + 2 and max(len(line) for line in lines) <= 310
    assert lines[-1] == "... and 10 more"


def test_failures_of_unit_tests_and_damaged_reports_are_told(folder):
    with open(os.path.join(folder, "swift-testing.xml"), "w") as file:
        file.write(SWIFT + "</testsuite></testsuites>")
    assert report(folder) == ["FAILED T.S::f()", "    Expectation failed: 1 == 2"]
    with open(os.path.join(folder, "swift-testing.xml"), "w") as file:
        file.write(SWIFT)
    assert report(folder)[0] == "FAILED swift-testing.xml" and "is damaged" in report(folder)[1]
