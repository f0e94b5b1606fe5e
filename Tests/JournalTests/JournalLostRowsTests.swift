// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Platform
import Testing

@testable import Journal

/// Where rows are lost the bytes that they were of are kept.
@Suite struct JournalLostRowsTests {
    private let fixture: Fixture

    init() throws {
        fixture = try Fixture()
    }

    private var journal: Journal { fixture.journal }

    private func save(later path: ObjectKey, _ text: String) throws {
        let node = try journal.createFileLater(at: path, attributes: .file())
        let content = try fixture.put(node, text)
        try journal.seal(node.id, try #require(node.generation).id, content: content, modified: nil)
        #expect(try !journal.writeNewFiles(olderThan: 0))
    }

    /// What is in quarantine, but for databases.
    private func kept(in folder: String) throws -> [String] {
        try Files.names(in: "\(folder)/quarantine").map(\.string).filter { !$0.hasPrefix("journal-") }
            .map { String(decoding: try Files.read("\(folder)/quarantine/\($0)"), as: UTF8.self) }.sorted()
    }

    private func keptHere() throws -> [String] { try kept(in: fixture.scratch.path) }

    @Test func aJournalThatIsMissingDoesNotCostTheStagedData() throws {
        try fixture.save("a", "precious")
        for suffix in ["", "-wal", "-shm"] { _ = unlink("\(fixture.scratch.path)/journal.sqlite\(suffix)") }
        try fixture.recover()
        let names = try fixture.quarantined()
        #expect(names.count == 1)
        #expect(try Files.read("\(fixture.scratch.path)/quarantine/\(names[0])") == Array("precious".utf8))
    }

    @Test func aLogThatIsMissingDoesNotCostTheStagedData() throws {
        try fixture.save("older", "older")
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        try fixture.save("a", "precious")
        let other = try fixture.scratch.copy()
        for suffix in ["-wal", "-shm"] { _ = unlink("\(other.path)/journal.sqlite\(suffix)") }
        // A flusher that comes first leaves it to the mount.
        #expect(try Journal(directory: other.path, boot: "one").removeOrphans() == 0)
        let recovered = try Journal.recovering(directory: other.path, boot: "one")
        let names = try Files.names(in: "\(other.path)/quarantine").map(\.string)
        #expect(try recovered.journal.node(at: "older") != nil && names.count == 1)
        #expect(try Files.read("\(other.path)/quarantine/\(try #require(names.first))") == Array("precious".utf8))
    }

    /// What power loss, or a disk that keeps less than it says, leaves of a log.
    enum LogDamage: CaseIterable {
        case missing, empty, zeros, zerosFirst, zerosBehindFirstFrame, oneWrongByte, cut
        case lastCommitMissing, lastCommitZeros, oneWrongByteInLastCommit

        /// The first commit of a log is whole.
        var isOfTheEnd: Bool {
            switch self {
            case .lastCommitMissing, .lastCommitZeros, .oneWrongByteInLastCommit: true
            default: false
            }
        }

        /// `firstCommit`: where that ends.
        func apply(to log: inout [UInt8], firstCommit: Int) {
            switch self {
            case .missing, .empty: log = []
            case .zeros: log = Array(repeating: 0, count: log.count)
            case .zerosFirst: for index in 0..<4096 { log[index] = 0 }
            case .zerosBehindFirstFrame: for index in 4152..<log.count { log[index] = 0 }
            case .oneWrongByte: log[5000] ^= 1
            case .cut: log.removeLast(log.count - 8192)
            case .lastCommitMissing: log.removeLast(log.count - firstCommit)
            case .lastCommitZeros: for index in firstCommit..<log.count { log[index] = 0 }
            case .oneWrongByteInLastCommit: log[firstCommit + 100] ^= 1
            }
        }
    }

    /// The names of new files are taken many at a time, before what was lost.
    @Test(arguments: LogDamage.allCases) func aDamagedLogDoesNotCostTheDataOfNewFiles(damage: LogDamage) throws {
        try save(later: "older", "older")
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        _ = try journal.createDirectory(at: "folder", attributes: .file(), remote: .absent)
        let firstCommit = Int(try #require(try FileStatus.of("\(fixture.scratch.path)/journal.sqlite-wal")).size)
        try save(later: "a", "precious")
        let other = try fixture.scratch.copy()
        for name in ["journal.sqlite-shm", "closes"] { _ = unlink("\(other.path)/\(name)") }
        let path = "\(other.path)/journal.sqlite-wal"
        var log = try Files.read(path, limit: 1 << 24)
        try #require(firstCommit > 8192 && log.count > firstCommit + 4120, "two commits")
        damage.apply(to: &log, firstCommit: firstCommit)
        try Files.writeAtomically(path, log)
        if damage == .missing { _ = unlink(path) }
        let recovered = try Journal.recovering(directory: other.path, boot: "one")
        #expect(try recovered.journal.node(at: "older") != nil && recovered.journal.node(at: "a") == nil)
        #expect(try (recovered.journal.node(at: "folder") != nil) == damage.isOfTheEnd)
        #expect(try kept(in: other.path) == ["precious"])
    }

    /// Names that the lost rows had are given to nobody else: a cache, or a process that goes on, may know them.
    @Test func namesOfLostRowsAreNotGivenAgain() throws {
        try fixture.save("older")
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        let name = try #require(try fixture.save("a").generation).id
        let other = try fixture.scratch.copy()
        for suffix in ["-wal", "-shm"] { _ = unlink("\(other.path)/journal.sqlite\(suffix)") }
        let recovered = try Journal.recovering(directory: other.path, boot: "one").journal
        let next = try recovered.createFile(at: "b", attributes: .file(), remote: .absent)
        #expect(try #require(next.generation).id.value > name.value)
    }

    /// Nor by a recovery after one that was killed when the bytes were in quarantine and nothing was committed yet.
    @Test func aRecoveryThatWasCutShortIsRepeated() throws {
        try fixture.save("older")
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        let name = try #require(try fixture.save("a", "precious").generation).id
        let other = try fixture.scratch.copy()
        for suffix in ["-wal", "-shm"] { _ = unlink("\(other.path)/journal.sqlite\(suffix)") }
        let stamp = "2026-01-01T000000.000Z"
        try Files.rename("\(other.path)/staging/\(name)", to: "\(other.path)/quarantine/\(stamp)-\(name)-orphan")
        let recovered = try Journal.recovering(directory: other.path, boot: "one").journal
        let next = try recovered.createFile(at: "b", attributes: .file(), remote: .absent)
        #expect(try #require(next.generation).id.value > name.value)
        #expect(try kept(in: other.path) == ["precious"])
    }

    /// A person may have put something there, and there may be anything in staging.
    @Test func numbersThatNobodyGaveCountForNothing() throws {
        let name = try #require(try fixture.save("a").generation).id
        for number in ["9223372036854775807", "9007199254740992", "0", "-1"] {
            try Files.writeAtomically("\(fixture.scratch.path)/staging/\(number)", [1])
            try Files.writeAtomically("\(fixture.scratch.path)/quarantine/2026-01-01T000000.000Z-\(number)-mine", [1])
        }
        try Files.writeAtomically("\(fixture.scratch.path)/quarantine/notes-for-tom-20261130-v2", [1])
        for boot in ["one", "two", "three"] {
            try fixture.recover(boot: boot)
            try fixture.synchronize()
        }
        #expect(try #require(try fixture.save("b").generation).id.value < name.value + 5000)
    }

    /// Who made new files is gone: a name that was taken for them, and by now is that of a row, may be waste later.
    @Test func namesOfNewFilesAreForgottenWithWhoTookThem() throws {
        let node = try journal.createFileLater(at: "a", attributes: .file())
        let content = try fixture.put(node, "sent")
        try journal.seal(node.id, try #require(node.generation).id, content: content, modified: nil)
        // This process makes the row.
        try fixture.recover()
        try fixture.synchronize()
        try journal.remove(at: "a", remote: .absent)
        #expect(try journal.releaseGenerations().count == 1)
        try fixture.recover()
        #expect(try keptHere().isEmpty && fixture.staging() == 0)
    }

    @Test(arguments: [
        "UPDATE node SET kind = 77 WHERE name = CAST('a' AS BLOB)",
        "DELETE FROM node WHERE name = CAST('a' AS BLOB)",
        "UPDATE generation SET extents = x'00' WHERE id = (SELECT generation FROM node WHERE name = CAST('a' AS BLOB))",
        "DELETE FROM generation WHERE id = (SELECT generation FROM node WHERE name = CAST('a' AS BLOB))",
    ]) func aRowThatIsLostDoesNotTakeItsDataAlong(sql: String) throws {
        try fixture.save("a", "precious")
        try fixture.save("b")
        try fixture.damage(sql)
        #expect(try journal.removeOrphans() == 0)
        try fixture.recover()
        #expect(try fixture.paths() == ["b"])
        #expect(try keptHere() == ["precious"])
        #expect(try fixture.staging() == 1)
    }

    /// Here an upload let go of it, which was given up; the row did not.
    @Test func whatAnUploadLetGoOfIsKeptWithAnUnreadableRow() throws {
        try fixture.save("a", "precious")
        try journal.removeTransfer(try fixture.begin("a").id)
        try fixture.damage("UPDATE node SET kind = 77")
        try fixture.recover()
        #expect(try keptHere() == ["precious"])
    }

    /// What such a content lies over is a part of it.
    @Test func whatALostRowShowsOfOlderContentIsKeptToo() throws {
        try fixture.save("a", "below")
        _ = try fixture.begin("a")
        try fixture.save("a", "top")
        try #require(try fixture.staging() == 2)
        try fixture.damage("DELETE FROM node; DELETE FROM transfer")
        try fixture.recover()
        #expect(try keptHere() == ["below", "top"])
        #expect(try fixture.staging() == 0)
    }

    @Test func whatWasLetGoOfIsWaste() throws {
        try fixture.save("a", "below")
        _ = try fixture.begin("a")
        try fixture.save("a", "top")
        try journal.remove(at: "a", remote: .absent)
        for known in try journal.transfers() { try journal.removeTransfer(known.transfer.id) }
        try #require(try fixture.staging() == 2)
        try fixture.recover()
        #expect(try keptHere().isEmpty && fixture.staging() == 0)
        #expect(fixture.report.orphans == 2)
    }

    /// A process of before may have written what power loss took away.
    @Test func afterABootNobodyTakesItForInOrder() throws {
        try fixture.save("a")
        #expect(try journal.isRecovered())
        let flusher = try Journal(directory: fixture.scratch.path, boot: "two")
        #expect(try !flusher.isRecovered() && flusher.removeOrphans() == nil)
        try fixture.recover(boot: "two")
        #expect(try flusher.isRecovered())
    }
}
