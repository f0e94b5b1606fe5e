// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Journal
import Platform
import Testing

@testable import FileSystem

/// A file that is open here and whose name others have taken.
@Suite struct SupersededTests {
    private let volume: Volume
    private let old: [UInt8] = [1, 2, 3]

    init() throws {
        volume = try Volume()
        try volume.mountAgain(boot: "one")
    }

    /// An open file whose content is here, by whose name others have put something else.
    private func superseded(_ path: String) throws -> FileHandle {
        volume.store.set(path, old)
        let handle = try volume.open(path, write: true)
        #expect(try volume.read(handle, ByteRange(0, 3)) == old)
        volume.store.set(path, [9, 9])
        #expect(try volume.content(path) == [9, 9])
        return handle
    }

    /// A file of the remote that was written anew and is open still.
    private func written(_ path: String) throws -> FileHandle {
        volume.store.set(path, old)
        let handle = try volume.open(path, write: true)
        _ = try volume.files.setAttributes(handle.inode.number, AttributeChanges(), size: 0, isByHandle: true)
        try volume.write(handle, [7, 2, 3], at: 0)
        try volume.files.flush(handle)
        return handle
    }

    /// Begins a change that comes to nothing: the copy is there until the file is closed.
    private func touchCopy(_ handle: FileHandle) throws -> ObjectKey {
        try volume.files.change(handle, ByteRange(0, 100), .allocate(keepingSize: true))
        let conflicts = try volume.journal.conflicts()
        #expect(conflicts.count == 1)
        return try #require(conflicts.first).copy
    }

    @Test func itGoesOnBesideTheirs() throws {
        let handle = try superseded("a")
        try volume.write(handle, [7], at: 0)
        let copy = try #require(try volume.journal.conflicts().first).copy
        #expect(try Set(volume.names("")) == ["a", copy.string])
        #expect(try volume.content("a") == [9, 9])
        let theirs = try volume.open("a", write: true)
        try volume.write(theirs, [8], at: 0)
        for handle in [handle, theirs] { try volume.close(handle) }
        let row = try #require(try volume.journal.node(at: copy))
        #expect(row.base == .absent && row.conflictOf == ObjectKey("a") && !row.isOpen)
        #expect(try volume.content(copy.string) == [7, 2, 3] && volume.content("a") == [8, 9])
    }

    @Test(arguments: [true, false]) func whatComesToNothingLeavesNothing(isSynced: Bool) throws {
        let handle = try superseded("a")
        let copy = try touchCopy(handle)
        if isSynced { try volume.files.synchronize(handle) }
        try volume.files.flush(handle)
        #expect(try volume.journal.conflicts().isEmpty && volume.journal.node(at: copy) == nil)
        #expect(try volume.names("") == ["a"])
        // The next change begins anew.
        #expect(try volume.read(handle, ByteRange(0, 3)) == old)
        try volume.write(handle, [7], at: 2)
        try volume.close(handle)
        let conflict = try #require(try volume.journal.conflicts().first)
        #expect(conflict.path == ObjectKey("a"))
        #expect(try volume.content(conflict.copy.string) == [1, 2, 7])
    }

    /// Another writer, who found the file superseded, looks at the row just when the copy was made and before it is written to.
    @Test func whatWasCopiedStaysWhileAnotherLooksAnew() throws {
        let handle = try superseded("a")
        let copy = try touchCopy(handle)
        #expect(try volume.files.reload(handle.inode))
        #expect(try volume.read(handle, ByteRange(0, 3)) == old)
        try volume.write(handle, [7], at: 1)
        try volume.close(handle)
        #expect(try volume.content(copy.string) == [1, 7, 3])
    }

    /// Something else was done with the copy, which stays therefore, but could not be completed at first.
    @Test func aCopyThatCouldNotBeCompletedKeepsItsBytes() throws {
        try volume.put("other", [9])
        let handle = try superseded("a")
        let copy = try touchCopy(handle)
        let number = try volume.number(copy.string)
        _ = try volume.files.setAttributes(number, AttributeChanges(permissions: 0o600), size: nil)
        try volume.alter("CREATE UNIQUE INDEX failing ON node (is_open)")
        #expect(throws: FileError.self) { try volume.files.flush(handle) }
        try volume.alter("DROP INDEX failing")
        #expect(try volume.files.reload(handle.inode))
        #expect(try volume.read(handle, ByteRange(0, 3)) == old)
        try volume.close(handle)
        #expect(try volume.content(copy.string) == old)
    }

    /// Others removed it, and somebody makes a file of its name here, which both go on.
    @Test func aNewFileOfItsNameIsAnother() throws {
        volume.store.set("a", old)
        let handle = try volume.open("a", write: true)
        #expect(try volume.read(handle, ByteRange(0, 3)) == old)
        volume.store.remove("a")
        #expect(throws: FileError.noEntry) { try volume.number("a") }
        let new = try volume.create("a")
        try volume.write(new, [5], at: 0)
        try volume.write(handle, [7], at: 0)
        for handle in [handle, new] { try volume.close(handle) }
        let conflict = try #require(try volume.journal.conflicts().first)
        #expect(try volume.content(conflict.copy.string) == [7, 2, 3] && volume.content("a") == [5])
    }

    @Test(arguments: ["rename", "chmod", "link"]) func whatElseIsDoneWithItStays(what: String) throws {
        let handle = try superseded("a")
        let copy = try touchCopy(handle)
        var name = copy.string
        switch what {
        case "rename":
            name = "kept"
            try volume.rename(copy.string, name)
        case "chmod":
            let number = try volume.number(name)
            _ = try volume.files.setAttributes(number, AttributeChanges(permissions: 0o600), size: nil)
        default:
            let number = try volume.number(name)
            _ = try volume.files.link(number, Volume.root, ObjectKey("link"))
            #expect(try volume.content("link") == old)
        }
        try volume.close(handle)
        #expect(try volume.content(name) == old)
        if what == "link" { #expect(try volume.content("link") == old) }
        if what == "chmod" { #expect(try volume.status(name).attributes.permissions == 0o600) }
    }

    @Test func aRemovalByItsNameStands() throws {
        let handle = try superseded("a")
        try volume.unlink("a")
        _ = try touchCopy(handle)
        try volume.close(handle)
        #expect(try volume.names("").isEmpty)
        #expect(try volume.journal.node(at: ObjectKey("a"))?.isTombstone == true)
    }

    /// Others made something by the name and took it away again, and both are still open here.
    @Test func twoOfOneNameAreBothKept() throws {
        let first = try superseded("a")
        let second = try volume.open("a", write: true)
        #expect(try volume.read(second, ByteRange(0, 2)) == [9, 9])
        volume.store.remove("a")
        #expect(throws: FileError.noEntry) { try volume.number("a") }
        try volume.write(first, [7], at: 0)
        try volume.write(second, [8], at: 0)
        for handle in [first, second] { try volume.close(handle) }
        let contents = try volume.names("").map { try volume.content($0) }
        #expect(Set(contents) == [[7, 2, 3], [8, 9]])
    }

    @Test func itFollowsItsFolder() throws {
        let handle = try superseded("d/a")
        try volume.rename("d", "e")
        try volume.makeFolder("d")
        try volume.write(handle, [7], at: 0)
        try volume.close(handle)
        let copy = try #require(try volume.journal.conflicts().first).copy
        #expect(try copy.parent == ObjectKey("e") && volume.content(copy.string) == [7, 2, 3])
        #expect(try volume.names("d").isEmpty)
    }

    /// The copy is at the remote, and others take it away there.
    @Test func aCopyThatOthersDeleteIsWrittenAnew() throws {
        let handle = try superseded("a")
        try volume.write(handle, [7], at: 0)
        try volume.files.flush(handle)
        let copy = try #require(try volume.journal.conflicts().first).copy
        try volume.upload(try #require(try volume.journal.node(at: copy)), [7, 2, 3])
        #expect(try volume.journal.node(at: copy) == nil)
        volume.store.remove(copy.string)
        #expect(try volume.names("") == ["a"])
        #expect(throws: FileError.noEntry) { try volume.number(copy.string) }
        try volume.write(handle, [8], at: 1)
        try volume.close(handle)
        #expect(try volume.content(copy.string) == [7, 8, 3])
    }

    /// A folder is synced, which is about names, and power fails before anything of the copy was.
    @Test func powerLossLeavesNothingOfAnUnsyncedCopy() throws {
        let handle = try superseded("a")
        try volume.write(handle, [7], at: 0)
        let folder = try volume.files.openDirectory(Volume.root)
        try volume.files.synchronizeNames(folder)
        try volume.mountAgain(boot: "two")
        #expect(try volume.names("") == ["a"] && volume.journal.conflicts().isEmpty)
        withExtendedLifetime(handle) {}
    }

    @Test func powerLossLeavesACopyThatWasSynced() throws {
        let handle = try superseded("a")
        try volume.write(handle, [7], at: 0)
        try volume.files.synchronize(handle)
        try volume.mountAgain(boot: "two")
        let copy = try #require(try volume.journal.conflicts().first).copy
        #expect(try volume.content(copy.string) == [7, 2, 3])
        withExtendedLifetime(handle) {}
    }

    @Test func whatWasKilledKeepsAllOfIt() throws {
        let handle = try superseded("a")
        try volume.write(handle, [7], at: 0)
        try volume.mountAgain(boot: "one")
        let copy = try #require(try volume.journal.conflicts().first).copy
        #expect(try volume.content(copy.string) == [7, 2, 3])
        withExtendedLifetime(handle) {}
    }

    @Test func whatIsNotAllHereCannotBeChanged() throws {
        volume.store.set("a", old)
        let handle = try volume.open("a", write: true)
        volume.store.set("a", [9, 9])
        #expect(try volume.content("a") == [9, 9])
        #expect(throws: FileError.stale) { try volume.write(handle, [7], at: 0) }
        #expect(try volume.journal.conflicts().isEmpty)
        try volume.close(handle)
    }

    /// The kernel looks a name up anew that turns out to be another's, and what is to be cut then is theirs.
    @Test func whatIsChangedByItsNameIsNotCopied() throws {
        let handle = try superseded("a")
        let number = handle.inode.number
        #expect(throws: FileError.stale) { try volume.files.setAttributes(number, AttributeChanges(), size: 0) }
        #expect(throws: FileError.stale) {
            try volume.files.open(number, OpenMode(isReadable: false, isWritable: true, isTruncating: true))
        }
        #expect(try volume.journal.conflicts().isEmpty)
        _ = try volume.files.setAttributes(number, AttributeChanges(), size: 0, isByHandle: true)
        try volume.close(handle)
        let copy = try #require(try volume.journal.conflicts().first).copy
        #expect(try volume.content(copy.string).isEmpty && volume.content("a") == [9, 9])
    }

    /// Its row was moved aside by who sends it, and others have taken that name, too.
    @Test func theNameThatItHasCountsForMoreThanTheOneThatItHad() throws {
        let handle = try written("a")
        let theirs = volume.store.set("a", [9, 9])
        let row = try #require(try volume.journal.node(at: ObjectKey("a")))
        let moved = try volume.journal.moveToConflict(row, copy: ObjectKey("copy"), remote: theirs)
        #expect(try volume.content("a") == [9, 9])
        #expect(try volume.content("copy") == [7, 2, 3])
        try volume.upload(try #require(moved), [7, 2, 3])
        volume.store.set("copy", [5])
        #expect(try Set(volume.names("")) == ["a", "copy"])
        try volume.write(handle, [8], at: 1)
        try volume.close(handle)
        let last = try #require(try volume.journal.conflicts().last)
        #expect(last.path == ObjectKey("copy"))
        #expect(try volume.content(last.copy.string) == [7, 8, 3] && volume.content("copy") == [5])
    }

    /// The kernel still knows it by the name that it had before who sends it met theirs.
    @Test func whatIsCutByANameThatItHadIsTheirs() throws {
        let handle = try written("a")
        let theirs = volume.store.set("a", [9, 9])
        let row = try #require(try volume.journal.node(at: ObjectKey("a")))
        _ = try volume.journal.moveToConflict(row, copy: ObjectKey("copy"), remote: theirs)
        let number = handle.inode.number
        #expect(throws: FileError.stale) { try volume.files.setAttributes(number, AttributeChanges(), size: 0) }
        #expect(try volume.content("copy") == [7, 2, 3] && volume.content("a") == [9, 9])
    }
}
