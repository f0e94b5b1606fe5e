// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import FileSystem
import Testing

@Suite struct RefreshTests {
    private func known() throws -> Volume {
        let volume = try Volume(metadataAge: 1000)
        let names = ["a/f", "a/b/f", "a/b/g", "c/f"]
        for name in names { volume.store.set(name, [1]) }
        for name in names { _ = try volume.number(name) }
        return volume
    }

    private func names(_ volume: Volume, _ path: String) throws -> [String] {
        try volume.files.refresh(volume.number(path)).map { $0.name.string + ($0.isDirectory ? "/" : "") }.sorted()
    }

    @Test func theNamesOfAFolderAreThoseThatLeadToItAndBelow() throws {
        let volume = try known()
        #expect(try names(volume, "a") == ["a/", "b/", "f", "f", "g"])
        #expect(try names(volume, "a/b") == ["b/", "f", "g"])
        #expect(try names(volume, "c/f") == ["f"])
        #expect(try names(volume, "") == ["a/", "b/", "c/", "f", "f", "f", "g"])
    }

    @Test func onlyWhatWasRefreshedIsAskedForAgain() throws {
        let volume = try known()
        for name in ["a/f", "a/b/f", "c/f"] { volume.store.set(name, [1, 2]) }
        _ = try volume.files.refresh(volume.number("a"))
        #expect(try volume.status("a/f").size == 2)
        #expect(try volume.status("a/b/f").size == 2)
        #expect(try volume.status("c/f").size == 1)
        _ = try volume.files.refresh(volume.number("c/f"))
        #expect(try volume.status("c/f").size == 2)
    }

    @Test func aRefreshOfAnUnreachableRemoteForgetsNothing() throws {
        let volume = try known()
        volume.store.setUnreachable(true)
        _ = try volume.files.refresh(Volume.root)
        #expect(try volume.status("a/b/g").size == 1)
        #expect(throws: FileError.self) { try volume.status("a/b/none") }
    }

    /// Who makes a file asks for its name first; what is learned between the two counts.
    @Test func aNameThatIsLearnedOfBeforeItIsMadeIsNotMadeAgain() throws {
        let volume = try Volume(metadataAge: 1000)
        try volume.makeFolder("a")
        #expect(throws: FileError.self) { try volume.number("a/f") }
        volume.store.set("b/f", [1, 2, 3])
        #expect(throws: FileError.self) { try volume.number("f") }
        volume.store.set("f", [1, 2, 3])
        _ = try volume.files.refresh(Volume.root)
        _ = try names(volume, "")
        // It is opened, not replaced by an empty one.
        let handle = try volume.create("f")
        #expect(try volume.read(handle, ByteRange(0, 3)).count == 3)
        // A row that came meanwhile is seen too.
        _ = try volume.create("a/f")
        #expect(throws: FileError.self) { try volume.makeFolder("a/f") }
    }
}
