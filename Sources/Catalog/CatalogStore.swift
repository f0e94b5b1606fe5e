// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Glibc
internal import Platform

/// The catalog's tables, in a file or in memory.
final class CatalogStore: Sendable {
    /// Two connections that see each other's commits, and the files that they have open.
    private struct Opened {
        let writer: Database
        let reader: Database
        let identity: [UInt64]
    }

    private let writer: Database
    private let reader: Database
    /// How many stores came before it in this process.
    let epoch: Int
    /// Device and inode of the file, its log and the log's index; nil in memory.
    ///
    /// Each of the three is somebody else's when it is made anew under its name: commits of one process no longer show in
    /// another then. Whoever deletes a cache does so file by file, while others begin a new one.
    private let identity: [UInt64]?

    var isInMemory: Bool { identity == nil }

    /// Opens the file, creating it and its folder; a damaged or newer file is replaced, and one that is marked.
    init(_ files: CatalogFiles, epoch: Int) throws(DatabaseError) {
        try files.settle()
        let opened = try Self.openWhole(files)
        (writer, reader, identity) = (opened.writer, opened.reader, opened.identity)
        self.epoch = epoch
    }

    /// How often it is tried while somebody deletes the files that are opened, and for how long, in seconds.
    private static let attempts = 8
    private static let patience = 2.0

    private static func openWhole(_ files: CatalogFiles) throws(DatabaseError) -> Opened {
        let end = monotonicSeconds() + patience
        for attempt in 1...attempts {
            do throws(DatabaseError) {
                if let opened = try openOrReplace(files) { return opened }
                // Within a process an index without a name would be shared by all who open the file later.
                if files.identity == nil { files.remove() }
            } catch {
                // What is deleted or made anew at the wrong moment is told as an I/O error, as locked or as no database.
                let isOfDisk = [.full, .readOnly, .newerFormat].contains(error.kind)
                guard !isOfDisk, attempt < attempts, monotonicSeconds() < end else { throw error }
            }
            usleep(UInt32(1000 * attempt))
        }
        throw DatabaseError(.io, "\(files.path): its files are deleted again and again")
    }

    private static func openOrReplace(_ files: CatalogFiles) throws(DatabaseError) -> Opened? {
        do throws(SystemError) {
            try Files.makeDirectories(Files.parent(of: files.path))
        } catch {
            throw DatabaseError(error.code == ENOSPC ? .full : .io, error.description)
        }
        do throws(DatabaseError) {
            return try open(files)
        } catch {
            guard isUseless(files.path, error) else { throw error }
            Log.notice("catalog", "starting anew: \(error)")
            files.remove()
            return try open(files)
        }
    }

    /// nil when the files were replaced meanwhile, so that the two connections may have different ones.
    private static func open(_ files: CatalogFiles) throws(DatabaseError) -> Opened? {
        let writer = try Database(path: files.path, options: options, migrations: migrations)
        guard let before = files.identity else { return nil }
        let reader: Database
        do throws(DatabaseError) {
            reader = try Database(path: files.path, options: options)
            guard try doShare(writer, reader) else { return nil }
        } catch {
            guard before == files.identity else { return nil }
            throw error
        }
        return before == files.identity ? Opened(writer: writer, reader: reader, identity: before) : nil
    }

    /// Whether one connection sees what the other one commits.
    private static func doShare(_ writer: Database, _ reader: Database) throws(DatabaseError) -> Bool {
        let mark = Value.integer(Int64.random(in: .min ... .max))
        _ = try writer.write { connection throws(DatabaseError) in
            try connection.run("INSERT INTO opening VALUES (?)", [mark])
        }
        let isSeen = try reader.read { connection throws(DatabaseError) in
            try connection.exists("SELECT 1 FROM opening WHERE mark = ?", [mark])
        }
        _ = try writer.write { connection throws(DatabaseError) in
            try connection.run("DELETE FROM opening WHERE mark = ?", [mark])
        }
        return isSeen
    }

    /// Whether an error says that the file has to be given up.
    private static func isUseless(_ path: String, _ error: DatabaseError) -> Bool {
        switch error.kind {
        case .corrupt, .newerFormat, .other: true
        // A file that was cut while another process has it open cannot become a database again.
        case .busy: (try? FileStatus.of(path))?.size == 0
        default: false
        }
    }

    /// An empty catalog in memory, because the file cannot be used for now.
    init(inMemoryBecause error: DatabaseError, epoch: Int) throws(DatabaseError) {
        Log.warning("catalog", "kept in memory for now: \(error)")
        writer = try Database(path: Database.memory, options: Self.options, migrations: Self.migrations)
        reader = writer
        identity = nil
        self.epoch = epoch
    }

    /// Whether the open files are those that have the names, which is all that deleting the cache takes, and no mark says
    /// that they are out of date.
    ///
    /// The mark is looked for each time: who made it may have the journal forget right after it what the files lack.
    func isCurrent(_ files: CatalogFiles) -> Bool {
        identity == files.identity && !files.areDistrusted
    }

    /// Takes the name from the open file, if it still has it: what its log held is lost.
    func giveUp(_ files: CatalogFiles) {
        guard let identity, let status = try? FileStatus.of(files.path) else { return }
        if Array(identity.prefix(2)) == [status.device, status.inode] { files.remove() }
    }

    func read<Result>(_ body: (Entries) throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        try reader.read { connection throws(DatabaseError) in try body(Entries(connection: connection, epoch: epoch)) }
    }

    func write<Result>(_ body: (Entries) throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        try writer.write { connection throws(DatabaseError) in try body(Entries(connection: connection, epoch: epoch)) }
    }

    private static let options = Database.Options(durability: .none, cacheSize: 8192)

    // Stamps of a new file are above those of the one before it, so that a listing begun then is older than its rows.
    private static let migrations = [
        """
        CREATE TABLE stamp (value INTEGER NOT NULL);
        INSERT INTO stamp VALUES (CAST(strftime('%s', 'now') AS INTEGER) * 1000000);
        CREATE TABLE folder (
            id INTEGER PRIMARY KEY,
            path BLOB NOT NULL UNIQUE,
            listed_at INTEGER,
            hidden INTEGER NOT NULL DEFAULT 0
        );
        CREATE TABLE entry (
            folder INTEGER NOT NULL,
            name BLOB NOT NULL,
            kind INTEGER NOT NULL,
            tag TEXT,
            size INTEGER,
            changed INTEGER,
            has_metadata INTEGER NOT NULL,
            mode INTEGER,
            uid INTEGER,
            gid INTEGER,
            modified INTEGER,
            target BLOB,
            has_marker INTEGER,
            checked_at INTEGER NOT NULL,
            generation INTEGER,
            stamp INTEGER NOT NULL,
            PRIMARY KEY (folder, name)
        ) WITHOUT ROWID;
        """,
        "ALTER TABLE entry ADD COLUMN earlier TEXT",
        "ALTER TABLE entry ADD COLUMN device INTEGER",
        // What was asked for before does not tell of them: it is asked for again.
        "ALTER TABLE entry ADD COLUMN xattr TEXT; UPDATE entry SET has_metadata = 0",
        "CREATE TABLE IF NOT EXISTS opening (mark INTEGER NOT NULL)",
    ]
}
