// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Glibc
internal import Platform

/// Saves what can be read of a damaged database.
///
/// The sound rows go into a new file, in the folder that the damaged one is to be set aside in. When it is whole, one
/// rename gives it the journal's name. Until then the damaged one is where it was and as it was: a salvage that ends
/// early, whatever ended it, leaves nothing but files to delete, and is begun anew.
struct Salvage {
    /// The key in `meta` that a journal has from a salvage to the end of the recovery after it; its value is where the
    /// damaged one is, in the volume's folder.
    static let underWay = "salvaging"
    /// The value that versions before gave it.
    ///
    /// They copied into the journal's own file: rows may be missing.
    private static let unfinished = "1"
    private static let prefix = "journal-"

    let directory: String
    /// The folder to set the damaged files aside in, within the volume's.
    let place: String

    private var journal: String { "\(directory)/journal.sqlite" }
    private var setAside: String { "\(directory)/\(place)/journal.sqlite" }
    /// The new database as long as it is in the making.
    private var new: String { "\(directory)/\(place)/salvaged.sqlite" }

    /// Puts a new database with the sound rows in the place of a damaged one; where that is from then on.
    ///
    /// Throws where the disk fails: nothing is changed then.
    static func run(_ directory: String, _ now: Timestamp) throws(JournalError) -> String {
        let salvage = Salvage(directory: directory, place: "quarantine/\(prefix)\(Recovery.stamp(now))")
        do throws(JournalError) {
            try salvage.run()
        } catch {
            _ = try? salvage.undo()
            throw error
        }
        return "\(directory)/\(salvage.place)"
    }

    private func run() throws(JournalError) {
        try Self.translating { () throws(SystemError) in try Files.makeDirectories("\(directory)/\(place)") }
        guard let old = try open() else {
            Log.error("journal", "\(journal) cannot be opened; no rows were saved")
            try save(nil)
            return try exchange()
        }
        try old.read { connection throws(JournalError) in
            try Self.lock(connection)
            defer { _ = try? connection.run("ROLLBACK") }
            try save(connection)
            try exchange()
        }
    }

    /// The damaged database, nil where it is none any more.
    private func open() throws(JournalError) -> Database? {
        do throws(JournalError) {
            return try Database(path: journal)
        } catch {
            guard !error.isOfMachine else { throw error }
            return nil
        }
    }

    /// Keeps a flusher from changing rows that were copied; one that cannot be kept from it cannot do it either.
    private static func lock(_ connection: Connection) throws(JournalError) {
        do throws(JournalError) {
            try connection.run("BEGIN IMMEDIATE")
        } catch {
            guard !error.isOfMachine else { throw error }
        }
    }

    /// Makes the new database, on the disk as a file without a log.
    private func save(_ old: Connection?) throws(JournalError) {
        let database = try Database(path: new, migrations: Schema.migrations)
        try database.write(durable: true) { connection throws(JournalError) in
            try SoundRows(old: old, new: Tables(connection: connection)).copy(place)
        }
        // Should a checkpoint have failed meanwhile, this makes it good.
        try database.write(durable: true) { _ throws(JournalError) in }
        try database.read { connection throws(JournalError) in
            try connection.script("PRAGMA wal_checkpoint(TRUNCATE)")
        }
        try Self.translating { () throws(SystemError) in
            guard try FileStatus.of(new + "-wal").map({ $0.size == 0 }) ?? true else {
                throw SystemError.make(EBUSY, "checkpoint", new)
            }
        }
    }

    // MARK: files

    /// Sets the old files aside and gives the new one its name.
    private func exchange() throws(JournalError) {
        try Self.translating { () throws(SystemError) in
            // There is a journal by the name all the time: who opens it meanwhile would make one that is empty.
            try Files.link(journal, to: setAside)
            for suffix in ["-shm", "-wal"] where try FileStatus.of(journal + suffix) != nil {
                try Files.rename(journal + suffix, to: setAside + suffix)
            }
            try Files.synchronizeDirectory("\(directory)/\(place)")
            try Files.synchronizeDirectory("\(directory)/quarantine")
            try Files.synchronizeDirectory(directory)
            try Files.rename(new, to: journal, durable: true)
            // Of somebody who opened the old one in between; of the new one there is none yet that matters.
            for suffix in ["-shm", "-wal"] { try Files.removeIfPresent(journal + suffix) }
        }
    }

    /// Makes it as if salvages that were cut short had never begun; the caller holds the mount lock.
    static func undo(_ directory: String) throws(JournalError) {
        let names = try translating { () throws(SystemError) in
            let quarantine = "\(directory)/quarantine"
            return try FileStatus.of(quarantine) == nil ? [] : Files.names(in: quarantine).map(\.string)
        }
        for name in names where name.hasPrefix(prefix) {
            try Salvage(directory: directory, place: "quarantine/\(name)").undo()
        }
    }

    /// Nothing, where the new database has its place: then there is none here.
    private func undo() throws(JournalError) {
        try Self.translating { () throws(SystemError) in
            // Its folder was made, and no more.
            if try FileStatus.of(new) == nil {
                if try FileStatus.of(setAside) == nil { _ = rmdir("\(directory)/\(place)") }
                return
            }
            for suffix in ["-wal", "-shm"] where try FileStatus.of(setAside + suffix) != nil {
                try Files.rename(setAside + suffix, to: journal + suffix)
            }
            try Files.synchronizeDirectory(directory)
            try Files.removeIfPresent(setAside)
            // Last itself, by which a salvage that was cut short is known.
            for suffix in ["-journal", "-wal", "-shm", ""] { try Files.removeIfPresent(new + suffix) }
            _ = rmdir("\(directory)/\(place)")
        }
    }

    // MARK: versions before

    /// Copies what a salvage of a version before may not have come to.
    ///
    /// Nobody has changed the journal since, for it was never recovered. What was set aside last is what it is of.
    static func complete(_ journal: Journal) throws(JournalError) {
        let mark = try journal.read { tables throws(JournalError) in try tables.text(underWay) }
        guard mark == unfinished, let salvage = try last(journal.directory) else { return }
        do throws(JournalError) {
            let old = try Database(path: salvage.setAside)
            try old.read { connection throws(JournalError) in
                try journal.write(durable: true) { tables throws(JournalError) in
                    try SoundRows(old: connection, new: tables).copy(salvage.place)
                }
            }
        } catch {
            guard !error.isOfMachine else { throw error }
            Log.error("journal", "\(salvage.setAside): \(error); no more rows were saved")
        }
    }

    private static func last(_ directory: String) throws(JournalError) -> Salvage? {
        let salvages = try translating { () throws(SystemError) in
            try Files.names(in: "\(directory)/quarantine").map(\.string).filter { $0.hasPrefix(prefix) }.sorted()
                .map { Salvage(directory: directory, place: "quarantine/\($0)") }
        }
        return try translating { () throws(SystemError) in
            for salvage in salvages.reversed() where try FileStatus.of(salvage.setAside) != nil { return salvage }
            return nil
        }
    }

    private static func translating<Value>(_ body: () throws(SystemError) -> Value) throws(JournalError) -> Value {
        do throws(SystemError) {
            return try body()
        } catch {
            throw JournalError(system: error)
        }
    }
}
