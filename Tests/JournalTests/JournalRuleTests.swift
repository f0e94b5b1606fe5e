// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Journal
import Testing

/// The rules of the mount's side, each on its own.
@Suite struct JournalRuleTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }
    private var remoteFile: RemoteState { fixture.remoteFile }

    init() throws { fixture = try Fixture() }

    @Test func aSpecialFileIsCompleteAndKeepsItsDeviceNumber() throws {
        let mode = FileAttributes.characterDeviceType | 0o600
        let device = FileAttributes(mode: mode, uid: 1, gid: 2, modified: Timestamp(seconds: 3), device: 0xFFFF_FFFE)
        let node = try journal.createFile(at: "a", attributes: device, isComplete: true, remote: .absent)
        #expect(!node.isOpen && node.size == 0)
        #expect(
            try journal.blockers(of: node).isEmpty && node.generation?.isSendable == true,
            "there is nothing to sync"
        )
        try journal.setAttributes(at: "a", remote: .absent, AttributeChanges(permissions: 0o644))
        try journal.rename(from: "a", to: "b", sourceRemote: .absent, targetRemote: .absent)
        try fixture.recover()
        let row = try fixture.row("b")
        #expect(row.kind == .file && row.attributes.device == 0xFFFF_FFFE)
        #expect(row.attributes.mode == FileAttributes.characterDeviceType | 0o644)
    }

    @Test func extendedAttributesStayWithTheRow() throws {
        let extended = try #require(ExtendedAttributes(text: "%7B%22user.a%22%3A%22%22%7D"))
        try fixture.save("f")
        for path: ObjectKey in ["a", "f"] {
            let remote: RemoteState = path == "a" ? remoteFile : .absent
            try journal.setAttributes(at: path, remote: remote, AttributeChanges(extended: extended))
            #expect(try fixture.row(path).attributes.extended == extended)
        }
        try fixture.save("f", "other")
        try journal.rename(from: "f", to: "g", sourceRemote: .absent, targetRemote: .absent)
        try fixture.recover()
        #expect(try fixture.row("g").attributes.extended == extended)
        // As at the remote again.
        #expect(
            try journal.setAttributes(at: "a", remote: remoteFile, AttributeChanges(extended: ExtendedAttributes.none))
                == nil
        )
        #expect(try fixture.row("g").attributes.permissions == 0o644)
    }

    @Test func noRowIsMadeOfWhatIsKnownByNameOnly() throws {
        guard case .file(let version, _, _) = remoteFile else { return }
        let folder = RemoteState.directory(hasMarker: false, nil)
        let entries = [RemoteEntry(path: "d/f", state: .file(version, nil))]
        let changes = AttributeChanges(permissions: 0o600)
        expectIncomplete { _ = try journal.setAttributes(at: "a", remote: .file(version, nil), changes) }
        expectIncomplete {
            _ = try journal.rename(from: "a", to: "b", sourceRemote: .file(version, nil), targetRemote: .absent)
        }
        expectIncomplete {
            let source = RemoteState.directory(hasMarker: true, .directory())
            try journal.renameDirectory(
                from: "d",
                to: "e",
                sourceRemote: source,
                targetRemote: .absent,
                entries: entries
            )
        }
        expectIncomplete {
            try journal.exchange("a", "b", firstRemote: remoteFile, secondRemote: .file(version, nil))
        }
        #expect(try journal.descendants(of: .root).isEmpty)
        // What is replaced needs none.
        _ = try journal.createDirectory(at: "d", attributes: .directory(), remote: folder)
        try journal.remove(at: "a", remote: .file(version, nil))
    }

    private func expectIncomplete(_ body: () throws -> Void) {
        #expect(performing: body, throws: { ($0 as? JournalError)?.kind == .incomplete })
    }

    @Test func aJournalOfAnEarlierVersionIsTakenOn() throws {
        try fixture.save("f")
        try fixture.damage(OlderJournal.version5)
        try fixture.recover()
        #expect(try fixture.row("f").attributes == .file())
    }

    @Test func aFileThatIsCreatedAndRemovedLeavesNothing() throws {
        try fixture.save("a")
        try journal.remove(at: "a", remote: .absent)
        #expect(try fixture.paths().isEmpty)
        let released = try journal.releaseGenerations()
        #expect(released.count == 1 && released.first?.object == nil)
        for generation in released { try journal.removeStaging(generation.id) }
        #expect(try fixture.staging() == 0)
    }

    @Test func removingARemoteFileLeavesATombstoneWithItsVersion() throws {
        try journal.remove(at: "a", remote: remoteFile)
        let row = try fixture.row("a")
        #expect(row.isTombstone && row.base == .version(fixture.old))
    }

    @Test func aFileMadeAgainReplacesTheVersionThatWasRemoved() throws {
        try journal.remove(at: "a", remote: remoteFile)
        let tombstone = try fixture.row("a")
        try fixture.save("a")
        let row = try fixture.row("a")
        #expect(row.kind == .file && row.base == .version(fixture.old) && row.id != tombstone.id)
        try journal.remove(at: "a", remote: remoteFile)
        #expect(try fixture.row("a").base == .version(fixture.old))
    }

    @Test func writingToARemoteFileDownloadsNothing() throws {
        let node = try journal.beginWriting(at: "a", remote: remoteFile)
        let generation = try #require(node.generation)
        #expect(node.isOpen && !generation.isSealed && node.base == .version(fixture.old))
        #expect(generation.underlay == .remote("a", fixture.old))
        #expect(generation.content == ContentMap(size: 10, underlayLength: 10))
        #expect(try journal.blockers(of: node) == [.open])
    }

    @Test func aRowThatWasReplacedIsNotWrittenTo() throws {
        let node = try journal.beginWriting(at: "a", remote: remoteFile)
        #expect(try journal.beginWriting(at: "a", remote: remoteFile, expecting: node.id).id == node.id)
        try journal.remove(at: "a", remote: remoteFile)
        let tombstone = try #require(try journal.node(at: "a"))
        #expect(throws: JournalError.self) {
            _ = try journal.beginWriting(at: "a", remote: remoteFile, expecting: NodeID(tombstone.id.value + 1))
        }
        #expect(throws: JournalError.self) {
            _ = try journal.beginWriting(at: "b", remote: remoteFile, expecting: node.id)
        }
        #expect(try journal.node(at: "b") == nil, "nothing was made for a name without the row")
    }

    @Test func aFileOpenedAndClosedUnchangedIsCleanAgain() throws {
        let node = try journal.beginWriting(at: "a", remote: remoteFile)
        let generation = try #require(node.generation)
        try journal.seal(node.id, generation.id, content: generation.content, modified: nil)
        #expect(try fixture.paths().isEmpty)
    }

    @Test func renamingThereAndBackEndsClean() throws {
        let moved = try journal.rename(from: "a", to: "b", sourceRemote: remoteFile, targetRemote: .absent)
        #expect(moved?.generation?.wholeRemote?.key == "a" && moved?.base == .absent)
        #expect(try fixture.row("a").isTombstone)
        let back = try journal.rename(from: "b", to: "a", sourceRemote: .absent, targetRemote: remoteFile)
        #expect(back == nil)
        #expect(try fixture.paths().isEmpty)
    }

    @Test func whatComesBackWhileItsDeletionIsUnderWayIsSentAgain() throws {
        let link = RemoteState.file(fixture.old, .link, target: "text")
        try journal.rename(from: "a", to: "b", sourceRemote: link, targetRemote: .absent)
        let tombstone = try fixture.row("a")
        let request = try #require(try journal.noteRequest(for: tombstone, "a", .deletion))
        #expect(try journal.rename(from: "b", to: "a", sourceRemote: .absent, targetRemote: link) != nil)
        try journal.completeObjectRemoval(at: "a", request: request)
        let row = try fixture.row("a")
        #expect(row.kind == .symbolicLink && row.target == "text" && row.base == .absent)
    }

    @Test func noDeletionIsSentForATombstoneThatIsNoMore() throws {
        let link = RemoteState.file(fixture.old, .link, target: "text")
        try journal.rename(from: "a", to: "b", sourceRemote: link, targetRemote: .absent)
        let tombstone = try fixture.row("a")
        #expect(try journal.rename(from: "b", to: "a", sourceRemote: .absent, targetRemote: link) == nil)
        #expect(try journal.noteRequest(for: tombstone, "a", .deletion) == nil)
    }

    @Test func changedAttributesKeepARenamedFileFromBeingClean() throws {
        try journal.rename(from: "a", to: "b", sourceRemote: remoteFile, targetRemote: .absent)
        try journal.setAttributes(at: "b", remote: .absent, AttributeChanges(permissions: 0o600))
        try journal.rename(from: "b", to: "a", sourceRemote: .absent, targetRemote: remoteFile)
        #expect(try fixture.row("a").attributes.permissions == 0o600)
        let row = try journal.setAttributes(at: "a", remote: remoteFile, AttributeChanges(permissions: 0o644))
        #expect(row == nil)
        #expect(try fixture.paths().isEmpty)
    }

    @Test func aFolderRenamedThereAndBackLeavesNoFileRows() throws {
        let folder = RemoteState.directory(hasMarker: true, .directory())
        let entries = [
            RemoteEntry(path: "d/x", state: remoteFile), RemoteEntry(path: "d/e", state: folder),
            RemoteEntry(path: "d/e/y", state: remoteFile),
        ]
        try journal.renameDirectory(
            from: "d",
            to: "f",
            sourceRemote: folder,
            targetRemote: .absent,
            entries: entries
        )
        #expect(try fixture.paths() == ["d", "d/e", "d/e/y", "d/x", "f", "f/e", "f/e/y", "f/x"])
        #expect(try fixture.row("f/e/y").generation?.wholeRemote?.key == "d/e/y")
        #expect(try fixture.row("d/e").hasRemoteDirectory && fixture.row("d/e").isTombstone)
        try journal.renameDirectory(
            from: "f",
            to: "d",
            sourceRemote: .absent,
            targetRemote: folder,
            entries: []
        )
        let rows = try journal.descendants(of: .root)
        #expect(rows.allSatisfy { $0.kind == .directory })
    }

    @Test func aFileReplacedByAFolderAndTheOtherWayRound() throws {
        try journal.remove(at: "a", remote: remoteFile)
        _ = try journal.createDirectory(at: "a", attributes: .directory(), remote: remoteFile)
        let folder = try fixture.row("a")
        #expect(folder.kind == .directory && folder.base == .version(fixture.old))
        let child = try fixture.save("a/x")
        #expect(try journal.blockers(of: child) == [.ancestor(folder.id)])
        try journal.completeObjectRemoval(at: "a")
        #expect(try journal.blockers(of: child).isEmpty)

        let remote = RemoteState.directory(hasMarker: true, .directory())
        try journal.remove(at: "d/x", remote: remoteFile)
        try journal.remove(at: "d", remote: remote)
        let file = try fixture.save("d")
        #expect(file.hasRemoteDirectory && file.base == .absent)
        let below = try fixture.row("d/x")
        #expect(try journal.blockers(of: file) == [.descendant(below.id)])
        try journal.completeObjectRemoval(at: "d/x")
        #expect(try journal.blockers(of: fixture.row("d")).isEmpty)
        try journal.completeDirectoryRemoval(at: "d")
        #expect(try !fixture.row("d").hasRemoteDirectory)
    }

    /// The folders above may be implied by that object alone.
    @Test func anObjectGivesWayToAFolderWhenTheFolderAboveHasItsMarker() throws {
        let above = try journal.createDirectory(
            at: "d/e",
            attributes: .directory(),
            remote: .directory(hasMarker: false, .directory())
        )
        try journal.remove(at: "d/e/a", remote: remoteFile)
        _ = try journal.createDirectory(at: "d/e/a", attributes: .directory(), remote: remoteFile)
        #expect(try journal.blockers(of: fixture.row("d/e/a")) == [.folder(above.id)])
        let begun = try #require(try journal.beginDirectory(above))
        try journal.completeDirectory(begun)
        #expect(try journal.blockers(of: fixture.row("d/e/a")).isEmpty)
    }

    /// The upload ends after the folder's row was read, and before anybody looked for what it has to wait for.
    @Test func aFolderAtTheKeyOfAnUploadIsLookedAtAnewWhenThatEnds() throws {
        let folder = try journal.createDirectory(at: "d", attributes: .directory(), remote: .absent)
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.exchange("a", "d", firstRemote: .absent, secondRemote: .absent)
        let read = try fixture.row("a")
        #expect(read.id == folder.id && read.base == .absent)
        #expect(try journal.blockers(of: read) == [.transfer(transfer.id)])
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
        #expect(throws: JournalError.self) { try journal.blockers(of: read) }
        #expect(try journal.beginDirectory(read) == nil, "its marker would be refused, or hide the object")
        let row = try fixture.row("a")
        #expect(row.base == .version(fixture.new))
        #expect(try journal.blockers(of: row) == [.source(fixture.row("d").id)])
    }

    @Test func renamingOverARemoteFileTakesItsVersionAsBase() throws {
        try fixture.save("tmp")
        try journal.rename(from: "tmp", to: "a", sourceRemote: .absent, targetRemote: remoteFile)
        #expect(try fixture.paths() == ["a"])
        #expect(try fixture.row("a").base == .version(fixture.old))
    }

    @Test func writingDuringAnUploadOpensANewGeneration() throws {
        let sent = try fixture.save("a")
        let transfer = try fixture.begin("a")
        let node = try journal.beginWriting(at: "a", remote: .absent)
        let generation = try #require(node.generation)
        #expect(generation.id != sent.generation?.id)
        #expect(try generation.underlay == .generation(#require(sent.generation).id))
        #expect(try journal.transfers().first?.fate == .superseded)
        try journal.seal(node.id, generation.id, content: generation.content, modified: nil)
        #expect(try fixture.row("a").generation?.id == sent.generation?.id, "nothing was written")
        #expect(try journal.transfers().first?.fate == .wanted)
        #expect(transfer.generation == sent.generation?.id)
    }

    @Test func writingAfterAnUploadEndedReopensTheGeneration() throws {
        let row = try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.removeTransfer(transfer.id)
        let node = try journal.beginWriting(at: "a", remote: .absent)
        #expect(node.generation?.id == row.generation?.id)
        #expect(node.generation?.isSealed == false)
    }

    @Test func namesAreTakenOnce() throws {
        try fixture.save("a")
        let error = #expect(throws: JournalError.self) {
            _ = try journal.createFile(at: "a", attributes: .file(), remote: .absent)
        }
        #expect(error?.kind == .constraint)
        #expect(throws: JournalError.self) { _ = try journal.beginWriting(at: "b", remote: .absent) }
        #expect(throws: JournalError.self) {
            _ = try journal.createDirectory(at: .root, attributes: .directory(), remote: .absent)
        }
    }

    @Test func recordsOfARemovedFileAreIgnored() throws {
        let (node, content) = try fixture.write("a")
        let generation = try #require(node.generation)
        try journal.remove(at: "a", remote: .absent)
        #expect(try !journal.record(node.id, generation.id, content: content, modified: nil, durable: true))
        #expect(try !journal.seal(node.id, generation.id, content: content, modified: nil))
        #expect(try fixture.paths().isEmpty)
    }

    @Test func namesAreBytes() throws {
        let composed = ObjectKey(bytes: [0xC3, 0xA9])
        let decomposed = ObjectKey(bytes: [0x65, 0xCC, 0x81])
        try fixture.save(composed)
        #expect(try journal.node(at: decomposed) == nil)
        try fixture.save(decomposed)
        #expect(try journal.children(of: .root).count == 2)
    }

    @Test(arguments: [3, 40])
    func rowsOfSomeNamesAreFoundHoweverManyThereAre(count: Int) throws {
        for number in 0..<count { try fixture.save(ObjectKey("d/f\(number)")) }
        try fixture.save("d0/f1")
        try journal.remove(at: "d/f2", remote: .absent)
        _ = try journal.remove(at: "d/gone", remote: .file(fixture.old, .file()))
        let names = ["f1", "f2", "gone", "none", "f0"].map { ObjectKey($0) }
        let nodes = try journal.nodes(names, in: "d")
        #expect(nodes.keys.map(\.string).sorted() == ["f0", "f1", "gone"])
        #expect(try nodes["f1"]?.sequence == journal.node(at: "d/f1")?.sequence && nodes["f1"]?.path == "d/f1")
        #expect(nodes["gone"]?.isTombstone == true)
        #expect(try journal.nodes(names, in: "e").isEmpty && journal.nodes([], in: "d").isEmpty)
    }

    @Test func descendantsAreThoseBelowAndNoNeighbours() throws {
        for path in ["d/x", "d/e/y", "d0", "d.", "d-/z", "dd/x", "c/d/x"] { try fixture.save(ObjectKey(path)) }
        #expect(try journal.descendants(of: "d").map(\.path.string).sorted() == ["d/e/y", "d/x"])
        #expect(try journal.hasDescendants("d") && !journal.hasDescendants("d0"))
    }

    @Test func theChangeCounterMovesWithEveryCommit() throws {
        let before = try journal.changeCounter()
        #expect(try journal.changeCounter() == before)
        try fixture.save("a")
        let after = try journal.changeCounter()
        #expect(after != before)
        let other = try Journal(directory: fixture.scratch.path)
        try other.remove(at: "a", remote: .absent)
        #expect(try journal.changeCounter() != after)
    }

    @Test func flushWaitsForWhatWasChangedBeforeItAndNotForLater() throws {
        try fixture.save("a")
        let now = try journal.currentSequence()
        try fixture.save("b")
        #expect(try journal.unsettledNodes(through: now).map(\.path.string) == ["a"])
        // A rename does not make old content newer.
        try journal.rename(from: "a", to: "c", sourceRemote: .absent, targetRemote: .absent)
        #expect(try journal.unsettledNodes(through: now).map(\.path.string) == ["c"])
        #expect(try journal.unsettledNodes(through: now, below: "d").isEmpty)
        // Newer content in a file whose older content arrived is not waited for.
        let transfer = try fixture.begin("c")
        let node = try journal.beginWriting(at: "c", remote: .absent)
        let content = try fixture.put(node, "more")
        try journal.seal(node.id, try #require(node.generation).id, content: content, modified: nil)
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
        #expect(try journal.unsettledNodes(through: now).isEmpty)
        #expect(try fixture.row("c").base == .version(fixture.new))
    }
}
