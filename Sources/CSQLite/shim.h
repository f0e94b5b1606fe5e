// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors
//
// SQLite. The destructor constants are casts of integers to function pointers,
// sqlite3_config is variadic, and extended result codes are sums: Swift imports none of them.
#ifndef MOORAGE_CSQLITE_SHIM_H
#define MOORAGE_CSQLITE_SHIM_H

#include <sqlite3.h>

static const int moorage_sqlite_short_read = SQLITE_IOERR_SHORT_READ;

static inline int moorage_sqlite_bind_blob(
    sqlite3_stmt *_Nonnull statement, int index, const void *_Nullable bytes, sqlite3_uint64 count) {
    return sqlite3_bind_blob64(statement, index, count == 0 ? "" : bytes, count, SQLITE_TRANSIENT);
}
static inline int moorage_sqlite_bind_text(
    sqlite3_stmt *_Nonnull statement, int index, const char *_Nonnull text, sqlite3_uint64 count) {
    return sqlite3_bind_text64(statement, index, text, count, SQLITE_TRANSIENT, SQLITE_UTF8);
}

#endif
