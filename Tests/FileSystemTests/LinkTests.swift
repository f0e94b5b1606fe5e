// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Catalog
import FileSystem
import Journal
import ObjectStore
import Platform
import Testing

/// Symbolic links whose text nobody here has read yet.
@Suite struct LinkTests {
    @Test func aLinkIsReadFromStagingWhenItsObjectIsToGo() throws {
        let volume = try Volume()
        let text = Array("target".utf8)
        volume.store.set("link", text, mode: 0o120777)
        try volume.rename("link", "moved")
        // As the flusher does for a server that cannot copy.
        let node = try #require(try volume.journal.node(at: ObjectKey("moved")))
        let generation = try #require(node.generation)
        _ = try volume.journal.beginTransfer(of: node, method: .put)
        let staging = try volume.journal.openStaging(generation.id, creating: true)
        try text.withUnsafeBytes { try staging.write($0, at: 0) }
        try volume.journal.hydrated(generation.id, [ByteRange(0, Int64(text.count))])
        volume.store.remove("link")
        #expect(try volume.files.readLink(volume.number("moved")) == ObjectKey("target"))
    }

    @Test func aLinksTextIsKnownAfterTheCatalogForgotIt() throws {
        let volume = try Volume()
        let version = volume.store.set("link", Array("target".utf8), mode: 0o120777)
        let number = try volume.number("link")
        #expect(try volume.files.readLink(number) == ObjectKey("target"))
        let metadata = ObjectMetadata(mode: 0o120777, uid: 5, gid: 6)
        try volume.catalog.committed(
            ObjectKey("link"),
            version: version,
            metadata: metadata,
            generation: nil,
            at: .now()
        )
        #expect(try volume.number("link") == number)
        #expect(try volume.files.readLink(number) == ObjectKey("target"))
        #expect(try volume.status("link").size == 6)
    }
}
