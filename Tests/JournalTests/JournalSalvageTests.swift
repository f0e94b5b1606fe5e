// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform
import TestSupport
import Testing

/// A damaged journal is saved on a disk that fails meanwhile, and by a process that is killed meanwhile.
@Suite struct JournalSalvageTests {
    private let fixture: Fixture

    init() throws { fixture = try Fixture() }

    /// What a recovery leaves: the rows, and the names of files in staging and in quarantine.
    private struct Outcome: Equatable, CustomStringConvertible {
        let rows: [String]
        let staging: [ObjectKey]
        let quarantined: Int

        var description: String { "\(rows.count) rows, \(staging.count) files, \(quarantined) in quarantine" }

        /// With `isDone` the recovery before may have ended, but for what comes after its commit.
        init(_ scratch: Scratch, isDone: Bool = false) throws {
            let (journal, report) = try Journal.recovering(directory: scratch.path, boot: "one")
            self = try Outcome(of: journal, in: scratch)
            let place = report.salvagedFrom
            #expect(isDone || place != nil)
            guard let place else { return }
            #expect(try FileStatus.of("\(place)/journal.sqlite") != nil, "the damaged one was set aside")
            #expect(try FileStatus.of("\(place)/salvaged.sqlite") == nil)
        }

        private init(of journal: Journal, in scratch: Scratch) throws {
            rows = try journal.descendants(of: .root).map { "\($0.path) \($0.generation?.id.value ?? 0)" }.sorted()
            staging = try Files.names(in: "\(scratch.path)/staging").sorted()
            quarantined = try Files.names(in: "\(scratch.path)/quarantine").count
        }

        /// Whether a recovery left this, and the next one leaves it.
        func isLeft(in scratch: Scratch) throws -> Bool {
            let (journal, report) = try Journal.recovering(directory: scratch.path, boot: "one")
            return try Outcome(of: journal, in: scratch) == self && report.salvagedFrom == nil
        }
    }

    /// Folders, and some files with their bytes, in a journal of which one page in the middle is garbage.
    private func damagedJournal(_ count: Int = 240) throws -> Scratch {
        for index in 0..<count {
            if index % 12 == 0 { try fixture.save(ObjectKey("file-\(index)"), "data \(index)") }
            let name = ObjectKey("folder-\(index)")
            _ = try fixture.journal.createDirectory(at: name, attributes: .directory(), remote: .absent)
        }
        try fixture.synchronize()
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        let scratch = try fixture.scratch.copy()
        let root = try table("node", of: scratch)
        let file = try FileDescriptor.open("\(scratch.path)/journal.sqlite", O_RDWR)
        // The leaf in the middle of the table's tree.
        let leaf = try leaves(of: root, file).middle
        try [UInt8](repeating: 0xA5, count: 4096).withUnsafeBytes { try file.write($0, at: (leaf - 1) * 4096) }
        for suffix in ["-wal", "-shm"] { try Files.removeIfPresent("\(scratch.path)/journal.sqlite\(suffix)") }
        return scratch
    }

    private func table(_ name: String, of scratch: Scratch) throws -> Int64 {
        let database = try Database(path: "\(scratch.path)/journal.sqlite")
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        return try database.read { connection throws(DatabaseError) in
            try connection.first(sql, [.text(name)]) { $0.integer(0) } ?? 0
        }
    }

    /// The pages that an inner page of a table's tree names (sqlite.org/fileformat2.html#b_tree_pages).
    private func leaves(of root: Int64, _ file: borrowing FileDescriptor) throws -> [Int64] {
        var page = [UInt8](repeating: 0, count: 4096)
        _ = try page.withUnsafeMutableBytes { try file.read(into: $0, at: (root - 1) * 4096) }
        try #require(page[0] == 5, "the table has too few rows")
        return (0..<(Int(page[3]) << 8 + Int(page[4]))).map { index in
            let cell = Int(page[12 + 2 * index]) << 8 + Int(page[13 + 2 * index])
            return page[cell..<cell + 4].reduce(0) { $0 << 8 + Int64($1) }
        }
    }

    // MARK: a disk that fails

    static let troubles: [(kind: DatabaseDisk.Call.Kind, code: Int32)] = [
        (.read, EIO), (.read, ENOMEM), (.write, EIO), (.write, ENOSPC), (.sync, EIO), (.truncate, EIO),
    ]

    /// One call fails, whichever it is, or all of its kind from there on: a later start saves what the first would have.
    @Test(arguments: troubles, [false, true]) func aDiskThatFailsMeanwhileCostsNothing(
        _ trouble: (kind: DatabaseDisk.Call.Kind, code: Int32),
        _ isLasting: Bool
    ) throws {
        let damaged = try damagedJournal()
        let expected = try Outcome(try damaged.copy())
        #expect(expected.rows.count >= 120 && expected.rows.count < 260)
        var number = 0
        while true {
            let scratch = try damaged.copy()
            let (error, failures) = try recovering(scratch, failing: trouble, number, isLasting)
            if let error {
                #expect(error.kind == (trouble.code == ENOSPC ? .full : .io), "call \(number): \(error)")
                let outcome = try Outcome(scratch, isDone: true)
                #expect(outcome == expected, "call \(number): \(error): \(outcome), not \(expected)")
            } else {
                // What failed may have been a checkpoint that nothing waits for.
                #expect(try expected.isLeft(in: scratch), "call \(number)")
                if failures == 0 { break }
            }
            number += number < 40 ? 1 : 7
        }
        #expect(number > 0, "nothing failed: the test proves nothing")
    }

    /// Recovers while a call of a kind fails, or all from there on; how it ends, and how many have.
    private func recovering(
        _ scratch: Scratch,
        failing trouble: (kind: DatabaseDisk.Call.Kind, code: Int32),
        _ number: Int,
        _ isLasting: Bool
    ) throws -> (JournalError?, Int) {
        let disk = try DatabaseDisk(folder: scratch.path)
        defer { disk.end() }
        let count = Monitor(0)
        disk.fail { call in
            guard call.kind == trouble.kind else { return 0 }
            return count.update { count in
                count += 1
                return count == number + 1 || isLasting && count > number ? trouble.code : 0
            }
        }
        do throws(JournalError) {
            _ = try Journal.recovering(directory: scratch.path, boot: "one")
            return (nil, disk.failures)
        } catch {
            return (error, disk.failures)
        }
    }

    // MARK: kills

    /// Killed before any write, sync or cut, it does the same again.
    @Test func aKilledSalvageCostsNothing() throws {
        let damaged = try damagedJournal()
        let expected = try Outcome(try damaged.copy())
        let killed = try states(of: damaged.copy())
        #expect(killed.count > 5)
        for (number, scratch) in killed.enumerated() {
            let outcome = try Outcome(scratch, isDone: true)
            #expect(outcome == expected, "step \(number): \(outcome), not \(expected)")
        }
    }

    /// The folder as it is before each call that changes a file of the database, each 7th of many.
    private func states(of scratch: Scratch) throws -> [Scratch] {
        let disk = try DatabaseDisk(folder: scratch.path)
        defer { disk.end() }
        let states = Monitor((count: 0, copies: [Scratch]()))
        disk.fail { call in
            guard call.kind != .read else { return 0 }
            states.update { states in
                states.count += 1
                guard states.count < 30 || states.count % 7 == 0, let copy = try? scratch.copy() else { return }
                states.copies.append(copy)
            }
            return 0
        }
        _ = try Journal.recovering(directory: scratch.path, boot: "one")
        return states.inspect { $0.copies }
    }

    /// Killed while the files change places: until the new one has its place nothing counts.
    @Test(arguments: 0...3) func aKillWhileTheFilesChangePlacesCostsNothing(_ steps: Int) throws {
        let damaged = try damagedJournal()
        let expected = try Outcome(try damaged.copy())
        let scratch = try damaged.copy()
        // A log and its index, as processes have left them that were killed.
        for suffix in ["-wal", "-shm"] { try Files.writeAtomically("\(scratch.path)/journal.sqlite\(suffix)", []) }
        let place = "\(scratch.path)/quarantine/journal-2026-01-01T000000.000Z"
        try Files.makeDirectories(place)
        try Files.writeAtomically("\(place)/salvaged.sqlite", Array("not all of it yet".utf8))
        if steps > 0 { link("\(scratch.path)/journal.sqlite", "\(place)/journal.sqlite") }
        for suffix in ["-shm", "-wal"].prefix(steps - 1 < 0 ? 0 : steps - 1) {
            try Files.rename("\(scratch.path)/journal.sqlite\(suffix)", to: "\(place)/journal.sqlite\(suffix)")
        }
        #expect(try Outcome(scratch) == expected)
        #expect(try FileStatus.of(place) == nil)
    }

    /// As versions before left it, which copied into the journal's own file: its mark says that, and not from where.
    @Test func aSalvageThatAnEarlierVersionHasBegunIsCompleted() throws {
        let scratch = try damagedJournal()
        let expected = try Outcome(try scratch.copy())
        let place = "\(scratch.path)/quarantine/journal-2026-01-01T000000.000Z"
        try Files.makeDirectories(place)
        try Files.rename("\(scratch.path)/journal.sqlite", to: "\(place)/journal.sqlite")
        do {
            _ = try Journal(directory: scratch.path)
            let database = try Database(path: "\(scratch.path)/journal.sqlite")
            try database.read { connection throws(DatabaseError) in
                try connection.script("INSERT INTO meta VALUES ('salvaging', '1')")
            }
        }
        #expect(try Outcome(scratch) == expected)
    }

    // MARK: indexes

    /// Rows that only an index names, or leaves out.
    @Test func anIndexThatIsNotOfItsTableIsDamage() throws {
        for name in ["a", "b", "c"] { try fixture.save(ObjectKey(name), "data \(name)") }
        try fixture.synchronize()
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        let scratch = try fixture.scratch.copy()
        try withoutIndex("ng", in: scratch, "UPDATE node SET id = id + 100")
        let (journal, report) = try Journal.recovering(directory: scratch.path, boot: "one")
        #expect(try journal.descendants(of: .root).map(\.path.string).sorted() == ["a", "b", "c"])
        #expect(report.salvagedFrom != nil)
        #expect(try Files.names(in: "\(scratch.path)/staging").count == 3)
    }

    /// An index as it was before a row came, into which nothing of a recovery looks.
    @Test func anEarlierStateOfAnIndexIsDamage() throws {
        for name in ["a", "b", "c"] { try fixture.save(ObjectKey(name), "data \(name)") }
        try fixture.synchronize()
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        let scratch = try fixture.scratch.copy()
        try withoutIndex(
            "tg",
            in: scratch,
            """
            INSERT INTO transfer (node, generation, key, method, attribute_sequence, start_sequence, base, phase,
            interop_version, part_size, size, acknowledged, started_at)
            SELECT id, generation, name, 0, 1, 1, 0, 0, 0, 0, 6, 0, 1 FROM node WHERE name = CAST('a' AS BLOB)
            """
        )
        let (journal, report) = try Journal.recovering(directory: scratch.path, boot: "one")
        #expect(report.salvagedFrom != nil)
        #expect(try journal.descendants(of: .root).map(\.path.string).sorted() == ["a", "b", "c"])
    }

    /// Changes a table while one of its indexes is hidden.
    private func withoutIndex(_ name: String, in scratch: Scratch, _ sql: String) throws {
        let columns = "type, name, tbl_name, rootpage, sql"
        try script(
            scratch,
            """
            PRAGMA writable_schema = ON; CREATE TABLE hidden AS SELECT \(columns) FROM sqlite_schema WHERE name = '\(name)';
            DELETE FROM sqlite_schema WHERE name = '\(name)'
            """
        )
        try script(scratch, sql)
        try script(
            scratch,
            """
            PRAGMA writable_schema = ON; INSERT INTO sqlite_schema (\(columns)) SELECT \(columns) FROM hidden;
            DROP TABLE hidden
            """
        )
    }

    private func script(_ scratch: Scratch, _ sql: String) throws {
        let database = try Database(path: "\(scratch.path)/journal.sqlite")
        try database.read { connection throws(DatabaseError) in try connection.script(sql) }
    }
}

extension [Int64] {
    fileprivate var middle: Int64 { self[count / 2] }
}
