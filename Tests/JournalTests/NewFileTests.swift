// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform
import Testing

/// Files that get their row with their first record.
@Suite struct NewFileTests {
    private let fixture: Fixture
    /// The same journal as another process sees it.
    private let other: Journal
    private let path = ObjectKey("folder/file")

    init() throws {
        fixture = try Fixture()
        other = try Journal(directory: fixture.scratch.path, boot: "one")
    }

    private var journal: Journal { fixture.journal }

    private func make(_ path: ObjectKey? = nil) throws -> (JournalNode, GenerationID) {
        let node = try journal.createFileLater(at: path ?? self.path, attributes: .file())
        return (node, try #require(node.generation).id)
    }

    @Test func itsCloseIsSeenWholeByOtherProcesses() throws {
        let (node, generation) = try make()
        #expect(try other.node(at: path) == nil)
        let content = try fixture.put(node, "data")
        let before = try other.changeCounter()
        let begun = journal.begunTransactions
        #expect(try journal.seal(node.id, generation, content: content, modified: Timestamp(seconds: 7)))
        #expect(journal.begunTransactions == begun + 1)
        #expect(try other.changeCounter() == before)
        let row = try #require(try other.node(at: path))
        #expect(row.id == node.id && row.generation?.id == generation)
        #expect(!row.isOpen && row.generation?.isSealed == true && row.generation?.isSynced == false)
        #expect(row.generation?.content == content && row.attributes.modified == Timestamp(seconds: 7))
        #expect(row.sequence > 0 && row.attributeSequence == row.sequence && row.firstSequence == row.sequence)
        #expect(row.base == .absent)
        // Nothing was written twice.
        #expect(row.generation?.revision == 0)
    }

    @Test func everyLookAtItMakesItsRow() throws {
        let looks: [(String, (JournalNode, GenerationID) throws -> Bool)] = [
            ("path", { _, _ in try journal.node(at: path)?.isOpen == true }),
            ("row", { node, _ in try journal.node(node.id)?.path == path }),
            ("generation", { _, id in try journal.generation(id)?.isSealed == false }),
            ("folder", { _, _ in try journal.children(of: path.parent).count == 1 }),
            ("tree", { _, _ in try journal.descendants(of: .root).count == 1 }),
            ("any below", { _, _ in try journal.hasDescendants(path.parent) }),
            (
                "record",
                { node, id in
                    try journal.record(node.id, id, content: ContentMap(size: 3), modified: nil, durable: true)
                }
            ),
            (
                "another change",
                { _, _ in
                    _ = try journal.createDirectory(at: ObjectKey("other"), attributes: .directory(), remote: .absent)
                    return true
                }
            ),
            ("its age", { _, _ in try !journal.writeNewFiles(olderThan: 0) }),
        ]
        for (name, look) in looks {
            let (node, generation) = try make()
            #expect(try other.node(at: path) == nil, "\(name)")
            #expect(try look(node, generation), "\(name)")
            #expect(try other.node(at: path)?.id == node.id, "\(name)")
            try journal.remove(at: path, remote: .absent)
            for gone in try journal.releaseGenerations() { try journal.removeStaging(gone.id) }
        }
    }

    /// The flusher takes names for conflict copies.
    @Test(arguments: [false, true])
    func whatAnotherProcessPutUnderItsNameCostsNothing(isClosed: Bool) throws {
        var files: [(JournalNode, GenerationID, ContentMap)] = []
        for name in ["folder/file", "folder/else"] {
            let (node, generation) = try make(ObjectKey(name))
            files.append((node, generation, try fixture.put(node, name)))
        }
        let theirs = try other.createFile(at: path, attributes: .file(), remote: .absent)
        if !isClosed { #expect(try !journal.writeNewFiles(olderThan: 0)) }
        for (node, generation, content) in files {
            #expect(try journal.seal(node.id, generation, content: content, modified: nil))
        }
        #expect(try other.node(at: path)?.id == theirs.id)
        #expect(try other.node(at: ObjectKey("folder/else"))?.id == files[1].0.id)
        let ours = try #require(try other.node(files[0].0.id), "what was written is lost")
        #expect(ours.path.parent == path.parent && ours.path.string.hasPrefix("folder/file (conflict "))
        #expect(!ours.isOpen && ours.generation?.content == files[0].2 && ours.generation?.isSealed == true)
        #expect(try FileStatus.of(journal.stagingPath(files[0].1)) != nil)
    }

    @Test func aLookAtOtherNamesLeavesItAlone() throws {
        let (node, _) = try make()
        #expect(try journal.node(at: ObjectKey("folder/else")) == nil)
        #expect(try journal.children(of: .root).isEmpty)
        #expect(try journal.writeNewFiles(olderThan: 60))
        #expect(try other.node(node.id) == nil)
    }

    @Test func attributesOfAnOpenOneComeWithItsRow() throws {
        let (node, generation) = try make()
        #expect(journal.isNewFile(node.id))
        let before = try other.changeCounter()
        let begun = journal.begunTransactions
        let owner = AttributeChanges(uid: 7, gid: 8)
        #expect(journal.setAttributesOfNewFile(node.id, at: path, owner, now: Timestamp(seconds: 3)))
        #expect(journal.setAttributesOfNewFile(node.id, at: path, AttributeChanges(permissions: 0o4750)))
        #expect(!journal.setAttributesOfNewFile(node.id, at: ObjectKey("else"), owner))
        #expect(!journal.setAttributesOfNewFile(NodeID(node.id.value + 1), at: path, owner))
        #expect(journal.begunTransactions == begun + 2)
        let content = try fixture.put(node, "data")
        #expect(try journal.seal(node.id, generation, content: content, modified: Timestamp(seconds: 7)))
        #expect(try other.changeCounter() == before)
        #expect(journal.isNewFile(node.id))
        let row = try #require(try other.node(at: path))
        #expect(row.attributes.permissions == 0o4750 && row.attributes.uid == 7 && row.attributes.gid == 8)
        #expect(row.attributes.modified == Timestamp(seconds: 7))
    }

    @Test func attributesOfOneWithARowChangeThat() throws {
        let (node, _) = try make()
        #expect(journal.setAttributesOfNewFile(node.id, at: path, AttributeChanges(permissions: 0o600)))
        #expect(try journal.node(at: path)?.attributes.permissions == 0o600)
        #expect(!journal.setAttributesOfNewFile(node.id, at: path, AttributeChanges(permissions: 0o400)))
        #expect(!journal.isNewFile(node.id))
        let row = try journal.setAttributes(at: path, remote: .absent, AttributeChanges(permissions: 0o400))
        #expect(row?.attributes.permissions == 0o400)
    }

    @Test func whatMovesOrRemovesItFindsIt() throws {
        let (first, _) = try make()
        try journal.rename(from: path, to: ObjectKey("moved"), sourceRemote: .absent, targetRemote: .absent)
        #expect(try other.node(at: ObjectKey("moved"))?.id == first.id)
        let (_, generation) = try make()
        try journal.remove(at: path, remote: .absent)
        #expect(try other.node(at: path) == nil)
        #expect(try journal.releaseGenerations().map(\.id) == [generation])
    }

    @Test func namesAreGivenOnce() throws {
        var rows: Set<NodeID> = []
        var generations: Set<GenerationID> = []
        for index in 0..<600 {
            let path = ObjectKey("file-\(index)")
            let (node, generation) =
                index % 3 == 0
                ? try { ($0, try #require($0.generation).id) }(
                    journal.createFile(at: path, attributes: .file(), remote: .absent)
                )
                : try make(path)
            #expect(rows.insert(node.id).inserted && generations.insert(generation).inserted)
            if index % 100 == 99 { try fixture.recover(boot: index % 200 == 99 ? "one" : "two") }
        }
    }

    @Test func aFlusherThatStartsLeavesItsBytesAlone() throws {
        // The files of these are not deleted: their flusher was killed.
        let (old, name) = try make(ObjectKey("old"))
        #expect(try journal.seal(old.id, name, content: try fixture.put(old, "data"), modified: nil))
        let others = [name, try #require(try fixture.save(ObjectKey("other")).generation).id]
        for path in ["old", "other"] { try journal.remove(at: ObjectKey(path), remote: .absent) }
        #expect(try journal.releaseGenerations().count == 2)
        let (node, generation) = try make()
        let written = try fixture.put(node, "data")
        #expect(try other.removeOrphans() == 2)
        for gone in others { #expect(try FileStatus.of(journal.stagingPath(gone)) == nil) }
        #expect(try FileStatus.of(journal.stagingPath(generation)) != nil)
        #expect(try journal.seal(node.id, generation, content: written, modified: nil))
        #expect(try other.removeOrphans() == 0)
    }

    /// Nothing tells it from one whose row was in a part of the log that is lost.
    @Test func itsBytesAreSetAsideWhenItsProcessDidNotCloseIt() throws {
        let (node, generation) = try make()
        _ = try fixture.put(node, "data")
        try fixture.recover()
        #expect(try journal.node(at: path) == nil)
        #expect(try FileStatus.of(journal.stagingPath(generation)) == nil)
        #expect(try fixture.report.orphans == 0 && fixture.quarantined().count == 1)
    }

    @Test func aTransactionThatFailsKeepsItForTheNext() throws {
        let (node, generation) = try make()
        let content = try fixture.put(node, "data")
        #expect(throws: JournalError.self) {
            try journal.rename(from: .root, to: path, sourceRemote: .absent, targetRemote: .absent)
        }
        #expect(try other.node(at: path) == nil)
        #expect(try journal.seal(node.id, generation, content: content, modified: nil))
        #expect(try other.node(at: path)?.generation?.isSealed == true)
    }

    private func staged() throws -> Set<String> {
        Set(try Files.names(in: "\(fixture.scratch.path)/staging").map(\.string))
    }

    @Test func filesMadeAheadAreThoseOfTheNextNewFilesAndGoWhenNoneCome() throws {
        _ = try make("first")
        try journal.prepareNewFiles()
        let prepared = try staged()
        #expect(prepared.count == 64)
        let (node, generation) = try make()
        #expect(prepared.contains(String(generation.value)))
        let content = try fixture.put(node, "data")
        #expect(try staged() == prepared)
        // The second time one is added for the one that was taken.
        try journal.prepareNewFiles()
        #expect(try staged().count == 65)
        journal.discardPreparedFiles()
        #expect(try staged() == [String(generation.value)])
        #expect(try journal.seal(node.id, generation, content: content, modified: nil))
        #expect(try StagingBytes.read(journal, generation) == Array("data".utf8))
        // Names whose files are gone are made when they are needed.
        let (next, later) = try make("later")
        _ = try fixture.put(next, "more")
        #expect(try staged() == [String(generation.value), String(later.value)])
    }

    @Test func emptyFilesDoNotKeepWhatWasMadeAheadForThem() throws {
        for index in 0..<1000 {
            if index % 20 == 0 { try journal.prepareNewFiles() }
            let name = ObjectKey("empty-\(index)")
            let (node, generation) = try make(name)
            _ = try journal.seal(node.id, generation, content: ContentMap(size: 0), modified: nil)
        }
        try journal.prepareNewFiles()
        // 64 for the next ones, and as many for those that were made and may want theirs.
        #expect(try openStagingFiles() <= 128)
        // Its bytes find another way.
        let (node, generation) = try make("last")
        for index in 0..<200 { _ = try make(ObjectKey("then-\(index)")) }
        try journal.prepareNewFiles()
        _ = try journal.seal(node.id, generation, content: try fixture.put(node, "data"), modified: nil)
        #expect(try StagingBytes.read(journal, generation) == Array("data".utf8))
    }

    private func openStagingFiles() throws -> Int {
        let folder = "\(fixture.scratch.path)/staging/"
        return try Files.names(in: "/proc/self/fd").filter { name in
            var target = [CChar](repeating: 0, count: 4096)
            let length = readlink("/proc/self/fd/\(name.string)", &target, target.count - 1)
            return length > 0
                && String(decoding: target.prefix(length).map(UInt8.init), as: UTF8.self).hasPrefix(folder)
        }.count
    }

    @Test func noFileIsTakenAwayWhoseNameIsTakenWhileItIsMade() throws {
        _ = try make("first")
        let journal = journal
        let isOver = Monitor<(wanted: Bool, done: Bool)>((false, false))
        try Thread.detached(name: "ahead") {
            while !isOver.inspect({ $0.wanted }) {
                try? journal.prepareNewFiles()
                journal.discardPreparedFiles()
            }
            isOver.update { $0.done = true }
        }
        var made: Set<String> = []
        for index in 0..<1000 {
            let (node, generation) = try make(ObjectKey("file-\(index)"))
            _ = try journal.seal(node.id, generation, content: try fixture.put(node, "data"), modified: nil)
            made.insert(String(generation.value))
        }
        isOver.update { $0.wanted = true }
        isOver.wait { $0.done ? () : nil }
        #expect(try staged() == made)
    }

    @Test func filesMadeAheadByAProcessThatWasKilledAreNobodysLoss() throws {
        let (node, generation) = try make()
        _ = try journal.seal(node.id, generation, content: try fixture.put(node, "data"), modified: nil)
        try journal.prepareNewFiles()
        let other = try fixture.scratch.copy()
        let powerless = try fixture.scratch.copy()
        let killed = try Journal.recovering(directory: other.path, boot: "one")
        #expect(killed.report.orphans == 64)
        #expect(try killed.journal.node(at: path) != nil)
        try fixture.damage("PRAGMA wal_checkpoint(TRUNCATE)")
        _ = unlink("\(powerless.path)/journal.sqlite")
        try Files.writeAtomically(
            "\(powerless.path)/journal.sqlite",
            try Files.read("\(fixture.scratch.path)/journal.sqlite", limit: 1 << 24)
        )
        for suffix in ["-wal", "-shm"] { _ = unlink("\(powerless.path)/journal.sqlite\(suffix)") }
        _ = try Journal.recovering(directory: powerless.path, boot: "one")
        #expect(try Files.names(in: "\(powerless.path)/quarantine").isEmpty)
        #expect(try Files.names(in: "\(powerless.path)/staging").count == 1)
    }
}
