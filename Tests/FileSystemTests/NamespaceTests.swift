// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Catalog
import FileSystem
import Journal
import ObjectStore
import Platform
import Testing

@Suite struct NamespaceTests {
    @Test func remoteNamesAndLocalOnesShowTogether() throws {
        let volume = try Volume()
        volume.store.set("a", [1])
        volume.store.set("d/x", [2])
        try volume.put("b", [3])
        try volume.makeFolder("e")
        #expect(try volume.names("") == ["a", "b", "d", "e"])
        #expect(try volume.names("d") == ["x"])
        #expect(try volume.names("e").isEmpty)
    }

    @Test func removedNamesAreGoneAtOnceAndStayGone() throws {
        let volume = try Volume()
        volume.store.set("a", [1])
        volume.store.set("d/x", [2])
        try volume.unlink("a")
        try volume.unlink("d/x")
        try volume.removeFolder("d")
        #expect(try volume.names("").isEmpty)
        try volume.mountAgain()
        #expect(try volume.names("").isEmpty)
        #expect(throws: FileError.noEntry) { try volume.number("a") }
    }

    @Test func aFolderWithRemoteNamesIsNotEmpty() throws {
        let volume = try Volume()
        volume.store.set("d/x", [2])
        #expect(throws: FileError.notEmpty) { try volume.removeFolder("d") }
    }

    @Test func anImpliedFolderOutlivesItsLastName() throws {
        let volume = try Volume()
        volume.store.set("d/x", [2])
        try volume.rename("d/x", "y")
        #expect(try volume.names("") == ["d", "y"])
        #expect(try volume.journal.node(at: ObjectKey("d"))?.kind == .directory)
    }

    @Test func renamingAFolderTakesEverythingInItAlong() throws {
        let volume = try Volume()
        volume.store.set("d/x", [1])
        volume.store.set("d/e/y", [2, 2])
        try volume.put("d/local", [3, 3, 3])
        try volume.rename("d", "f")
        #expect(try volume.names("") == ["f"])
        #expect(try volume.names("f") == ["e", "local", "x"])
        #expect(try volume.content("f/e/y") == [2, 2])
        #expect(try volume.content("f/local") == [3, 3, 3])
        try volume.mountAgain()
        #expect(try volume.content("f/x") == [1])
        #expect(throws: FileError.noEntry) { try volume.number("d") }
    }

    @Test func whatWasUploadedWhileAFolderMovesIsNotLeftBehind() throws {
        let volume = try Volume(metadataAge: 100)
        try volume.makeFolder("d")
        try volume.put("d/x", [1, 2, 3])
        let node = try #require(try volume.journal.node(at: ObjectKey("d/x")))
        // As the flusher leaves it: the catalog knows the upload, the row is gone.
        try volume.upload(node, [1, 2, 3])
        try volume.rename("d", "f")
        #expect(try volume.content("f/x") == [1, 2, 3])
        #expect(try volume.journal.node(at: ObjectKey("d/x"))?.isTombstone == true)
    }

    @Test func namesCanBeMadeInAFolderThatWasMovedAndThenUploaded() throws {
        let volume = try Volume(metadataAge: 100)
        try volume.makeFolder("d")
        try volume.rename("d", "f")
        let folder = try volume.number("f")
        try volume.uploadFolder(#require(try volume.journal.node(at: ObjectKey("f"))))
        // Without another lookup of the folder, as from a program that works in it.
        let caller = Caller(uid: 5, gid: 6, umask: 0)
        _ = try volume.files.makeSymbolicLink(folder, ObjectKey("x"), target: ObjectKey("y"), caller: caller)
        #expect(try volume.names("f") == ["x"])
    }

    @Test func renameReplacesFilesButNotWhenToldNotTo() throws {
        let volume = try Volume()
        try volume.put("a", [1])
        try volume.put("b", [2])
        #expect(throws: FileError.exists) { try volume.rename("a", "b", flags: 1) }
        try volume.rename("a", "b")
        #expect(try volume.content("b") == [1])
        #expect(try volume.names("") == ["b"])
    }

    @Test func twoFilesCanChangePlaces() throws {
        let volume = try Volume()
        volume.store.set("a", [1])
        try volume.put("b", [2])
        try volume.rename("a", "b", flags: 2)
        #expect(try volume.content("a") == [2])
        #expect(try volume.content("b") == [1])
    }

    @Test func aFolderCannotMoveIntoItself() throws {
        let volume = try Volume()
        try volume.makeFolder("d")
        #expect(throws: FileError.invalidArgument) { try volume.rename("d", "d/e") }
    }

    @Test func attributesComeFromMetadataAndDefaults() throws {
        let volume = try Volume()
        volume.store.set("plain", [1])
        volume.store.set("exec", [1], mode: 0o100755)
        volume.store.set("link", Array("exec".utf8), mode: 0o120777)
        #expect(try volume.status("plain").attributes.mode == 0o100644)
        #expect(try volume.status("plain").attributes.uid == 1)
        #expect(try volume.status("exec").attributes.mode == 0o100755)
        #expect(try volume.files.readLink(volume.number("link")) == ObjectKey("exec"))
    }

    @Test func changedAttributesSurviveAndContentIsNotFetched() throws {
        let volume = try Volume()
        volume.store.set("a", [UInt8](repeating: 7, count: 300_000))
        let changes = AttributeChanges(permissions: 0o600, modified: Timestamp(seconds: 5))
        _ = try volume.files.setAttributes(volume.number("a"), changes, size: nil)
        try volume.mountAgain()
        #expect(try volume.status("a").attributes.mode == 0o100600)
        #expect(try volume.status("a").attributes.modified == Timestamp(seconds: 5))
        #expect(volume.store.state.inspect { $0.fetched } == 0)
    }

    @Test func namesThatKeysCannotHoldAreRefused() throws {
        let volume = try Volume()
        #expect(throws: FileError.nameTooLong) { try volume.put(String(repeating: "x", count: 256), [1]) }
        let caller = Caller(uid: 0, gid: 0, umask: 0)
        #expect(throws: FileError.illegalName) {
            try volume.files.makeDirectory(Volume.root, ObjectKey(bytes: [0xFF]), mode: 0o755, caller: caller)
        }
    }

    @Test func pathsThatKeysCannotHoldAreRefused() throws {
        let volume = try Volume(longestPath: 20)
        #expect(throws: FileError.nameTooLong) { try volume.put(String(repeating: "x", count: 21), [1]) }
        try volume.put("here", [1])
        #expect(throws: FileError.nameTooLong) { try volume.rename("here", String(repeating: "x", count: 21)) }
        try volume.rename("here", String(repeating: "x", count: 20))
        // A folder takes along what is in it: here, at the remote, and not what was removed.
        volume.store.set("a/remote-1234", [1])
        try volume.makeFolder("b")
        try volume.put("b/local-12345", [1])
        for name in ["a", "b"] {
            #expect(throws: FileError.nameTooLong) { try volume.rename(name, "ten-letter") }
            try volume.rename(name, "of-8-\(name)")
            #expect(try volume.names("of-8-\(name)").count == 1)
        }
        volume.store.set("c/remote-1234", [1])
        try volume.unlink("c/remote-1234")
        try volume.rename("c", "ten-letter")
    }

    /// Its key has a slash.
    @Test func theKeyOfAFolderHasToFitToo() throws {
        let volume = try Volume(longestPath: 20)
        let (fits, isTooLong) = (String(repeating: "x", count: 19), String(repeating: "x", count: 20))
        #expect(throws: FileError.nameTooLong) { try volume.makeFolder(isTooLong) }
        try volume.makeFolder("d")
        #expect(throws: FileError.nameTooLong) { try volume.rename("d", isTooLong) }
        try volume.rename("d", fits)
        // A folder takes its place, and so does one below another.
        try volume.put(isTooLong, [1])
        #expect(throws: FileError.nameTooLong) { try volume.rename(fits, isTooLong, flags: 2) }
        try volume.makeFolder("e")
        try volume.makeFolder("e/" + String(repeating: "y", count: 16))
        #expect(throws: FileError.nameTooLong) { try volume.rename("e", "ee1") }
        try volume.rename("e", "ee")
    }

    /// A listing with attributes and a lookup may run at the same moment.
    @Test func whoeverLooksFirstAllGetTheSameInode() throws {
        let volume = try Volume(metadataAge: 100)
        let names = (0..<300).map { "f\($0)" }
        for name in names { volume.store.set(name, [1]) }
        for name in names { _ = try volume.status(name) }
        for _ in 0..<5 {
            try volume.mountAgain(metadataAge: 100)
            let found = Monitor<[[InodeNumber]]>([])
            for _ in 0..<3 {
                let files = volume.files
                try Thread.detached(name: "looker") {
                    let numbers = names.map { (try? files.lookup(Volume.root, ObjectKey($0)).number) ?? 0 }
                    found.update { $0.append(numbers) }
                }
            }
            let all = try #require(found.wait(timeout: 60) { $0.count == 3 ? $0 : nil })
            #expect(Set(all).count == 1)
        }
    }

    @Test func whatWasLookedUpIsThereWhileOthersForgetIt() throws {
        let volume = try Volume(metadataAge: 100)
        volume.store.set("a", [1])
        let files = volume.files
        let ended = Monitor((threads: 0, missing: 0))
        for _ in 0..<3 {
            try Thread.detached(name: "looker") {
                for _ in 0..<2000 {
                    let number = try? files.lookup(Volume.root, ObjectKey("a")).number
                    let isThere = number.flatMap { try? files.status($0) } != nil
                    if !isThere { ended.update { $0.missing += 1 } }
                    if let number { files.forget(number, count: 1) }
                }
                ended.update { $0.threads += 1 }
            }
        }
        let missing = ended.wait(timeout: 60) { $0.threads == 3 ? $0.missing : nil }
        #expect(missing == 0)
    }

    @Test func aFolderMayGiveItsGroupToWhatIsMadeInIt() throws {
        let volume = try Volume()
        try volume.makeFolder("a")
        _ = try volume.files.setAttributes(
            volume.number("a"),
            AttributeChanges(permissions: 0o2775, gid: 77),
            size: nil
        )
        try volume.makeFolder("a/folder")
        try volume.put("a/file", [1])
        try volume.makeLink("a/link", to: "x")
        #expect(try volume.status("a/folder").attributes.permissions == 0o2755)
        #expect(try volume.status("a/file").attributes.permissions == 0o644)
        for name in ["folder", "file", "link"] { #expect(try volume.status("a/\(name)").attributes.gid == 77) }
    }

    @Test func aListingAsksForAttributesOnceAVersion() throws {
        let volume = try Volume(metadataAge: 100)
        for index in 0..<5 { volume.store.set("f\(index)", [1]) }
        for _ in 0..<3 {
            for index in 0..<5 { _ = try volume.status("f\(index)") }
        }
        #expect(volume.store.state.inspect { $0.heads } == 5)
        #expect(volume.store.state.inspect { $0.listings } == 1)
    }
}

extension Volume {
    /// Ends a folder's row as the flusher does after putting its marker.
    func uploadFolder(_ node: JournalNode) throws {
        let sent = try #require(try journal.beginDirectory(node))
        store.set(node.path.string + "/", [], mode: node.attributes.mode)
        let metadata = ObjectMetadata(mode: node.attributes.mode, uid: 5, gid: 6, modified: node.attributes.modified)
        try catalog.committedDirectory(node.path, version: nil, metadata: metadata, at: .now())
        _ = try journal.completeDirectory(sent)
    }

    /// Ends a row as the flusher does after its upload: the catalog first, then the journal.
    ///
    /// `meanwhile` happens after it has begun; a catalog that is in memory `isTold` nothing by another process.
    func upload(
        _ node: JournalNode,
        _ content: [UInt8],
        isTold: Bool = true,
        meanwhile: () throws -> Void = {}
    ) throws {
        let generation = try #require(node.generation)
        try journal.synchronizeSealed()
        let transfer = try #require(try journal.beginTransfer(of: node, method: .put))
        try meanwhile()
        let version = store.set(node.path.string, content, mode: node.attributes.mode)
        try journal.markCommitting(transfer.id, expectedTag: nil)
        let metadata = ObjectMetadata(mode: node.attributes.mode, uid: 5, gid: 6, modified: node.attributes.modified)
        if isTold {
            let number = generation.id.value
            try catalog.committed(node.path, version: version, metadata: metadata, generation: number, at: .now())
        }
        _ = try journal.completeTransfer(transfer.id, version: version)
    }
}
