# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Processes of the product that die say, or have said of them, by what; nothing is lost."""

import glob
import os

import pytest

from harness import injection
from harness.injection import Injection


@pytest.mark.skipif(injection.missing() is not None, reason=str(injection.missing()))
def test_a_mount_that_dies_while_it_starts_is_said_to_by_what(instance, folder):
    path = instance.directory("mnt/0")
    os.makedirs(path)

    def die():
        death = Injection(os.path.join(folder, "steps"), "mount", [instance.directory("state")], action="kill", first=3)
        words = ["mount", "s3://bucket", path, "-o", f"endpoint={instance.endpoint}"]
        result = instance.run(*words, env=death.settings, check=False)
        assert result.returncode == 1 and death.hits(), result.stderr
        return result.stderr

    text = "moorage: mount: s3://bucket: its process was ended by SIGKILL (9) before the mount was ready"
    assert die() == text + "\n"
    # A log is named where there is something to read in it.
    [log] = glob.glob(os.path.join(instance.directory("run"), "mount-*.log"))
    with open(log, "w") as file:
        file.write("what happened before\n")
    assert die() == f"{text}; see {log}\n"
    assert os.listdir(instance.mount("s3://bucket", path).path) == []
