// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors
//
// OpenSSL's libcrypto: digests, HMAC and random bytes.
#ifndef MOORAGE_CCRYPTO_SHIM_H
#define MOORAGE_CCRYPTO_SHIM_H

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#endif
