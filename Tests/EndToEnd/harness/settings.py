# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What the environment decides."""

import os

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
BINARY = os.environ.get("MOORAGE_BIN", os.path.join(ROOT, ".build", "debug", "moorage"))
PROXY = os.environ.get("MOORAGE_FAULT_PROXY", os.path.join(os.path.dirname(BINARY), "moorage-fault-proxy"))


def scaled(count):
    """A number of repetitions, multiplied by MOORAGE_TEST_SCALE."""
    return max(1, int(count * float(os.environ.get("MOORAGE_TEST_SCALE", "1"))))
