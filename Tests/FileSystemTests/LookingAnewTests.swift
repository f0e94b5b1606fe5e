// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Catalog
import Glibc
import Journal
import ObjectStore
import Platform
import Testing

@testable import FileSystem

/// What one thread has read of a file's row or of the remote is taken in by the file, which others have changed meanwhile.
@Suite struct LookingAnewTests {
    private let volume: Volume
    private let path = ObjectKey("a")

    init() throws { volume = try Volume(metadataAge: 100) }

    /// An open file of the remote, with a byte written and recorded.
    private func written() throws -> FileHandle {
        volume.store.set("a", [1, 2, 3, 4], mode: 0o100_600)
        let handle = try volume.open("a", write: true)
        try volume.write(handle, [9], at: 1)
        try volume.files.synchronize(handle)
        return handle
    }

    /// What the journal says of a file's content, and since when.
    private func reading(_ inode: Inode) throws -> (content: FileContent, look: Inode.Look) {
        let look = try #require(inode.look)
        let generation = try #require(inode.state.withLock { $0.content.generation })
        return (try #require(try volume.files.content(of: generation)), look)
    }

    @Test func anOldReadingTakesBackNothingThatWasRecordedSince() throws {
        let handle = try written()
        let (content, look) = try reading(handle.inode)
        try volume.write(handle, [8], at: 2)
        try volume.files.synchronize(handle)
        #expect(handle.inode.replace(content, isOpen: true, since: look) == nil)
        #expect(try volume.read(handle, ByteRange(0, 4)) == [1, 9, 8, 4])
        try volume.close(handle)
        #expect(try volume.content("a") == [1, 9, 8, 4])
    }

    @Test func nothingIsTakenInWhileSomethingIsWritten() throws {
        let handle = try written()
        _ = try volume.files.write(handle, ByteRange(2, 3)) { descriptor in
            #expect(handle.inode.look == nil)
            return [UInt8(8)].withUnsafeBytes { pwrite(descriptor, $0.baseAddress, 1, 2) }
        }
        // It is not recorded yet.
        #expect(handle.inode.look == nil)
        try volume.close(handle)
    }

    /// Who looked before its close, or just when the row was being completed, does not have it open again.
    @Test func anOldReadingOpensNothingThatWasCompletedSince() throws {
        let handle = try written()
        let (content, look) = try reading(handle.inode)
        try volume.files.flush(handle)
        #expect(handle.inode.replace(content, isOpen: true, since: look) == nil)
        let later = try #require(handle.inode.look)
        #expect(handle.inode.replace(content, isOpen: true, since: later) == true)
        #expect(!handle.inode.state.withLock { $0.isWritable })
        try volume.write(handle, [8], at: 2)
        try volume.close(handle)
        #expect(try volume.content("a") == [1, 9, 8, 4])
        #expect(try volume.journal.node(at: path)?.isOpen == false)
    }

    /// The upload of an older content has ended, which takes away what is below the newer one, just when somebody writes.
    @Test func whoReadsBesideAWriterFindsWhatAnUploadHasMoved() throws {
        let handle = try written()
        try volume.files.flush(handle)
        let transfer = try begin()
        try volume.write(handle, [8], at: 2)
        try volume.files.synchronize(handle)
        try end(transfer, [1, 9, 3, 4])
        var found: Result<[UInt8], any Error>?
        _ = try volume.files.write(handle, ByteRange(3, 4)) { descriptor in
            found = Result { try volume.read(handle, ByteRange(0, 1)) }
            return [UInt8(7)].withUnsafeBytes { pwrite(descriptor, $0.baseAddress, 1, 3) }
        }
        #expect(try found?.get() == [1])
        try volume.close(handle)
        #expect(try volume.content("a") == [1, 9, 8, 7])
    }

    /// A change over content that is being sent came to nothing: the file is what it was, and is so when it has no name.
    @Test func whatWasNotChangedAfterAllShowsItsBytesWithoutAName() throws {
        let handle = try written()
        _ = try volume.read(handle, ByteRange(0, 4))
        try volume.files.flush(handle)
        _ = try begin()
        try volume.files.change(handle, ByteRange(0, 4), .allocate(keepingSize: true))
        try volume.files.flush(handle)
        try volume.unlink("a")
        #expect(try volume.read(handle, ByteRange(0, 4)) == [1, 9, 3, 4])
        try volume.close(handle)
    }

    /// The same over content that is at the remote by now, under a row for attributes that goes again.
    @Test func whatWasNotChangedAfterAllIsNotTakenForAnothers() throws {
        let handle = try volume.create("a")
        try volume.write(handle, [1, 2, 3], at: 0)
        try volume.files.flush(handle)
        try volume.upload(try #require(try volume.journal.node(at: path)), [1, 2, 3])
        let number = try volume.number("a")
        let permissions = try volume.status("a").attributes.permissions
        _ = try volume.files.setAttributes(number, AttributeChanges(permissions: 0o600), size: nil)
        try volume.files.change(handle, ByteRange(0, 3), .allocate(keepingSize: true))
        try volume.files.flush(handle)
        _ = try volume.files.setAttributes(number, AttributeChanges(permissions: permissions), size: nil)
        #expect(try volume.journal.node(at: path) == nil)
        try volume.write(handle, [9], at: 1)
        try volume.close(handle)
        #expect(try volume.journal.conflicts().isEmpty)
        #expect(try volume.content("a") == [1, 9, 3])
    }

    /// A change of attributes has left the file without a row, which another thread has opened for changes since.
    @Test(arguments: [false, true]) func theEndOfARowIsNotThatOfALaterOne(isLink: Bool) throws {
        volume.store.set("a", [1, 2, 3, 4], mode: 0o100_600)
        let handle = try volume.open("a", write: true)
        let version = try #require(volume.store.version(of: "a"))
        _ = try volume.files.write(handle, ByteRange(1, 2)) { descriptor in
            if isLink {
                handle.inode.showCopy(at: path, version)
            } else {
                handle.inode.state.withLock { $0.noteRow(nil) }
            }
            return [UInt8(9)].withUnsafeBytes { pwrite(descriptor, $0.baseAddress, 1, 1) }
        }
        try volume.close(handle)
        let row = try #require(try volume.journal.node(at: path))
        #expect(!row.isOpen && row.generation?.content.extents == ExtentSet(ByteRange(1, 2)))
        #expect(try volume.content("a") == [1, 9, 3, 4])
    }

    /// The local bytes of an upload stay below what is written over them, also when nobody has looked since it ended.
    @Test func whatWasSentIsReadFromHere() throws {
        let handle = try volume.create("a")
        try volume.write(handle, [1, 2, 3], at: 0)
        try volume.files.flush(handle)
        try volume.upload(try #require(try volume.journal.node(at: path)), [1, 2, 3])
        try volume.write(handle, [9], at: 1)
        volume.store.remove("a")
        #expect(try volume.read(handle, ByteRange(0, 3)) == [1, 9, 3])
        try volume.close(handle)
    }

    /// Who looks a name up has read what was there before a file was written, sent, and its row gone again.
    @Test func aNameIsNotTakenFromAFileByWhatWasThereBefore() throws {
        volume.store.set("a", [1, 2, 3], mode: 0o100_600)
        let number = try volume.number("a")
        let before = try volume.files.presence(path)
        let handle = try volume.open("a", write: true)
        try volume.write(handle, [9], at: 1)
        try volume.files.flush(handle)
        try volume.upload(try #require(try volume.journal.node(at: path)), [1, 9, 3])
        #expect(volume.files.present(before, Volume.root, path, path)?.number == number)
        try volume.write(handle, [8], at: 2)
        try volume.close(handle)
        #expect(try volume.content("a") == [1, 9, 8] && volume.journal.conflicts().isEmpty)
    }

    /// A change that cannot begin leaves a file as it is, and complete.
    @Test(arguments: [false, true]) func whatCannotBeOpenedForChangesIsNotOpen(hasRow: Bool) throws {
        volume.store.set("a", [1, 2, 3], mode: 0o100_600)
        if hasRow { try volume.close(written()) }
        let expected = try volume.content("a")
        let handle = try volume.open("a", write: true)
        if hasRow { try volume.journal.synchronizeSealed() }
        let row = try volume.journal.node(at: path)
        if let row { _ = try volume.journal.beginTransfer(of: row, method: .put) }
        // In the place of the file that is to be made.
        let folders = (1...8).map { "\(volume.journal.directory)/staging/\($0)" }
        let made = folders.filter { mkdir($0, 0o700) == 0 }
        #expect(throws: FileError.self) { try volume.write(handle, [9], at: 0) }
        for folder in made { rmdir(folder) }
        let left = try volume.journal.node(at: path)
        #expect(left?.isOpen != true && left?.generation?.id == row?.generation?.id)
        #expect(try volume.read(handle, ByteRange(0, Int64(expected.count))) == expected)
        try volume.write(handle, [9], at: 0)
        try volume.close(handle)
        #expect(try volume.content("a") == [9] + expected.dropFirst())
    }

    private func begin() throws -> Transfer {
        try volume.journal.synchronizeSealed()
        let row = try #require(try volume.journal.node(at: path))
        return try #require(try volume.journal.beginTransfer(of: row, method: .put))
    }

    private func end(_ transfer: Transfer, _ bytes: [UInt8]) throws {
        let version = volume.store.set("a", bytes, mode: 0o100_600)
        let metadata = ObjectMetadata(mode: 0o100_600)
        let generation = transfer.generation?.value
        try volume.catalog.committed(path, version: version, metadata: metadata, generation: generation, at: .now())
        _ = try volume.journal.completeTransfer(transfer.id, version: version)
    }
}
