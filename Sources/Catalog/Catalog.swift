// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
package import Database
internal import Glibc
internal import Platform

/// The names, versions and attributes that the remote was seen to have, in a file that may be deleted at any time.
///
/// The mount writes what it lists and looks up, the flusher what it commits. Any
/// thread may call; every method is one transaction.
package final class Catalog: Sendable {
    let writer: Database
    let reader: Database

    /// Opens `catalog.sqlite` in a volume's cache directory, creating both; a damaged or newer file is replaced.
    package init(directory: String) throws(DatabaseError) {
        let path = "\(directory)/catalog.sqlite"
        do throws(SystemError) {
            try Files.makeDirectories(directory)
        } catch {
            throw DatabaseError(error.code == ENOSPC ? .full : .io, error.description)
        }
        do throws(DatabaseError) {
            (writer, reader) = try Self.open(path)
        } catch {
            guard error.kind == .corrupt || error.kind == .newerFormat || error.kind == .other else { throw error }
            Log.notice("catalog", "starting anew: \(error)")
            for suffix in ["", "-wal", "-shm"] { _ = unlink(path + suffix) }
            (writer, reader) = try Self.open(path)
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
        INSERT INTO stamp VALUES (0);
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
        try reader.read { connection throws(DatabaseError) in try body(Entries(connection: connection)) }
    }

    @discardableResult
    func write<Result>(_ body: (Entries) throws(DatabaseError) -> Result) throws(DatabaseError) -> Result {
        try writer.write { connection throws(DatabaseError) in try body(Entries(connection: connection)) }
    }
}
