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
