// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Catalog
import Database
import Glibc
import ObjectStore
import Platform
import Testing

@Suite struct CatalogTests {
    private let directory: String
    private let catalog: Catalog
    private let time = Timestamp(seconds: 1000)

    init() throws {
        directory = "/tmp/moorage-catalog-\(Randomness.hexadecimal(bytes: 8))"
        catalog = try Catalog(directory: directory)
    }

    private func removeAll() {
        for name in (try? Files.names(in: directory)) ?? [] { _ = unlink("\(directory)/\(name)") }
        _ = rmdir(directory)
    }

    private func key(_ text: String) -> ObjectKey { ObjectKey(text) }

    private func version(_ tag: String, _ size: Int64 = 1) -> ObjectVersion {
        ObjectVersion(entityTag: EntityTag(opaque: tag), size: size)
    }

    private func page(_ files: [(String, String)], _ folders: [String] = []) -> ListingPage {
        ListingPage(
            entries: files.map { ListingPage.Entry(key: ObjectKey($0.0), version: version($0.1)) },
            folders: folders.map { ObjectKey($0) },
            next: nil
        )
    }

    private func list(_ folder: String, _ pages: [ListingPage], _ between: () throws -> Void = {}) throws {
        let token = try catalog.beginListing()
        var summary = ListingSummary()
        for (index, page) in pages.enumerated() {
            if index == pages.count - 1 { try between() }
            try catalog.apply(page, of: key(folder), token, at: time, summary: &summary)
        }
        try catalog.finishListing(of: key(folder), token, summary, at: time)
    }

    private func names(_ folder: String) throws -> [String] {
        try catalog.children(of: key(folder)).map(\.path.string)
    }

    @Test func aListingReplacesWhatWasKnownOfItsFolder() throws {
        defer { removeAll() }
        try list("", [page([("a", "1"), ("b", "1")], ["d"])])
        try list("d", [page([("d/x", "1")])])
        #expect(try names("") == ["a", "b", "d"])
        #expect(try catalog.folderState(.root) == FolderState(listedAt: time, hidden: 0))
        #expect(try catalog.folderState(key("e")) == nil)
        try list("", [page([("b", "2")]), page([("c", "1")], ["d"])])
        #expect(try names("") == ["b", "c", "d"])
        #expect(try names("d") == ["d/x"])
        #expect(try catalog.descendants(of: .root).map(\.path.string) == ["b", "c", "d", "d/x"])
        #expect(try catalog.descendants(of: key("d")).map(\.path.string) == ["d/x"])
    }

    @Test func metadataComesWithAListing() throws {
        defer { removeAll() }
        func listed(_ key: String, _ tag: String, _ mode: UInt32?) -> ListingPage {
            let metadata = mode.map { ObjectMetadata(mode: $0) }
            let entry = ListingPage.Entry(key: ObjectKey(key), version: version(tag), metadata: metadata)
            return ListingPage(entries: [entry], folders: [], next: nil)
        }
        try list("", [listed("a", "1", 0o100_600), page([], ["d"])])
        #expect(try catalog.entry(key("a"))?.metadata?.mode == 0o100_600)
        try list("", [listed("a", "1", 0o100_640), page([], ["d"])])
        #expect(try catalog.entry(key("a"))?.metadata?.mode == 0o100_640)
        try list("", [listed("a", "1", nil), page([], ["d"])])
        #expect(try catalog.entry(key("a"))?.metadata?.mode == 0o100_640)
        try list("", [listed("a", "2", nil), page([], ["d"])])
        #expect(try catalog.entry(key("a"))?.metadata == nil)
        try list("d", [listed("d/", "1", 0o040_700)])
        #expect(try catalog.entry(key("d"))?.metadata?.mode == 0o040_700)
        try list("d", [listed("d/", "2", nil)])
        #expect(try catalog.entry(key("d"))?.metadata == nil)
    }

    /// rclone sets a time by a copy of the object onto itself, which leaves the entity tag.
    @Test func metadataIsAskedForAgainAfterACopyOntoItself() throws {
        defer { removeAll() }
        func listed(at seconds: Int64?) -> ListingPage {
            let time = seconds.map { Timestamp(seconds: $0) }
            let version = ObjectVersion(entityTag: EntityTag(opaque: "1"), size: 1, lastModified: time)
            return ListingPage(entries: [.init(key: key("a"), version: version)], folders: [], next: nil)
        }
        func describe() throws {
            var entry = try #require(try catalog.entry(key("a")))
            entry.metadata = ObjectMetadata(mode: 0o100_600)
            try catalog.store(entry, since: try catalog.token())
        }
        try list("", [listed(at: nil)])
        try describe()
        for time: Int64? in [100, 100, nil, 100] {
            try list("", [listed(at: time)])
            #expect(try catalog.entry(key("a"))?.metadata != nil)
        }
        try list("", [listed(at: 101)])
        #expect(try catalog.entry(key("a"))?.metadata == nil)
        try describe()
        try list("", [listed(at: 101)])
        #expect(try catalog.entry(key("a"))?.metadata != nil)
    }

    @Test func extendedAttributesAreKeptWithTheOthers() throws {
        defer { removeAll() }
        let extended = try #require(ExtendedAttributes(text: "%7B%22user.a%22%3A%22%22%7D"))
        let metadata = ObjectMetadata(mode: 0o100_600, extended: extended)
        try catalog.committed(key("a"), version: version("1"), metadata: metadata, generation: 1, at: time)
        #expect(try catalog.entry(key("a"))?.metadata == metadata)
        try catalog.committed(key("a"), version: version("1"), metadata: ObjectMetadata(), generation: 1, at: time)
        #expect(try catalog.entry(key("a"))?.metadata == ObjectMetadata())
    }

    /// An earlier version of the program did not ask for extended attributes: a change would take them away.
    @Test func whatAnEarlierVersionAskedForIsAskedForAgain() throws {
        defer { removeAll() }
        let metadata = ObjectMetadata(mode: 0o100_600)
        try catalog.committed(key("a"), version: version("1"), metadata: metadata, generation: 1, at: time)
        let old = try Database(path: directory + "/catalog.sqlite")
        try old.write { connection throws(DatabaseError) in
            try connection.run("ALTER TABLE entry DROP COLUMN xattr")
            try connection.run("PRAGMA user_version = 3")
        }
        let now = try #require(try Catalog(directory: directory).entry(key("a")))
        #expect(now.metadata == nil && now.version == version("1") && now.committedGeneration == 1)
    }

    @Test func metadataStaysWithItsVersionOnly() throws {
        defer { removeAll() }
        try list("", [page([("a", "1")])])
        var entry = try #require(try catalog.entry(key("a")))
        #expect(entry.metadata == nil)
        entry.metadata = ObjectMetadata(mode: 0o100600, uid: 7, gid: nil, modified: Timestamp(seconds: 5))
        entry.target = key("target")
        #expect(try catalog.store(entry, since: try catalog.token()))
        try list("", [page([("a", "1")])])
        #expect(try catalog.entry(key("a"))?.metadata == entry.metadata)
        #expect(try catalog.entry(key("a"))?.target == key("target"))
        try list("", [page([("a", "2")])])
        #expect(try catalog.entry(key("a"))?.metadata == nil)
        #expect(try catalog.entry(key("a"))?.target == nil)
    }

    @Test func whatWasCommittedDuringAListingOrAHeadStays() throws {
        defer { removeAll() }
        try list("", [page([("a", "1"), ("gone", "1")])])
        let token = try catalog.token()
        try list("", [page([("a", "1"), ("gone", "1")]), page([])]) {
            try catalog.committed(key("a"), version: version("2"), metadata: nil, generation: 9, at: time)
            try catalog.committed(key("n/m"), version: version("3"), metadata: nil, generation: nil, at: time)
            try catalog.removed(key("gone"), at: time)
        }
        #expect(try catalog.entry(key("a"))?.version == version("2"))
        #expect(try catalog.entry(key("a"))?.committedGeneration == 9)
        #expect(try names("") == ["a", "n"])
        #expect(try names("n") == ["n/m"])
        let stale = CatalogEntry(path: key("a"), kind: .file, version: version("1"), checkedAt: time)
        #expect(try !catalog.store(stale, since: token))
        #expect(try !catalog.markAbsent(key("a"), since: token, at: time))
        #expect(try catalog.markAbsent(key("a"), since: try catalog.token(), at: time))
        #expect(try catalog.entry(key("a"))?.kind == .absent)
        #expect(try names("") == ["n"])
    }

    /// What an object has beside attributes is known until something else is told, or a later version may have more.
    @Test(arguments: [OtherMetadata.unknown, .none, .typeOfName]) func otherMetadataIsKnown(
        others: OtherMetadata
    ) throws {
        let version = ObjectVersion(entityTag: EntityTag(opaque: "1"), size: 1, lastModified: Timestamp(seconds: 100))
        let metadata = ObjectMetadata(mode: 0o100644)
        func listed(at seconds: Int64, _ type: String?) throws -> OtherMetadata? {
            let stored = Timestamp(seconds: seconds)
            let later = ObjectVersion(entityTag: version.entityTag, size: 1, lastModified: stored)
            let told = type.map { ObjectMetadata(mode: 0o100644, contentType: $0) }
            let entry = ListingPage.Entry(key: key("a.html"), version: later, metadata: told)
            try list("", [ListingPage(entries: [entry], folders: [], next: nil)])
            return try catalog.entry(key("a.html"))?.others
        }
        func commit() throws {
            try catalog.committed(
                key("a.html"),
                version: version,
                metadata: metadata,
                others: others,
                generation: 1,
                at: time
            )
        }
        try commit()
        #expect(try catalog.entry(key("a.html"))?.others == others)
        #expect(try listed(at: 100, nil) == others)
        #expect(try listed(at: 100, "binary/octet-stream") == others)
        #expect(try listed(at: 100, "text/html") == (others == .typeOfName ? .typeOfName : .unknown))
        try commit()
        #expect(try listed(at: 100, "text/x-own") == .unknown)
        try commit()
        #expect(try listed(at: 200, nil) == .unknown)
    }

    /// Of a first listing no name is looked for, unless one like those of the page is known by then.
    @Test(arguments: [["b", "a", "c"], ["a", "b", "c"], ["b", "a", "c/0"], ["c", "b", "a/0", "a"]])
    func whatWasCommittedDuringAFirstListingStays(order: [String]) throws {
        defer { removeAll() }
        let token = try catalog.beginListing()
        try catalog.committed(key("d/a"), version: version("2"), metadata: nil, generation: 9, at: time)
        var summary = ListingSummary()
        let listed = page(order.map { ("d/\($0)", "1") })
        let taken = try catalog.apply(listed, of: key("d"), token, at: time, summary: &summary)
        try catalog.finishListing(of: key("d"), token, summary, at: time)
        #expect(try catalog.entry(key("d/a"))?.version == version("2"))
        #expect(try catalog.entry(key("d/b"))?.version == version("1"))
        #expect(taken.first { $0.path == key("d/a") }?.version == version("2"))
    }

    @Test func aRemovalHoldsAgainstAListingThatBeganBefore() throws {
        defer { removeAll() }
        let token = try catalog.beginListing()
        try catalog.removed(key("a"), at: time)
        var summary = ListingSummary()
        try catalog.apply(page([("a", "1")]), of: .root, token, at: time, summary: &summary)
        try catalog.finishListing(of: .root, token, summary, at: time)
        #expect(try catalog.entry(key("a"))?.kind == .absent)
        try list("", [page([])])
        #expect(try catalog.entry(key("a")) == nil)
    }

    @Test func namesThatCannotBeShownAreHiddenAndCounted() throws {
        defer { removeAll() }
        let long = String(repeating: "x", count: 256)
        let files = [
            ("d/ok", "1"), ("d/.", "1"), ("d/..", "1"), ("d/", "1"), ("d/a\u{0}b", "1"), ("d/\(long)", "1"), ("e", "1"),
        ]
        try list("d", [page(files, ["d/", "d/ok2", "d/.."])])
        #expect(try names("d") == ["d/ok", "d/ok2"])
        // The marker has content, which nothing shows.
        #expect(try catalog.folderState(key("d"))?.hidden == 8)
    }

    @Test func aFolderWinsOverAFileInEitherOrder() throws {
        defer { removeAll() }
        try list("", [page([("a", "1")], ["a"]), page([("b", "1")])])
        #expect(try catalog.entry(key("a"))?.kind == .directory)
        #expect(try catalog.folderState(.root)?.hidden == 1)
        try list("", [page([], ["b"]), page([("b", "1"), ("a", "1")])])
        #expect(try catalog.folderState(.root)?.hidden == 1)
        let told = try #require(try Catalog.hidden(inDirectory: directory, folders: 3))
        #expect(told.count == 1 && told.folders == [.root])
        #expect(try catalog.entry(key("b"))?.kind == .directory)
        #expect(try catalog.entry(key("a"))?.kind == .file)
    }

    @Test func aFoldersMarkerIsKnownFromItsOwnListing() throws {
        defer { removeAll() }
        try list("", [page([], ["d"])])
        #expect(try catalog.entry(key("d"))?.hasMarker == nil)
        try list("d", [page([("d/", "m"), ("d/x", "1")])])
        #expect(try catalog.entry(key("d"))?.hasMarker == true)
        #expect(try catalog.entry(key("d"))?.version == version("m"))
        try list("", [page([], ["d"])])
        #expect(try catalog.entry(key("d"))?.hasMarker == true)
        try list("d", [page([("d/x", "1")])])
        #expect(try catalog.entry(key("d"))?.hasMarker == false)
    }

    @Test func deletingAMarkerLeavesAFolderThatHasContent() throws {
        defer { removeAll() }
        let metadata = ObjectMetadata(mode: 0o040755)
        try catalog.committedDirectory(key("d"), version: nil, metadata: metadata, at: time)
        #expect(try catalog.entry(key("d"))?.metadata == metadata)
        try catalog.committed(key("d/x"), version: version("1"), metadata: nil, generation: nil, at: time)
        #expect(try catalog.entry(key("d"))?.metadata == metadata)
        try catalog.removedDirectory(key("d"), at: time)
        #expect(try catalog.entry(key("d"))?.hasMarker == false)
        try catalog.removed(key("d/x"), at: time)
        try catalog.removedDirectory(key("d"), at: time)
        #expect(try catalog.entry(key("d"))?.kind == .absent)
    }

    @Test func aDamagedFileIsReplaced() throws {
        defer { removeAll() }
        let other = directory + "-damaged"
        try Files.makeDirectories(other)
        try Files.writeAtomically("\(other)/catalog.sqlite", Array(repeating: 0x58, count: 5000))
        let fresh = try Catalog(directory: other)
        #expect(try fresh.children(of: .root).isEmpty)
        for name in try Files.names(in: other) { _ = unlink("\(other)/\(name)") }
        _ = rmdir(other)
    }

    @Test func anEntryTakesLessThanFourHundredBytes() throws {
        defer { removeAll() }
        let long = String(repeating: "f", count: 200)
        for chunk in 0..<10 {
            let files = (0..<1000).map {
                ("\(long)/file-number-\(chunk)-\($0)", "d41d8cd98f00b204e9800998ecf8427e-\($0)")
            }
            try list(long, [page(files)])
            #expect(try names(long).count == 1000)
        }
        let files = (0..<10_000).map { ("\(long)/file-number-\($0).txt", "d41d8cd98f00b204e9800998ecf8427e-\($0)") }
        try list(long, [page(files)])
        let size = try Files.names(in: directory).map { name in
            name.string.hasSuffix("sqlite") ? try FileStatus.of("\(directory)/\(name.string)")?.size ?? 0 : 0
        }
        #expect(size.reduce(0, +) < 10_000 * 400)
    }

    @Test func whatWasBelowAVanishedFolderIsForgotten() throws {
        defer { removeAll() }
        try list("", [page([], ["d"])])
        try list("d", [page([("d/x", "1")], ["d/e"])])
        try list("d/e", [page([("d/e/y", "1")])])
        try list("", [page([("a", "1")])])
        #expect(try names("d").isEmpty)
        #expect(try names("d/e").isEmpty)
        #expect(try catalog.folderState(key("d")) == nil)
    }

    @Test func aNewFolderIsEmptyWhateverWasThereBefore() throws {
        defer { removeAll() }
        try list("d", [page([("d/x", "1")])])
        try catalog.noteEmpty(key("d"), at: time)
        #expect(try names("d").isEmpty)
        #expect(try catalog.folderState(key("d")) != nil)
    }

    @Test func aDeletedFileIsBegunAnewByAllWhoHaveItOpen() throws {
        defer { removeAll() }
        let other = try Catalog(directory: directory)
        try list("", [page([("a", "1")])])
        for name in try Files.names(in: directory) { unlink("\(directory)/\(name.string)") }
        #expect(try other.children(of: .root).isEmpty)
        try catalog.committed(key("b"), version: version("2"), metadata: nil, generation: 1, at: time)
        #expect(try other.entry(key("b"))?.version == version("2"))
        #expect(catalog.epoch == 1)
    }

    /// As by rm(1), which meets the files of a catalog that was begun anew meanwhile.
    @Test(arguments: ["catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"])
    func whoeverHasItOpenSeesTheSameAfterAnyOfItsFilesWasDeleted(name: String) throws {
        defer { removeAll() }
        let older = try Catalog(directory: directory)
        try list("", [page([("a", "1")])])
        try #require(unlink("\(directory)/\(name)") == 0)
        let newer = try Catalog(directory: directory)
        let all = [older, catalog, newer]
        for (number, each) in all.enumerated() {
            let path = key("\(number)")
            try each.committed(path, version: version("2"), metadata: nil, generation: 1, at: time)
            #expect(
                try all.map { try $0.entry(path)?.version } == [version("2"), version("2"), version("2")],
                "\(number)"
            )
        }
        #expect(catalog.epoch > 0 && older.epoch > 0)
    }

    @Test func aFileThatIsDamagedWhileItIsOpenIsBegunAnew() throws {
        defer { removeAll() }
        let other = try Catalog(directory: directory)
        let files = (0..<2000).map { ("file-\($0)", "tag-\($0)") }
        try list("", [page(files)])
        for name in ["catalog.sqlite", "catalog.sqlite-wal"] {
            let file = try FileDescriptor.open("\(directory)/\(name)", O_WRONLY)
            let noise = [UInt8](repeating: 0xA5, count: max(0, Int(try file.status().size) - 200))
            try noise.withUnsafeBytes { try file.write($0, at: 200) }
        }
        let fresh = try Catalog(directory: directory)
        for each in [fresh, other, catalog] {
            _ = try each.children(of: .root)
            try each.committed(key("b"), version: version("2"), metadata: nil, generation: 1, at: time)
            #expect(try each.entry(key("b"))?.version == version("2"))
        }
        try list("", [page(files)])
        #expect(try names("").count == 2000)
    }

    @Test func aNewFileDeniesNothingThatItWasNotTold() throws {
        defer { removeAll() }
        try list("", [page([("a", "1")])])
        #expect(try catalog.look(at: key("b")).isMissing)
        #expect(try catalog.contents(of: .root, after: nil, limit: 1).areAll)
        for name in try Files.names(in: directory) { unlink("\(directory)/\(name.string)") }
        #expect(try !catalog.look(at: key("b")).isMissing)
        #expect(try !catalog.contents(of: .root, after: nil, limit: 1).areAll)
        try list("", [page([])])
        #expect(try catalog.look(at: key("a")).isMissing)
    }

    @Test func aListingBegunOnADeletedFileIsNotTakenForComplete() throws {
        defer { removeAll() }
        let token = try catalog.beginListing()
        var summary = ListingSummary()
        for name in try Files.names(in: directory) { unlink("\(directory)/\(name.string)") }
        #expect(throws: DatabaseError.self) {
            try catalog.apply(page([("a", "1")]), of: .root, token, at: time, summary: &summary)
        }
        #expect(throws: DatabaseError.self) { try catalog.finishListing(of: .root, token, summary, at: time) }
        #expect(try catalog.folderState(.root) == nil)
    }

    @Test func aFolderThatOnlyItsNamesImpliedGoesWithTheLastOfThem() throws {
        defer { removeAll() }
        try catalog.noteEmpty(key("d"), at: time)
        try catalog.noteEmpty(key("d/e"), at: time)
        try catalog.committed(key("d/e/a"), version: version("1"), metadata: nil, generation: 1, at: time)
        try catalog.committed(key("d/b"), version: version("1"), metadata: nil, generation: 2, at: time)
        try catalog.removed(key("d/e/a"), at: time)
        #expect(try names("d") == ["d/b"])
        try catalog.removed(key("d/b"), at: time)
        #expect(try names("").isEmpty)
    }

    @Test func aFolderThatWasNeverListedMayHoldMore() throws {
        defer { removeAll() }
        try catalog.committed(key("d/a"), version: version("1"), metadata: nil, generation: 1, at: time)
        try catalog.removed(key("d/a"), at: time)
        #expect(try names("") == ["d"])
    }

    @Test func aFolderWithAMarkerStaysWhenItIsEmpty() throws {
        defer { removeAll() }
        try catalog.committedDirectory(key("d"), version: nil, metadata: nil, at: time)
        try catalog.committed(key("d/a"), version: version("1"), metadata: nil, generation: 1, at: time)
        try catalog.removed(key("d/a"), at: time)
        #expect(try names("") == ["d"])
    }
}
