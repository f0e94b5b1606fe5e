// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Platform
import TestSupport
import Testing

/// A log that the disk has failed to write, and what power loss leaves then.
@Suite struct LogRenewalTests {
    private let folder: Folder
    private let disk: DatabaseDisk
    private var path: String { "\(folder.path)/test.sqlite" }
    private let log = "test.sqlite-wal"
    private let schema = [
        "CREATE TABLE item (id INTEGER PRIMARY KEY, data BLOB); CREATE INDEX item_data ON item (data)"
    ]

    init() throws {
        folder = try Folder()
        disk = try DatabaseDisk(folder: folder.path)
    }

    private final class Folder {
        let path: String

        init() throws {
            let root = (try? FileStatus.of("/dev/shm")) == nil ? "/tmp" : "/dev/shm"
            path = "\(root)/moorage-log-\(Randomness.hexadecimal(bytes: 8))"
            try Files.makeDirectories(path)
        }

        deinit {
            for name in (try? Files.names(in: path)) ?? [] { _ = unlink("\(path)/\(name)") }
            _ = rmdir(path)
        }
    }

    private func insert(_ id: Int64, into database: Database, durable: Bool = true) throws(DatabaseError) {
        try database.write(durable: durable) { connection throws(DatabaseError) in
            let data = [UInt8](repeating: UInt8(truncatingIfNeeded: id), count: 700)
            _ = try connection.run("INSERT INTO item VALUES (?, ?)", [.integer(id), .blob(data)])
        }
    }

    /// The rows that power loss now would leave, in a database that is sound.
    ///
    /// With `isLucky` all that went into the database itself had got there, synced or not.
    private func rowsAfterPowerLoss(isLucky: Bool = false) throws -> [Int64] {
        let other = try Folder()
        try disk.lose(into: other.path) { isLucky && $0 != log }
        let database = try Database(path: "\(other.path)/test.sqlite")
        return try database.read { connection throws(DatabaseError) in
            let answer = try connection.first("PRAGMA integrity_check") { $0.text(0) }
            #expect(answer == "ok")
            return try connection.all("SELECT id FROM item ORDER BY id") { $0.integer(0) }
        }
    }

    @Test func whatADurableCommitPromisedOutlivesASyncThatFailedBefore() throws {
        defer { disk.end() }
        let log = log
        let database = try Database(path: path, migrations: schema)
        try insert(1, into: database)
        try insert(2, into: database, durable: false)
        disk.fail { $0.kind == .sync && $0.name == log ? EIO : 0 }
        let error = #expect(throws: DatabaseError.self) { try insert(3, into: database) }
        #expect(error?.kind == .io)
        // As long as it fails, nothing is promised.
        #expect(throws: DatabaseError.self) { try insert(4, into: database) }
        disk.fail(nil)
        try insert(5, into: database)
        let rows = try rowsAfterPowerLoss()
        #expect(Set(rows).isSuperset(of: [1, 2, 5]), "\(rows)")
    }

    /// The bytes that a failed sync lost are written once more before a checkpoint relies on them.
    @Test func aCheckpointThatEndsHalfWayLosesNothing() throws {
        defer { disk.end() }
        let log = log
        let database = try Database(path: path, migrations: schema)
        for id in 1...200 { try insert(Int64(id), into: database) }
        var number = 0
        while true {
            let first = Int64(1000 * (number + 1))
            for id in 0..<20 { try insert(first + Int64(id), into: database, durable: false) }
            let last = number
            let written = Monitor(0)
            let hasFailed = Monitor(false)
            disk.fail { call in
                if call.kind == .sync, call.name == log {
                    return hasFailed.update { hasFailed in
                        defer { hasFailed = true }
                        return hasFailed ? 0 : EIO
                    }
                }
                guard call.kind == .write, call.name != log else { return 0 }
                return written.update { written in
                    written += 1
                    return written > last ? EIO : 0
                }
            }
            _ = #expect(throws: DatabaseError.self) { try insert(first + 500, into: database) }
            let isCutShort = written.inspect { $0 } > last
            for isLucky in [false, true] {
                let rows = try rowsAfterPowerLoss(isLucky: isLucky)
                #expect(Set(rows).isSuperset(of: Set(1...200)), "after \(number) writes")
            }
            disk.fail(nil)
            try insert(first + 900, into: database)
            #expect(try Set(rowsAfterPowerLoss()).isSuperset(of: Set(first..<first + 20)), "after \(number) writes")
            if !isCutShort { break }
            number += 1
        }
        #expect(number > 3)
    }

    /// What cannot be read behind the last commit hides nothing before it that is to be written once more.
    @Test func whatCannotBeReadOfALogIsOneBlockOfIt() throws {
        defer { disk.end() }
        let log = log
        let database = try Database(path: path, migrations: schema)
        // A log that goes on with frames of before, which nobody needs any more.
        for id in 1...8 { try insert(Int64(id), into: database, durable: false) }
        let end = try #require(try FileStatus.of("\(folder.path)/\(log)")).size
        try database.read { connection throws(DatabaseError) in
            try connection.script("PRAGMA wal_checkpoint(RESTART)")
        }
        try insert(100, into: database, durable: false)
        #expect(try #require(try FileStatus.of("\(folder.path)/\(log)")).size == end && end > 1 << 16)
        let bad: Int64 = 15 << 12
        let hasFailed = Monitor(false)
        disk.fail { call in
            if call.kind == .read, call.name == log, call.offset < bad + 4096, call.offset + call.count > bad {
                return EIO
            }
            // Nothing gets into the database itself.
            if call.kind == .write, call.name != log { return EIO }
            guard call.kind == .sync, call.name == log else { return 0 }
            return hasFailed.update { hasFailed in
                defer { hasFailed = true }
                return hasFailed ? 0 : EIO
            }
        }
        #expect(throws: DatabaseError.self) { try insert(101, into: database) }
        #expect(try rowsAfterPowerLoss().contains(100))
    }

    /// Memory may let go of what the disk never got: of what is read then nothing goes into the database.
    @Test func aLogWithAHoleIsNotCopiedIntoTheDatabase() throws {
        defer { disk.end() }
        let log = log
        let database = try Database(path: path, migrations: schema)
        for id in 1...40 { try insert(Int64(id), into: database) }
        for id in 41...80 { try insert(Int64(id), into: database, durable: false) }
        disk.fail { ($0.kind == .sync || $0.kind == .write) && $0.name == log ? EIO : 0 }
        #expect(throws: DatabaseError.self) { try insert(81, into: database) }
        try disk.forget(log)
        disk.fail(nil)
        #expect(throws: DatabaseError.self) { try insert(82, into: database) }
        #expect(try Set(rowsAfterPowerLoss()).isSuperset(of: Set(1...40)))
    }

    /// A checkpoint that readers keep from the end is not synced: what it copied may be lost by the next one's sync.
    @Test func whatACheckpointCopiedBeforeItsSyncFailedIsCopiedAgain() throws {
        defer { disk.end() }
        let (path, log) = (path, log)
        let database = try Database(path: path, migrations: schema)
        let reader = try Database(path: path)
        for id in 1...50 { try insert(Int64(id), into: database) }
        try reader.snapshot { connection throws(DatabaseError) in
            _ = try connection.exists("SELECT 1 FROM item")
            try insert(51, into: database)
            try database.read { connection throws(DatabaseError) in
                try connection.script("PRAGMA wal_checkpoint(PASSIVE)")
            }
        }
        // The log gets long enough for a checkpoint, whose sync of the database fails.
        disk.fail { $0.kind == .sync && $0.name != log ? EIO : 0 }
        var id: Int64 = 100
        while disk.failures == 0, id < 5000 {
            try insert(id, into: database, durable: false)
            id += 1
        }
        #expect(disk.failures > 0)
        disk.fail(nil)
        try insert(9000, into: database)
        let rows = try Set(rowsAfterPowerLoss())
        #expect(rows.isSuperset(of: Set(1...51)) && rows.contains(9000), "\(rows.count) rows")
    }

    // MARK: what stays unwritten

    /// What was written once more may stay unwritten: it is completed while nobody else is there, or nothing is promised.
    @Test func whatAFileSystemKeepsAsUnwrittenIsCompletedBeforeTheLogIsBegunAnew() throws {
        defer { disk.end() }
        let (path, log) = (path, log)
        let isSound = Monitor(true)
        let completed = Monitor<[String]>([])
        let hasRead = Monitor(false)
        let reading = { @Sendable (done: @escaping @Sendable () -> Void) throws(SystemError) in
            try Thread.detached(name: "reader") {
                let other = try? Database(path: path, options: .init(isReadOnly: true))
                _ = try? other?.read { connection throws(DatabaseError) in try connection.exists("SELECT 1 FROM item") }
                done()
            }
        }
        let extents = UnwrittenExtents(
            exist: { path, _ throws(SystemError) in !isSound.inspect { $0 } && path.hasSuffix(".sqlite") },
            complete: { file, _ throws(SystemError) in
                let isFirst = completed.update { completed in
                    completed.append(file)
                    return completed.count == 1
                }
                if isSound.inspect({ $0 }) { return }
                // Nobody reads or writes meanwhile.
                if isFirst {
                    try reading { hasRead.update { $0 = true } }
                    usleep(100_000)
                    #expect(!hasRead.inspect { $0 })
                }
                throw SystemError.make(EIO, "write past the cache", file)
            }
        )
        let database = try Database(path: path, options: .init(extents: extents), migrations: schema)
        for id in 1...50 { try insert(Int64(id), into: database) }
        #expect(completed.inspect { $0 } == [])
        let hasFailed = Monitor(false)
        disk.fail { call in
            guard call.kind == .sync, call.name == log else { return 0 }
            return hasFailed.update { hasFailed in
                defer { hasFailed = true }
                return hasFailed ? 0 : EIO
            }
        }
        isSound.update { $0 = false }
        #expect(throws: DatabaseError.self) { try insert(51, into: database) }
        let error = #expect(throws: DatabaseError.self) { try insert(52, into: database) }
        #expect(error?.kind == .io)
        #expect(completed.inspect { $0 } == ["\(path)-wal", "\(path)-wal"])
        for _ in 0..<30_000 where !hasRead.inspect({ $0 }) { usleep(1000) }
        #expect(hasRead.inspect { $0 })
        #expect(try #require(try FileStatus.of("\(path)-wal")).size > 0)
        isSound.update { $0 = true }
        try insert(53, into: database)
        #expect(try Set(rowsAfterPowerLoss()).isSuperset(of: Set(1...50).union([53])))
    }

    /// The last one to close a database copies its log into it, unless that may have a hole.
    @Test func aDoubtfulLogIsLeftByWhoClosesTheDatabase() throws {
        defer { disk.end() }
        let log = log
        for isDoubtful in [false, true] {
            do {
                let database = try Database(path: path, migrations: schema)
                for id in 1...50 { try insert(Int64(id) + (isDoubtful ? 1000 : 0), into: database) }
                #expect(try FileStatus.of("\(path)-wal") != nil)
                disk.fail { isDoubtful && $0.kind == .sync && $0.name == log ? EIO : 0 }
                _ = try? insert(isDoubtful ? 2000 : 500, into: database)
                disk.fail(nil)
                withExtendedLifetime(database) {}
            }
            #expect(try (FileStatus.of("\(path)-wal") == nil) != isDoubtful, "\(isDoubtful)")
        }
        #expect(try Set(rowsAfterPowerLoss()).isSuperset(of: Set(1...50).union(1001...1050)))
    }
}
