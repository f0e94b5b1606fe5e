// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Glibc
internal import Platform

/// The catalog's tables, in a file or in memory.
final class CatalogStore: Sendable {
    private let writer: Database
    private let reader: Database
    /// How many stores came before it in this process.
    let epoch: Int
    /// Device and inode of the file; nil in memory.
    private let identity: [UInt64]?

    var isInMemory: Bool { identity == nil }

    /// Opens the file, creating it and its folder; a damaged or newer file is replaced.
    init(path: String, epoch: Int) throws(DatabaseError) {
        do throws(SystemError) {
            try Files.makeDirectories(Files.parent(of: path))
        } catch {
            throw DatabaseError(error.code == ENOSPC ? .full : .io, error.description)
        }
        do throws(DatabaseError) {
            (writer, reader) = try Self.open(path)
        } catch {
            guard Self.isUseless(path, error) else { throw error }
            Log.notice("catalog", "starting anew: \(error)")
            Self.remove(path)
            (writer, reader) = try Self.open(path)
        }
        identity = Self.identity(of: path) ?? []
        self.epoch = epoch
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

    /// Deletes the file; who has it open keeps it, without the name.
    static func remove(_ path: String) {
        for suffix in ["", "-wal", "-shm"] { _ = unlink(path + suffix) }
    }

    /// An empty catalog in memory, because the file cannot be used for now.
    init(inMemoryBecause error: DatabaseError, epoch: Int) throws(DatabaseError) {
        Log.warning("catalog", "kept in memory for now: \(error)")
        writer = try Database(path: Database.memory, options: Self.options, migrations: Self.migrations)
        reader = writer
        identity = nil
        self.epoch = epoch
    }

    /// Whether the open file is the one that has the name: deleting the cache takes only the name.
    func isStillAt(_ path: String) -> Bool {
        identity == Self.identity(of: path)
    }

    func read<Result>(_ body: (Entries) throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        try reader.read { connection throws(DatabaseError) in try body(Entries(connection: connection, epoch: epoch)) }
    }

    func write<Result>(_ body: (Entries) throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        try writer.write { connection throws(DatabaseError) in try body(Entries(connection: connection, epoch: epoch)) }
    }

    private static func identity(of path: String) -> [UInt64]? {
        guard let status = try? FileStatus.of(path) else { return nil }
        return [status.device, status.inode]
    }

    private static let options = Database.Options(durability: .none, cacheSize: 8192)

    private static func open(_ path: String) throws(DatabaseError) -> (Database, Database) {
        (try Database(path: path, options: options, migrations: migrations), try Database(path: path, options: options))
    }

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
    ]
}
