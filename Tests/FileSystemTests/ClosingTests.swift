// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import Journal
import Platform
import Synchronization
import Testing

@testable import FileSystem

/// When a file counts as complete.
@Suite struct ClosingTests {
    private func isOpen(_ volume: Volume, _ path: String) throws -> Bool {
        try volume.journal.node(at: ObjectKey(path))?.isOpen ?? false
    }

    @Test func ofWritersThatLeaveTogetherTheLastOneCompletesTheFile() throws {
        let volume = try Volume(metadataAge: 100)
        let files = volume.files
        for round in 0..<300 {
            let first = try volume.create("a\(round)")
            let second = try volume.open("a\(round)", write: true)
            let here = Monitor(0)
            for handle in [first, second] {
                try files.flush(handle)
                try Thread.detached(name: "closer") {
                    here.update { $0 += 1 }
                    while here.inspect({ $0 < 2 }) {}
                    files.release(handle)
                    here.update { $0 += 1 }
                }
            }
            try #require(here.wait(timeout: 30) { $0 == 4 ? true : nil } != nil)
            try #require(try !isOpen(volume, "a\(round)"), "round \(round)")
        }
    }

    /// The kernel gives a handle back some time after close(2), and the next open(2) may come first.
    @Test func whoOpensAFileBeforeItsHandleIsBackLeavesItComplete() throws {
        let volume = try Volume(metadataAge: 100)
        let (first, copied) = (try volume.create("a"), try volume.create("b"))
        for handle in [first, copied] {
            try volume.write(handle, [1, 2], at: 0)
            try volume.files.flush(handle)
        }
        let second = try volume.open("a", write: true)
        volume.files.release(first)
        usleep(600_000)
        _ = volume.files.reopenFlushed()
        #expect(try !isOpen(volume, "a"))
        #expect(try isOpen(volume, "b"), "its handle stays: it was another descriptor that was closed")
        try volume.write(second, [3], at: 0)
        #expect(try isOpen(volume, "a"))
        for handle in [second, copied] { try volume.close(handle) }
        #expect(try !isOpen(volume, "a") && !isOpen(volume, "b"))
    }

    /// As lock files are made, which stay open as long as their program runs.
    @Test func aFileThatIsMadeForReadingIsCompleteAtOnce() throws {
        let volume = try Volume(metadataAge: 100)
        let handle = try volume.create("a", write: false)
        #expect(try volume.journal.node(at: ObjectKey("a")) != nil)
        #expect(try !isOpen(volume, "a"))
        let writer = try volume.open("a", write: true)
        try volume.write(writer, [1, 2], at: 0)
        #expect(try isOpen(volume, "a"))
        try volume.close(writer)
        #expect(try !isOpen(volume, "a"))
        try volume.close(handle)
        #expect(try volume.content("a") == [1, 2])
    }

    /// As tar(1) and `cp -a` do, which tell all of a file before they close it, and touch(1).
    @Test(arguments: [[UInt8](), [1, 2, 3]])
    func whatIsToldOfANewFileBeforeItsCloseCostsNoTransaction(bytes: [UInt8]) throws {
        let volume = try Volume(metadataAge: 100)
        // The first takes names.
        try volume.put("first", [0])
        let other = try Journal(directory: volume.folder + "/state")
        #expect(try other.children(of: .root).count == 1)
        let before = try other.changeCounter()
        for name in ["a", "b", "c"] {
            let handle = try volume.create(name)
            if !bytes.isEmpty { try volume.write(handle, bytes, at: 0) }
            let time = Timestamp(seconds: 1000)
            let changes = [
                AttributeChanges(modified: time), AttributeChanges(uid: 5, gid: 6),
                AttributeChanges(permissions: 0o4711),
            ]
            for change in changes {
                let status = try volume.files.setAttributes(handle.inode.number, change, size: nil)
                #expect(status.attributes.modified == time)
            }
            try volume.close(handle)
        }
        #expect(try other.changeCounter() == before)
        for name in ["a", "b", "c"] {
            let row = try #require(try other.node(at: ObjectKey(name)))
            #expect(!row.isOpen && row.size == Int64(bytes.count) && row.attributes.permissions == 0o4711)
            #expect(row.attributes.modified == Timestamp(seconds: 1000) && row.attributes.uid == 5)
            #expect(try volume.status(name).attributes == row.attributes)
            #expect(try volume.content(name) == bytes)
        }
    }

    /// As where a child process has inherited the descriptor and lets go of it just then.
    @Test(arguments: [false, true])
    func aTimeThatIsSetDuringACloseStays(isNew: Bool) throws {
        let volume = try Volume(metadataAge: 100)
        if !isNew { try volume.put("a", [0]) }
        let files = volume.files
        let here = Monitor(0)
        for round in 0..<400 {
            let handle = try isNew ? volume.create("a\(round)") : volume.open("a", write: true, truncate: round > 0)
            try volume.write(handle, [1, 2], at: 0)
            here.update { $0 = 0 }
            try Thread.detached(name: "closer") {
                here.update { $0 += 1 }
                while here.inspect({ $0 < 2 }) {}
                try? files.flush(handle)
                here.update { $0 += 1 }
            }
            here.update { $0 += 1 }
            while here.inspect({ $0 < 2 }) {}
            let time = Timestamp(seconds: 1000 + Int64(round))
            _ = try files.setAttributes(handle.inode.number, AttributeChanges(modified: time), size: nil)
            try #require(here.wait(timeout: 30) { $0 == 3 ? true : nil } != nil)
            files.release(handle)
            let row = try #require(try volume.journal.node(at: ObjectKey(isNew ? "a\(round)" : "a")))
            try #require(row.attributes.modified == time, "round \(round)")
            #expect(!row.isOpen && handle.inode.state.withLock { $0.attributes.modified } == time)
        }
    }

    @Test func aNewFileThatStaysOpenIsWrittenDownUnasked() throws {
        let volume = try Volume(metadataAge: 100)
        try volume.files.start()
        defer { volume.files.shutDown() }
        let other = try Journal(directory: volume.folder + "/state")
        for name in ["a", "b"] {
            let handle = try volume.create(name)
            try volume.write(handle, [1, 2], at: 0)
            let end = monotonicSeconds() + 20
            while try other.node(at: ObjectKey(name)) == nil, monotonicSeconds() < end { usleep(10_000) }
            #expect(try other.node(at: ObjectKey(name))?.isOpen == true)
            try volume.close(handle)
            #expect(try other.node(at: ObjectKey(name))?.isOpen == false)
        }
    }

    @Test func aFlushedFileThatStaysOpenIsOpenedAgain() throws {
        let volume = try Volume(metadataAge: 100)
        let handle = try volume.create("a")
        try volume.write(handle, [1, 2], at: 0)
        try volume.files.flush(handle)
        #expect(try !isOpen(volume, "a"))
        // From here on somebody looks for such files.
        try volume.files.start()
        defer { volume.files.shutDown() }
        try volume.close(volume.create("b"))
        let end = monotonicSeconds() + 20
        while try !isOpen(volume, "a"), monotonicSeconds() < end { usleep(10_000) }
        #expect(try isOpen(volume, "a"))
        try volume.write(handle, [3], at: 2)
        try volume.close(handle)
        #expect(try !isOpen(volume, "a"))
        #expect(try volume.content("a") == [1, 2, 3])
        // One whose handle went is left as it is.
        usleep(1_000_000)
        #expect(try !isOpen(volume, "a"))
    }

    @Test func whatChangesWhileFlushedFilesAreLookedForIsSeenByTheNextLook() throws {
        let volume = try Volume(metadataAge: 100)
        let committer = GroupCommitter(journal: volume.journal)
        let looks = Monitor(0)
        try committer.start {
            if looks.inspect({ $0 == 0 }) { committer.changed() }
            looks.update { $0 += 1 }
            return false
        }
        defer { committer.stop() }
        committer.changed()
        #expect(looks.wait(timeout: 30) { $0 >= 2 ? $0 : nil } != nil)
    }

    /// The kernel gives back a handle some time after close(2) has returned.
    @Test func aClosedFileThatIsCutBeforeItsHandleIsBackIsComplete() throws {
        let volume = try Volume(metadataAge: 100)
        let handle = try volume.create("a")
        try volume.write(handle, [1, 2, 3], at: 0)
        try volume.files.flush(handle)
        _ = try volume.files.setAttributes(volume.number("a"), AttributeChanges(), size: 1)
        #expect(try !isOpen(volume, "a"))
        volume.files.release(handle)
        #expect(try !isOpen(volume, "a"))
        #expect(try volume.content("a") == [1])
        let other = try volume.open("a", write: true)
        try volume.write(other, [4, 5], at: 0)
        _ = try volume.files.setAttributes(volume.number("a"), AttributeChanges(), size: 1)
        #expect(try isOpen(volume, "a"), "it is being written")
        try volume.close(other)
        #expect(try volume.content("a") == [4])
    }

    @Test func aFileThatIsUploadedWhileOpenIsForgottenAtItsClose() throws {
        let volume = try Volume()
        try volume.put("a", [1, 2])
        let handle = try volume.open("a")
        let node = try #require(try volume.journal.node(at: ObjectKey("a")))
        #expect(volume.files.openNodes.withLock { $0.count } == 1)
        try volume.upload(node, [1, 2])
        _ = try volume.number("a")
        volume.files.release(handle)
        #expect(volume.files.openNodes.withLock { $0.count } == 0)
    }

    @Test func theEndOfTheMountCompletesWhatIsOpen() throws {
        let volume = try Volume(metadataAge: 100)
        try volume.files.start()
        let handle = try volume.create("a")
        try volume.write(handle, [1, 2], at: 0)
        try volume.files.flush(handle)
        volume.files.shutDown()
        #expect(try !isOpen(volume, "a"))
        volume.files.release(handle)
    }
}
