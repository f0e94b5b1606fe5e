# SPDX-License-Identifier: Apache-2.0
# Copyright the Moorage authors
"""What the end-to-end tests share: servers, the fault proxy, instances of the product, trees of files."""
