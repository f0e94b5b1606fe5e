// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors
//
// SQLite. The destructor constants are casts of integers to function pointers,
// sqlite3_config is variadic, and extended result codes are sums: Swift imports none of them.
#ifndef MOORAGE_CSQLITE_SHIM_H
#define MOORAGE_CSQLITE_SHIM_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static const int moorage_sqlite_short_read = SQLITE_IOERR_SHORT_READ;
static const int moorage_sqlite_wrong_data = SQLITE_IOERR_DATA;

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

// The errno of the last operation that failed on the database file, or else on its log; 0 when none has.
// sqlite3_system_errno() does not tell of reads that failed with EIO, which SQLite calls damage.
static inline int moorage_sqlite_errno(sqlite3 *_Nonnull database) {
    int of_file = 0, of_log = 0;
    sqlite3_file *_Nullable log = moorage_sqlite_log(database);
    sqlite3_file_control(database, "main", SQLITE_FCNTL_LAST_ERRNO, &of_file);
    if (log != NULL) log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &of_log);
    return of_file != 0 ? of_file : of_log;
}

// One step of a log's checksum (sqlite.org/fileformat2.html#checksum_algorithm).
static inline void moorage_sqlite_sum(uint32_t sum[_Nonnull 2], const unsigned char *_Nonnull bytes, int count, int is_big) {
    for (const unsigned char *end = bytes + count; bytes < end; bytes += 8) {
        uint32_t words[2];
        memcpy(words, bytes, sizeof words);
        if (is_big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__)) {
            words[0] = __builtin_bswap32(words[0]);
            words[1] = __builtin_bswap32(words[1]);
        }
        sum[0] += words[0] + sum[1];
        sum[1] += words[1] + sum[0];
    }
}

static inline uint32_t moorage_sqlite_big(const unsigned char *_Nonnull bytes) {
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

// The index that processes share of a log (sqlite.org/walformat.html), NULL where there is none yet.
static inline int moorage_sqlite_log_index(sqlite3 *_Nonnull database, volatile uint32_t *_Nullable *_Nonnull index) {
    sqlite3_file *_Nullable file = NULL;
    void volatile *_Nullable region = NULL;
    sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (file == NULL || file->pMethods == NULL || file->pMethods->iVersion < 2) return SQLITE_OK;
    int result = file->pMethods->xShmMap(file, 0, 32768, 0, &region);
    *index = (volatile uint32_t *)region;
    return result;
}

// Has the next checkpoint copy all of the log: what one has copied that did not come to the end was not synced, and is
// lost where a later sync failed. The caller holds the write lock. SQLITE_BUSY while a checkpoint runs.
static inline int moorage_sqlite_forget_checkpoint(sqlite3 *_Nonnull database) {
    const int checkpoints = 1, copied = 24;
    sqlite3_file *_Nullable file = NULL;
    volatile uint32_t *_Nullable index = NULL;
    int result = moorage_sqlite_log_index(database, &index);
    if (index == NULL) return result;
    sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    result = file->pMethods->xShmLock(file, checkpoints, 1, SQLITE_SHM_LOCK | SQLITE_SHM_EXCLUSIVE);
    if (result != SQLITE_OK) return result;
    __atomic_store_n(index + copied, 0, __ATOMIC_RELAXED);
    return file->pMethods->xShmLock(file, checkpoints, 1, SQLITE_SHM_UNLOCK | SQLITE_SHM_EXCLUSIVE);
}

// Whether the log reads as it was written up to the last commit, SQLITE_IOERR_DATA when not: where the disk lost what was
// written and memory let go of it, there is something older, and a checkpoint does not look. The caller holds the write
// lock. The index says how many frames there are and what their checksum is.
static inline int moorage_sqlite_check_log(sqlite3 *_Nonnull database) {
    unsigned char bytes[24 + 65536];
    sqlite3_file *_Nullable log = moorage_sqlite_log(database);
    volatile uint32_t *_Nullable header = NULL;
    int result = moorage_sqlite_log_index(database, &header);
    if (log == NULL || header == NULL) return result;
    const uint32_t count = header[4], expected[2] = {header[6], header[7]};
    if (count == 0) return SQLITE_OK;
    result = log->pMethods->xRead(log, bytes, 32, 0);
    if (result == SQLITE_IOERR_SHORT_READ) return SQLITE_IOERR_DATA;
    if (result != SQLITE_OK) return result;
    const uint32_t size = moorage_sqlite_big(bytes + 8);
    const int is_big = bytes[3] & 1;
    uint32_t sum[2] = {moorage_sqlite_big(bytes + 24), moorage_sqlite_big(bytes + 28)};
    if (size < 512 || size > 65536) return SQLITE_IOERR_DATA;
    for (uint32_t frame = 0; frame < count; frame++) {
        result = log->pMethods->xRead(log, bytes, 24 + (int)size, 32 + (sqlite3_int64)frame * (24 + size));
        if (result == SQLITE_IOERR_SHORT_READ) return SQLITE_IOERR_DATA;
        if (result != SQLITE_OK) return result;
        moorage_sqlite_sum(sum, bytes, 8, is_big);
        moorage_sqlite_sum(sum, bytes + 24, (int)size, is_big);
    }
    return sum[0] == expected[0] && sum[1] == expected[1] ? SQLITE_OK : SQLITE_IOERR_DATA;
}

// Writes bytes of the log over themselves. What cannot be read is left as it is, one block of it: behind the last commit
// there may be anything.
static inline int moorage_sqlite_rewrite(sqlite3_file *_Nonnull log, sqlite3_int64 from, sqlite3_int64 end, int block) {
    unsigned char bytes[65536];
    int result = SQLITE_OK;
    for (sqlite3_int64 position = from; result == SQLITE_OK && position < end; position += block) {
        sqlite3_int64 rest = end - position;
        int count = rest < block ? (int)rest : block;
        if (log->pMethods->xRead(log, bytes, count, position) == SQLITE_OK) {
            result = log->pMethods->xWrite(log, bytes, count, position);
        } else if (block > 4096) {
            result = moorage_sqlite_rewrite(log, position, position + count, 4096);
        }
    }
    return result;
}

// Writes the log over itself and syncs it, by the connection's own descriptor: by now its name may be another database's.
// The caller holds the write lock.
static inline int moorage_sqlite_rewrite_log(sqlite3 *_Nonnull database) {
    sqlite3_int64 size = 0;
    sqlite3_file *_Nullable log = moorage_sqlite_log(database);
    if (log == NULL) return SQLITE_OK;
    int result = log->pMethods->xFileSize(log, &size);
    if (result == SQLITE_OK) result = moorage_sqlite_rewrite(log, 0, size, 65536);
    return result == SQLITE_OK ? log->pMethods->xSync(log, SQLITE_SYNC_NORMAL) : result;
}

// Keeps everybody away from a database and its log: writers, checkpoints and readers; or, with a lock of 0, no longer. No
// transaction is open. SQLITE_BUSY while somebody is there (sqlite.org/walformat.html#locks).
static inline int moorage_sqlite_lock_all(sqlite3 *_Nonnull database, int lock) {
    const int writer_and_checkpoint = 0, readers = 3, mode = SQLITE_SHM_EXCLUSIVE;
    sqlite3_file *_Nullable file = NULL;
    volatile uint32_t *_Nullable index = NULL;
    int result = moorage_sqlite_log_index(database, &index);
    if (index == NULL) return result;
    sqlite3_file_control(database, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (lock) {
        result = file->pMethods->xShmLock(file, writer_and_checkpoint, 2, SQLITE_SHM_LOCK | mode);
        if (result != SQLITE_OK) return result;
        result = file->pMethods->xShmLock(file, readers, SQLITE_SHM_NLOCK - readers, SQLITE_SHM_LOCK | mode);
        if (result == SQLITE_OK) return result;
    } else {
        file->pMethods->xShmLock(file, readers, SQLITE_SHM_NLOCK - readers, SQLITE_SHM_UNLOCK | mode);
    }
    file->pMethods->xShmLock(file, writer_and_checkpoint, 2, SQLITE_SHM_UNLOCK | mode);
    return result;
}

// Whether the database's file is no longer what its name leads to.
static inline int moorage_sqlite_has_moved(sqlite3 *_Nonnull database) {
    int moved = 0;
    sqlite3_file_control(database, "main", SQLITE_FCNTL_HAS_MOVED, &moved);
    return moved;
}

// Whether the log is left as it is when this connection is the last one and is closed.
static inline void moorage_sqlite_keep_log(sqlite3 *_Nonnull database, int keep) {
    sqlite3_db_config(database, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, keep, NULL);
}

#endif
