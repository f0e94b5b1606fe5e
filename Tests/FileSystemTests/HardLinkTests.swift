// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
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
}
