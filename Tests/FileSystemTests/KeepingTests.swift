// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Journal
import ObjectStore
import Platform
import Testing

@testable import FileSystem

/// Files that lose their names while they are open.
@Suite struct KeepingTests {
    /// Larger than what a cache without room would fetch, and than what comes with the first read.
    private let content = (0..<3 << 20).map { UInt8(truncatingIfNeeded: $0 / 1000) }

    private func isHeld(_ path: String, _ version: ObjectVersion, _ volume: Volume) throws -> Bool {
        try HeldVersions.isHeld(ObjectKey(path), version, in: volume.folder + "/state")
    }

    private func waitUntil(_ isDone: () throws -> Bool) throws {
        for _ in 0..<1500 {
            if try isDone() { return }
            usleep(20_000)
        }
        #expect(try isDone())
    }

    private func whole(_ volume: Volume, _ handle: FileHandle) throws -> [UInt8] {
        try volume.read(handle, ByteRange(0, Int64(content.count)))
    }

    @Test func aRemovedFileIsHeldUntilItIsClosed() throws {
        let volume = try Volume(cacheSize: 0)
        let version = volume.store.set("a", content)
        let handles = try [volume.open("a"), volume.open("a")]
        #expect(try !isHeld("a", version, volume), "it has its name")
        try volume.unlink("a")
        #expect(try isHeld("a", version, volume))
        volume.files.release(handles[0])
        #expect(try isHeld("a", version, volume) && whole(volume, handles[1]) == content)
        volume.files.release(handles[1])
        #expect(try !isHeld("a", version, volume))
    }

    @Test func aReplacedFileIsHeldToo() throws {
        let volume = try Volume(cacheSize: 0)
        let (old, new) = (volume.store.set("a", content), volume.store.set("b", [1]))
        let handle = try volume.open("a")
        try volume.rename("b", "a")
        #expect(try isHeld("a", old, volume) && !isHeld("b", new, volume))
        volume.files.release(handle)
        #expect(try !isHeld("a", old, volume))
    }

    @Test func whatNobodyHasOpenIsNotHeld() throws {
        let volume = try Volume(cacheSize: 0)
        let version = volume.store.set("a", content)
        volume.files.release(try volume.open("a"))
        try volume.unlink("a")
        #expect(try !isHeld("a", version, volume))
    }

    @Test func whatKeepsItsNameIsNotHeld() throws {
        let volume = try Volume(cacheSize: 0)
        let version = volume.store.set("a", content)
        let handle = try volume.open("a")
        try volume.makeFolder("d")
        #expect(throws: FileError.self) { try volume.rename("d", "a") }
        #expect(throws: FileError.self) { try volume.removeFolder("a") }
        try volume.rename("a", "b")
        #expect(try !isHeld("a", version, volume), "its content is found under the new name")
        try volume.unlink("b")
        #expect(try isHeld("a", version, volume), "nobody finds it any more")
        volume.files.release(handle)
    }

    /// As with `fsync=remote`: `first` is uploaded, then `second` is written, to what is open all the time.
    ///
    /// With `isDuring` the second one is written while the first one is sent.
    private func writeOverAnUpload(_ volume: Volume, _ handle: FileHandle, isDuring: Bool) throws -> [UInt8] {
        let key = ObjectKey("a")
        var expected = content
        try volume.write(handle, [1, 2, 3], at: 100)
        expected.replaceSubrange(100..<103, with: [1, 2, 3])
        _ = try volume.files.recordContent(of: handle.inode, sealing: true)
        let second = { _ = try volume.write(handle, [4, 5, 6], at: 200) }
        let row = try #require(try volume.journal.node(at: key))
        try volume.upload(row, expected) { if isDuring { try second() } }
        if !isDuring { try second() }
        expected.replaceSubrange(200..<203, with: [4, 5, 6])
        return expected
    }

    @Test(arguments: [false, true])
    func whatIsWrittenOverAnUploadStandsOnWhatThatMade(isDuring: Bool) throws {
        let volume = try Volume(cacheSize: 0)
        volume.store.set("a", content)
        let handle = try volume.open("a", write: true)
        let expected = try writeOverAnUpload(volume, handle, isDuring: isDuring)
        let new = try #require(volume.store.version(of: "a"))
        try volume.unlink("a")
        #expect(try isHeld("a", new, volume))
        #expect(try whole(volume, handle) == expected)
        try volume.close(handle)
        #expect(try !isHeld("a", new, volume))
    }

    @Test func whereNothingCanBeHeldLocalBytesAreRead() throws {
        let volume = try Volume(cacheSize: 0)
        volume.store.set("a", content)
        try #require(symlink("/dev/null", volume.folder + "/state/held.lock") == 0)
        let handle = try volume.open("a", write: true)
        try volume.write(handle, [1, 2, 3], at: 100)
        _ = try volume.files.recordContent(of: handle.inode, sealing: true)
        var sent = content
        sent.replaceSubrange(100..<103, with: [1, 2, 3])
        try volume.upload(try #require(try volume.journal.node(at: ObjectKey("a"))), sent)
        try volume.unlink("a")
        volume.store.remove("a")
        #expect(try volume.read(handle, ByteRange(100, 103)) == [1, 2, 3])
        try volume.close(handle)
    }

    @Test func whatIsHereButTooLargeToStayIsHeld() throws {
        // A quarter of it is less than the file.
        let volume = try Volume(cacheSize: 8 << 20)
        let version = volume.store.set("a", content)
        let handle = try volume.open("a")
        #expect(try whole(volume, handle) == content)
        try volume.unlink("a")
        // It is looked at meanwhile.
        usleep(500_000)
        #expect(try isHeld("a", version, volume))
        volume.files.release(handle)
        #expect(try !isHeld("a", version, volume))
    }

    @Test func whatIsSmallComesHereAndIsLetGo() throws {
        let volume = try Volume()
        let version = volume.store.set("a", content)
        let handle = try volume.open("a")
        try volume.unlink("a")
        try waitUntil { try !isHeld("a", version, volume) }
        volume.store.remove("a")
        #expect(try whole(volume, handle) == content)
        volume.files.release(handle)
    }

    @Test func whatIsNotAllHereIsHeldWhileTheRemoteIsAway() throws {
        let volume = try Volume(metadataAge: 100)
        let version = volume.store.set("a", content)
        let handle = try volume.open("a")
        volume.store.setUnreachable(true)
        try volume.unlink("a")
        usleep(300_000)
        #expect(try isHeld("a", version, volume))
        volume.store.setUnreachable(false)
        volume.files.remoteBecameReachable()
        try waitUntil { try !isHeld("a", version, volume) }
        volume.store.remove("a")
        #expect(try whole(volume, handle) == content)
        volume.files.release(handle)
    }

    @Test func whatIsWrittenOverARemovedFileStandsOnWhatItShowed() throws {
        let volume = try Volume(cacheSize: 0)
        let version = volume.store.set("a", content)
        let handle = try volume.open("a", write: true)
        try volume.unlink("a")
        try volume.write(handle, [255], at: 1_000_000)
        #expect(try isHeld("a", version, volume))
        var expected = content
        expected[1_000_000] = 255
        #expect(try whole(volume, handle) == expected)
        try volume.close(handle)
        #expect(try !isHeld("a", version, volume))
    }

    @Test func aFileThatCannotBeHeldIsRemovedAllTheSame() throws {
        let volume = try Volume(cacheSize: 0)
        volume.store.set("a", content)
        try #require(symlink("/dev/null", volume.folder + "/state/held.lock") == 0)
        let handle = try volume.open("a")
        try volume.unlink("a")
        #expect(try whole(volume, handle) == content)
        volume.files.release(handle)
    }
}
