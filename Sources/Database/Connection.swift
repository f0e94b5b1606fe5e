// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CSQLite
internal import Glibc
internal import Platform

/// An open SQLite connection with its prepared statements; used by one thread at a time, under ``Database``'s lock.
package final class Connection {
    fileprivate let handle: OpaquePointer
    private var statements: [String: OpaquePointer] = [:]
    private let path: String
    private let frames = UnsafeMutablePointer<Int32>.allocate(capacity: 1)

    init(handle: OpaquePointer, path: String) {
        self.handle = handle
        self.path = path
        frames.initialize(to: 0)
    }

    deinit {
        for statement in statements.values { sqlite3_finalize(statement) }
        sqlite3_close_v2(handle)
        frames.deallocate()
    }

    /// Runs a statement, which is prepared once and kept: `sql` must be a constant, values go into parameters.
    ///
    /// Returns the number of rows it changed.
    @discardableResult
    package func run(_ sql: String, _ values: [Value] = []) throws(DatabaseError) -> Int {
        let statement = try prepared(sql)
        defer { finish(statement) }
        try bind(values, to: statement)
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW: continue
            case SQLITE_DONE: return Int(sqlite3_changes(handle))
            default: throw failure(sql)
            }
        }
    }

    /// A statement that is run many times in a row, with nothing looked up or allocated for each.
    ///
    /// Not to be kept beyond the transaction that it is used in.
    package func statement(_ sql: String) throws(DatabaseError) -> Statement {
        Statement(connection: self, handle: try prepared(sql))
    }

    /// Runs a query and calls `body` for each row, which must not run the same statement again.
    package func each(
        _ sql: String,
        _ values: [Value] = [],
        _ body: (Row) throws(DatabaseError) -> Void
    ) throws(DatabaseError) {
        let statement = try prepared(sql)
        defer { finish(statement) }
        try bind(values, to: statement)
        while true {
            switch sqlite3_step(statement) {
            case SQLITE_ROW: try body(Row(statement: statement))
            case SQLITE_DONE: return
            default: throw failure(sql)
            }
        }
    }

    /// What `body` makes of the query's first row, nil when there is none.
    package func first<Result>(
        _ sql: String,
        _ values: [Value] = [],
        _ body: (Row) throws(DatabaseError) -> Result
    ) throws(DatabaseError) -> Result? {
        let statement = try prepared(sql)
        defer { finish(statement) }
        try bind(values, to: statement)
        switch sqlite3_step(statement) {
        case SQLITE_ROW: return try body(Row(statement: statement))
        case SQLITE_DONE: return nil
        default: throw failure(sql)
        }
    }

    /// What `body` makes of each row of a query.
    package func all<Result>(
        _ sql: String,
        _ values: [Value] = [],
        _ body: (Row) throws(DatabaseError) -> Result
    ) throws(DatabaseError) -> [Result] {
        var results: [Result] = []
        try each(sql, values) { row throws(DatabaseError) in results.append(try body(row)) }
        return results
    }

    /// Whether a query has a row.
    package func exists(_ sql: String, _ values: [Value] = []) throws(DatabaseError) -> Bool {
        try first(sql, values) { _ in true } ?? false
    }

    /// Runs several statements that need no parameters and are not kept.
    package func script(_ sql: String) throws(DatabaseError) {
        guard sqlite3_exec(handle, sql, nil, nil, nil) == SQLITE_OK else { throw failure(sql) }
    }

    /// The rowid of the last insert.
    package var lastInsertedRow: Int64 { sqlite3_last_insert_rowid(handle) }

    /// Copies the log into the database (sqlite3_wal_checkpoint_v2): as far as nobody is in the way, or, with
    /// `emptying`, all of it, after which the log begins anew; false when somebody was in the way for too long.
    func checkpoint(emptying: Bool) throws(DatabaseError) -> Bool {
        let mode = emptying ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE
        let code = sqlite3_wal_checkpoint_v2(handle, nil, mode, nil, nil)
        if code & 0xFF == SQLITE_BUSY { return false }
        guard code == SQLITE_OK else { throw failure("checkpoint") }
        return true
    }

    /// Writes the log over itself and syncs it, for the next checkpoint to copy all of it; a write transaction is open.
    ///
    /// False while a checkpoint runs.
    func rewriteLog() throws(DatabaseError) -> Bool {
        var code = moorage_sqlite_check_log(handle)
        if code == SQLITE_OK { code = moorage_sqlite_rewrite_log(handle) }
        if code == SQLITE_OK { code = moorage_sqlite_forget_checkpoint(handle) }
        if code & 0xFF == SQLITE_BUSY { return false }
        guard code == SQLITE_OK else {
            let reason =
                code == moorage_sqlite_wrong_data
                ? "the disk has lost a part of it: end all processes that use it"
                : String(cString: sqlite3_errstr(code))
            throw DatabaseError(.init(resultCode: code), code: code, "\(path)-wal: \(reason)")
        }
        return true
    }

    /// Completes what the file system keeps as unwritten of the database and its log, while nobody else uses them.
    ///
    /// False while somebody does.
    func complete(_ extents: UnwrittenExtents) throws(DatabaseError) -> Bool {
        guard path != Database.memory else { return true }
        do throws(SystemError) {
            let files = (try FileStatus.of(path), try FileStatus.of("\(path)-wal"))
            // What its name leads to now is another database.
            guard moorage_sqlite_has_moved(handle) == 0, let file = files.0, let log = files.1 else { return true }
            let isWritten = try !extents.exist("\(path)-wal", log)
            if isWritten, try !extents.exist(path, file) { return true }
            let code = moorage_sqlite_lock_all(handle, 1)
            if code & 0xFF == SQLITE_BUSY { return false }
            guard code == SQLITE_OK else { throw SystemError.make(EIO, "xShmLock", path) }
            defer { _ = moorage_sqlite_lock_all(handle, 0) }
            try extents.complete("\(path)-wal", log)
            // Memory may have let go of what was lost, since it was looked at.
            guard moorage_sqlite_check_log(handle) == SQLITE_OK else {
                throw SystemError.make(EIO, "pread", "\(path)-wal")
            }
            try extents.complete(path, file)
            return true
        } catch {
            throw DatabaseError(system: error)
        }
    }

    /// Whether the log is left as it is at the end, for the next one who opens the database.
    ///
    /// A checkpoint of a log in doubt could end half-way, and leave a database that nothing completes.
    var keepsLog: Bool = false {
        didSet { moorage_sqlite_keep_log(handle, keepsLog ? 1 : 0) }
    }

    /// Does no checkpoints by itself from here on, whose failures nobody would hear of; see ``logLength``.
    func countLog() {
        sqlite3_wal_hook(
            handle,
            { count, _, _, frames in
                count?.assumingMemoryBound(to: Int32.self).pointee = frames
                return SQLITE_OK
            },
            frames
        )
    }

    /// How many pages the log had at the last commit.
    var logLength: Int {
        get { Int(frames.pointee) }
        set { frames.pointee = Int32(clamping: newValue) }
    }

    /// Whether a transaction is open.
    var isInTransaction: Bool { sqlite3_get_autocommit(handle) == 0 }

    private func prepared(_ sql: String) throws(DatabaseError) -> OpaquePointer {
        if let statement = statements[sql] { return statement }
        var statement: OpaquePointer?
        let persistent = UInt32(SQLITE_PREPARE_PERSISTENT)
        guard sqlite3_prepare_v3(handle, sql, -1, persistent, &statement, nil) == SQLITE_OK, let statement else {
            throw failure(sql)
        }
        statements[sql] = statement
        return statement
    }

    private func bind(_ values: [Value], to statement: OpaquePointer) throws(DatabaseError) {
        precondition(values.count == Int(sqlite3_bind_parameter_count(statement)), "parameters of a statement")
        for (offset, value) in values.enumerated() {
            let index = Int32(offset + 1)
            let result =
                switch value {
                case .null: sqlite3_bind_null(statement, index)
                case .integer(let number): sqlite3_bind_int64(statement, index, number)
                case .text(let text): moorage_sqlite_bind_text(statement, index, text, UInt64(text.utf8.count))
                case .blob(let bytes):
                    bytes.withUnsafeBytes {
                        moorage_sqlite_bind_blob(statement, index, $0.baseAddress, UInt64($0.count))
                    }
                }
            guard result == SQLITE_OK else { throw failure("bind") }
        }
    }

    fileprivate func finish(_ statement: OpaquePointer) {
        sqlite3_reset(statement)
        sqlite3_clear_bindings(statement)
    }

    /// What SQLite calls damage: `.corrupt`, or `.io` when the disk has failed, after which the next look may find
    /// everything sound.
    ///
    /// A read that fails with EIO is damage to SQLite (unixRead() in os_unix.c), and any that fails is to its checks.
    package func damage(_ message: String, code: Int32 = 0) -> DatabaseError {
        let cause = moorage_sqlite_errno(handle)
        guard cause != 0 else { return DatabaseError(.corrupt, code: code, message) }
        return DatabaseError(.io, SystemError.make(cause, "pread", path).description)
    }

    fileprivate func failure(_ sql: String) -> DatabaseError {
        let code = sqlite3_extended_errcode(handle)
        let reason = String(cString: sqlite3_errmsg(handle))
        if code & 0xFF == SQLITE_CORRUPT { return damage("\(path): \(reason)", code: code) }
        return DatabaseError(.init(resultCode: code), code: code, "\(path): \(reason)")
    }
}

/// A prepared statement; see ``Connection/statement(_:)``.
package struct Statement {
    fileprivate let connection: Connection
    fileprivate let handle: OpaquePointer

    /// Runs it once, with the parameters that `bind` gives, all of them and in their order.
    package func run(_ bind: (inout Parameters) -> Void) throws(DatabaseError) {
        defer { connection.finish(handle) }
        var parameters = Parameters(statement: handle)
        bind(&parameters)
        precondition(parameters.count == sqlite3_bind_parameter_count(handle), "parameters of a statement")
        guard parameters.result == SQLITE_OK else { throw connection.failure("bind") }
        while true {
            switch sqlite3_step(handle) {
            case SQLITE_ROW: continue
            case SQLITE_DONE: return
            default: throw connection.failure("step")
            }
        }
    }
}

/// The parameters of a statement, bound one after the other.
package struct Parameters {
    fileprivate let statement: OpaquePointer
    fileprivate private(set) var count: Int32 = 0
    /// The first that was not SQLITE_OK.
    fileprivate private(set) var result = SQLITE_OK

    package mutating func add(_ number: Int64?) {
        guard let number else { return addNull() }
        note(sqlite3_bind_int64(statement, count + 1, number))
    }

    package mutating func add(_ text: String?) {
        guard let text else { return addNull() }
        note(moorage_sqlite_bind_text(statement, count + 1, text, UInt64(text.utf8.count)))
    }

    package mutating func add(_ bytes: [UInt8]?) {
        guard let bytes else { return addNull() }
        let code = bytes.withUnsafeBytes {
            moorage_sqlite_bind_blob(statement, count + 1, $0.baseAddress, UInt64($0.count))
        }
        note(code)
    }

    private mutating func addNull() { note(sqlite3_bind_null(statement, count + 1)) }

    private mutating func note(_ code: Int32) {
        count += 1
        if result == SQLITE_OK { result = code }
    }
}

extension DatabaseError.Kind {
    /// The class of an SQLite result code (sqlite.org/rescode.html).
    init(resultCode code: Int32) {
        // The file ends within a page.
        if code == moorage_sqlite_short_read {
            self = .corrupt
            return
        }
        self =
            switch code & 0xFF {
            // A reader is kept away for too long by who completes the files.
            case SQLITE_BUSY, SQLITE_LOCKED, SQLITE_PROTOCOL: .busy
            case SQLITE_FULL: .full
            case SQLITE_CORRUPT, SQLITE_NOTADB: .corrupt
            case SQLITE_READONLY, SQLITE_PERM: .readOnly
            case SQLITE_IOERR, SQLITE_CANTOPEN: .io
            case SQLITE_CONSTRAINT: .constraint
            default: .other
            }
    }
}
