// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Catalog
import FileSystem
import Journal
import ObjectStore
import Platform
import Testing

/// What is done to names while the catalog has forgotten what belongs to them: the cache may be deleted at any time.
@Suite struct ForgottenTests {
    @Test func aFoldersMarkerIsNotReplacedByOneWithOtherAttributes() throws {
        let volume = try Volume()
        volume.store.set("d/", [], mode: 0o40700)
        volume.store.set("d/f", [1])
        try volume.mountAgain(metadataAge: 60)
        let folder = try volume.number("d")
        #expect(try volume.names("d") == ["f"])
        try volume.catalog.forgetAttributes(of: ObjectKey("d"))
        try volume.files.unlink(folder, ObjectKey("f"))
        #expect(try volume.journal.node(at: ObjectKey("d")) == nil)
        #expect(try volume.status("d").attributes.mode == 0o40700)
    }

    @Test func aFolderThatItsNamesImpliedIsKeptWhenTheLastOneLeaves() throws {
        let volume = try Volume()
        volume.store.set("d/f", [1])
        let folder = try volume.number("d")
        try volume.catalog.clear()
        try volume.files.unlink(folder, ObjectKey("f"))
        #expect(try volume.journal.node(at: ObjectKey("d"))?.kind == .directory)
        volume.store.remove("d/f")
        #expect(try volume.names("") == ["d"])
    }

    @Test func attributesAreChangedFromWhatTheyReallyAre() throws {
        let volume = try Volume()
        volume.store.set("a", [1], mode: 0o100600)
        let number = try volume.number("a")
        try volume.catalog.clear()
        _ = try volume.files.setAttributes(number, AttributeChanges(uid: 9), size: nil)
        #expect(try volume.journal.node(at: ObjectKey("a"))?.attributes.mode == 0o100600)
    }

    /// While the catalog is in memory the flusher does not tell it what it has sent, and the row that told is gone.
    @Test func aFileThatIsSentWhileItsFolderMovesMovesWithIt() throws {
        let volume = try Volume(metadataAge: 60, isCatalogInMemory: true)
        try #require(volume.catalog.isInMemory)
        volume.store.set("d/old", [1])
        _ = try volume.number("d")
        try volume.close(volume.create("d/x"))
        let node = try #require(try volume.journal.node(at: ObjectKey("d/x")))
        nonisolated(unsafe) let others = volume
        let isSent = Monitor(false)
        volume.store.state.update { state in
            state.afterTree = {
                do {
                    try others.upload(node, [], isTold: false)
                    isSent.update { $0 = true }
                } catch {
                    Issue.record("\(error)")
                }
            }
        }
        try volume.rename("d", "e")
        #expect(isSent.inspect { $0 }, "the test proves nothing")
        #expect(try volume.names("e") == ["old", "x"])
        #expect(try volume.names("") == ["e"])
    }
}
