// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform
import TestSupport
import Testing

/// What is written down before a request goes out that changes the remote, and power loss.
@Suite struct CommitMarkTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }

    init() throws { fixture = try Fixture() }

    enum Change: CaseIterable {
        case rewritten, replaced, removed, moved, moreAttributes
    }

    /// The remote may have the older content by then: nobody else's, as it would seem.
    @Test(arguments: Change.allCases) func powerLossLeavesNoChangeWithoutTheRequestThatWentOutAfterIt(
        change: Change
    ) throws {
        try fixture.save("a", "older")
        try fixture.save("b", "newer")
        let transfer = try fixture.begin("a")
        try make(change)
        try fixture.synchronize()
        try journal.makeDurable()
        try journal.markCommitting(transfer.id, expectedTag: "tag")
        let (scratch, after) = try fixture.afterPowerLoss()
        defer { withExtendedLifetime(scratch) {} }
        #expect(try after.node(at: "a")?.sequence == journal.node(at: "a")?.sequence, "the change itself is lost")
        let kept = try #require(try after.transfer(transfer.id))
        #expect(kept.phase == .committing && kept.expectedTag == "tag")
    }

    /// Else the older row would be there again, and the remote have what it knows nothing of.
    @Test(arguments: [Change.replaced, .moved, .moreAttributes])
    func powerLossTakesBackNothingThatWasSent(change: Change) throws {
        try fixture.save("a", "older")
        try fixture.save("b", "newer")
        try fixture.synchronize()
        try make(change)
        let path: ObjectKey = change == .moved ? "c" : "a"
        let row = try fixture.row(path)
        let transfer = try #require(try journal.beginTransfer(of: row, method: .put))
        try journal.markCommitting(transfer.id, expectedTag: "tag")
        let (scratch, after) = try fixture.afterPowerLoss()
        defer { withExtendedLifetime(scratch) {} }
        let kept = try #require(try after.node(at: path))
        #expect(kept.sequence == row.sequence && kept.generation?.id == row.generation?.id)
        #expect(try after.transfer(transfer.id)?.phase == .committing)
    }

    /// What cannot be made durable does not go out, and leaves no doubt behind.
    @Test func aRequestThatCannotBeNotedIsNoDoubt() throws {
        try journal.remove(at: "a", remote: fixture.remoteFile)
        try journal.makeDurable()
        let scratch = try fixture.scratch.copy()
        let disk = try DatabaseDisk(folder: scratch.path)
        defer { disk.end() }
        let other = try Journal(directory: scratch.path)
        let row = try #require(try other.node(at: "a"))
        disk.fail { $0.kind == .sync ? EIO : 0 }
        let error = #expect(throws: JournalError.self) { try other.noteRequest(for: row, "a", .deletion) }
        #expect(error?.kind == .io)
        #expect(try other.doubts(at: "a").isEmpty)
        disk.fail(nil)
        #expect(try other.noteRequest(for: row, "a", .deletion) != nil)
        #expect(try other.doubts(at: "a").count == 1)
    }

    @Test func powerLossTakesBackNoFolderThatWasSent() throws {
        _ = try journal.createDirectory(at: "d", attributes: .directory(), remote: .absent)
        let row = try #require(try journal.beginDirectory(fixture.row("d")))
        #expect(try journal.noteRequest(for: row, row.path.marker, .write) != nil)
        let (scratch, after) = try fixture.afterPowerLoss()
        defer { withExtendedLifetime(scratch) {} }
        #expect(try after.node(at: "d")?.hasRemoteDirectory == true)
    }

    @Test func powerLossTakesBackNoRemovalThatWasSent() throws {
        try journal.remove(at: "a", remote: fixture.remoteFile)
        #expect(try journal.noteRequest(for: fixture.row("a"), "a", .deletion) != nil)
        let (scratch, after) = try fixture.afterPowerLoss()
        defer { withExtendedLifetime(scratch) {} }
        #expect(try after.node(at: "a")?.isTombstone == true && after.doubts(at: "a").count == 1)
    }

    /// Once it is complete the remote forgets of which parts it was made.
    @Test func powerLossTakesNoPartsOfWhatIsComplete() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a", .multipart)
        try journal.setUpload(transfer.id, method: .multipart, upload: "id", partSize: 5)
        try journal.recordPart(transfer.id, TransferPart(number: 1, size: 4, digest: [1], entityTag: "e"))
        try journal.markCommitting(transfer.id, expectedTag: "tag-1")
        let (scratch, after) = try fixture.afterPowerLoss()
        defer { withExtendedLifetime(scratch) {} }
        #expect(try after.transfer(transfer.id)?.expectedTag == "tag-1" && after.parts(of: transfer.id).count == 1)
    }

    /// The row of the copy would come back, and show an object that is no more.
    @Test(arguments: [true, false]) func powerLossBringsBackNoRowThatShowsWhatIsReplaced(isRemoved: Bool) throws {
        try journal.rename(from: "a", to: "b", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        if !isRemoved { try fixture.save("a", "newer") }
        let copy = try fixture.begin("b", .copy)
        try journal.makeDurable()
        #expect(try journal.completeTransfer(copy.id, version: fixture.new) == .settled)
        if isRemoved {
            #expect(try journal.noteRequest(for: fixture.row("a"), "a", .deletion) != nil)
        } else {
            let row = try fixture.row("a")
            let transfer = try #require(try journal.beginTransfer(of: row, method: .put))
            try journal.markCommitting(transfer.id, expectedTag: "tag")
        }
        let (scratch, after) = try fixture.afterPowerLoss()
        defer { withExtendedLifetime(scratch) {} }
        #expect(try after.node(at: "b") == nil)
    }

    private func make(_ change: Change) throws {
        switch change {
        case .rewritten: try fixture.save("a", "newer")
        case .replaced: try journal.rename(from: "b", to: "a", sourceRemote: .absent, targetRemote: .absent)
        case .removed: try journal.remove(at: "a", remote: .absent)
        case .moved: try journal.rename(from: "a", to: "c", sourceRemote: .absent, targetRemote: .absent)
        case .moreAttributes:
            try journal.setAttributes(at: "a", remote: .absent, AttributeChanges(permissions: 0o600))
        }
    }
}

extension Fixture {
    /// What the journal is when the machine starts again and its disk has the log up to the last commit that was to
    /// survive that.
    fileprivate func afterPowerLoss() throws -> (Scratch, Journal) {
        let log = try Files.read("\(scratch.path)/journal.sqlite-wal", limit: 1 << 24)
        let frame = 24 + log[8..<12].reduce(0) { $0 << 8 | Int($1) }
        var last: (count: Int64, scratch: Scratch)?
        for end in stride(from: 32 + frame, through: log.count, by: frame)
        where log[(end - frame + 4)..<(end - frame + 8)].contains(where: { $0 > 0 }) {
            let part = try scratch.copy()
            _ = unlink("\(part.path)/journal.sqlite-shm")
            try Files.writeAtomically("\(part.path)/journal.sqlite-wal", Array(log[..<end]))
            let count = try Self.durableCommits("\(part.path)/journal.sqlite")
            if count > last?.count ?? -1 { last = (count, part) }
        }
        guard let found = last?.scratch else { throw Failure("the log has no commit") }
        return (found, try Journal.recovering(directory: found.path, boot: "two").journal)
    }

    private static func durableCommits(_ path: String) throws -> Int64 {
        let copy = try Scratch()
        for suffix in ["", "-wal"] {
            try Files.writeAtomically("\(copy.path)/j\(suffix)", try Files.read(path + suffix, limit: 1 << 24))
        }
        let database = try Database(path: "\(copy.path)/j")
        return try database.read { connection throws(DatabaseError) in
            try connection.first("SELECT value FROM meta WHERE key = 'durable'") { $0.integer(0) } ?? 0
        }
    }
}
