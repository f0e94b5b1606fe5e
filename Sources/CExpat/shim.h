// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors
//
// Expat: the streaming XML parser.
#ifndef MOORAGE_CEXPAT_SHIM_H
#define MOORAGE_CEXPAT_SHIM_H

#include <expat.h>

#endif
