// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Journal
import ObjectStore
import Platform
import Testing

/// Attributes of folders that another client changes: no listing but the folder's own tells of them.
@Suite struct FolderAttributeTests {
    private static let folder: UInt32 = 0o40000

    /// A bucket with a folder that has a marker and one that has none, both looked at.
    private func known(metadataAge: Double = 1000) throws -> Volume {
        let volume = try Volume(metadataAge: metadataAge)
        volume.store.set("k/d/", [], mode: Self.folder | 0o755)
        volume.store.set("k/d/f", [1])
        volume.store.set("k/implied/f", [1])
        #expect(try mode(volume, "k/d") == 0o755)
        #expect(try mode(volume, "k/implied") == 0o755)
        return volume
    }

    private func mode(_ volume: Volume, _ path: String) throws -> UInt32 {
        try volume.status(path).attributes.mode & 0o7777
    }

    private func change(_ volume: Volume, _ path: String, _ mode: UInt32) throws {
        let changes = AttributeChanges(permissions: mode)
        _ = try volume.files.setAttributes(volume.number(path), changes, size: nil)
    }

    private func heads(_ volume: Volume) -> Int { volume.store.state.inspect { $0.heads } }

    private func rowMode(_ volume: Volume, _ path: String) throws -> UInt32? {
        try volume.journal.node(at: ObjectKey(path)).map { $0.attributes.mode & 0o7777 }
    }

    @Test(arguments: [true, false]) func aChangeIsSeenAfterARefresh(isSameVersion: Bool) throws {
        let volume = try known()
        change(volume.store, 0o700, isSameVersion)
        let before = heads(volume)
        #expect(try mode(volume, "k/d") == 0o755)
        #expect(heads(volume) == before)
        _ = try volume.files.refresh(Volume.root)
        #expect(try mode(volume, "k/d") == 0o700)
        // Its own, and that of the folder that it is in, which has no marker.
        #expect(heads(volume) == before + 2)
        #expect(try mode(volume, "k/d") == 0o700)
        #expect(heads(volume) == before + 2)
    }

    private func change(_ store: MemoryStore, _ mode: UInt32, _ isSameVersion: Bool) {
        if isSameVersion {
            store.setMode(of: "k/d/", Self.folder | mode)
        } else {
            store.set("k/d/", [], mode: Self.folder | mode)
        }
    }

    /// Also where nobody refreshes, and by another mount on the same catalog.
    @Test func aChangeIsSeenWhenTheParentsListingIsOld() throws {
        let volume = try known(metadataAge: 0)
        volume.store.setMode(of: "k/d/", Self.folder | 0o700)
        #expect(try mode(volume, "k/d") == 0o700)
        volume.store.setMode(of: "k/d/", Self.folder | 0o711)
        try volume.mountAgain(metadataAge: 0)
        #expect(try mode(volume, "k/d") == 0o711)
    }

    @Test(arguments: [true, false]) func aChangeIsSeenInTheFoldersOwnListing(isSameVersion: Bool) throws {
        let volume = try known(metadataAge: 0)
        change(volume.store, 0o700, isSameVersion)
        let before = heads(volume)
        _ = try volume.names("k/d")
        #expect(try mode(volume, "k/d") == 0o700)
        // Once on the way to the folder, once after it was listed.
        #expect(heads(volume) <= before + 3)
    }

    @Test func whatIsKnownCountsWhileTheRemoteIsAway() throws {
        let volume = try known()
        volume.store.setMode(of: "k/d/", Self.folder | 0o700)
        _ = try volume.files.refresh(Volume.root)
        // The listing has come, the attributes have not.
        #expect(try volume.names("k") == ["d", "implied"])
        volume.store.setUnreachable(true)
        for _ in 0..<3 { #expect(try mode(volume, "k/d") == 0o755) }
        try change(volume, "k/implied", 0o750)
        #expect(try rowMode(volume, "k/implied") == 0o750)
        volume.store.setUnreachable(false)
        volume.files.remoteBecameReachable()
        #expect(try mode(volume, "k/d") == 0o700)
    }

    @Test func noChangeOfOneAttributeSendsOldOnesBack() throws {
        let volume = try known(metadataAge: 0)
        let number = try volume.number("k/d")
        volume.store.setMode(of: "k/d/", Self.folder | 0o700)
        volume.store.set("k/implied/", [], mode: Self.folder | 0o711)
        _ = try volume.names("k")
        let owner = AttributeChanges(uid: 77)
        _ = try volume.files.setAttributes(number, owner, size: nil)
        #expect(try rowMode(volume, "k/d") == 0o700)
        _ = try volume.files.setAttributes(volume.number("k/implied"), owner, size: nil)
        #expect(try rowMode(volume, "k/implied") == 0o711)
    }

    @Test func foldersWithoutAMarkerAreNotAskedForAtEachListing() throws {
        let volume = try known(metadataAge: 0)
        let before = heads(volume)
        for _ in 0..<3 { #expect(try mode(volume, "k/implied") == 0o755) }
        #expect(heads(volume) == before)
        volume.store.set("k/implied/", [], mode: Self.folder | 0o711)
        _ = try volume.files.refresh(Volume.root)
        #expect(try mode(volume, "k/implied") == 0o711)
    }

    @Test func aFolderThatLosesItsMarkerHasTheAttributesOfOneThatHadNone() throws {
        let volume = try known(metadataAge: 0)
        change(volume.store, 0o700, true)
        #expect(try mode(volume, "k/d") == 0o700)
        volume.store.remove("k/d/")
        #expect(try mode(volume, "k/d") == 0o755)
    }

    /// The kernel would keep them for as long as the names.
    @Test func aListingGivesNoAttributesThatAreOfBefore() throws {
        let volume = try known(metadataAge: 0)
        let handle = try volume.files.openDirectory(volume.number("k"))
        var known: [String: Bool] = [:]
        try volume.files.readDirectory(handle, from: 0, withStatus: true) { entry in
            known[entry.name.string] = entry.status != nil
            return true
        }
        #expect(known["d"] == false)
        #expect(known["implied"] == true)
    }

    /// Its listings tell of all markers at once.
    @Test func movingATreeAsksForNoMarkerThatIsTheSame() throws {
        let volume = try known(metadataAge: 0)
        for number in 0..<20 { volume.store.set("k/d/\(number)/", [], mode: Self.folder | 0o755) }
        for number in 0..<20 { #expect(try mode(volume, "k/d/\(number)") == 0o755) }
        let before = heads(volume)
        try volume.rename("k/d", "k/e")
        #expect(heads(volume) <= before + 4)
        #expect(try mode(volume, "k/e/7") == 0o755)
    }
}
