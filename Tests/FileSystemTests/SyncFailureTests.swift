// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Glibc
import Journal
import Platform
import Testing

/// A failed fsync is never later reported as success.
@Suite struct SyncFailureTests {
    /// How many of the next syncs of files fail; the kernel reports an error once.
    private let failures = Monitor(0)
    private let volume: Volume

    init() throws {
        let failures = failures
        var disk = DiskSync()
        disk.data = { _ in
            failures.update { left in
                defer { left = max(0, left - 1) }
                return left > 0 ? EIO : 0
            }
        }
        volume = try Volume(disk: disk)
    }

    private func failNextSync() {
        failures.update { $0 = 1 }
    }

    /// A file whose fsync has failed, open.
    private func failedFile() throws -> FileHandle {
        let handle = try volume.create("a")
        try volume.write(handle, [1, 2, 3], at: 0)
        failNextSync()
        #expect(throws: FileError.self) { try volume.files.synchronize(handle) }
        return handle
    }

    @Test func whatFailedFailsForEveryHandleAndMount() throws {
        let handle = try failedFile()
        #expect(throws: FileError.writeFailed) { try volume.files.synchronize(handle) }
        try volume.write(handle, [4], at: 3)
        #expect(throws: FileError.writeFailed) { try volume.files.synchronize(handle) }
        let other = try volume.open("a")
        #expect(throws: FileError.writeFailed) { try volume.files.synchronize(other) }
        try volume.close(handle)
        volume.files.release(other)
        #expect(try volume.content("a") == [1, 2, 3, 4])
        for _ in 0..<2 {
            for isWriting in [false, true] {
                let again = try volume.open("a", write: isWriting)
                if isWriting { try volume.write(again, [5], at: 4) }
                #expect(throws: FileError.writeFailed) { try volume.files.synchronize(again) }
                try volume.close(again)
            }
            #expect(try volume.journal.node(at: ObjectKey("a"))?.schedule.attention != nil)
            try volume.mountAgain()
        }
    }

    @Test func aFileMadeAnewIsGood() throws {
        try volume.close(failedFile())
        let handle = try volume.open("a", write: true, truncate: true)
        try volume.write(handle, [7, 8], at: 0)
        try volume.files.synchronize(handle)
        try volume.close(handle)
        let node = try #require(try volume.journal.node(at: ObjectKey("a")))
        #expect(node.schedule.attention == nil && node.generation?.isSynced == true)
    }

    @Test func aFileMadeAnewByTheWriterThatFailedIsGood() throws {
        let handle = try failedFile()
        _ = try volume.files.setAttributes(volume.number("a"), AttributeChanges(), size: 0)
        try volume.write(handle, [7, 8], at: 0)
        try volume.files.synchronize(handle)
        try volume.close(handle)
        #expect(try volume.journal.node(at: ObjectKey("a"))?.generation?.isSynced == true)
    }

    @Test func aFileThatTakesTheNameIsGood() throws {
        try volume.close(failedFile())
        try volume.put("b", [1])
        try volume.rename("b", "a")
        let handle = try volume.open("a")
        try volume.files.synchronize(handle)
        volume.files.release(handle)
        #expect(try volume.journal.node(at: ObjectKey("a"))?.schedule.attention == nil)
    }

    @Test func aRemovedFileThatFailedFailsForThoseWhoHaveItOpen() throws {
        let handle = try failedFile()
        try volume.unlink("a")
        #expect(throws: FileError.writeFailed) { try volume.files.synchronize(handle) }
        try volume.close(handle)
        #expect(try volume.journal.node(at: ObjectKey("a")) == nil)
    }

    @Test func whatWasWrittenAfterTheLastFsyncIsSyncedAgain() throws {
        let handle = try volume.create("a")
        try volume.write(handle, [1, 2, 3], at: 0)
        try volume.files.synchronize(handle)
        try volume.write(handle, [3, 2, 1], at: 0)
        try volume.close(handle)
        #expect(try volume.journal.node(at: ObjectKey("a"))?.generation?.isSynced == false)
        let other = try volume.create("b")
        try volume.write(other, [1, 2, 3], at: 0)
        try volume.files.synchronize(other)
        try volume.close(other)
        #expect(try volume.journal.node(at: ObjectKey("b"))?.generation?.isSynced == true)
    }

    @Test func theGroupSyncHearsOfAnErrorAndTheUserAfterIt() throws {
        try volume.put("a", [1, 2, 3])
        failNextSync()
        try volume.journal.synchronizeSealed()
        let handle = try volume.open("a")
        #expect(throws: FileError.writeFailed) { try volume.files.synchronize(handle) }
        volume.files.release(handle)
    }
}
