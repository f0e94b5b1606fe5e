// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
package import Database
internal import Glibc
internal import Platform
internal import Synchronization

/// The names, versions and attributes that the remote was seen to have, in a file that may be deleted at any time.
///
/// The mount writes what it lists and looks up, the flusher what it commits. Any
/// thread may call; every method is one transaction. When the file is deleted
/// under running processes, each of them goes over to the new one at its next call.
package final class Catalog: Sendable {
    private struct Opened: Sendable {
        var writer: Database
        var reader: Database
        var inode: UInt64
        var epoch: Int
    }

    private let path: String
    private let opened: Lock<Opened>

    /// Opens `catalog.sqlite` in a volume's cache directory, creating both; a damaged or newer file is replaced.
    package init(directory: String) throws(DatabaseError) {
        path = "\(directory)/catalog.sqlite"
        opened = Lock(try Self.opening(path, epoch: 0))
    }

    /// Changes when the file was found deleted and begun anew: what was remembered about it no longer holds.
    package var epoch: Int { opened.withLock { $0.epoch } }

    private static func opening(_ path: String, epoch: Int) throws(DatabaseError) -> Opened {
        do throws(SystemError) {
            try Files.makeDirectories(Files.parent(of: path))
        } catch {
            throw DatabaseError(error.code == ENOSPC ? .full : .io, error.description)
        }
        let (writer, reader) = try openingSound(path)
        return Opened(writer: writer, reader: reader, inode: inode(path) ?? 0, epoch: epoch)
    }

    private static func openingSound(_ path: String) throws(DatabaseError) -> (Database, Database) {
        do throws(DatabaseError) {
            return try open(path)
        } catch {
            guard error.kind == .corrupt || error.kind == .newerFormat || error.kind == .other else { throw error }
            Log.notice("catalog", "starting anew: \(error)")
            for suffix in ["", "-wal", "-shm"] { _ = unlink(path + suffix) }
            return try open(path)
        }
    }

    private static func inode(_ path: String) -> UInt64? {
        (try? FileStatus.of(path))??.inode
    }

    /// The file that is at the path now, opened again when it is another one than before.
    private func current() throws(DatabaseError) -> Opened {
        try opened.withLock { opened throws(DatabaseError) in
            if Self.inode(path) == opened.inode { return opened }
            Log.notice("catalog", "\(path) was deleted; going on with a new one")
            opened = try Self.opening(path, epoch: opened.epoch + 1)
            return opened
        }
    }

    private static func open(_ path: String) throws(DatabaseError) -> (Database, Database) {
        let options = Database.Options(durability: .none, cacheSize: 8192)
        return (
            try Database(path: path, options: options, migrations: migrations),
            try Database(path: path, options: options)
        )
    }

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
        """
    ]

    func read<Result>(_ body: (Entries) throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        let opened = try current()
        return try opened.reader.read { connection throws(DatabaseError) in
            try body(Entries(connection: connection, epoch: opened.epoch))
        }
    }

    @discardableResult
    func write<Result>(_ body: (Entries) throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        let opened = try current()
        return try opened.writer.write { connection throws(DatabaseError) in
            try body(Entries(connection: connection, epoch: opened.epoch))
        }
    }
}
