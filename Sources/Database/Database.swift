// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CSQLite
internal import Glibc
package import Platform

/// The only owner of a connection to an SQLite file: one lock, one thread at a time.
///
/// The file is in WAL mode, so that readers in other connections and processes
/// never wait for a writer; it is created with mode 0600, and SQLite gives its
/// side files the same mode.
package final class Database: @unchecked Sendable {
    /// How much a commit promises.
    package enum Durability: Hashable, Sendable {
        /// Commits survive the death of the process; power loss may undo the newest, never damage the file.
        case process
        /// As `process`, and no sync at checkpoints either: power loss may damage the file. For caches.
        case none
    }

    package struct Options: Sendable {
        package var durability: Durability
        /// The page cache, in KiB.
        package var cacheSize: Int
        package var isReadOnly: Bool
        /// How long to wait for another process's write transaction, in milliseconds.
        package var busyTimeout: Int32
        /// How what a failed write has left is found and mended.
        package var extents: UnwrittenExtents

        package init(
            durability: Durability = .process,
            cacheSize: Int = 4096,
            isReadOnly: Bool = false,
            busyTimeout: Int32 = 10_000,
            extents: UnwrittenExtents = .system
        ) {
            self.durability = durability
            self.cacheSize = cacheSize
            self.isReadOnly = isReadOnly
            self.busyTimeout = busyTimeout
            self.extents = extents
        }
    }

    // The mutex serialises every access to `connection`, which is why the class may be shared.
    private let mutex: UnsafeMutablePointer<pthread_mutex_t>
    private let connection: Connection
    private let options: Options
    /// The log may have a hole where the disk lost what the kernel calls written; under the mutex.
    ///
    /// A sync of it that failed is never made good by one that succeeds: what it was for may be lost, and after it the
    /// whole rest of the log. So is a log that was there when this process came.
    private var isLogDoubtful = true {
        didSet { connection.keepsLog = isLogDoubtful && options.durability == .process }
    }

    /// Opens a file, creating it when missing and not read-only, and brings its schema up to date.
    ///
    /// `migrations[n]` takes a file from version n to n + 1 (`PRAGMA user_version`); a file of a
    /// later version is refused with `.newerFormat`. The path ``memory`` keeps everything in this object.
    package init(path: String, options: Options = Options(), migrations: [String] = []) throws(DatabaseError) {
        let connection = try Self.open(path, options)
        try Self.migrate(connection, migrations, path)
        self.options = options
        self.connection = connection
        mutex = .allocate(capacity: 1)
        pthread_mutex_init(mutex, nil)
        // When somebody is in the way it is tried again before a commit that has to be durable.
        if !options.isReadOnly, options.durability == .process { try? renewLog() }
    }

    deinit {
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    /// Runs statements without a transaction: each one sees the newest commit.
    package func read<Result>(
        _ body: (Connection) throws(DatabaseError) -> Result
    ) throws(DatabaseError) -> Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(connection)
    }

    /// Runs statements on one snapshot.
    package func snapshot<Result>(
        _ body: (Connection) throws(DatabaseError) -> Result
    ) throws(DatabaseError) -> Result {
        try read { connection throws(DatabaseError) in
            try connection.run("BEGIN")
            return try Self.finishing(connection, body)
        }
    }

    /// Runs `body` as one transaction, which is undone when it throws.
    ///
    /// With `durable` the commit, and every earlier one of any process, is on stable storage
    /// when the call returns: the commit ends with an fsync of the log. When such an fsync has failed, everything is
    /// copied into the database and a new log begun before a later one counts. `committed`, or `failed`, is called before
    /// any other thread can use the connection.
    package func write<Result>(
        durable: Bool = false,
        committed: () -> Void = {},
        failed: (DatabaseError) -> Void = { _ in },
        _ body: (Connection) throws(DatabaseError) -> Result
    ) throws(DatabaseError) -> Result {
        try read { connection throws(DatabaseError) in
            if durable { try renewLog() }
            if durable { try connection.run("PRAGMA synchronous=FULL") }
            defer { if durable { _ = try? connection.run(options.durability.pragma) } }
            let result: Result
            do throws(DatabaseError) {
                result = try noting { () throws(DatabaseError) in
                    try connection.run("BEGIN IMMEDIATE")
                    return try Self.finishing(connection, body)
                }
            } catch {
                failed(error)
                throw error
            }
            committed()
            shortenLog()
            return result
        }
    }

    /// Runs something that writes to the log; a failure of the disk puts the log in doubt.
    private func noting<Result>(_ body: () throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        do throws(DatabaseError) {
            return try body()
        } catch {
            if error.kind == .io, options.durability == .process {
                isLogDoubtful = true
                // At once, while what was lost is still in memory.
                do throws(DatabaseError) {
                    try renewLog()
                } catch {
                    Log.error("database", "the log could not be begun anew: \(error)")
                }
            }
            throw error
        }
    }

    /// Brings what a doubtful log has into the database and begins the log anew.
    private func renewLog() throws(DatabaseError) {
        guard isLogDoubtful else { return }
        // Another checkpoint makes either fail at once, whatever the busy timeout.
        try retrying { () throws(DatabaseError) in try rewriteLog() }
        try retrying { () throws(DatabaseError) in try connection.complete(options.extents) }
        try retrying { () throws(DatabaseError) in try connection.checkpoint(emptying: true) }
        isLogDoubtful = false
        connection.logLength = 0
    }

    /// Repeats what others are in the way of, up to the busy timeout.
    private func retrying(_ body: () throws(DatabaseError) -> Bool) throws(DatabaseError) {
        let end = monotonicSeconds() + Double(options.busyTimeout) / 1000
        while try !body() {
            guard monotonicSeconds() < end else {
                throw DatabaseError(.busy, "the log of the database is in use by another process for too long")
            }
            usleep(5000)
        }
    }

    /// Writes once more what a doubtful log has, so that it is on the disk before anything of it goes into the database.
    ///
    /// The sync with which a checkpoint begins may call it written, as the one before has told of the failure and the
    /// kernel keeps what is lost as if it were. Should the checkpoint then end half-way, power loss would leave a
    /// database with some of the newest pages and no log to complete it. Nor is what a checkpoint has copied for sure
    /// there before one came to the end.
    private func rewriteLog() throws(DatabaseError) -> Bool {
        // As long as somebody writes nobody else does, or begins the log anew.
        try connection.run("BEGIN IMMEDIATE")
        defer { _ = try? connection.run("ROLLBACK") }
        return try connection.rewriteLog()
    }

    /// Keeps the log from growing: a checkpoint after every 4,000 pages, 16 MiB.
    ///
    /// Each syncs twice, and many small files
    /// write the same pages again and again.
    private func shortenLog() {
        guard connection.logLength >= 4000 else { return }
        do throws(DatabaseError) {
            // One that may have a hole is no ground for a checkpoint.
            if isLogDoubtful, options.durability == .process { return try renewLog() }
            _ = try connection.checkpoint(emptying: false)
            connection.logLength = 0
        } catch {
            Log.error("database", "\(error)")
            // It may have been the sync of the log: nobody hears of it a second time.
            if error.kind == .io { isLogDoubtful = true }
        }
    }

    private static func finishing<Result>(
        _ connection: Connection,
        _ body: (Connection) throws(DatabaseError) -> Result
    ) throws(DatabaseError) -> Result {
        do throws(DatabaseError) {
            let result = try body(connection)
            try connection.run("COMMIT")
            return result
        } catch {
            // Some errors (full disk, I/O) have ended the transaction already.
            if connection.isInTransaction { _ = try? connection.run("ROLLBACK") }
            throw error
        }
    }

    /// The path of a database that is in no file and ends with its owner.
    package static let memory = ":memory:"

    private static func open(_ path: String, _ options: Options) throws(DatabaseError) -> Connection {
        if !options.isReadOnly, path != memory { try createPrivately(path) }
        var handle: OpaquePointer?
        // No NOFOLLOW: a state directory may be reached through links; the file itself was checked above.
        let access = options.isReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE
        let result = sqlite3_open_v2(path, &handle, access | SQLITE_OPEN_NOMUTEX, nil)
        guard let handle else { throw DatabaseError(.other, code: result, "\(path): out of memory") }
        let connection = Connection(handle: handle, path: path)
        guard result == SQLITE_OK else {
            throw DatabaseError(
                .init(resultCode: result),
                code: result,
                "\(path): \(String(cString: sqlite3_errmsg(handle)))"
            )
        }
        waitWhenBusy(handle, options.busyTimeout)
        sqlite3_extended_result_codes(handle, 1)
        try configure(connection, options)
        return connection
    }

    /// Has SQLite wait for another process's transaction, up to `timeout` milliseconds.
    ///
    /// Its own sqlite3_busy_timeout(3) begins with a millisecond and soon takes 25, several times as long as the
    /// transactions of the mount and the flusher, which meet all the time while small files are written.
    private static func waitWhenBusy(_ handle: OpaquePointer, _ timeout: Int32) {
        sqlite3_busy_handler(
            handle,
            { context, count in
                let timeout = Int32(truncatingIfNeeded: Int(bitPattern: context))
                let short: Int32 = 6
                guard timeout > 0, count < short + timeout / 5 else { return 0 }
                usleep(count < short ? 100 << UInt32(count) : 5000)
                return 1
            },
            UnsafeMutableRawPointer(bitPattern: Int(timeout))
        )
    }

    private static func configure(_ connection: Connection, _ options: Options) throws(DatabaseError) {
        try connection.script("PRAGMA mmap_size=0; PRAGMA cache_size=-\(options.cacheSize); PRAGMA foreign_keys=OFF")
        try connection.script("PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY")
        guard !options.isReadOnly else { return }
        connection.countLog()
        // Nobody has looked at the log that is there, if one is.
        connection.keepsLog = options.durability == .process
        try switchToWAL(connection, options)
        try connection.script("PRAGMA journal_size_limit=16777216")
        try connection.script(options.durability.pragma)
    }

    /// Puts the file into WAL mode, tried again while others are about to.
    ///
    /// Of two that switch a new file at once SQLite refuses one without asking the busy handler: both hold a lock that
    /// the other one waits for.
    private static func switchToWAL(_ connection: Connection, _ options: Options) throws(DatabaseError) {
        let end = monotonicSeconds() + Double(options.busyTimeout) / 1000
        while true {
            do throws(DatabaseError) {
                return try connection.script("PRAGMA journal_mode=WAL")
            } catch {
                guard error.kind == .busy, monotonicSeconds() < end else { throw error }
                usleep(1000)
            }
        }
    }

    /// Creates the file with mode 0600, whatever the umask, before SQLite would with its own.
    private static func createPrivately(_ path: String) throws(DatabaseError) {
        do throws(SystemError) {
            // An existing file is never opened here: closing any descriptor of it drops the locks of all this
            // process's connections (fcntl(2)), after which another process's close deletes the log under them.
            if let status = try FileStatus.of(path) {
                guard status.isRegularFile else { throw SystemError.make(ELOOP, "open", path) }
                return
            }
            _ = try FileDescriptor.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW)
        } catch {
            // Another process made it in between.
            if error.code == EEXIST { return }
            throw DatabaseError(system: error)
        }
    }

    private static func migrate(_ connection: Connection, _ steps: [String], _ path: String) throws(DatabaseError) {
        guard !steps.isEmpty else { return }
        guard try version(connection, path, steps.count) < steps.count else { return }
        try connection.run("BEGIN IMMEDIATE")
        try finishing(connection) { connection throws(DatabaseError) in
            for step in try version(connection, path, steps.count)..<steps.count {
                try connection.script(steps[step])
                try connection.script("PRAGMA user_version=\(step + 1)")
            }
        }
    }

    private static func version(
        _ connection: Connection,
        _ path: String,
        _ known: Int
    ) throws(DatabaseError) -> Int {
        let version = try connection.first("PRAGMA user_version") { Int($0.integer(0)) } ?? 0
        guard version <= known else {
            throw DatabaseError(.newerFormat, "\(path): written by a newer version; use that version for this volume")
        }
        return version
    }
}

extension Database.Durability {
    fileprivate var pragma: String {
        switch self {
        case .process: "PRAGMA synchronous=NORMAL"
        case .none: "PRAGMA synchronous=OFF"
        }
    }
}
