// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Database
import Glibc
import Journal
import Platform
import Testing

/// What becomes of a row when an upload of it arrives, whatever happened meanwhile.
@Suite struct JournalCompletionTests {
    private let fixture: Fixture
    private var journal: Journal { fixture.journal }

    private let folderAttributes = FileAttributes(mode: 0o40755, uid: 0, gid: 0, modified: .now())

    init() throws { fixture = try Fixture() }

    @Test func whatIsSentUnchangedIsSettledAndItsFileIsTheObject() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        #expect(try journal.completeTransfer(transfer.id, version: fixture.new) == .settled)
        #expect(try fixture.paths().isEmpty)
        #expect(try journal.releaseGenerations(keepingAdoptable: true).isEmpty)
        let released = try journal.releaseGenerations()
        #expect(released.map(\.id) == [transfer.generation])
        #expect(released.first?.object?.version == fixture.new)
        #expect(try journal.releaseGenerations().isEmpty)
    }

    /// A process that is killed after the release of a generation leaves its file.
    @Test func filesOfNoGenerationAreRemovedAndAllOthersKept() throws {
        try fixture.save("a")
        let open = try #require(try fixture.write("b").0.generation)
        let transfer = try fixture.begin("a")
        #expect(try journal.removeOrphans() == 0)
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
        #expect(try journal.removeOrphans() == 0, "what is not released is still needed")
        let released = try journal.releaseGenerations()
        #expect(try journal.removeOrphans() == 1)
        #expect(try FileStatus.of(journal.stagingPath(try #require(released.first).id)) == nil)
        #expect(try FileStatus.of(journal.stagingPath(open.id)) != nil)
    }

    /// A flusher may open the journal while a mount is still bringing it in order.
    @Test func filesAreKeptWhoseRowsMayYetBeFound() throws {
        try fixture.save("a", "precious")
        for suffix in ["", "-wal", "-shm"] { _ = unlink("\(fixture.scratch.path)/journal.sqlite\(suffix)") }
        #expect(try Journal(directory: fixture.scratch.path).removeOrphans() == nil)
        #expect(try fixture.staging() == 1)
        // As a salvage leaves it, ended after the copy of all rows.
        try fixture.damage("INSERT INTO meta VALUES ('boot', 'one'), ('salvaging', '1')")
        #expect(try Journal(directory: fixture.scratch.path).removeOrphans() == nil)
        try fixture.recover()
        let names = try fixture.quarantined()
        #expect(names.count == 1, "it was taken for waste")
        #expect(try journal.removeOrphans() == 0)
    }

    @Test func aFolderStaysBuriedWhileSomethingMayComeIntoIt() throws {
        let folder = RemoteState.directory(hasMarker: true, folderAttributes)
        for path: ObjectKey in ["d/e/a", "d/e", "d"] {
            try journal.remove(at: path, remote: path == "d/e/a" ? fixture.remoteFile : folder)
        }
        let request = try #require(try journal.noteRequest(for: try fixture.row("d/e/a"), "d/e/a", .write))
        try journal.completeObjectRemoval(at: "d/e/a")
        for path: ObjectKey in ["d/e", "d"] {
            let completion = try journal.completeDirectoryRemoval(at: path)
            #expect(completion == .hasMore(try fixture.row(path).id))
            #expect(try journal.blockers(of: try fixture.row(path)).isEmpty)
        }
        #expect(try journal.unsettledNodes(through: .max).isEmpty, "a flush does not wait for it")
        #expect(try journal.areBuried(["d/", "d/e/", "d/e/a"]))
        #expect(try !journal.areBuried(["d/e/a", "d/e/b"]))
        try journal.endDoubt(request)
        #expect(try fixture.paths().isEmpty)
    }

    @Test func aFolderOfThisSideAloneIsBuriedWhereSomethingMayComeIntoIt() throws {
        _ = try journal.createDirectory(at: "d", attributes: folderAttributes, remote: .absent)
        try fixture.save("d/a")
        let transfer = try fixture.begin("d/a")
        try journal.remove(at: "d/a", remote: .absent)
        try journal.completeDirectoryRemoval(at: "d")
        try journal.remove(at: "d", remote: .absent)
        #expect(try fixture.paths() == ["d", "d/a"])
        try journal.removeTransfer(transfer.id)
        #expect(try fixture.paths().isEmpty)
    }

    @Test func newAttributesBecomeACopyOntoItself() throws {
        let node = try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.setAttributes(at: "a", remote: .absent, AttributeChanges(permissions: 0o600))
        #expect(try journal.completeTransfer(transfer.id, version: fixture.new) == .hasMore(node.id))
        let row = try fixture.row("a")
        #expect(row.base == .version(fixture.new))
        #expect(row.generation?.wholeRemote?.key == "a")
        #expect(row.attributes.permissions == 0o600)
    }

    @Test(arguments: [true, false])
    func attributesThatDidNotComeWithTheContentAreStillWanted(isNew: Bool) throws {
        let node = try isNew ? fixture.save("a") : fixture.edit("a")
        let transfer = try fixture.begin("a")
        let completion = try journal.completeTransfer(transfer.id, version: fixture.new, hasAttributes: false)
        #expect(completion == .hasMore(node.id))
        let row = try fixture.row("a")
        #expect(row.firstSequence == node.firstSequence, "a flush that waited for the content waits for them")
        #expect(row.generation?.underlay == .remote("a", fixture.new))
        let attributes = try fixture.begin("a")
        #expect(try journal.completeTransfer(attributes.id, version: fixture.new) == .settled)
    }

    @Test func newerContentShowsTheObjectInsteadOfTheFile() throws {
        try fixture.save("a", "0123456789")
        let transfer = try fixture.begin("a")
        let node = try journal.beginWriting(at: "a", remote: .absent)
        _ = try journal.completeTransfer(transfer.id, version: fixture.old)
        let row = try fixture.row("a")
        #expect(row.base == .version(fixture.old) && row.isOpen)
        #expect(row.generation?.id == node.generation?.id)
        #expect(row.generation?.underlay == .remote("a", fixture.old))
        #expect(try journal.releaseGenerations().first?.object?.key == "a")
    }

    @Test func aFileThatMovedAwayCopiesFromWhereItWasSent() throws {
        let node = try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.rename(from: "a", to: "b", sourceRemote: .absent, targetRemote: .absent)
        #expect(try fixture.row("a").isTombstone, "the upload may yet arrive there")
        #expect(try journal.transfers().first?.fate == .moved("b"))
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
        #expect(try fixture.row("a").base == .version(fixture.new))
        let moved = try fixture.row("b")
        #expect(moved.id == node.id && moved.base == .absent && moved.attributeSequence == 0)
        #expect(moved.generation?.wholeRemote?.key == "a")
        #expect(try journal.blockers(of: fixture.row("a")) == [.source(node.id)])
        // And back: it is as at the remote.
        let back = try journal.rename(from: "b", to: "a", sourceRemote: .absent, targetRemote: .absent)
        #expect(back == nil)
        #expect(try fixture.paths().isEmpty)
    }

    @Test func anUploadOfARemovedFileIsRemovedToo() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.remove(at: "a", remote: .absent)
        #expect(try journal.transfersToAbort().map(\.id) == [transfer.id])
        let tombstone = try fixture.row("a")
        #expect(try journal.completeTransfer(transfer.id, version: fixture.new) == .hasMore(tombstone.id))
        #expect(try fixture.row("a").base == .version(fixture.new))
    }

    @Test func anAbortedUploadTakesItsTombstoneAlong() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.remove(at: "a", remote: .absent)
        #expect(try fixture.paths() == ["a"])
        try journal.removeTransfer(transfer.id)
        #expect(try fixture.paths().isEmpty)
    }

    @Test func anotherFileAtTheKeyIsBasedOnWhatArrived() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a")
        try journal.remove(at: "a", remote: .absent)
        let other = try fixture.save("a", "other")
        #expect(try journal.blockers(of: other) == [.transfer(transfer.id)])
        #expect(try journal.beginTransfer(of: other, method: .put) == nil, "one upload a key")
        _ = try journal.completeTransfer(transfer.id, version: fixture.new)
        #expect(try fixture.row("a").base == .version(fixture.new))
        #expect(try fixture.row("a").generation?.content.extents.byteCount == 5)
    }

    @Test func twoUploadsOfOneContentDoNotUndoEachOther() throws {
        try fixture.save("a")
        let first = try fixture.begin("a")
        try journal.rename(from: "a", to: "b", sourceRemote: .absent, targetRemote: .absent)
        let second = try fixture.begin("b")
        _ = try journal.completeTransfer(first.id, version: fixture.new)
        #expect(try journal.transfers().map(\.fate) == [.wanted])
        #expect(try journal.completeTransfer(second.id, version: fixture.new) == .settled)
        #expect(try fixture.paths() == ["a"])
        #expect(try fixture.row("a").isTombstone)
    }

    @Test func aChangeBeforeTheUploadBeginsKeepsItFromBeginning() throws {
        let read = try fixture.save("a")
        try journal.setAttributes(at: "a", remote: .absent, AttributeChanges(uid: 5))
        #expect(try journal.beginTransfer(of: read, method: .put) == nil)
        let node = try journal.beginWriting(at: "a", remote: .absent)
        #expect(try journal.beginTransfer(of: node, method: .put) == nil, "open")
    }

    @Test func partsAndProgressAreKept() throws {
        try fixture.save("a")
        let transfer = try fixture.begin("a", .multipart)
        try journal.setUpload(transfer.id, method: .multipart, upload: "id", partSize: 5)
        for number in [2, 1] as [Int64] {
            let part = TransferPart(number: number, size: 5, digest: [1, 2], entityTag: "e\(number)")
            let acknowledged = try journal.recordPart(transfer.id, part)
            #expect(acknowledged == (number == 2 ? 5 : 10))
        }
        try fixture.recover()
        let kept = try #require(try journal.transfer(transfer.id))
        #expect(kept.upload == "id" && kept.partSize == 5 && kept.acknowledged == 10)
        #expect(try journal.parts(of: transfer.id).map(\.number) == [1, 2])
        try journal.markCommitting(transfer.id, expectedTag: "tag-2")
        #expect(try journal.transfer(transfer.id)?.phase == .committing)
        try journal.restartTransfer(transfer.id, method: .put)
        let fresh = try #require(try journal.transfer(transfer.id))
        #expect(fresh.upload == nil && fresh.acknowledged == 0 && fresh.phase == .sending)
        #expect(try journal.parts(of: transfer.id).isEmpty)
    }

    @Test func hydrationLetsGoOfTheUnderlayWhenNothingShowsIt() throws {
        try fixture.edit("a")
        let generation = try #require(try fixture.row("a").generation)
        #expect(throws: JournalError.self) { try journal.hydrated(generation.id, [ByteRange(4, 10)]) }
        _ = try fixture.begin("a")
        let half = try journal.hydrated(generation.id, [ByteRange(4, 7)])
        #expect(half.underlay != .none && half.content.underlayRanges == [ByteRange(7, 10)])
        let whole = try journal.hydrated(generation.id, [ByteRange(7, 10)])
        #expect(whole.underlay == .none && whole.content.extents.byteCount == 10)
    }

    /// A file that was renamed and then changed, its bytes fetched for an upload that has not ended.
    private func fetchedAfterARename() throws -> (row: JournalNode, transfer: TransferID) {
        try journal.rename(from: "a", to: "b", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        try fixture.save("b", "new")
        let transfer = try fixture.begin("b")
        try journal.hydrated(try #require(transfer.generation), [ByteRange(3, 10)])
        return (try fixture.row("b"), transfer.id)
    }

    @Test func whatBytesWereFetchedFromStaysUntilTheyArrive() throws {
        let (row, transfer) = try fetchedAfterARename()
        #expect(row.generation?.origin?.key == "a" && row.generation?.origin?.version == fixture.old)
        #expect(try journal.blockers(of: fixture.row("a")) == [.arrival(row.id)])
        try fixture.recover(boot: "two")
        #expect(try journal.blockers(of: fixture.row("a")) == [.arrival(row.id)], "after power loss")
        // Newer content over the one that is sent, and another name.
        try fixture.save("b", "newer")
        try journal.rename(from: "b", to: "c", sourceRemote: .absent, targetRemote: .absent)
        #expect(try journal.blockers(of: fixture.row("a")) == [.arrival(row.id)])
        _ = try journal.completeTransfer(transfer, version: fixture.new)
        #expect(try journal.blockers(of: fixture.row("a")).isEmpty)
        #expect(try journal.blockers(of: fixture.row("b")) == [.source(row.id)])
    }

    @Test func bytesFetchedByWayOfAnOlderContentKeepTheirOrigin() throws {
        let (row, transfer) = try fetchedAfterARename()
        try fixture.save("b", "newer")
        try journal.removeTransfer(transfer)
        let second = try fixture.begin("b")
        let whole = try journal.hydrated(try #require(second.generation), [ByteRange(5, 10)])
        #expect(whole.underlay == .none && whole.origin?.key == "a")
        #expect(try journal.blockers(of: fixture.row("a")) == [.arrival(row.id)])
    }

    @Test func whatWasWrittenWhollyAnewHasNoOrigin() throws {
        try journal.rename(from: "a", to: "b", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        try fixture.save("b", "0123456789")
        _ = try fixture.begin("b")
        #expect(try fixture.row("b").generation?.origin == nil)
        #expect(try journal.blockers(of: fixture.row("a")).isEmpty)
    }

    @Test func anObjectThatIsAnotherByNowIsKeptForNobody() throws {
        let (row, _) = try fetchedAfterARename()
        try fixture.save("a", "other")
        #expect(try journal.blockers(of: fixture.row("a")) == [.arrival(row.id)])
        try journal.rebase(try fixture.row("a"), onto: .version(fixture.new))
        #expect(try journal.blockers(of: fixture.row("a")).isEmpty)
    }

    @Test func cancelBringsBackWhatBytesWereFetchedFrom() throws {
        let (row, _) = try fetchedAfterARename()
        let isCancelled = try journal.cancel(row.id)
        #expect(try isCancelled && fixture.paths().isEmpty)
    }

    @Test func aLongCircleIsBrokenByOneThatWasFetched() throws {
        let names = (0..<200).map { ObjectKey("f\($0)") }
        try journal.rename(from: names[0], to: "t", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        for index in names.indices.dropFirst() {
            let (from, to) = (names[index], names[index - 1])
            try journal.rename(from: from, to: to, sourceRemote: fixture.remoteFile, targetRemote: .absent)
        }
        try journal.rename(from: "t", to: names[199], sourceRemote: .absent, targetRemote: .absent)
        let transfer = try fixture.begin(names[7])
        try journal.hydrated(try #require(transfer.generation), [ByteRange(0, 10)])
        #expect(try journal.blockers(of: fixture.row(names[8])).isEmpty)
        #expect(try !journal.blockers(of: fixture.row(names[9])).isEmpty)
    }

    @Test func twoFilesThatChangeNamesWaitForEachOtherUntilOneIsFetched() throws {
        try journal.exchange("a", "b", firstRemote: fixture.remoteFile, secondRemote: .file(fixture.new, .file()))
        let (one, two) = (try fixture.row("a"), try fixture.row("b"))
        #expect(one.generation?.wholeRemote?.key == "b" && one.base == .version(fixture.old))
        #expect(two.generation?.wholeRemote?.key == "a" && two.base == .version(fixture.new))
        #expect(try journal.blockers(of: one) == [.source(two.id)])
        #expect(try journal.blockers(of: two) == [.source(one.id)])
        let transfer = try fixture.begin("a")
        try journal.hydrated(try #require(transfer.generation), [ByteRange(0, 4)])
        #expect(try journal.blockers(of: fixture.row("b")).isEmpty)
        try journal.exchange("a", "b", firstRemote: .absent, secondRemote: .absent)
        #expect(try fixture.paths() == ["a", "b"])
    }

    @Test func aConflictMovesOursBesideTheirs() throws {
        let node = try fixture.edit("a.txt")
        let moved = try journal.moveToConflict(node, copy: "a (conflict).txt", remote: fixture.new)
        #expect(moved?.base == .absent && moved?.conflictOf == "a.txt")
        #expect(try fixture.paths() == ["a (conflict).txt"])
        #expect(try journal.conflicts().map(\.copy.string) == ["a (conflict).txt"])
        #expect(try journal.counts().conflicts == 1)
        let other = try fixture.edit("b.txt")
        let error = #expect(throws: JournalError.self) {
            _ = try journal.moveToConflict(other, copy: "a (conflict).txt", remote: fixture.new)
        }
        #expect(error?.kind == .constraint)
        #expect(try journal.conflicts().count == 1)
    }

    @Test func aConflictIsOverWhenItsCopyGetsAnotherNameOrGoes() throws {
        for name in ["a", "b", "c"] as [ObjectKey] {
            let node = try fixture.save(name)
            let copy = ObjectKey("\(name) (conflict)")
            _ = try journal.moveToConflict(node, copy: copy, remote: fixture.new)
        }
        #expect(try journal.counts().conflicts == 3)
        try journal.remove(at: "a (conflict)", remote: .absent)
        try journal.rename(from: "b (conflict)", to: "b", sourceRemote: .absent, targetRemote: fixture.remoteFile)
        #expect(try journal.conflicts().map(\.path) == ["c"])
        let folder = RemoteState.directory(hasMarker: true, .directory())
        _ = try journal.createDirectory(at: "d", attributes: .directory(), remote: .absent)
        try journal.rename(from: "c", to: "d/c", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        let node = try fixture.row("d/c")
        _ = try journal.moveToConflict(node, copy: "d/c (conflict)", remote: fixture.new)
        try journal.renameDirectory(from: "d", to: "e", sourceRemote: folder, targetRemote: .absent, entries: [])
        #expect(try journal.conflicts().map(\.copy) == ["c (conflict)", "e/c (conflict)"])
        #expect(try journal.conflicts().map(\.path) == ["c", "e/c"])
    }

    @Test func metadataFollowsAVersionThatOthersMade() throws {
        try journal.setAttributes(at: "a", remote: fixture.remoteFile, AttributeChanges(permissions: 0o600))
        let row = try journal.rebase(fixture.row("a"), onto: .version(fixture.new))
        #expect(row?.base == .version(fixture.new) && row?.generation?.wholeRemote?.version == fixture.new)
        #expect(row?.size == 4)
        #expect(row?.attributes.permissions == 0o600)
    }

    @Test func aCopyFollowsItsSourceOnlyWithoutBytesOfItsOwn() throws {
        try journal.rename(from: "a", to: "b", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        #expect(try journal.followSource(fixture.row("b"), version: fixture.new))
        #expect(try fixture.row("b").generation?.wholeRemote?.version == fixture.new)
        let edited = try fixture.edit("c")
        #expect(try !journal.followSource(edited, version: fixture.new))
    }

    @Test func cancellingAMoveBringsTheSourceBack() throws {
        try journal.rename(from: "a", to: "b", sourceRemote: fixture.remoteFile, targetRemote: .absent)
        #expect(try journal.cancel(fixture.row("b").id))
        #expect(try fixture.paths().isEmpty)
    }

    @Test func droppingARowThatChangedDoesNothing() throws {
        try journal.remove(at: "a", remote: fixture.remoteFile)
        let tombstone = try fixture.row("a")
        try fixture.save("a")
        #expect(try !journal.drop(tombstone))
        #expect(try fixture.paths() == ["a"])
    }

    @Test func aMarkerThatMayBeThereIsRemovedWithItsFolder() throws {
        let folder = try journal.createDirectory(at: "d", attributes: .directory(), remote: .absent)
        let begun = try #require(try journal.beginDirectory(folder))
        try journal.remove(at: "d", remote: .absent)
        #expect(try fixture.row("d").isTombstone && fixture.row("d").hasRemoteDirectory)
        #expect(try journal.completeDirectory(begun) == .unclaimed)
        #expect(try journal.completeDirectoryRemoval(at: "d") == .settled)
    }

    private func paths(atOrBelow paths: [ObjectKey], ids: [NodeID] = []) throws -> [ObjectKey] {
        try journal.nodes(try journal.pendingPlaces(atOrBelow: paths, ids: ids, limit: 100).map(\.id)).map(\.path)
    }

    @Test func rowsOfAPathAndOfAnIDAreFoundInTheOrderOfTheQueue() throws {
        for path: ObjectKey in ["a", "d/x", "d/e/y", "d-z", "d0", "last"] { try fixture.save(path) }
        let last = try fixture.row("last")
        try journal.retryNow([last.id], answeringAttention: false, priority: 5)
        #expect(try paths(atOrBelow: ["d"]) == ["d/x", "d/e/y"])
        #expect(try paths(atOrBelow: ["a", "d/e", "a"], ids: [last.id]) == ["last", "a", "d/e/y"])
        #expect(try paths(atOrBelow: [.root]) == journal.pendingNodes().map(\.path))
        #expect(try paths(atOrBelow: ["none"], ids: [NodeID(999)]).isEmpty)
        try journal.setPaused([last.id, try fixture.row("d/x").id], true)
        #expect(try journal.pausedRows(atOrBelow: .root) == [last.id, try fixture.row("d/x").id])
        #expect(try journal.pausedRows(atOrBelow: "d") == [try fixture.row("d/x").id])
        let all = try journal.pendingPlaces(limit: 100)
        #expect(try journal.nodes(all.map(\.id)).map(\.path) == journal.pendingNodes().map(\.path))
        for (index, place) in all.enumerated() {
            #expect(QueuePlace(place.text) == place)
            #expect(try journal.pendingPlaces(after: place, limit: 100) == Array(all[(index + 1)...]))
            #expect(try journal.pendingPlaces(after: place, limit: 2) == Array(all[(index + 1)...].prefix(2)))
            let below = try journal.pendingPlaces(atOrBelow: ["d", "last"], after: place, limit: 2)
            let behind = try journal.pendingPlaces(atOrBelow: ["d", "last"], limit: 100).filter { $0 > place }
            #expect(below == Array(behind.prefix(2)))
        }
        for text in ["", "1.2", "1.2.3.4", "a.1.2", "1..2", "\(Int64.min).1.2"] { #expect(QueuePlace(text) == nil) }
        #expect(try !journal.hasOpenNodes())
        _ = try fixture.write("open")
        #expect(try journal.hasOpenNodes())
    }

    @Test func countsAndScheduleAreKept() throws {
        let node = try fixture.save("a")
        try journal.remove(at: "b", remote: fixture.remoteFile)
        _ = try journal.createDirectory(at: "d", attributes: .directory(), remote: .absent)
        try journal.setPaused([node.id], true)
        try journal.recordFailure(
            node.id,
            of: node.sequence,
            attempts: 3,
            nextAttempt: Timestamp(seconds: 9),
            error: "no",
            attention: "look"
        )
        let counts = try journal.counts()
        #expect((counts.files, counts.bytes, counts.deletions, counts.directories) == (1, 4, 1, 1))
        #expect((counts.paused, counts.attention, counts.open, counts.total) == (1, 1, 0, 3))
        #expect(try fixture.row("a").schedule.nextAttempt == Timestamp(seconds: 9))
        try journal.retryNow([node.id], answeringAttention: true, priority: 5)
        #expect(try journal.pendingNodes().first?.path == "a")
        #expect(try fixture.row("a").schedule.attention == nil && !fixture.row("a").schedule.isPaused)
        #expect(try journal.reschedule(node.path) { $0.notBefore = Timestamp(seconds: 4) } == .noted)
        #expect(try fixture.row("a").schedule.notBefore == Timestamp(seconds: 4))
        #expect(try journal.reschedule("b") { $0.notBefore = nil } == .nothingPending)
    }

    @Test func settingsOfFilesAreKeptAndOfABoundedNumber() throws {
        for number in 0...200 { try fixture.save(ObjectKey("f\(number)")) }
        for number in 0..<200 {
            #expect(try journal.reschedule(ObjectKey("f\(number)")) { $0.settings = "battery_min=\(number)" } == .noted)
        }
        #expect(try journal.reschedule("f200") { $0.settings = "other=1" } == .tooManySettings)
        #expect(try fixture.row("f200").schedule.settings == nil)
        // Those that others have, and other wishes, make no more of them.
        #expect(try journal.reschedule("f200") { $0.settings = "battery_min=7" } == .noted)
        #expect(try journal.reschedule("f3") { $0.priority = 1 } == .noted)
        #expect(try journal.reschedule("f3") { $0.settings = nil } == .noted)
        try journal.rename(from: "f200", to: "g", sourceRemote: .absent, targetRemote: .absent)
        #expect(try fixture.row("g").schedule.settings == "battery_min=7")
        #expect(try journal.reschedule("g") { $0.settings = "other=1" } == .noted)
        // A file whose settings nobody else has may have others.
        #expect(try journal.reschedule("g") { $0.settings = "other=2" } == .noted)
        #expect(try journal.reschedule("f3") { $0.settings = "other=3" } == .tooManySettings)
    }

    @Test func whatAPersonWantsGoesWithTheRow() throws {
        let node = try fixture.save("a")
        func want(_ schedule: inout JournalNode.Schedule) {
            (schedule.notBefore, schedule.deadline) = (Timestamp(seconds: 5), Timestamp(seconds: 6))
            (schedule.settings, schedule.priority) = ("window=22:00-06:00", 7)
        }
        #expect(try journal.reschedule(node.id, want) == .noted)
        let next = Timestamp(seconds: 9)
        try journal.recordFailure(node.id, of: node.sequence, attempts: 3, nextAttempt: next, error: "busy")
        try journal.rename(from: "a", to: "b", sourceRemote: .absent, targetRemote: .absent)
        try fixture.save("a")
        // By its id it is the one that was renamed.
        #expect(try journal.reschedule(node.id) { $0.priority = 8 } == .noted)
        #expect(try fixture.row("a").schedule.priority == 0 && fixture.row("b").schedule.priority == 8)
        let moved = try #require(
            try journal.moveToConflict(fixture.row("b"), copy: "b (conflict)", remote: fixture.new)
        )
        var wanted = JournalNode.Schedule()
        want(&wanted)
        wanted.priority = 8
        #expect(moved.schedule == wanted)
        #expect(try fixture.row("b (conflict)").schedule == wanted)
        try journal.retryNow([node.id])
        #expect(try fixture.row("b (conflict)").schedule.priority == 8)
        #expect(try journal.reschedule(NodeID(999)) { $0.priority = 1 } == .nothingPending)
    }
}
