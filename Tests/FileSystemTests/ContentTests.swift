// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Glibc
import Journal
import ObjectStore
import Platform
import TestSupport
import Testing

@Suite struct ContentTests {
    private let big = (0..<500_000).map { UInt8(truncatingIfNeeded: $0 / 7) }

    @Test func writtenBytesAreReadBackBeforeAndAfterARemount() throws {
        let volume = try Volume()
        try volume.put("a", [1, 2, 3])
        #expect(try volume.content("a") == [1, 2, 3])
        try volume.mountAgain()
        #expect(try volume.content("a") == [1, 2, 3])
        #expect(try volume.status("a").size == 3)
    }

    @Test func localBytesThatAreGoneAreAnErrorAndNoShortRead() throws {
        let volume = try Volume()
        try volume.put("a", big)
        let handle = try volume.open("a")
        #expect(try volume.read(handle, ByteRange(0, 1000)) == Array(big[..<1000]))
        let staging = volume.folder + "/state/staging"
        for name in try Files.names(in: staging) {
            try FileDescriptor.open("\(staging)/\(name.string)", O_WRONLY).truncate(to: 500)
        }
        #expect(try volume.read(handle, ByteRange(0, 500)) == Array(big[..<500]))
        #expect(throws: FileError.self) { try volume.read(handle, ByteRange(0, 1000)) }
        #expect(throws: FileError.self) { try volume.read(handle, ByteRange(5000, 6000)) }
    }

    @Test func whatHasNotBeenOpenedIsNotReadAsNothing() {
        let whole = ByteRange(0, 10)
        var local = ContentMap(size: 10)
        local.write(ByteRange(2, 5))
        let segments = FileContent(generation: nil, map: local).segments(in: whole)
        #expect(segments.map(\.range) == [ByteRange(0, 2), ByteRange(2, 5), ByteRange(5, 10)])
        guard case .unopened? = segments.dropFirst().first?.source else {
            Issue.record("local bytes without a file")
            return
        }
        let over = FileContent(generation: nil, map: ContentMap(size: 10, underlayLength: 10)).segments(in: whole)
        guard case .unopened? = over.first?.source, over.count == 1 else {
            Issue.record("bytes of a content that is not known")
            return
        }
    }

    @Test func whoHasReadAFileSeesEachChangeOfItAtOnce() throws {
        let volume = try Volume()
        volume.store.set("a", big)
        let reader = try volume.open("a")
        let writer = try volume.open("a", write: true)
        let place = ByteRange(1000, 1003)
        for _ in 0..<2 { #expect(try volume.read(reader, place) == Array(big[1000..<1003])) }
        try volume.write(writer, [1, 2, 3], at: 1000)
        #expect(try volume.read(reader, place) == [1, 2, 3])
        _ = try volume.files.setAttributes(volume.number("a"), AttributeChanges(), size: 1001)
        #expect(try volume.read(reader, place) == [1])
        try volume.write(writer, [7], at: 1002)
        #expect(try volume.read(reader, place) == [1, 0, 7])
        try volume.unlink("a")
        #expect(try volume.read(reader, place) == [1, 0, 7])
    }

    @Test func aReadIsCutAtTheEndAlsoWhenTheFileIsKnown() throws {
        let volume = try Volume()
        volume.store.set("a", [1, 2, 3, 4])
        let reader = try volume.open("a")
        for _ in 0..<3 {
            #expect(try volume.read(reader, ByteRange(1, 3)) == [2, 3])
            #expect(try volume.read(reader, ByteRange(2, 100)) == [3, 4])
            #expect(try volume.read(reader, ByteRange(4, 10)).isEmpty)
            #expect(try volume.read(reader, ByteRange(50, 60)).isEmpty)
        }
    }

    @Test func aPatchOfARemoteFileFetchesNothing() throws {
        let volume = try Volume()
        volume.store.set("a", big)
        let handle = try volume.open("a", write: true)
        try volume.write(handle, [9, 9, 9], at: 250_000)
        try volume.close(handle)
        #expect(volume.store.state.inspect { $0.fetched } == 0)
        var expected = big
        expected.replaceSubrange(250_000..<250_003, with: [9, 9, 9])
        #expect(try volume.content("a") == expected)
        try volume.mountAgain()
        #expect(try volume.content("a") == expected)
    }

    /// As when a folder moves away and back while it is uploaded: the flusher finds that nothing is left to do.
    @Test func aFileWhoseRowGoesWhileItIsOpenIsStillWrittenTo() throws {
        let volume = try Volume()
        volume.store.set("a", [1, 2, 3])
        _ = try volume.files.setAttributes(volume.number("a"), AttributeChanges(permissions: 0o600), size: nil)
        let handle = try volume.open("a", write: true)
        let row = try #require(try volume.journal.node(at: ObjectKey("a")))
        #expect(try volume.journal.drop(row))
        try volume.write(handle, [4], at: 3)
        try volume.close(handle)
        #expect(try volume.content("a") == [1, 2, 3, 4])
        #expect(try volume.journal.conflicts().isEmpty && volume.journal.node(at: ObjectKey("a")) != nil)
    }

    @Test func cutOffBytesReadAsZerosWhenTheFileGrowsAgain() throws {
        let volume = try Volume()
        volume.store.set("a", big)
        _ = try volume.files.setAttributes(volume.number("a"), AttributeChanges(), size: 1000)
        _ = try volume.files.setAttributes(volume.number("a"), AttributeChanges(), size: 3000)
        #expect(try volume.content("a") == big[..<1000] + [UInt8](repeating: 0, count: 2000))
    }

    @Test func truncationAtOpenKeepsNothing() throws {
        let volume = try Volume()
        volume.store.set("a", big)
        try volume.put("a", [5])
        #expect(try volume.content("a") == [5])
        #expect(volume.store.state.inspect { $0.fetched } == 0)
    }

    @Test func aRemovedFileLivesOnForThoseWhoHaveItOpen() throws {
        let volume = try Volume()
        try volume.put("a", [1, 2, 3])
        let handle = try volume.open("a", write: true)
        let number = try volume.number("a")
        #expect(try !volume.files.status(number).isRemoved)
        try volume.unlink("a")
        #expect(try volume.files.status(number).isRemoved)
        try volume.write(handle, [7], at: 3)
        #expect(try volume.read(handle, ByteRange(0, 10)) == [1, 2, 3, 7])
        try volume.close(handle)
        #expect(throws: FileError.noEntry) { try volume.number("a") }
    }

    @Test func aRemovedRemoteFileCanStillBeReadAndWrittenThroughItsHandle() throws {
        let volume = try Volume()
        volume.store.set("a", [1, 2, 3])
        let handle = try volume.open("a", write: true)
        try volume.unlink("a")
        try volume.write(handle, [9], at: 1)
        #expect(try volume.read(handle, ByteRange(0, 10)) == [1, 9, 3])
        volume.files.release(handle)
    }

    @Test func readsStopAtTheEndOfTheFile() throws {
        let volume = try Volume()
        volume.store.set("a", [1, 2, 3])
        let handle = try volume.open("a")
        #expect(try volume.read(handle, ByteRange(2, 100)) == [3])
        #expect(try volume.read(handle, ByteRange(3, 100)).isEmpty)
        volume.files.release(handle)
    }

    @Test func handlesAreForTheirDirectionOnly() throws {
        let volume = try Volume()
        try volume.put("a", [1])
        let handle = try volume.open("a")
        #expect(throws: FileError.badHandle) { try volume.write(handle, [1], at: 0) }
        volume.files.release(handle)
    }

    // MARK: Versions

    @Test func aChangedObjectIsAnotherInode() throws {
        let volume = try Volume()
        volume.store.set("a", [1, 1])
        let old = try volume.number("a")
        volume.store.set("a", [2, 2])
        #expect(try volume.number("a") != old)
        #expect(try volume.content("a") == [2, 2])
    }

    @Test func anOpenFileNeverMixesVersions() throws {
        let volume = try Volume()
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        for round in 0..<40 {
            let size = 200_000
            let (old, new) = (UInt8(truncatingIfNeeded: round * 2 + 1), UInt8(truncatingIfNeeded: round * 2 + 2))
            volume.store.set("a", [UInt8](repeating: old, count: size))
            let handle = try volume.open("a")
            let change = Int.random(in: 0..<6, using: &random)
            for step in 0..<6 {
                if step == change { volume.store.set("a", [UInt8](repeating: new, count: size)) }
                let lower = Int64.random(in: 0..<Int64(size), using: &random)
                do {
                    let bytes = try volume.read(handle, ByteRange(lower, lower + 20_000))
                    #expect(bytes.allSatisfy { $0 == old })
                    #expect(bytes.count == min(20_000, size - Int(lower)))
                } catch {
                    #expect(error as? FileError == .stale)
                }
            }
            volume.files.release(handle)
        }
    }

    @Test func ourOwnUploadKeepsTheInode() throws {
        let volume = try Volume()
        try volume.put("a", [1, 2, 3])
        let before = try volume.number("a")
        try volume.upload(try #require(try volume.journal.node(at: ObjectKey("a"))), [1, 2, 3])
        #expect(try volume.number("a") == before)
        #expect(try volume.content("a") == [1, 2, 3])
    }

    @Test func aFileThatIsUploadedWhileOpenCanBeWrittenOn() throws {
        let volume = try Volume()
        try volume.put("a", [1, 2, 3])
        let handle = try volume.open("a", write: true)
        try volume.upload(try #require(try volume.journal.node(at: ObjectKey("a"))), [1, 2, 3])
        try volume.write(handle, [4], at: 3)
        try volume.close(handle)
        #expect(try volume.content("a") == [1, 2, 3, 4])
        let row = try #require(try volume.journal.node(at: ObjectKey("a")))
        guard case .version(let base) = row.base else {
            Issue.record("the row does not start from the uploaded version")
            return
        }
        #expect(base.entityTag == EntityTag(opaque: "t1"))
    }

    @Test func aFileThatIsUploadedWhileItIsChangedOnCanBeRead() throws {
        let volume = try Volume()
        var content = [UInt8](repeating: 1, count: 200_000)
        volume.store.set("a", content)
        let first = try volume.open("a", write: true)
        try volume.write(first, [2], at: 0)
        try volume.close(first)
        content[0] = 2
        let handle = try volume.open("a", write: true)
        try volume.upload(try #require(try volume.journal.node(at: ObjectKey("a"))), content) {
            try volume.write(handle, [3], at: 1)
        }
        // The version whose bytes show where nothing was written is no more; the upload has the same bytes.
        try volume.write(handle, [4], at: 2)
        #expect(try volume.read(handle, ByteRange(100_000, 200_000)) == [UInt8](repeating: 1, count: 100_000))
        #expect(try volume.read(handle, ByteRange(0, 4)) == [2, 3, 4, 1])
        try volume.close(handle)
        #expect(try volume.content("a") == [2, 3, 4] + content[3...])
    }

    @Test func aFileThatIsUploadedThenMovedWithItsFolderCanBeWrittenOn() throws {
        let volume = try Volume()
        try volume.makeFolder("d")
        try volume.put("d/a", [1, 2, 3])
        let handle = try volume.open("d/a", write: true)
        try volume.upload(try #require(try volume.journal.node(at: ObjectKey("d/a"))), [1, 2, 3])
        try volume.rename("d", "e")
        try volume.write(handle, [4], at: 3)
        try volume.close(handle)
        #expect(try volume.content("e/a") == [1, 2, 3, 4])
    }

    // MARK: Durability

    @Test func whatWasNeverClosedOrSyncedGoesBackToTheRemote() throws {
        let volume = try Volume()
        volume.store.set("a", [1, 2, 3])
        let handle = try volume.open("a", write: true)
        try volume.write(handle, [9], at: 0)
        try volume.mountAgain()
        #expect(try volume.content("a") == [1, 2, 3])
        withExtendedLifetime(handle) {}
    }

    @Test func whatWasSyncedSurvivesAKill() throws {
        let volume = try Volume()
        volume.store.set("a", [1, 2, 3])
        let handle = try volume.open("a", write: true)
        try volume.write(handle, [9], at: 0)
        try volume.files.synchronize(handle)
        try volume.write(handle, [8], at: 1)
        try volume.mountAgain()
        #expect(try volume.content("a").first == 9)
        withExtendedLifetime(handle) {}
    }

    @Test func aCloseWithoutAChangeLeavesNothingToUpload() throws {
        let volume = try Volume()
        volume.store.set("a", [1, 2, 3])
        try volume.close(try volume.open("a", write: true))
        #expect(try volume.journal.node(at: ObjectKey("a")) == nil)
    }

    // MARK: Without a network

    @Test func knownNamesAndCachedBytesOutliveTheNetwork() throws {
        let volume = try Volume()
        volume.store.set("d/a", [1, 2, 3])
        volume.store.set("d/b", big)
        _ = try volume.content("d/a")
        _ = try volume.status("d/b")
        volume.store.setUnreachable(true)
        #expect(try volume.names("d") == ["a", "b"])
        #expect(try volume.content("d/a") == [1, 2, 3])
        #expect(throws: FileError.unreachable) { try volume.content("d/b") }
        #expect(throws: FileError.noEntry) { try volume.number("d/unknown") }
        try volume.put("d/new", [5])
        #expect(try volume.content("d/new") == [5])
    }

    @Test func aFolderThatWasNeverListedIsNotEmptyButUnreachable() throws {
        let volume = try Volume()
        volume.store.set("d/a", [1])
        _ = try volume.names("")
        volume.store.setUnreachable(true)
        #expect(throws: FileError.unreachable) { try volume.names("d") }
        #expect(throws: FileError.unreachable) { try volume.removeFolder("d") }
    }

    @Test func theNetworkComesBack() throws {
        let volume = try Volume()
        volume.store.set("a", big)
        _ = try volume.status("a")
        volume.store.setUnreachable(true)
        #expect(throws: FileError.unreachable) { try volume.content("a") }
        volume.store.setUnreachable(false)
        volume.files.remoteBecameReachable()
        #expect(try volume.content("a") == big)
    }

    @Test func aContentIsTheSameAsOneThatItShowsAllOf() {
        let older = FileContent(generation: GenerationID(1), map: ContentMap(size: 4))
        func over(_ map: ContentMap) -> [GenerationID] {
            FileContent(generation: GenerationID(2), map: map, below: .content(older)).sameGenerations
        }
        #expect(older.sameGenerations == [GenerationID(1)])
        #expect(over(ContentMap(size: 4, underlayLength: 4)) == [GenerationID(2), GenerationID(1)])
        #expect(over(ContentMap(size: 3, underlayLength: 3)) == [GenerationID(2)])
        #expect(over(ContentMap(size: 5, underlayLength: 4)) == [GenerationID(2)])
        let extents = ExtentSet(ByteRange(0, 1))
        #expect(over(ContentMap(size: 4, extents: extents, underlayLength: 4)) == [GenerationID(2)])
        #expect(FileContent.empty.sameGenerations.isEmpty)
    }
}
