// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Journal
import Testing

/// A file whose last writer left while the disk failed is completed when it is well again.
@Suite struct UnfinishedFileTests {
    private let volume: Volume

    init() throws { volume = try Volume(metadataAge: 3600) }

    /// Two closed files are one too many.
    private func failSeals() throws { try volume.alter("CREATE UNIQUE INDEX failing ON node (is_open)") }

    /// A file that could not be completed.
    private func leave(_ path: String, _ bytes: [UInt8]) throws -> InodeNumber {
        try volume.put("other", [9])
        let handle = try volume.create(path)
        try volume.write(handle, bytes, at: 0)
        // It has a row: the close has to change that.
        #expect(try volume.journal.node(at: ObjectKey(path))?.isOpen == true)
        try failSeals()
        #expect(throws: FileError.self) { try volume.files.flush(handle) }
        volume.files.release(handle)
        #expect(try volume.journal.node(at: ObjectKey(path))?.isOpen == true)
        return try volume.number(path)
    }

    @Test func itIsCompletedWhenTheDiskIsWellAgain() throws {
        for index in 0...4096 { _ = volume.store.set("f\(index)", [0]) }
        let number = try leave("a", [1, 2, 3])
        volume.files.maintain()
        #expect(try volume.journal.node(at: ObjectKey("a"))?.isOpen == true)
        try volume.alter("DROP INDEX failing")
        // The kernel needs the memory, also for very many others: what was written is known to nobody else yet.
        volume.files.forget(number, count: 2)
        for index in 0...4096 { volume.files.forget(try volume.number("f\(index)"), count: 1) }
        #expect(try volume.content("a") == [1, 2, 3])
        volume.files.maintain()
        let node = try #require(try volume.journal.node(at: ObjectKey("a")))
        #expect(!node.isOpen && node.size == 3)
        #expect(try volume.content("a") == [1, 2, 3])
    }

    @Test func itIsFollowedToAnotherName() throws {
        _ = try leave("a", [1, 2, 3])
        try volume.rename("a", "b")
        try volume.alter("DROP INDEX failing")
        volume.files.maintain()
        #expect(try volume.journal.node(at: ObjectKey("b"))?.isOpen == false)
        #expect(try volume.content("b") == [1, 2, 3])
    }

    @Test func whoWritesToItAgainCompletesIt() throws {
        _ = try leave("a", [1, 2, 3])
        try volume.alter("DROP INDEX failing")
        let handle = try volume.open("a", write: true)
        try volume.write(handle, [4], at: 3)
        volume.files.maintain()
        #expect(try volume.journal.node(at: ObjectKey("a"))?.isOpen == true)
        try volume.close(handle)
        volume.files.maintain()
        #expect(try volume.journal.node(at: ObjectKey("a"))?.isOpen == false)
        #expect(try volume.content("a") == [1, 2, 3, 4])
    }

    @Test func whatIsRemovedIsForgotten() throws {
        _ = try leave("a", [1, 2, 3])
        try volume.alter("DROP INDEX failing")
        try volume.unlink("a")
        volume.files.maintain()
        #expect(try volume.journal.node(at: ObjectKey("a")) == nil)
    }
}
