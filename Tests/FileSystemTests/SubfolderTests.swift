// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Glibc
import Testing

/// How many folders a folder says that it holds: stat(2) tells it as links, which find(1) relies on.
@Suite struct SubfolderTests {
    private func subfolders(_ volume: Volume, _ path: String) throws -> Int? { try volume.status(path).subfolders }

    /// `d` with two folders and a file at the remote, listed by a look at a name in it.
    private func listed(metadataAge: Double = 1000) throws -> Volume {
        let volume = try Volume(metadataAge: metadataAge)
        for name in ["d/a/f", "d/b/f", "d/f"] { volume.store.set(name, [1]) }
        _ = try volume.number("d/f")
        return volume
    }

    @Test func aNewFolderHasNone() throws {
        let volume = try Volume(metadataAge: 1000)
        let caller = Caller(uid: 1, gid: 1, umask: 0)
        let made = try volume.files.makeDirectory(Volume.root, ObjectKey("new"), mode: 0o755, caller: caller)
        #expect(made.subfolders == 0)
        #expect(try subfolders(volume, "new") == 0)
        #expect(try subfolders(volume, "") == 1)
    }

    @Test func thoseOfTheRemoteAndOurOwnCount() throws {
        let volume = try listed()
        #expect(try subfolders(volume, "d") == 2)
        try volume.makeFolder("d/c")
        try volume.put("d/g", [1])
        #expect(try subfolders(volume, "d") == 3)
    }

    @Test func namesThatComeAndGoAreCounted() throws {
        let volume = try listed()
        for name in ["d/c", "e", "e/x"] { try volume.makeFolder(name) }
        #expect(try subfolders(volume, "d") == 3)
        #expect(try subfolders(volume, "e") == 1)
        try volume.rename("d/c", "e/c")
        #expect(try subfolders(volume, "d") == 2)
        #expect(try subfolders(volume, "e") == 2)
        try volume.rename("e/c", "e/x")
        #expect(try subfolders(volume, "e") == 1)
        try volume.removeFolder("e/x")
        #expect(try subfolders(volume, "e") == 0)
        try volume.rename("d/a", "e/a")
        #expect(try subfolders(volume, "d") == 1)
        #expect(try subfolders(volume, "e") == 1)
    }

    @Test func whatWasRemovedButIsStillAtTheRemoteDoesNotCount() throws {
        let volume = try listed()
        try volume.unlink("d/a/f")
        try volume.removeFolder("d/a")
        // Counted now for the first time, from the rows and the listing.
        #expect(try subfolders(volume, "d") == 1)
    }

    @Test func itIsUnknownWhereNothingWasListed() throws {
        let volume = try Volume(metadataAge: 1000)
        volume.store.set("d/a/f", [1])
        #expect(try subfolders(volume, "d") == nil)
        #expect(try subfolders(volume, "") == 1)
    }

    @Test func itIsUnknownWhenTheListingIsAboutToAge() throws {
        // The kernel keeps the number for a second, within which the folder would be listed anew.
        #expect(try subfolders(listed(metadataAge: 1.5), "d") == nil)
    }

    @Test func itIsCountedAnewAfterAListing() throws {
        let volume = try listed()
        #expect(try subfolders(volume, "d") == 2)
        volume.store.set("d/z/f", [1])
        _ = try volume.files.refresh(volume.number("d"))
        #expect(try subfolders(volume, "d") == nil)
        _ = try volume.number("d/z")
        #expect(try subfolders(volume, "d") == 3)
    }

    @Test func itIsUnknownWhileTheRemoteIsUnreachable() throws {
        let volume = try listed()
        volume.store.setUnreachable(true)
        _ = try volume.files.refresh(volume.number("d"))
        #expect(try volume.names("d") == ["a", "b", "f"])
        #expect(try subfolders(volume, "d") == nil)
    }

    @Test func itIsUnknownInALargeFolder() throws {
        let volume = try Volume(metadataAge: 1000)
        for number in 0..<1000 { volume.store.set("d/f\(number)", [1]) }
        _ = try volume.names("d")
        // The last names may be given out before the listing has ended.
        for _ in 0..<1000 where try subfolders(volume, "d") == nil { usleep(10_000) }
        #expect(try subfolders(volume, "d") == 0)
        volume.store.set("d/f1000", [1])
        _ = try volume.files.refresh(volume.number("d"))
        _ = try volume.names("d")
        #expect(try subfolders(volume, "d") == nil)
    }

    @Test func aListingTellsTheSameAsALook() throws {
        let volume = try listed()
        #expect(try subfolders(volume, "d") == 2)
        let handle = try volume.files.openDirectory(Volume.root)
        var told: [Int?] = []
        try volume.files.readDirectory(handle, from: 0, withStatus: true) { entry in
            if let status = entry.status { told.append(status.subfolders) }
            return true
        }
        #expect(told == [2])
    }
}
