// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Journal
import Testing

/// Files with several names, as the kernel knows them.
@Suite struct HardLinkTests {
    /// By its first name the kernel may know what was looked up by another one, and not taken for the same.
    @Test func whatHasLostItsNamesIsLookedUpAnew() throws {
        let volume = try Volume()
        volume.store.set("f", Array("first".utf8))
        let number = try volume.number("f")
        #expect(try volume.files.link(number, Volume.root, ObjectKey("g")).links == 2)
        #expect(try volume.number("g") == number)
        volume.store.set("f", Array("theirs".utf8))
        let other = try volume.number("g")
        #expect(other != number)
        #expect(throws: FileError.stale) { try volume.files.link(number, Volume.root, ObjectKey("h")) }
        #expect(throws: FileError.stale) {
            try volume.files.setAttributes(number, AttributeChanges(permissions: 0o600), size: nil)
        }
        #expect(try volume.content("g") == Array("theirs".utf8) && volume.number("f") == other)
    }

    /// Others took the first name away, and something else is made there, while the file is open by another name.
    @Test func aFileIsChangedByTheNameThatItHasLeft() throws {
        let volume = try Volume()
        let version = volume.store.set("f", Array("first".utf8))
        let number = try volume.number("f")
        _ = try volume.files.link(number, Volume.root, ObjectKey("g"))
        try copy("g", version, volume)
        let handle = try volume.open("g")
        volume.store.remove("f")
        try volume.put("f", [7])
        #expect(try volume.number("f") != number)
        _ = try volume.files.setAttributes(number, AttributeChanges(permissions: 0o600), size: nil)
        #expect(try volume.journal.node(at: ObjectKey("g"))?.attributes.permissions == 0o600)
        #expect(try volume.number("g") == number && volume.read(handle, ByteRange(0, 5)) == Array("first".utf8))
        try volume.close(handle)
    }

    /// Makes a further name of `f` a copy of it at the remote.
    private func copy(_ name: String, _ version: ObjectVersion, _ volume: Volume) throws {
        let row = try #require(try volume.journal.node(at: ObjectKey(name)))
        let copy = try volume.journal.copyLink(row, from: ObjectKey("f"), version, row.attributes)
        try volume.upload(#require(copy), Array("first".utf8))
    }

    /// The name that the file would go on by is gone with its folder, which others took away.
    @Test(arguments: [true, false]) func aNameGoesThoughTheFolderOfAnotherIsGone(isCopied: Bool) throws {
        let volume = try Volume()
        let version = volume.store.set("f", Array("first".utf8))
        volume.store.set("d/x", [1])
        _ = try volume.files.link(volume.number("f"), volume.number("d"), ObjectKey("g"))
        if isCopied { try copy("d/g", version, volume) }
        for key in ["d/x", "d/g"] { volume.store.remove(key) }
        try volume.unlink("f")
        #expect(throws: FileError.noEntry) { try volume.number("f") }
        #expect(try volume.journal.linkedName(at: ObjectKey("f")) == nil)
        // What was to be copied still is.
        #expect(try isCopied || volume.journal.node(at: ObjectKey("d/g"))?.kind == .file)
    }
}
