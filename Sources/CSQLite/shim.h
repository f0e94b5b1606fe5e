// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors
//
// SQLite. The destructor constants are casts of integers to function pointers,
// sqlite3_config is variadic, and extended result codes are sums: Swift imports none of them.
#ifndef MOORAGE_CSQLITE_SHIM_H
#define MOORAGE_CSQLITE_SHIM_H

#include <sqlite3.h>
#include <stddef.h>

static const int moorage_sqlite_short_read = SQLITE_IOERR_SHORT_READ;

static inline int moorage_sqlite_bind_blob(
    sqlite3_stmt *_Nonnull statement, int index, const void *_Nullable bytes, sqlite3_uint64 count) {
    return sqlite3_bind_blob64(statement, index, count == 0 ? "" : bytes, count, SQLITE_TRANSIENT);
}
static inline int moorage_sqlite_bind_text(
    sqlite3_stmt *_Nonnull statement, int index, const char *_Nonnull text, sqlite3_uint64 count) {
    return sqlite3_bind_text64(statement, index, text, count, SQLITE_TRANSIENT, SQLITE_UTF8);
}

// The errno of the last operation that failed on the database file or on its log, 0 when none has. sqlite3_system_errno()
// does not tell of reads that failed with EIO, which SQLite calls damage.
static inline int moorage_sqlite_last_errno(sqlite3 *_Nonnull database) {
    int code = 0;
    sqlite3_file *_Nullable log = NULL;
    sqlite3_file_control(database, "main", SQLITE_FCNTL_LAST_ERRNO, &code);
    if (code != 0) return code;
    sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    if (log != NULL && log->pMethods != NULL) log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &code);
    return code;
}

#endif
