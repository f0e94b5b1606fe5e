// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Platform
import Testing

@Suite struct DatabaseTests {
    private let directory: String
    private var path: String { "\(directory)/test.sqlite" }
    private let schema = ["CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE, data BLOB)"]

    init() throws {
        directory = "/tmp/moorage-database-\(Randomness.hexadecimal(bytes: 8))"
        try Files.makeDirectories(directory)
    }

    private func removeAll() {
        for name in (try? Files.names(in: directory)) ?? [] { _ = unlink("\(directory)/\(name)") }
        _ = rmdir(directory)
    }

    @Test func valuesOfEveryTypeComeBackAsTheyWere() throws {
        defer { removeAll() }
        let database = try Database(path: path, migrations: ["CREATE TABLE t (a, b, c, d)"])
        let blob: [UInt8] = [0, 255, 0x2F]
        try database.write { connection throws(DatabaseError) in
            try connection.run(
                "INSERT INTO t VALUES (?, ?, ?, ?)",
                [.integer(.min), .text("é\u{0}x"), .blob(blob), .null]
            )
            try connection.run("INSERT INTO t VALUES (?, ?, ?, ?)", [.integer(.max), .text(""), .blob([]), .null])
        }
        let rows = try database.read { connection throws(DatabaseError) in
            try connection.all("SELECT * FROM t ORDER BY a") { row in (0..<4).map { row.value($0) } }
        }
        #expect(
            rows == [
                [.integer(.min), .text("é\u{0}x"), .blob(blob), .null],
                [.integer(.max), .text(""), .blob([]), .null],
            ]
        )
    }

    /// The mount and the flusher may both be the first to open the journal of a new volume.
    @Test func allThatOpenANewFileAtOnceGetIt() throws {
        defer { removeAll() }
        let failures = Monitor<[String]>([])
        let schema = schema
        for round in 0..<100 {
            let path = "\(directory)/\(round).sqlite"
            let start = Monitor(0)
            for _ in 0..<4 {
                try Thread.detached(name: "opener") {
                    start.update { $0 += 1 }
                    _ = start.wait(timeout: 20) { $0 >= 4 ? true : nil }
                    do throws(DatabaseError) {
                        _ = try Database(path: path, migrations: schema)
                    } catch {
                        failures.update { $0.append("\(error)") }
                    }
                    start.update { $0 += 1 }
                }
            }
            _ = start.wait(timeout: 60) { $0 == 8 ? true : nil }
        }
        #expect(failures.inspect { $0 } == [])
    }

    @Test func aStatementRunsManyTimesWithParametersOfItsOwn() throws {
        defer { removeAll() }
        let database = try Database(path: path, migrations: ["CREATE TABLE t (a, b UNIQUE, c)"])
        try database.write { connection throws(DatabaseError) in
            let statement = try connection.statement("INSERT INTO t VALUES (?, ?, ?)")
            func run(_ number: Int64?, _ text: String?, _ bytes: [UInt8]?) throws(DatabaseError) {
                try statement.run { row in
                    row.add(number)
                    row.add(text)
                    row.add(bytes)
                }
            }
            try run(1, "é\u{0}x", [0, 255])
            try run(nil, nil, nil)
            // After a failure it is as usable as before, and nothing is left of what was bound.
            #expect(throws: DatabaseError.self) { try run(2, "é\u{0}x", nil) }
            try run(3, "", [])
        }
        let rows = try database.read { connection throws(DatabaseError) in
            try connection.all("SELECT * FROM t ORDER BY rowid") { row in (0..<3).map { row.value($0) } }
        }
        #expect(
            rows == [
                [.integer(1), .text("é\u{0}x"), .blob([0, 255])], [.null, .null, .null],
                [.integer(3), .text(""), .blob([])],
            ]
        )
    }

    @Test func aTransactionThatThrowsLeavesNothing() throws {
        defer { removeAll() }
        let database = try Database(path: path, migrations: schema)
        #expect(throws: DatabaseError.self) {
            try database.write { connection throws(DatabaseError) in
                try connection.run("INSERT INTO item (name) VALUES ('a')")
                throw DatabaseError(.notFound, "given up")
            }
        }
        try database.write { connection throws(DatabaseError) in
            #expect(try !connection.exists("SELECT 1 FROM item"))
        }
    }

    @Test func aRowThatExistsIsAConstraintError() throws {
        defer { removeAll() }
        let database = try Database(path: path, migrations: schema)
        let insert = { () throws -> Void in
            _ = try database.write { connection throws(DatabaseError) in
                try connection.run("INSERT INTO item (name) VALUES ('a')")
            }
        }
        try insert()
        let error = #expect(throws: DatabaseError.self) { try insert() }
        #expect(error?.kind == .constraint)
    }

    @Test func filesAreForTheirOwnerOnly() throws {
        defer { removeAll() }
        let database = try Database(path: path, migrations: schema)
        _ = try database.write { connection throws(DatabaseError) in
            try connection.run("INSERT INTO item (name) VALUES ('a')")
        }
        for name in try Files.names(in: directory) {
            let status = try #require(try FileStatus.of("\(directory)/\(name.string)"))
            #expect(status.mode & 0o777 == 0o600, "\(name)")
        }
        #expect(try Files.names(in: directory).count >= 2)
    }

    @Test func migrationsRunOnceAndANewerFileIsRefused() throws {
        defer { removeAll() }
        _ = try Database(path: path, migrations: schema)
        let more = schema + ["ALTER TABLE item ADD COLUMN extra"]
        _ = try Database(path: path, migrations: more)
        let again = try Database(path: path, migrations: more)
        let columns = try again.read { connection throws(DatabaseError) in
            try connection.all("PRAGMA table_info(item)") { $0.text(1) }
        }
        #expect(columns == ["id", "name", "data", "extra"])
        let error = #expect(throws: DatabaseError.self) { _ = try Database(path: path, migrations: schema) }
        #expect(error?.kind == .newerFormat)
    }

    @Test func aMigrationThatFailsChangesNothing() throws {
        defer { removeAll() }
        #expect(throws: DatabaseError.self) {
            _ = try Database(path: path, migrations: schema + ["CREATE TABLE other (x); SELECT nonsense"])
        }
        let database = try Database(path: path)
        let tables = try database.read { connection throws(DatabaseError) in
            try connection.all("SELECT name FROM sqlite_schema WHERE type = 'table'") { $0.text(0) }
        }
        #expect(tables.isEmpty)
    }

    @Test func garbageIsCorruptAndAMissingFolderIsAnInputOutputError() throws {
        defer { removeAll() }
        try Files.writeAtomically(path, Array(repeating: 0x41, count: 8192))
        let damaged = #expect(throws: DatabaseError.self) { _ = try Database(path: path, migrations: schema) }
        #expect(damaged?.kind == .corrupt)
        let missing = #expect(throws: DatabaseError.self) {
            _ = try Database(path: "\(directory)/no/such", migrations: schema)
        }
        #expect(missing?.kind == .io)
    }

    @Test func aWriterElsewhereIsBusyAfterTheTimeout() throws {
        defer { removeAll() }
        let one = try Database(path: path, migrations: schema)
        let two = try Database(path: path, options: .init(busyTimeout: 50))
        try one.write { connection throws(DatabaseError) in
            try connection.run("INSERT INTO item (name) VALUES ('a')")
            let error = #expect(throws: DatabaseError.self) {
                _ = try two.write { connection throws(DatabaseError) in try connection.run("DELETE FROM item") }
            }
            #expect(error?.kind == .busy)
            // Readers are not kept waiting and see the last commit.
            let isThere = try? two.read { connection throws(DatabaseError) in
                try connection.exists("SELECT 1 FROM item")
            }
            #expect(isThere == false)
        }
    }

    @Test func aReadOnlyConnectionRefusesWrites() throws {
        defer { removeAll() }
        _ = try Database(path: path, migrations: schema)
        let database = try Database(path: path, options: .init(isReadOnly: true))
        let error = #expect(throws: DatabaseError.self) {
            _ = try database.read { connection throws(DatabaseError) in try connection.run("DELETE FROM item") }
        }
        #expect(error?.kind == .readOnly)
    }

    @Test func snapshotsDoNotMoveWhileOthersCommit() throws {
        defer { removeAll() }
        let one = try Database(path: path, migrations: schema)
        let two = try Database(path: path)
        try two.snapshot { connection throws(DatabaseError) in
            #expect(try !connection.exists("SELECT 1 FROM item"))
            _ = try one.write(durable: true) { connection throws(DatabaseError) in
                try connection.run("INSERT INTO item (name) VALUES ('a')")
            }
            #expect(try !connection.exists("SELECT 1 FROM item"))
        }
        let isThere = try two.read { connection throws(DatabaseError) in
            try connection.exists("SELECT 1 FROM item")
        }
        #expect(isThere)
    }

    @Test func aSecondConnectionLeavesTheFirstOnesLocksAlone() throws {
        defer { removeAll() }
        let one = try Database(path: path, migrations: schema)
        let two = try Database(path: path)
        // Without this lock the last close in another process takes the log away under both.
        let inode = try #require(try FileStatus.of(path)).inode
        let locks = String(decoding: try Files.read("/proc/locks"), as: UTF8.self)
        #expect(locks.split(separator: "\n").contains { $0.contains(" \(getpid()) ") && $0.contains(":\(inode) ") })
        withExtendedLifetime((one, two)) {}
    }
}
