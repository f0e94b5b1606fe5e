// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors
//
// xxHash: checksums of cached and of staged blocks.
#ifndef MOORAGE_CXXHASH_SHIM_H
#define MOORAGE_CXXHASH_SHIM_H

#include <xxhash.h>

#if defined(__x86_64__)
// Chooses by what the processor can, where the plain functions take what every x86-64 can: a third of the time. Its
// header stands in for the functions by macros, which Swift does not see.
#include <xxh_x86dispatch.h>
#endif

static inline XXH64_hash_t moorage_XXH3_64bits(const void *bytes, size_t count) { return XXH3_64bits(bytes, count); }

static inline XXH64_hash_t moorage_XXH3_64bits_withSeed(const void *bytes, size_t count, XXH64_hash_t seed) {
    return XXH3_64bits_withSeed(bytes, count, seed);
}

static inline XXH_errorcode moorage_XXH3_64bits_update(XXH3_state_t *state, const void *bytes, size_t count) {
    return XXH3_64bits_update(state, bytes, count);
}

#endif
