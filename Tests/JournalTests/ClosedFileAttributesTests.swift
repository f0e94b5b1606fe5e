// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Platform
import Testing

@testable import Journal

/// Attributes of files that are closed and have no row yet, as rsync(1) and unzip(1) give them.
@Suite struct ClosedFileAttributesTests {
    private let fixture: Fixture
    /// The same journal as another process sees it.
    private let other: Journal

    init() throws {
        fixture = try Fixture()
        other = try Journal(directory: fixture.scratch.path, boot: "one")
        // Names are taken.
        _ = try fixture.journal.createFileLater(at: "first", attributes: .file())
        #expect(try !fixture.journal.writeNewFiles(olderThan: 0))
    }

    private var journal: Journal { fixture.journal }

    private func close(_ path: ObjectKey) throws -> JournalNode {
        let node = try journal.createFileLater(at: path, attributes: .file(0o600))
        let content = try fixture.put(node, "data")
        let generation = try #require(node.generation)
        #expect(try journal.seal(node.id, generation.id, content: content, modified: Timestamp(seconds: 7)))
        return node
    }

    private let changes = AttributeChanges(permissions: 0o644, uid: 5, modified: Timestamp(seconds: 9))

    /// What the file system does; whether the row had to be changed.
    @discardableResult
    private func change(_ node: JournalNode, _ changes: AttributeChanges? = nil) throws -> Bool {
        let changes = changes ?? self.changes
        if journal.setAttributesOfNewFile(node.id, at: node.path, changes) { return false }
        _ = try journal.setAttributes(at: node.path, remote: .absent, changes)
        return true
    }

    private func expectChanged(_ node: JournalNode, in journal: Journal) throws {
        let row = try #require(try journal.node(at: node.path), "\(node.path) is lost")
        #expect(row.id == node.id && !row.isOpen && row.size == 4 && row.generation?.isSealed == true)
        let attributes = row.attributes
        #expect(attributes.permissions == 0o644 && attributes.uid == 5 && attributes.modified == Timestamp(seconds: 9))
    }

    @Test func theyComeWithTheRow() throws {
        let before = try other.changeCounter()
        let begun = journal.begunTransactions
        let nodes = try ["a", "b", "c"].map { try close(ObjectKey($0)) }
        for node in nodes {
            #expect(try !change(node, AttributeChanges(permissions: 0o644)))
            #expect(try !change(node, AttributeChanges(uid: 5, modified: Timestamp(seconds: 9))))
        }
        #expect(try other.changeCounter() == before && journal.begunTransactions == begun + 12)
        let killed = try fixture.scratch.copy()
        let recovered = try Journal.recovering(directory: killed.path, boot: "one")
        let orphaned = try fixture.scratch.copy()
        let flusher = try Journal(directory: orphaned.path, boot: "one")
        #expect(try journal.children(of: .root).count == 4)
        for journal in [recovered.journal, flusher, journal, other] {
            for node in nodes { try expectChanged(node, in: journal) }
        }
        #expect(recovered.report.orphans == 0)
    }

    /// Another process made the row before: it is changed there.
    @Test func whatAnotherHasTakenIsChangedInItsRow() throws {
        let node = try close("a")
        #expect(try other.node(at: "a")?.attributes.permissions == 0o600)
        #expect(try change(node))
        try expectChanged(node, in: other)
        let later = try close("b")
        #expect(try !change(later), "a claim of before counts for it")
        for journal in [other, journal] {
            for node in [node, later] { try expectChanged(node, in: journal) }
        }
    }

    /// Another process is about to make a row, but has not, or never will: it was killed, or its transaction failed.
    @Test(arguments: [false, true])
    func whatAnotherReadsCountsAsTaken(isKilled: Bool) throws {
        let node = try close("a")
        _ = try CloseLog(directory: fixture.scratch.path).take()
        if isKilled { try setClaim(1) }
        #expect(!journal.setAttributesOfNewFile(node.id, at: "a", changes))
        // Nobody was told that it was done: both is right when the next one finds it so.
        let killed = try fixture.scratch.copy()
        #expect(try Journal.recovering(directory: killed.path, boot: "one").journal.node(at: "a") != nil)
        #expect(try change(node))
        let next = try close("b")
        #expect(try change(next) == isKilled)
        for node in [node, next] { try expectChanged(node, in: other) }
        // The next one who takes something ends what the killed one began.
        _ = try close("c")
        #expect(try other.node(at: "c") != nil)
        let last = try close("d")
        #expect(try !change(last))
        for journal in [journal, other] {
            for node in [node, next, last] { try expectChanged(node, in: journal) }
        }
    }

    private func setClaim(_ count: UInt8) throws {
        let file = try FileDescriptor.open("\(fixture.scratch.path)/closes", O_RDWR)
        let bytes = [count] + [UInt8](repeating: 0, count: 7)
        #expect(bytes.withUnsafeBytes { pwrite(file.raw, $0.baseAddress, 8, CloseLog.limit) } == 8)
    }

    /// It was sent and is gone from the journal when the attributes come.
    @Test func whatAnotherHasSentDoesNotComeBackByThem() throws {
        let node = try close("a")
        #expect(try other.node(at: "a") != nil)
        try other.remove(at: "a", remote: .absent)
        #expect(!journal.setAttributesOfNewFile(node.id, at: "a", changes))
        #expect(try journal.node(at: "a") == nil && other.node(at: "a") == nil)
        let killed = try fixture.scratch.copy()
        #expect(try Journal.recovering(directory: killed.path, boot: "one").journal.node(at: "a") == nil)
    }

    @Test func whatTheLogCannotHoldChangesTheRow() throws {
        let node = try close("a")
        let extended = try #require(ExtendedAttributes(text: "%7B%22user.a%22%3A%22%22%7D"))
        #expect(try change(node, AttributeChanges(permissions: 0o644, extended: extended)))
        #expect(try other.node(at: "a")?.attributes.permissions == 0o644)
        // A log that is full.
        let last = try close("b")
        var count = 0
        while journal.setAttributesOfNewFile(last.id, at: "b", AttributeChanges(uid: UInt32(count))) { count += 1 }
        #expect(count > 1000)
        #expect(try other.node(at: "b")?.attributes.uid == UInt32(count - 1))
        try change(last)
        try expectChanged(last, in: other)
    }

    /// One process closes and changes, transactions and looks of another come at any moment.
    @Test func noChangeIsLostAmongThreadsAndProcesses() throws {
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
        try start { _ = try other.children(of: .root) }
        var inLog = 0
        let nodes = try (0..<1500).map { index -> JournalNode in
            let node = try close(ObjectKey("file-\(index)"))
            for changes in [AttributeChanges(uid: 5), AttributeChanges(permissions: 0o644), changes] {
                if try !change(node, changes) { inLog += 1 }
            }
            return node
        }
        isOver.update { $0 = true }
        ended.wait { $0 == 2 ? () : nil }
        #expect(inLog > 0)
        for node in nodes { try expectChanged(node, in: other) }
        #expect(try journal.children(of: .root).count == nodes.count + 1)
    }

    @Test func theNewestRecordOfEachFileCountsWhereNoneHasARow() {
        func record(_ serial: UInt64, _ node: Int64) -> CloseRecord {
            CloseRecord(
                serial: serial,
                node: NodeID(node),
                generation: GenerationID(node),
                path: "a",
                mode: 0,
                uid: 0,
                gid: 0,
                modified: Timestamp(seconds: 0),
                closedAt: Timestamp(seconds: 0),
                size: 0,
                extents: ExtentSet(),
                checksums: []
            )
        }
        let chain = [record(4, 1), record(5, 2), record(6, 1), record(7, 3), record(8, 2), record(9, 1)]
        func left(_ serial: UInt64) -> [UInt64] { CloseRecord.withoutRows(chain, after: serial).map(\.serial) }
        #expect(left(0) == [7, 8, 9] && left(3) == [7, 8, 9])
        #expect(left(4) == [7, 8] && left(5) == [7] && left(6) == [7])
        #expect(left(7).isEmpty && left(9).isEmpty)
    }
}
