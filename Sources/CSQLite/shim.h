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

// The log of a connection, NULL where it has none.
static inline sqlite3_file *_Nullable moorage_sqlite_log(sqlite3 *_Nonnull database) {
    sqlite3_file *_Nullable log = NULL;
    sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
    return log != NULL && log->pMethods != NULL && log->pMethods->xFileControl != NULL ? log : NULL;
}

// Whether the last operation that failed on the database file, or on its log, failed with this errno.
// sqlite3_system_errno() does not tell of reads that failed with EIO, which SQLite calls damage.
static inline int moorage_sqlite_has_failed_with(sqlite3 *_Nonnull database, int code) {
    int of_file = 0, of_log = 0;
    sqlite3_file *_Nullable log = moorage_sqlite_log(database);
    sqlite3_file_control(database, "main", SQLITE_FCNTL_LAST_ERRNO, &of_file);
    if (log != NULL) log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &of_log);
    return of_file == code || of_log == code;
}

// Writes the bytes of the log over themselves and syncs them, by the connection's own descriptor: by now its name may be
// another database's. The caller holds the write lock. What cannot be read is left as it is: behind the last commit
// there may be anything.
static inline int moorage_sqlite_rewrite_log(sqlite3 *_Nonnull database) {
    unsigned char bytes[65536];
    sqlite3_int64 size = 0;
    sqlite3_file *_Nullable log = moorage_sqlite_log(database);
    if (log == NULL) return SQLITE_OK;
    int result = log->pMethods->xFileSize(log, &size);
    for (sqlite3_int64 position = 0; result == SQLITE_OK && position < size; position += sizeof bytes) {
        sqlite3_int64 rest = size - position;
        int count = rest < (sqlite3_int64)sizeof bytes ? (int)rest : (int)sizeof bytes;
        if (log->pMethods->xRead(log, bytes, count, position) != SQLITE_OK) continue;
        result = log->pMethods->xWrite(log, bytes, count, position);
    }
    return result == SQLITE_OK ? log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) : result;
}

#endif
