// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform
import Testing

/// What the disk failed to write is never taken for written, whoever syncs it later and however often.
@Suite struct JournalSyncFailureTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }

    init() throws { fixture = try Fixture() }

    private func generation(_ path: ObjectKey) throws -> Generation {
        try #require(try fixture.row(path).generation)
    }

    /// Saves a file whose group sync fails.
    private func saveFailing(_ path: ObjectKey = "a", _ text: String = "data") throws {
        fixture.faults.fail(try #require(try fixture.save(path, text).generation).id)
        try journal.synchronizeSealed()
    }

    @Test func aFileThatCouldNotBeSyncedIsHeldAndNotSyncedAgain() throws {
        try fixture.save("good")
        try saveFailing("bad")
        #expect(try generation("good").isSynced && fixture.row("good").schedule.attention == nil)
        #expect(try generation("bad").doubt == .failed && !generation("bad").isSynced)
        #expect(try fixture.row("bad").schedule.attention == SyncDoubt.attention)
        #expect(try journal.beginTransfer(of: fixture.row("bad"), method: .put) == nil)
        _ = fixture.faults.calls()
        try journal.synchronizeSealed()
        #expect(fixture.faults.calls().isEmpty, "the next sync would succeed and mean nothing")
    }

    @Test func noLaterSyncMakesItGood() throws {
        try saveFailing()
        let doubtful = try journal.markSynced([try generation("a")])
        #expect(try doubtful == [generation("a").id] && !generation("a").isSynced)
        let node = try journal.beginWriting(at: "a", remote: .absent)
        let content = try fixture.put(node, "more", at: 4)
        let id = try #require(node.generation).id
        let error = #expect(throws: JournalError.self) {
            try journal.record(node.id, id, content: content, modified: nil, durable: true)
        }
        #expect(error?.kind == .io)
        try journal.seal(node.id, id, content: content, modified: nil)
        #expect(try generation("a").doubt == .failed)
        #expect(try fixture.row("a").schedule.attention == SyncDoubt.attention)
    }

    @Test func itStaysHeldAcrossMountsAndNames() throws {
        try saveFailing()
        try fixture.recover()
        try journal.rename(from: "a", to: "b", sourceRemote: .absent, targetRemote: .absent)
        try journal.setAttributes(at: "b", remote: .absent, AttributeChanges(permissions: 0o600))
        #expect(try generation("b").doubt == .failed)
        #expect(try fixture.row("b").schedule.attention == SyncDoubt.attention)
        try journal.retryNow([try fixture.row("b").id])
        #expect(try fixture.row("b").schedule.attention == SyncDoubt.attention, "`now` is no consent")
    }

    @Test func contentMadeAnewIsGood() throws {
        try saveFailing()
        let node = try journal.beginWriting(at: "a", remote: .absent)
        let id = try #require(node.generation).id
        try journal.openStaging(id, creating: false).truncate(to: 0)
        try journal.record(node.id, id, content: ContentMap(size: 0), modified: nil, durable: false)
        #expect(try generation("a").doubt == .none)
        let content = try fixture.put(try fixture.row("a"), "new")
        try journal.record(node.id, id, content: content, modified: nil, durable: true)
        try journal.seal(node.id, id, content: content, modified: nil, isUnchanged: true)
        #expect(try generation("a").isSynced && fixture.row("a").schedule.attention == nil)
    }

    @Test func aFailedFsyncIsSealedAsSuch() throws {
        let (node, content) = try fixture.write("a")
        let id = try #require(node.generation).id
        try journal.seal(node.id, id, content: content, modified: nil, isDoubtful: true)
        #expect(try fixture.row("a").schedule.attention != nil)
        #expect(try journal.unsyncedGenerations().isEmpty)
    }

    // MARK: many files

    @Test func anErrorOfTheWholeFileSystemCondemnsOnlyTheFilesThatHadIt() throws {
        for index in 0..<Journal.manyFiles { try fixture.save(ObjectKey("f\(index)")) }
        fixture.faults.fail(try generation("f3").id)
        fixture.faults.state.update { $0.everything = true }
        try journal.synchronizeSealed()
        #expect(fixture.faults.calls().contains("everything"))
        for index in 0..<Journal.manyFiles {
            let path = ObjectKey("f\(index)")
            #expect(try generation(path).isSynced == (index != 3))
            #expect(try (fixture.row(path).schedule.attention == nil) == (index != 3))
        }
    }

    @Test func manyFilesAreOneSync() throws {
        for index in 0..<Journal.manyFiles { try fixture.save(ObjectKey("f\(index)")) }
        _ = fixture.faults.calls()
        try journal.synchronizeSealed()
        #expect(fixture.faults.calls() == ["everything", "names"])
        #expect(try journal.unsyncedGenerations().isEmpty)
    }

    @Test func aFileIsSyncedByTheDescriptorItWasWrittenBy() throws {
        try fixture.save("a")
        try fixture.save("b")
        let a = try generation("a").id
        try journal.synchronizeSealed { id throws(SystemError) in
            if id == a { throw SystemError.make(EIO, "fdatasync") }
            return false
        }
        #expect(try generation("a").doubt == .failed && generation("b").isSynced)
    }

    @Test func namesThatCouldNotBeSyncedAreNotTakenForSynced() throws {
        try fixture.save("a")
        fixture.faults.state.update { $0.names = true }
        try journal.synchronizeSealed()
        #expect(try generation("a").doubt == .failed)
    }

    // MARK: a person's consent

    @Test func whatAPersonAcceptsIsWrittenAnewBeforeItIsSent() throws {
        try saveFailing("a", "12345")
        try journal.retryNow([try fixture.row("a").id], answeringAttention: true)
        #expect(try fixture.row("a").schedule.attention == nil && !generation("a").isSynced)
        let before = try FileStatus.of(journal.stagingPath(generation("a").id))
        let transfer = try fixture.begin("a")
        let id = try #require(transfer.generation)
        _ = fixture.faults.calls()
        try journal.rewriteAccepted(id)
        #expect(fixture.faults.calls() == ["data \(id).again", "names"])
        #expect(try generation("a").isSynced && generation("a").doubt == .none)
        #expect(try StagingBytes.read(journal, id) == Array("12345".utf8))
        #expect(try FileStatus.of(journal.stagingPath(id))?.inode != before?.inode)
    }

    @Test func whatFailsAgainIsHeldAgain() throws {
        try saveFailing()
        try journal.retryNow([try fixture.row("a").id], answeringAttention: true)
        let id = try #require(try fixture.begin("a").generation)
        fixture.faults.state.update { _ = $0.data.insert("\(id).again") }
        #expect(throws: JournalError.self) { try journal.rewriteAccepted(id) }
        #expect(try generation("a").doubt == .failed)
        #expect(try fixture.row("a").schedule.attention == SyncDoubt.attention)
        try fixture.recover()
        #expect(try fixture.staging() == 1, "nothing of it is left")
    }

    // MARK: power loss

    @Test func afterPowerLossANewFileThatFailedIsQuarantined() throws {
        try saveFailing()
        try fixture.recover(boot: "two")
        #expect(try fixture.paths().isEmpty && fixture.quarantined().count == 1)
    }

    @Test func afterPowerLossAnEditThatFailedIsGone() throws {
        try fixture.edit("a")
        fixture.faults.fail(try generation("a").id)
        try journal.synchronizeSealed()
        try fixture.recover(boot: "two")
        let row = try journal.node(at: "a")
        #expect(row == nil || row?.generation?.wholeRemote != nil && row?.schedule.attention == nil)
    }

    // MARK: older databases

    @Test func aJournalOfAnOlderVersionIsBroughtUpToDate() throws {
        try fixture.save("a")
        try fixture.damage(OlderJournal.version3)
        try fixture.recover()
        #expect(try generation("a").isSynced && generation("a").doubt == .none)
    }

    @Test func theRowsOfADamagedJournalOfAnOlderVersionAreSaved() throws {
        for index in 0..<300 { try fixture.save(ObjectKey("file-\(index)")) }
        try fixture.synchronize()
        try fixture.damage(OlderJournal.version3)
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        let path = "\(fixture.scratch.path)/journal.sqlite"
        let size = try #require(try FileStatus.of(path)).size
        let garbage = [UInt8](repeating: 0x5A, count: 4096)
        let file = try FileDescriptor.open(path, O_RDWR)
        // In the middle; the first page holds the schema.
        try garbage.withUnsafeBytes { try file.write($0, at: size / 8192 * 4096) }
        try fixture.recover()
        #expect(fixture.report.salvagedFrom != nil)
        #expect(try journal.descendants(of: .root).count >= 150)
    }
}
