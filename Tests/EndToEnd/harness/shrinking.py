# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""Delta debugging: the shortest list of operations that still fails, within a time."""

import time


def shrink(operations, fails, seconds):
    """Leaves out parts of `operations`, big ones first, as long as `fails` is true of the rest and there is time.

    The parts are tried from the front: what failed is at the end.
    """
    deadline = time.monotonic() + seconds
    size = max(1, len(operations) // 2)
    while True:
        start = 0
        has_shrunk = False
        while start < len(operations):
            if time.monotonic() > deadline:
                return operations
            rest = operations[:start] + operations[start + size:]
            if rest and fails(rest):
                operations, has_shrunk = rest, True
            else:
                start += size
        if size == 1 and not has_shrunk:
            return operations
        size = max(1, size // 2)
