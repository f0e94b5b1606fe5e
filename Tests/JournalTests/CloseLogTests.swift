// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Platform
import Testing

@testable import Journal

/// Closes of new files that get their rows later, together.
@Suite struct CloseLogTests {
    private let fixture: Fixture
    /// The same journal as another process sees it.
    private let other: Journal

    init() throws {
        fixture = try Fixture()
        other = try Journal(directory: fixture.scratch.path, boot: "one")
    }

    private var journal: Journal { fixture.journal }

    /// Where /proc is hidden there is no name of the machine's start.
    @Test(arguments: ["", "one", "one two"]) func itsMarkIsReadAsItWasWritten(boot: String) {
        let mark = CloseLogMark(boot: boot, nonce: 7)
        #expect(CloseLogMark(mark.text) == mark)
    }

    private var log: String { "\(fixture.scratch.path)/closes" }

    /// Whether any row was written since `counter`; without a look at them.
    private func counter() throws -> Int64 { try other.changeCounter() }

    @discardableResult
    private func close(_ path: ObjectKey, _ text: String = "data", in journal: Journal? = nil) throws -> JournalNode {
        let journal = journal ?? self.journal
        let node = try journal.createFileLater(at: path, attributes: .file(0o640))
        try finish(node, text, in: journal)
        return node
    }

    /// Writes to a new file and closes it.
    private func finish(_ node: JournalNode, _ text: String = "data", in journal: Journal? = nil) throws {
        let journal = journal ?? self.journal
        let generation = try #require(node.generation)
        let bytes = Array(text.utf8)
        let staging = try journal.openStaging(generation.id, creating: true)
        try bytes.withUnsafeBytes { try staging.write($0, at: 0) }
        var content = generation.content
        content.write(ByteRange(offset: 0, count: Int64(bytes.count)))
        var checksums = ChecksumList()
        bytes.withUnsafeBytes { buffer in
            let parts = [ByteRange(offset: 0, count: Int64(buffer.count))]
            checksums.set(0, parts, ChecksumList.checksum(parts, of: 0, buffer))
        }
        let sealed = try journal.seal(
            node.id,
            generation.id,
            content: content,
            modified: Timestamp(seconds: 7),
            checksums: checksums,
            now: Timestamp(seconds: 8)
        )
        #expect(sealed)
    }

    /// The row is as the close left the file.
    private func expectWhole(_ node: JournalNode, in journal: Journal, _ text: String = "data") throws {
        let row = try #require(try journal.node(at: node.path), "\(node.path) is lost")
        let generation = try #require(row.generation)
        #expect(row.id == node.id && generation.id == node.generation?.id && !row.isOpen && row.base == .absent)
        #expect(generation.isSealed && generation.size == Int64(text.utf8.count))
        #expect(row.attributes.modified == Timestamp(seconds: 7) && row.attributes.permissions == 0o640)
        #expect(row.changedAt == Timestamp(seconds: 8) && row.firstSequence > 0 && row.firstSequence <= row.sequence)
        let checksums = try journal.checksums(of: generation.id)
        #expect(checksums.covered(in: 0) == [ByteRange(offset: 0, count: Int64(text.utf8.count))])
        Array(text.utf8).withUnsafeBytes { bytes in #expect(checksums.matches(0, bytes)) }
        #expect(try StagingBytes.read(journal, generation.id) == Array(text.utf8))
    }

    @Test func manyClosesGetTheirRowsInOneTransaction() throws {
        try close("first")
        #expect(try !journal.writeNewFiles(olderThan: 0))
        let before = try counter()
        let nodes = try (0..<100).map { try close(ObjectKey("file-\($0)")) }
        #expect(try counter() == before, "a close wrote a row")
        #expect(try !journal.writeNewFiles(olderThan: 0))
        let rows = try nodes.map { try #require(try journal.node($0.id)) }
        #expect(Set(rows.map(\.sequence)).count == 1)
        for node in nodes { try expectWhole(node, in: journal) }
    }

    @Test func anotherProcessWritesTheRowsThatItLooksFor() throws {
        let first = try [close("a"), close("b", "other")]
        try expectWhole(first[0], in: other)
        try expectWhole(first[1], in: other, "other")
        // More of the same log, and then one that is written over.
        let second = try close("c")
        try expectWhole(second, in: other)
        #expect(try !journal.writeNewFiles(olderThan: 0))
        let third = try close("d")
        try expectWhole(third, in: other)
        #expect(try other.children(of: .root).count == 4)
        #expect(try journal.children(of: .root).count == 4)
    }

    @Test func whatAnotherProcessHasSentDoesNotComeBack() throws {
        try close("a")
        try close("b")
        let (open, _) = (try journal.createFileLater(at: "open", attributes: .file()), ())
        #expect(try other.node(at: "a") != nil)
        try other.remove(at: "a", remote: .absent)
        for gone in try other.releaseGenerations() { try other.removeStaging(gone.id) }
        #expect(try journal.node(at: "a") == nil)
        #expect(try journal.node(at: "b") != nil && journal.node(open.id) != nil)
        #expect(try other.node(at: "a") == nil)
    }

    @Test func aKillLosesNoClose() throws {
        let nodes = try ["a", "b", "folder/c"].map { try close(ObjectKey($0)) }
        let killed = try fixture.scratch.copy()
        let recovered = try Journal.recovering(directory: killed.path, boot: "one")
        for node in nodes { try expectWhole(node, in: recovered.journal) }
        #expect(try Files.names(in: "\(killed.path)/quarantine").isEmpty && recovered.report.orphans == 0)
        // Also where the flusher comes first, and where the next mount is killed before it has a row.
        let flusher = try Journal(directory: killed.path, boot: "one")
        for node in nodes { try expectWhole(node, in: flusher) }
        let more = try close("d", in: recovered.journal)
        let again = try killed.copy()
        let last = try Journal.recovering(directory: again.path, boot: "one")
        for node in nodes + [more] { try expectWhole(node, in: last.journal) }
    }

    @Test func theFlusherThatOutlivesTheMountFindsThem() throws {
        let node = try close("a")
        let killed = try fixture.scratch.copy()
        let flusher = try Journal(directory: killed.path, boot: "one")
        try expectWhole(node, in: flusher)
        try flusher.remove(at: "a", remote: .absent)
        #expect(try Journal.recovering(directory: killed.path, boot: "one").journal.node(at: "a") == nil)
    }

    /// Nothing says that the bytes of a file that was not synced are in its staging file.
    @Test func powerLossTakesThemAway() throws {
        try close("a")
        let off = try fixture.scratch.copy()
        #expect(try Journal(directory: off.path, boot: "two").node(at: "a") == nil)
        let recovered = try Journal.recovering(directory: off.path, boot: "two")
        #expect(try recovered.journal.node(at: "a") == nil)
        // The kernel may have written them long before: they are kept for a person, by their name.
        let kept = try Files.names(in: "\(off.path)/quarantine").map(\.string)
        #expect(kept.count == 1 && kept.allSatisfy { $0.hasSuffix("-a") }, "\(kept)")
        let again = try Journal.recovering(directory: off.path, boot: "two")
        #expect(try again.journal.node(at: "a") == nil)
    }

    /// As where the journal was restored from a copy, or a version before was at work.
    @Test func aRecordWhoseBytesAreGoneIsNone() throws {
        let gone = try close("gone")
        let short = try close("short")
        let whole = try close("whole")
        let killed = try fixture.scratch.copy()
        _ = unlink("\(killed.path)/staging/\(try #require(gone.generation).id)")
        let file = try FileDescriptor.open("\(killed.path)/staging/\(try #require(short.generation).id)", O_RDWR)
        #expect(ftruncate(file.raw, 1) == 0)
        let recovered = try Journal.recovering(directory: killed.path, boot: "one")
        #expect(try recovered.journal.node(at: "gone") == nil && recovered.journal.node(at: "short") == nil)
        try expectWhole(whole, in: recovered.journal)
    }

    /// Records that lie in two of the parts that are read, and behind them what is left of earlier ones.
    @Test func allOfALongLogIsReadAndNoMore() throws {
        try close("first")
        for count in [120, 100, 1] {
            #expect(try !journal.writeNewFiles(olderThan: 0))
            let nodes = try (0..<count).map {
                try close(ObjectKey(String(repeating: "\(count)/", count: 200) + "\($0)"))
            }
            let killed = try fixture.scratch.copy()
            let bytes = try CloseLog(directory: killed.path).read()
            #expect(CloseRecord.chain(bytes)?.records.count == count)
            #expect(bytes.count < count * 1000 + 100_000)
            let flusher = try Journal(directory: killed.path, boot: "one")
            for node in nodes { try expectWhole(node, in: flusher) }
        }
    }

    @Test func aTornRecordIsNoneAndNobodyTriesItTwice() throws {
        try close("first")
        #expect(try !journal.writeNewFiles(olderThan: 0))
        let whole = try close("a")
        try close("b")
        let killed = try fixture.scratch.copy()
        let bytes = try CloseLog(directory: killed.path).read()
        let end = try #require(CloseRecord.chain(bytes)).end
        try Files.writeAtomically("\(killed.path)/closes", Array(bytes.prefix(end - 1)))
        let flusher = try Journal(directory: killed.path, boot: "one")
        try expectWhole(whole, in: flusher)
        #expect(try flusher.node(at: "b") == nil)
        let watching = try Journal(directory: killed.path, boot: "one")
        _ = try watching.node(at: "a")
        let before = try watching.changeCounter()
        for _ in 0..<3 { _ = try flusher.children(of: .root) }
        #expect(try watching.changeCounter() == before)
        let bare = try killed.copy()
        try Files.writeAtomically("\(bare.path)/closes", Array(bytes.prefix(40)))
        #expect(try Journal(directory: bare.path, boot: "one").node(at: "a") != nil, "its row was written")
    }

    @Test func aLogThatCannotBeWrittenCostsNothingButTime() throws {
        // Names are taken, and nothing is noted yet.
        _ = try journal.createFileLater(at: "open", attributes: .file())
        #expect(try !journal.writeNewFiles(olderThan: 0))
        _ = unlink(log)
        try Files.makeDirectories(log)
        let before = try other.changeCounter()
        let node = try close("a")
        #expect(try other.changeCounter() != before)
        try Files.removeDirectory(log)
        try expectWhole(node, in: other)
    }

    /// Who sends files is not kept from it, and so makes room; the next mount does not pass over what it cannot read.
    @Test func aLogThatCannotBeReadStopsTheNextMountAndNobodyElse() throws {
        try close("a")
        let killed = try fixture.scratch.copy()
        _ = unlink("\(killed.path)/closes")
        try Files.makeDirectories("\(killed.path)/closes")
        let flusher = try Journal(directory: killed.path, boot: "one")
        #expect(try flusher.node(at: "a") == nil)
        #expect(throws: JournalError.self) { try Journal.recovering(directory: killed.path, boot: "one") }
    }

    @Test func whatALogCannotHoldHasItsRowAtOnce() throws {
        try close("first")
        #expect(try !journal.writeNewFiles(olderThan: 0))
        let node = try journal.createFileLater(at: "holes", attributes: .file())
        let generation = try #require(node.generation)
        var content = generation.content
        for index in 0..<10_000 { content.write(ByteRange(offset: Int64(index) * 10, count: 1)) }
        let before = try counter()
        #expect(try journal.seal(node.id, generation.id, content: content, modified: nil))
        #expect(try counter() != before)
        #expect(try other.node(at: "holes")?.generation?.content == content)
    }

    @Test func aTransactionThatFailsKeepsThemForTheNext() throws {
        let node = try close("a")
        let later = try journal.createFileLater(at: "b", attributes: .file(0o640))
        #expect(throws: JournalError.self) {
            try journal.rename(from: .root, to: "a", sourceRemote: .absent, targetRemote: .absent)
        }
        let before = try counter()
        try finish(later)
        #expect(try counter() == before, "what comes after is not noted")
        try expectWhole(node, in: journal)
        try expectWhole(later, in: journal)
    }

    /// Closes, transactions of the mount and looks of another process, all at once.
    @Test func noCloseIsLostOrDoubledAmongThreads() throws {
        let (journal, other) = (journal, other)
        let ended = Monitor<Int>(0)
        let isOver = Monitor(false)
        func start(_ body: @escaping @Sendable () throws -> Void) throws {
            try Thread.detached(name: "closes") {
                while !isOver.inspect({ $0 }) { _ = try? body() }
                ended.update { $0 += 1 }
            }
        }
        try start { _ = try journal.writeNewFiles(olderThan: 0) }
        // One that comes to nothing must not be taken for the end of the next.
        try start { try journal.rename(from: .root, to: "x", sourceRemote: .absent, targetRemote: .absent) }
        try start { _ = try other.children(of: .root) }
        let nodes = try (0..<1500).map { try close(ObjectKey("file-\($0)"), "data \($0)") }
        isOver.update { $0 = true }
        ended.wait { $0 == 3 ? () : nil }
        let rows = try journal.children(of: .root)
        #expect(rows.count == nodes.count)
        for (index, node) in nodes.enumerated() { try expectWhole(node, in: other, "data \(index)") }
    }
}
