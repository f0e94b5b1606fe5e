// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Journal
import Platform
import TestSupport
import Testing

@Suite struct JournalRecoveryTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }

    init() throws { fixture = try Fixture() }

    // MARK: kills

    @Test func aNewFileThatWasNeverClosedKeepsWhatWasWritten() throws {
        let (node, _) = try fixture.write("a", "hello")
        #expect(node.isOpen)
        try fixture.recover()
        let row = try fixture.row("a")
        #expect(!row.isOpen && row.size == 5 && row.generation?.isSealed == true)
        #expect(fixture.report.items == [.init(path: "a", outcome: .kept(5))])
        try fixture.recover()
        #expect(fixture.report.items.isEmpty)
    }

    @Test func changesOfARemoteFileThatWereNeverAcknowledgedAreDropped() throws {
        let node = try journal.beginWriting(at: "a", remote: fixture.remoteFile)
        _ = try fixture.put(node, "xx")
        try fixture.recover()
        #expect(try fixture.paths().isEmpty)
        #expect(try fixture.staging() == 0)
        #expect(fixture.report.items == [.init(path: "a", outcome: .reverted)])
    }

    @Test func whatWasOpenIsAChangeForAFlusherThatIsAtWork() throws {
        let (node, _) = try fixture.write("a", "12345")
        let seen = try journal.currentSequence()
        #expect(node.sequence <= seen)
        try fixture.recover()
        #expect(try journal.nodes(changedAfter: seen).map(\.path) == ["a"])
    }

    @Test func attributesStayWhenContentIsDropped() throws {
        let node = try journal.beginWriting(at: "a", remote: fixture.remoteFile)
        _ = try fixture.put(node, "xx")
        try journal.setAttributes(at: "a", remote: fixture.remoteFile, AttributeChanges(permissions: 0o600))
        try fixture.recover()
        let row = try fixture.row("a")
        #expect(row.attributes.permissions == 0o600 && row.generation?.wholeRemote?.version == fixture.old)
    }

    @Test func whatFsyncAcknowledgedIsKept() throws {
        let node = try journal.beginWriting(at: "a", remote: fixture.remoteFile)
        let content = try fixture.put(node, "xx")
        let generation = try #require(node.generation)
        try journal.record(node.id, generation.id, content: content, modified: Timestamp(seconds: 7), durable: true)
        let staging = try journal.openStaging(generation.id, creating: false)
        try Array("999".utf8).withUnsafeBytes { try staging.write($0, at: 6) }
        try fixture.recover()
        let row = try fixture.row("a")
        #expect(row.generation?.content == content && row.attributes.modified == Timestamp(seconds: 7))
        let bytes = try StagingBytes.read(journal, generation.id)
        #expect(bytes == Array("xx".utf8) + [0, 0, 0, 0, 0, 0, 0], "dropped bytes are cleared")
    }

    /// Its staging file has whole blocks, of which the record names the bytes that were written.
    @Test(arguments: [0, 4000, 8150]) func aRecordedNewFileKeepsTheTimeItWasGiven(offset: Int64) throws {
        let node = try journal.createFile(at: "a", attributes: .file(), remote: .absent)
        let content = try fixture.put(node, String(repeating: "x", count: 60), at: offset)
        let id = try #require(node.generation).id
        try journal.record(node.id, id, content: content, modified: Timestamp(seconds: 7), durable: false)
        try fixture.recover()
        let row = try fixture.row("a")
        #expect(row.attributes.modified == Timestamp(seconds: 7) && row.generation?.content == content)
        #expect(fixture.report.items.isEmpty)
    }

    @Test(arguments: [0, 60, 100, 70_000]) func whatWasWrittenSinceItWasRecordedChangesTheTimeOfANewFile(
        offset: Int64
    ) throws {
        let node = try journal.createFile(at: "a", attributes: .file(), remote: .absent)
        let content = try fixture.put(node, String(repeating: "x", count: 60))
        let id = try #require(node.generation).id
        let time = Timestamp(seconds: 7)
        try journal.record(node.id, id, content: content, modified: time, durable: false, now: time)
        let staging = try journal.openStaging(id, creating: false)
        try Array("more".utf8).withUnsafeBytes { try staging.write($0, at: offset) }
        try fixture.recover()
        let row = try fixture.row("a")
        #expect(row.attributes.modified != time && row.size == max(60, offset + 4))
        #expect(row.generation?.content.extents.contains(ByteRange(offset: offset, count: 4)) == true)
    }

    @Test func aFileThatIsBeingUploadedAndWrittenGoesBackToWhatIsSent() throws {
        let sent = try fixture.save("a")
        _ = try fixture.begin("a")
        let node = try journal.beginWriting(at: "a", remote: .absent)
        _ = try fixture.put(node, "newer")
        try fixture.recover()
        #expect(try fixture.row("a").generation?.id == sent.generation?.id)
        #expect(try journal.transfers().map(\.fate) == [.wanted])
        #expect(try fixture.staging() == 1)
    }

    @Test func stagingFilesOfNoRowAreDeleted() throws {
        try fixture.save("a")
        try fixture.damage("UPDATE sqlite_sequence SET seq = 999 WHERE name = 'generation'")
        try Files.writeAtomically("\(fixture.scratch.path)/staging/999", [1])
        try Files.writeAtomically("\(fixture.scratch.path)/staging/foreign", [1])
        try fixture.recover()
        #expect(fixture.report.orphans == 1)
        #expect(try Files.names(in: "\(fixture.scratch.path)/staging").count == 2)
    }

    @Test func aMissingStagingFileIsToldAndNeverSentAsZeros() throws {
        let node = try fixture.save("a")
        try journal.removeStaging(try #require(node.generation).id)
        try fixture.recover()
        #expect(try fixture.row("a").schedule.attention != nil)
        #expect(fixture.report.items == [.init(path: "a", outcome: .damaged)])
    }

    // MARK: power loss

    @Test func afterPowerLossUnsyncedNewFilesAreQuarantined() throws {
        let kept = try fixture.save("kept", "safe")
        try fixture.synchronize()
        try fixture.save("torn", "doubtful")
        try fixture.recover(boot: "two")
        #expect(fixture.report.isNewBoot)
        #expect(try fixture.paths() == ["kept"])
        #expect(try fixture.row("kept").generation?.id == kept.generation?.id)
        let names = try fixture.quarantined()
        #expect(names.count == 1 && names.first?.hasSuffix("-torn") == true)
        #expect(try Files.read("\(fixture.scratch.path)/quarantine/\(names[0])") == Array("doubtful".utf8))
        #expect(try fixture.staging() == 1)
    }

    /// Another commit made its row durable: it is not to arrive as an empty object.
    @Test func afterPowerLossANewFileThatNobodyClosedIsQuarantined() throws {
        _ = try fixture.write("open", "doubtful")
        try fixture.synchronize()
        try fixture.recover(boot: "two")
        #expect(try fixture.paths().isEmpty)
        #expect(try fixture.quarantined().count == 1)
    }

    /// fsync(2) of a folder.
    @Test func afterPowerLossTheNameOfANewFileIsThereWhenItsFolderWasSynced() throws {
        _ = try fixture.write("open", "doubtful")
        try journal.noteNewNames()
        try fixture.synchronize()
        try fixture.recover(boot: "two")
        let row = try fixture.row("open")
        #expect(row.size == 0 && !row.isOpen && row.generation?.isSealed == true)
    }

    @Test func afterPowerLossUnsyncedChangesGoBackToTheRemote() throws {
        try fixture.edit("a")
        try journal.remove(at: "b", remote: fixture.remoteFile)
        try fixture.save("b")
        try fixture.recover(boot: "two")
        #expect(try fixture.paths().contains("a") == false || fixture.row("a").generation?.wholeRemote != nil)
        #expect(try journal.node(at: "b") == nil, "the remote's version is back")
        #expect(try fixture.quarantined().count == 2)
    }

    /// The folder was removed for good: it is not to come back because the file that took its name is lost.
    @Test func afterPowerLossAFolderThatAFileReplacedStaysRemoved() throws {
        let folder = RemoteState.directory(hasMarker: true, .directory())
        try journal.remove(at: "d", remote: folder)
        try fixture.synchronize()
        try fixture.save("d")
        try fixture.recover(boot: "two")
        let row = try fixture.row("d")
        #expect(row.isTombstone && row.hasRemoteDirectory && row.generation == nil)
        #expect(try fixture.quarantined().count == 1)
    }

    @Test func afterPowerLossAFileGoesBackToItsLastFsync() throws {
        let (node, content) = try fixture.write("a", "12345")
        let generation = try #require(node.generation)
        try journal.record(node.id, generation.id, content: content, modified: nil, durable: true)
        var more = try fixture.put(try #require(try journal.node(node.id)), "67890", at: 5)
        more.write(ByteRange(0, 5))
        try journal.seal(node.id, generation.id, content: more, modified: nil)
        #expect(try fixture.row("a").size == 10)
        try fixture.recover(boot: "two")
        let row = try fixture.row("a")
        #expect(row.size == 5 && row.generation?.content == content)
        #expect(try StagingBytes.read(journal, generation.id) == Array("12345".utf8))
    }

    @Test func afterPowerLossAFileThatWasReplacedIsAsItWasSynced() throws {
        let old = try #require(try fixture.save("a", "12345").generation)
        try fixture.synchronize()
        let node = try journal.beginWriting(at: "a", remote: .absent, replacing: true)
        var generation = try #require(node.generation)
        generation.content.truncate(to: 0)
        try journal.openStaging(generation.id, creating: true).truncate(to: 0)
        let staging = try journal.openStaging(generation.id, creating: false)
        try [UInt8](repeating: 0, count: 3).withUnsafeBytes { try staging.write($0, at: 0) }
        generation.content.write(ByteRange(0, 3))
        try journal.seal(node.id, generation.id, content: generation.content, modified: nil)
        try fixture.recover(boot: "two")
        let row = try fixture.row("a")
        #expect(row.generation?.id == old.id || row.generation?.underlay == .generation(old.id))
        #expect(row.size == 5 && row.generation?.isSendable == true)
        #expect(try StagingBytes.read(journal, old.id) == Array("12345".utf8))
    }

    @Test func whatWasReplacedGoesWhenTheNewContentIsSafe() throws {
        let old = try #require(try fixture.save("a", "12345").generation)
        try fixture.synchronize()
        for text in ["one", "two"] {
            let node = try journal.beginWriting(at: "a", remote: .absent, replacing: true)
            var generation = try #require(node.generation)
            #expect(generation.id != old.id)
            generation.content.truncate(to: 0)
            try journal.openStaging(generation.id, creating: true).truncate(to: 0)
            let content = try fixture.put(node, text)
            generation.content.write(content.extents.ranges[0])
            try journal.seal(node.id, generation.id, content: generation.content, modified: nil)
            try fixture.synchronize()
            for unused in try journal.releaseGenerations(keepingAdoptable: false) {
                try journal.removeStaging(unused.id)
            }
            #expect(try fixture.row("a").generation?.underlay == Underlay.none)
            #expect(try fixture.staging() == 1)
        }
    }

    /// Otherwise the row would go back to older content, and that over the newer one at the remote.
    @Test func whatPowerLossCouldTakeBackIsNotSent() throws {
        let (node, content) = try fixture.write("a", "12345")
        let generation = try #require(node.generation)
        try journal.record(node.id, generation.id, content: content, modified: nil, durable: true)
        let more = try fixture.put(try #require(try journal.node(node.id)), "6", at: 5)
        try journal.seal(node.id, generation.id, content: more, modified: nil)
        #expect(try journal.beginTransfer(of: fixture.row("a"), method: .put) == nil)
        try journal.synchronizeSealed()
        let transfer = try #require(try journal.beginTransfer(of: fixture.row("a"), method: .put))
        try journal.markCommitting(transfer.id, expectedTag: "tag")
        try fixture.recover(boot: "two")
        #expect(try fixture.row("a").size == 6)
        #expect(try journal.transfers().map(\.fate) == [.wanted])
    }

    /// The same ranges do not mean the same bytes.
    @Test func whatWasWrittenOverSyncedBytesIsNotSynced() throws {
        let (node, content) = try fixture.write("a", "12345")
        let generation = try #require(node.generation)
        try journal.record(node.id, generation.id, content: content, modified: nil, durable: true)
        _ = try fixture.put(try #require(try journal.node(node.id)), "54321")
        try journal.seal(node.id, generation.id, content: content, modified: nil)
        #expect(try journal.beginTransfer(of: fixture.row("a"), method: .put) == nil)
        _ = try journal.beginWriting(at: "a", remote: .absent)
        try journal.record(node.id, generation.id, content: content, modified: nil, durable: true)
        try journal.seal(node.id, generation.id, content: content, modified: nil, isUnchanged: true)
        #expect(try journal.beginTransfer(of: fixture.row("a"), method: .put) != nil)
    }

    /// What an older version of this program may have left: content that was sent and not synced.
    @Test func olderContentThanWasSentWaitsForAPerson() throws {
        let (node, content) = try fixture.write("a", "12345")
        let generation = try #require(node.generation)
        try journal.record(node.id, generation.id, content: content, modified: nil, durable: true)
        let more = try fixture.put(try #require(try journal.node(node.id)), "6", at: 5)
        try journal.seal(node.id, generation.id, content: more, modified: nil)
        try fixture.damage("UPDATE generation SET is_synced = 1")
        let transfer = try #require(try journal.beginTransfer(of: fixture.row("a"), method: .put))
        try journal.markCommitting(transfer.id, expectedTag: "tag")
        try fixture.damage("UPDATE generation SET is_synced = 0")
        try fixture.recover(boot: "two")
        #expect(try journal.transfers().map(\.fate) == [.superseded])
        let row = try fixture.row("a")
        #expect(row.size == 5 && row.schedule.attention != nil)
    }

    @Test func namesAreNotGivenTwiceAfterPowerLoss() throws {
        let first = try fixture.save("a")
        try fixture.recover(boot: "two")
        let second = try fixture.save("b")
        #expect(second.id.value > first.id.value + 100)
        #expect(try #require(second.generation).id.value > #require(first.generation).id.value + 100)
    }

    @Test func aGenerationOverOneThatIsLostIsLostToo() throws {
        try fixture.save("a", "12345")
        _ = try fixture.begin("a")
        try fixture.damage("UPDATE generation SET is_synced = 0, synced_size = NULL")
        let node = try journal.beginWriting(at: "a", remote: .absent)
        let content = try fixture.put(node, "x", at: 2)
        try journal.record(node.id, try #require(node.generation).id, content: content, modified: nil, durable: true)
        try fixture.recover(boot: "two")
        #expect(try fixture.paths().isEmpty)
        #expect(try fixture.quarantined().count == 2)
        #expect(try journal.transfers().map(\.fate) == [.gone])
    }

    /// Killed after its files were moved and before its commit, a recovery does the same again.
    @Test(arguments: ["one", "two"]) func aKilledRecoveryMayBeRepeated(boot: String) throws {
        try fixture.save("synced")
        try fixture.synchronize()
        try fixture.edit("unsynced-edit")
        try fixture.save("unsynced-new")
        _ = try fixture.write("open-new", "hello")
        _ = try fixture.put(try journal.beginWriting(at: "open-edit", remote: fixture.remoteFile), "x")
        let before = try fixture.scratch.copy()
        let whole = try Journal.recovering(directory: fixture.scratch.path, boot: boot)
        let killed = try fixture.scratch.copy()
        for suffix in ["", "-wal"] {
            let database = try Files.read("\(before.path)/journal.sqlite\(suffix)", limit: 1 << 24)
            try Files.writeAtomically("\(killed.path)/journal.sqlite\(suffix)", database)
        }
        _ = unlink("\(killed.path)/journal.sqlite-shm")
        let again = try Journal.recovering(directory: killed.path, boot: boot)
        let rows = try whole.journal.descendants(of: .root).sorted { $0.path < $1.path }
        let repeated = try again.journal.descendants(of: .root).sorted { $0.path < $1.path }
        #expect(rows.map(\.path) == repeated.map(\.path))
        #expect(rows.map(\.generation?.content) == repeated.map(\.generation?.content))
        let names = { (scratch: Scratch) in try Files.names(in: "\(scratch.path)/staging").sorted() }
        #expect(try names(fixture.scratch) == names(killed))
        let quarantined = try Files.names(in: "\(killed.path)/quarantine").count
        #expect(try quarantined == fixture.quarantined().count)
    }

    // MARK: damage

    /// Where the tables' description spills onto a second page, damage to that page costs every row.
    @Test func theTablesAreDescribedOnTheFirstPage() throws {
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        let page = try Files.read("\(fixture.scratch.path)/journal.sqlite", limit: 1 << 20).prefix(4096)
        // A leaf of a table's tree, in which the cells begin behind the file's header and their addresses.
        #expect(page[100] == 0x0D)
        func number(_ offset: Int) -> Int { Int(page[offset]) << 8 + Int(page[offset + 1]) }
        var room = number(105) - (108 + 2 * number(103))
        // What was dropped or written anew left blocks, a chain of them, and SQLite closes up the page before it spills.
        var block = number(101)
        while block != 0 {
            room += number(block + 2)
            block = number(block)
        }
        #expect(room >= 48, "\(room) bytes are left: shorten the text")
    }

    @Test func anUnreadableRowDoesNotHideTheOthers() throws {
        try fixture.save("a")
        try fixture.save("b")
        try journal.remove(at: "c", remote: fixture.remoteFile)
        try fixture.damage("UPDATE node SET kind = 77 WHERE name = CAST('a' AS BLOB)")
        #expect(throws: JournalError.self) { _ = try journal.children(of: .root) }
        try fixture.recover()
        #expect(try fixture.paths() == ["b", "c"])
        #expect(fixture.report.items.contains(.init(path: nil, outcome: .lost)))
        // The lost row may have been the new place of what is to be deleted.
        #expect(try fixture.row("c").schedule.attention != nil)
        #expect(try fixture.row("b").schedule.attention == nil)
    }

    @Test(arguments: [UInt64(1), 2, 3, 4, 5, 6, 7, 8]) func soundRowsOfADamagedDatabaseAreSaved(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for index in 0..<300 { try fixture.save(ObjectKey("file-\(index)"), "data \(index)") }
        try fixture.synchronize()
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        let path = "\(fixture.scratch.path)/journal.sqlite"
        let size = try #require(try FileStatus.of(path)).size
        let file = try FileDescriptor.open(path, O_RDWR)
        // One page in the middle; the first holds the schema.
        let page = Int64(2 + random.below(Int(size / 4096) - 2)) * 4096
        let garbage = (0..<4096).map { _ in UInt8.random(in: 0...255, using: &random) }
        try garbage.withUnsafeBytes { try file.write($0, at: page) }
        try fixture.recover()
        #expect(fixture.report.salvagedFrom != nil, "seed \(seed)")
        let rows = try journal.descendants(of: .root)
        #expect(rows.count >= 150, "seed \(seed): \(rows.count) rows")
        for row in rows where row.schedule.attention == nil {
            let generation = try #require(row.generation)
            let index = row.path.string.dropFirst(5)
            #expect(try StagingBytes.read(journal, generation.id) == Array("data \(index)".utf8))
        }
        #expect(try fixture.quarantined().contains { $0.hasPrefix("journal-") })
        // Work goes on.
        try fixture.save("new")
        #expect(try fixture.row("new").kind == .file)
    }

    @Test func aDatabaseThatIsNoDatabaseIsSetAside() throws {
        try fixture.save("a", "bytes")
        let path = "\(fixture.scratch.path)/journal.sqlite"
        for suffix in ["-wal", "-shm"] { _ = unlink(path + suffix) }
        try Files.writeAtomically(path, Array(repeating: 0x55, count: 9000))
        try fixture.recover()
        #expect(try fixture.paths().isEmpty)
        #expect(try fixture.quarantined().count == 2)
        #expect(try fixture.staging() == 0)
    }
}

enum StagingBytes {
    static func read(_ journal: Journal, _ generation: GenerationID) throws -> [UInt8] {
        try Files.read(journal.stagingPath(generation))
    }
}
