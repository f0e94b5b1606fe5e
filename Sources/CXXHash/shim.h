// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors
//
// xxHash: checksums of cached blocks.
#ifndef MOORAGE_CXXHASH_SHIM_H
#define MOORAGE_CXXHASH_SHIM_H

#include <xxhash.h>

#endif
