// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform
import Testing

/// Open files with synced bytes that are cut to nothing: which content each way of dying leaves.
@Suite struct JournalReplacingTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }

    init() throws { fixture = try Fixture() }

    /// A file that is open, with these bytes synced, and its content.
    private func openSynced(_ text: String = "12345") throws -> (JournalNode, ContentMap) {
        let (node, content) = try fixture.write("a", text)
        let id = try #require(node.generation).id
        try journal.record(node.id, id, content: content, modified: nil, durable: true)
        return (try fixture.row("a"), content)
    }

    /// One to which more was written since; with its content of now.
    private func openWithMoreThanSynced() throws -> (JournalNode, GenerationID, ContentMap) {
        let (node, content) = try openSynced()
        let id = try #require(node.generation).id
        let staging = try journal.openStaging(id, creating: false)
        try Array("67890".utf8).withUnsafeBytes { try staging.write($0, at: 5) }
        var longer = content
        longer.write(ByteRange(5, 10))
        return (node, id, longer)
    }

    private func setAside(_ node: JournalNode) throws -> JournalNode {
        let old = try #require(node.generation).id
        let new = try #require(try journal.setAsideSynced(node.id, old))
        _ = try journal.openStaging(new.id, creating: true)
        #expect(new.id != old && new.size == 0 && !new.isSealed && !new.isSynced)
        #expect(try journal.generation(old)?.isSealed == true)
        return try fixture.row("a")
    }

    private func text() throws -> String {
        let generation = try #require(try fixture.row("a").generation)
        var bytes: [UInt8] = []
        for segment in try journal.segments(of: generation, in: ByteRange(0, generation.size)) {
            guard case .staging(let id) = segment.source else { throw Failure("\(segment) is not here") }
            bytes += Array(try StagingBytes.read(journal, id)[Int(segment.range.lower)..<Int(segment.range.upper)])
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    private func release() throws {
        for unused in try journal.releaseGenerations() { try journal.removeStaging(unused.id) }
    }

    @Test(arguments: ["", "9", "987654321"]) func aKillLeavesWhatWasWrittenAfterTheCut(written: String) throws {
        let node = try setAside(openSynced().0)
        if !written.isEmpty { _ = try fixture.put(node, written) }
        try fixture.recover()
        #expect(try text() == written)
        let row = try fixture.row("a")
        #expect(!row.isOpen && row.generation?.isSendable == true, "the recovery has synced it")
        try release()
        #expect(try fixture.row("a").generation?.underlay == Underlay.none)
        #expect(try fixture.staging() == 1)
    }

    @Test(arguments: ["", "9", "987654321"]) func powerLossLeavesWhatWasSyncedBeforeTheCut(written: String) throws {
        let node = try setAside(openSynced().0)
        if !written.isEmpty { _ = try fixture.put(node, written) }
        try fixture.recover(boot: "two")
        #expect(try text() == "12345")
        #expect(try fixture.row("a").generation?.isSendable == true)
        let id = try #require(try fixture.row("a").generation).id
        #expect(try journal.generation(id)?.checksums == .pending, "its checksums are to be taken")
        #expect(try fixture.quarantined().count == (written.isEmpty ? 0 : 1))
    }

    /// A kill in between is no sync.
    @Test func powerLossAfterAKillLeavesWhatTheRecoverySynced() throws {
        let node = try setAside(openSynced().0)
        _ = try fixture.put(node, "987")
        try fixture.recover()
        try fixture.recover(boot: "two")
        #expect(try text() == "987")
    }

    @Test(arguments: [true, false]) func powerLossTakesBackAClosedContentThatWasNotSynced(isEmpty: Bool) throws {
        let node = try setAside(openSynced().0)
        let content = isEmpty ? ContentMap(size: 0) : try fixture.put(node, "987")
        try journal.seal(node.id, try #require(node.generation).id, content: content, modified: nil)
        try fixture.recover(boot: "two")
        #expect(try text() == "12345")
    }

    @Test func whatWasSyncedAfterTheCutStaysAndTheOlderOneGoes() throws {
        let node = try setAside(openSynced().0)
        let content = try fixture.put(node, "987")
        let id = try #require(node.generation).id
        try journal.record(node.id, id, content: content, modified: nil, durable: true)
        #expect(try fixture.row("a").generation?.underlay == Underlay.none)
        try release()
        #expect(try fixture.staging() == 1)
        _ = try fixture.put(node, "xyz", at: 3)
        try fixture.recover(boot: "two")
        #expect(try text() == "987")
    }

    /// As databases do with their journals.
    @Test func whoCutsAndSyncsTimeAndAgainKeepsOneOlderContent() throws {
        var node = try openSynced().0
        for number in 0..<20 {
            node = try setAside(node)
            let content = try fixture.put(node, "\(number)")
            try journal.record(
                node.id,
                try #require(node.generation).id,
                content: content,
                modified: nil,
                durable: true
            )
            node = try fixture.row("a")
            try release()
            #expect(try fixture.staging() == 1)
        }
    }

    @Test func whatWasNotSyncedBeforeTheCutDoesNotComeBack() throws {
        let (node, old, longer) = try openWithMoreThanSynced()
        try journal.record(node.id, old, content: longer, modified: nil, durable: false)
        _ = try setAside(fixture.row("a"))
        try fixture.recover(boot: "two")
        #expect(try text() == "12345")
    }

    /// Over an object of the remote: what shows of that comes back too.
    @Test func powerLossBringsBackAPatchOfARemoteFile() throws {
        let open = try journal.beginWriting(at: "a", remote: fixture.remoteFile)
        let content = try fixture.put(open, "edit")
        let old = try #require(open.generation).id
        try journal.record(open.id, old, content: content, modified: nil, durable: true)
        _ = try fixture.put(setAside(fixture.row("a")), "new")
        try fixture.recover(boot: "two")
        let row = try fixture.row("a")
        #expect(row.generation?.id == old && row.generation?.content == content && row.base == .version(fixture.old))
    }

    @Test func whereNothingWasSyncedNothingIsSetAside() throws {
        let (node, content) = try fixture.write("a", "12345")
        let id = try #require(node.generation).id
        try journal.record(node.id, id, content: content, modified: nil, durable: false)
        #expect(try journal.setAsideSynced(node.id, id) == nil)
        #expect(try fixture.row("a").generation?.id == id)
        try journal.noteFailedSync(of: [id])
        #expect(try journal.setAsideSynced(node.id, id) == nil)
    }

    @Test func withoutAStagingFileForItNothingChanges() throws {
        let node = try openSynced().0
        let old = try #require(node.generation).id
        let error = #expect(throws: JournalError.self) {
            try journal.setAsideSynced(node.id, old) { _ throws(JournalError) in
                throw JournalError(system: SystemError.make(ENOSPC, "open"))
            }
        }
        #expect(error?.kind == JournalError(system: SystemError.make(ENOSPC, "open")).kind)
        #expect(try fixture.row("a").generation?.id == old)
        #expect(try journal.generation(old)?.isSealed == false)
    }

    @Test func theFileThatTakesTheNameOfOneSetAsideIsSyncedFirst() throws {
        let node = try setAside(openSynced().0)
        let id = try #require(node.generation).id
        #expect(try journal.survivesPowerLoss(id, orBelow: true))
        #expect(try !journal.survivesPowerLoss(id))
    }

    /// It was closed with more than had been synced, and then replaced: the size of before is no size of it any more.
    @Test func aReplacedContentThatLosesItsEndIsNotFilledWithZeros() throws {
        let (node, old, longer) = try openWithMoreThanSynced()
        try journal.seal(node.id, old, content: longer, modified: nil)
        _ = try journal.beginWriting(at: "a", remote: .absent, replacing: true)
        try fixture.recover(boot: "two")
        #expect(try text() == "12345")
    }
}
