// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Journal
import Platform
import Testing

@testable import FileSystem

/// What power loss leaves of files whose bytes are only here, where the journal's log reached the disk and no byte that was
/// not synced did.
@Suite struct PowerLossTests {
    private let volume: Volume

    init() throws {
        volume = try Volume(metadataAge: 100)
        try volume.mountAgain(metadataAge: 100, boot: "one")
    }

    private func losePower() throws {
        try volume.mountAgain(metadataAge: 100, boot: "two")
    }

    private func putSynced(_ name: String, _ bytes: [UInt8]) throws {
        let handle = try volume.create(name)
        try volume.write(handle, bytes, at: 0)
        try volume.files.synchronize(handle)
        try volume.close(handle)
    }

    /// As rsync(1), sed(1) and editors replace a file, without fsync(2).
    @Test(arguments: [true, false]) func aFileThatWasSyncedIsNotLostWithTheOneThatTakesItsName(isClosed: Bool) throws {
        try putSynced("f", [1, 2, 3])
        let new = try volume.create("f.new")
        try volume.write(new, [4, 5], at: 0)
        if isClosed { try volume.close(new) }
        try volume.rename("f.new", "f")
        try losePower()
        #expect(try volume.content("f") == [4, 5])
    }

    @Test func whatHasTakenANameIsSafeThereWhateverIsWrittenToItLater() throws {
        try putSynced("f", [1, 2, 3])
        let new = try volume.create("f.new")
        try volume.rename("f.new", "f")
        try volume.write(new, [4, 5], at: 0)
        try losePower()
        // The name was given to an empty file.
        #expect(try volume.content("f") == [])
    }

    @Test func filesThatExchangeTheirNamesAreBothSafe() throws {
        try putSynced("f", [1, 2, 3])
        try volume.put("g", [4, 5])
        try volume.rename("g", "f", flags: 2)
        try losePower()
        #expect(try volume.content("f") == [4, 5])
        #expect(try volume.content("g") == [1, 2, 3])
    }

    /// It need not wait for the disk.
    @Test func whatTheRemoteHasComesBackFromThere() throws {
        volume.store.set("f", [1, 2, 3])
        try volume.put("g", [4, 5])
        try volume.rename("g", "f")
        #expect(try volume.journal.node(at: ObjectKey("f"))?.generation?.isSynced == false)
        try losePower()
        #expect(try volume.content("f") == [1, 2, 3])
    }

    // MARK: Open files with synced bytes that are cut

    private enum Cut: CaseIterable, Sendable {
        case byTruncation
        case byAnotherHandle
    }

    private func cut(_ name: String, _ how: Cut) throws {
        switch how {
        case .byTruncation: try setSize(name, 0)
        case .byAnotherHandle: _ = try volume.open(name, write: true, truncate: true)
        }
    }

    private func setSize(_ name: String, _ size: Int64) throws {
        _ = try volume.files.setAttributes(volume.number(name), AttributeChanges(), size: size)
    }

    private func openSynced(_ name: String, _ bytes: [UInt8]) throws -> FileHandle {
        let handle = try volume.create(name)
        try volume.write(handle, bytes, at: 0)
        try volume.files.synchronize(handle)
        return handle
    }

    private func stagingFiles() throws -> Int { try Files.names(in: volume.folder + "/state/staging").count }

    @Test(arguments: Cut.allCases, [[], [9], [9, 8, 7, 6, 5]])
    private func whatWasSyncedBeforeACutToNothingComesBack(how: Cut, written: [UInt8]) throws {
        let handle = try openSynced("f", [1, 2, 3])
        try cut("f", how)
        if !written.isEmpty { try volume.write(handle, written, at: 0) }
        #expect(try volume.content("f") == written)
        try losePower()
        #expect(try volume.content("f") == [1, 2, 3])
    }

    @Test(arguments: Cut.allCases, [[], [9], [9, 8, 7, 6, 5]])
    private func aKillLeavesWhatWasWrittenAfterACutToNothing(how: Cut, written: [UInt8]) throws {
        let handle = try openSynced("f", [1, 2, 3])
        try cut("f", how)
        if !written.isEmpty { try volume.write(handle, written, at: 0) }
        try volume.mountAgain(metadataAge: 100, boot: "one")
        #expect(try volume.content("f") == written)
    }

    @Test func whatIsSyncedAfterACutToNothingTakesThePlaceOfWhatWasBefore() throws {
        let handle = try openSynced("f", [1, 2, 3])
        for byte in UInt8(10)..<20 {
            try setSize("f", 0)
            try volume.write(handle, [byte], at: 0)
            try volume.files.synchronize(handle)
            volume.files.committer.reclaim(everything: false)
            #expect(try stagingFiles() == 1)
        }
        try volume.write(handle, [7], at: 1)
        try losePower()
        #expect(try volume.content("f") == [19])
    }

    @Test func aCutToNothingThatIsClosedCountsOnceItIsSynced() throws {
        let handle = try openSynced("f", [1, 2, 3])
        try setSize("f", 0)
        try volume.close(handle)
        _ = try volume.files.committer.synchronizeAll()
        try losePower()
        #expect(try volume.content("f") == [])
    }

    /// Where the new bytes stand was something else, which was synced.
    @Test(arguments: [true, false]) func whatIsWrittenBehindACutIsNotTakenForWhatWasThere(isOpen: Bool) throws {
        var handle = try openSynced("f", [1, 2, 3, 4, 5])
        if !isOpen {
            try volume.close(handle)
            _ = try volume.files.committer.synchronizeAll()
        }
        try setSize("f", 2)
        if !isOpen { handle = try volume.open("f", write: true) }
        try volume.write(handle, [9, 9, 9], at: 2)
        #expect(try volume.content("f") == [1, 2, 9, 9, 9])
        try losePower()
        #expect(try volume.content("f") == [1, 2])
    }

    /// A cut zeroes the rest of the last page, which may be on the disk before the new length is.
    @Test(arguments: [true, false]) func aCutThatIsHalfOnTheDiskLeavesNoBytesThatNeverWere(isOpen: Bool) throws {
        let isNext = Monitor(false)
        var disk = DiskSync()
        let sync = disk.data
        let place = Monitor("")
        disk.data = { file in
            let isCut = isNext.update { isNext in
                defer { isNext = false }
                return isNext
            }
            // What the disk has of the journal at the moment when the cut is to be synced.
            let folder = place.inspect { $0 }
            if isCut { #expect(system("cp -a '\(folder)/state' '\(folder)/left'") == 0) }
            return sync(file)
        }
        let volume = try Volume(metadataAge: 100, disk: disk)
        try volume.mountAgain(metadataAge: 100, boot: "one")
        place.update { $0 = volume.folder }
        let handle = try volume.create("f")
        try volume.write(handle, [1, 2, 3, 4, 5], at: 0)
        try volume.files.synchronize(handle)
        if !isOpen {
            try volume.close(handle)
            _ = try volume.files.committer.synchronizeAll()
        }
        isNext.update { $0 = true }
        _ = try volume.files.setAttributes(volume.number("f"), AttributeChanges(), size: 2)
        #expect(!isNext.inspect { $0 })
        // The zeros have come to the disk, and the new length has not.
        let staging = volume.folder + "/left/staging"
        let name = try #require(try Files.names(in: staging).first).string
        #expect(truncate("\(staging)/\(name)", 2) == 0 && truncate("\(staging)/\(name)", 5) == 0)
        #expect(rename(volume.folder + "/state", volume.folder + "/gone") == 0)
        #expect(rename(volume.folder + "/left", volume.folder + "/state") == 0)
        try volume.mountAgain(metadataAge: 100, boot: "two")
        #expect(try volume.content("f") == [1, 2])
    }

    @Test func aKillLeavesWhatIsWrittenBehindACut() throws {
        let handle = try openSynced("f", [1, 2, 3, 4, 5])
        try setSize("f", 2)
        try volume.write(handle, [9, 9, 9, 9], at: 2)
        try volume.mountAgain(metadataAge: 100, boot: "one")
        #expect(try volume.content("f") == [1, 2, 9, 9, 9, 9])
    }

    @Test func aFileSetAsideGoesWithItsName() throws {
        let handle = try openSynced("f", [1, 2, 3])
        try setSize("f", 0)
        try volume.write(handle, [9], at: 0)
        try volume.unlink("f")
        #expect(try volume.read(handle, ByteRange(0, 5)) == [9])
        volume.files.release(handle)
        volume.files.committer.reclaim(everything: true)
        #expect(try stagingFiles() == 0)
    }

    /// What replaces it would be lost with it otherwise.
    @Test func aFileThatTakesTheNameOfOneSetAsideIsSafe() throws {
        let handle = try openSynced("f", [1, 2, 3])
        try setSize("f", 0)
        try volume.write(handle, [9], at: 0)
        let new = try volume.create("new")
        try volume.write(new, [4, 5], at: 0)
        try volume.rename("new", "f")
        try losePower()
        #expect(try volume.content("f") == [4, 5])
    }

    // MARK: Descriptors with duplicates

    /// As shells redirect output: the descriptor that the file was opened with is closed before the program starts.
    @Test func aDuplicateThatIsClosedDoesNotMakeAFileComplete() throws {
        volume.store.set("f", [1, 2, 3])
        let handle = try volume.open("f", write: true, truncate: true)
        try volume.files.flush(handle)
        _ = try volume.files.committer.synchronizeAll()
        #expect(try volume.journal.node(at: ObjectKey("f"))?.generation?.isSynced == false)
        try losePower()
        #expect(try volume.content("f") == [1, 2, 3])
    }

    @Test func theLastCloseMakesItComplete() throws {
        volume.store.set("f", [1, 2, 3])
        let handle = try volume.open("f", write: true, truncate: true)
        try volume.files.flush(handle)
        try volume.write(handle, [4], at: 0)
        try volume.close(handle)
        _ = try volume.files.committer.synchronizeAll()
        try losePower()
        #expect(try volume.content("f") == [4])
    }

    @Test func aFileThatStaysOpenIsWhatItWasAlsoWhenItIsOpenAgain() throws {
        volume.store.set("f", [1, 2, 3])
        let handle = try volume.open("f", write: true, truncate: true)
        try volume.files.flush(handle)
        _ = try volume.files.committer.synchronizeAll()
        // It is opened again half a second later.
        let end = monotonicSeconds() + 20
        while volume.files.reopenFlushed(), monotonicSeconds() < end { usleep(50_000) }
        #expect(try volume.journal.node(at: ObjectKey("f"))?.isOpen == true)
        _ = try volume.files.committer.synchronizeAll()
        try losePower()
        #expect(try volume.content("f") == [1, 2, 3])
    }

    /// The kernel gives a handle back after close(2) has returned.
    @Test func theSyncOfAFolderWaitsForHandlesThatAreOnTheirWay() throws {
        let handle = try volume.create("f")
        try volume.write(handle, [1, 2], at: 0)
        try volume.files.flush(handle)
        let isReleased = Monitor(false)
        let files = volume.files
        try Thread.detached(name: "release") {
            usleep(100_000)
            files.release(handle)
            isReleased.update { $0 = true }
        }
        let folder = try files.openDirectory(Volume.root)
        try files.synchronizeNames(folder)
        #expect(isReleased.inspect { $0 })
        #expect(try volume.journal.node(at: ObjectKey("f"))?.generation?.isSynced == true)
    }
}
