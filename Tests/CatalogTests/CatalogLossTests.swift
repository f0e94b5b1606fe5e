// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Catalog
import Database
import Glibc
import ObjectStore
import Platform
import TestSupport
import Testing

/// A catalog whose files somebody deletes while the mount and the flusher have it open.
@Suite struct CatalogLossTests {
    private let directory = "/tmp/moorage-catalog-\(Randomness.hexadecimal(bytes: 8))"
    private let time = Timestamp(seconds: 1000)

    private static func removeFiles(in directory: String) {
        for name in (try? Files.names(in: directory)) ?? [] { _ = unlink("\(directory)/\(name.string)") }
    }

    private func version(_ tag: String) -> ObjectVersion {
        ObjectVersion(entityTag: EntityTag(opaque: tag), size: 1)
    }

    /// A commit that went with the old file cannot hold against it.
    @Test func anAnswerOfBeforeIsNotTaken() throws {
        defer { _ = rmdir(directory) }
        defer { Self.removeFiles(in: directory) }
        let catalog = try Catalog(directory: directory)
        let token = try catalog.token()
        Self.removeFiles(in: directory)
        let answer = CatalogEntry(path: ObjectKey("a"), kind: .file, version: version("1"), checkedAt: time)
        #expect(try !catalog.store(answer, since: token))
        #expect(try catalog.entry(ObjectKey("a")) == nil)
        #expect(try catalog.store(answer, since: catalog.token()))
    }

    /// As when only a part of the files was deleted, and with it what made the tables.
    @Test func aFileWithoutItsTablesIsBegunAnew() throws {
        defer { _ = rmdir(directory) }
        defer { Self.removeFiles(in: directory) }
        let catalog = try Catalog(directory: directory)
        let answer = CatalogEntry(path: ObjectKey("a"), kind: .file, version: version("1"), checkedAt: time)
        #expect(try catalog.store(answer, since: catalog.token()))
        let epoch = catalog.epoch
        let other = try Database(path: directory + "/catalog.sqlite")
        _ = try other.write { connection throws(DatabaseError) in
            try connection.run("ALTER TABLE folder RENAME TO gone")
        }
        #expect(try catalog.entry(ObjectKey("a")) == nil)
        #expect(catalog.epoch != epoch && !catalog.isInMemory)
        #expect(try catalog.store(answer, since: catalog.token()))
        #expect(try catalog.entry(ObjectKey("a")) != nil)
    }

    /// As on a file system that can only be read since its disk has failed.
    @Test func aFileThatCanBeNeitherWrittenNorDeletedIsBelievedByNobody() throws {
        let place = try FailingPlace()
        defer { place.end() }
        let (mount, flusher, path) = (try place.catalog(), try place.catalog(), ObjectKey("sent"))
        try listAsEmpty(mount)
        #expect(try mount.look(at: path).isMissing && flusher.look(at: path).isMissing)
        place.failToWrite()
        place.deletesNothing.update { $0 = true }
        try flusher.committed(path, version: version("1"), metadata: nil, generation: 1, at: time)
        #expect(try flusher.isInMemory && flusher.entry(path) != nil)
        #expect(try FileStatus.of(place.mark)?.mode == S_IFREG | 0o600)
        #expect(try !mount.look(at: path).isMissing && mount.isInMemory)
        #expect(try Catalog.hidden(inDirectory: place.cache, marks: place.state, folders: 1) == nil)
        place.disk.fail(nil)
        let early = try place.catalog()
        #expect(try !early.look(at: path).isMissing && early.isInMemory, "nothing can be deleted yet")
        place.deletesNothing.update { $0 = false }
        let (late, other) = (try place.catalog(), try place.catalog())
        #expect(try !late.look(at: path).isMissing && !late.isInMemory)
        #expect(try FileStatus.of(place.mark) == nil)
        try listAsEmpty(late)
        #expect(try other.look(at: path).isMissing && !other.isInMemory, "the new file is believed")
    }

    /// One that another process has begun since the first one was deleted.
    @Test func aNewFileThatCannotBeDeletedIsMarkedAsWell() throws {
        let place = try FailingPlace()
        defer { place.end() }
        let (mount, flusher) = (try place.catalog(), try place.catalog())
        place.failToWrite()
        try flusher.committed(ObjectKey("a"), version: version("1"), metadata: nil, generation: 1, at: time)
        #expect(try FileStatus.of(place.mark) == nil, "it was deleted")
        place.disk.fail(nil)
        try listAsEmpty(mount)
        #expect(try mount.look(at: ObjectKey("b")).isMissing && !mount.isInMemory)
        place.deletesNothing.update { $0 = true }
        try flusher.committed(ObjectKey("b"), version: version("1"), metadata: nil, generation: 2, at: time)
        #expect(try !mount.look(at: ObjectKey("b")).isMissing)
    }

    /// The flusher may have no right to write where the mount has it.
    @Test func aProcessThatCannotWriteDoesNotCostAListingWithEachCommit() throws {
        let place = try FailingPlace()
        defer { place.end() }
        let mount = try Catalog(directory: place.cache, marks: place.state)
        place.failToWrite()
        place.deletesNothing.update { $0 = true }
        let flusher = try place.catalog()
        place.disk.fail(nil)
        for number in 0..<20 {
            let path = ObjectKey("\(number)")
            try flusher.committed(path, version: version("1"), metadata: nil, generation: 1, at: time)
            _ = try mount.look(at: path)
        }
        #expect(flusher.isInMemory && mount.epoch == 1)
    }

    /// A new file beside it would be deleted by whoever comes next.
    @Test func noFileIsBegunBesideAMarkThatStays() throws {
        let place = try FailingPlace()
        defer { place.end() }
        try #require(mkdir(place.mark, 0o700) == 0)
        #expect(try place.catalog().isInMemory)
        #expect(try FileStatus.of(place.cache + "/catalog.sqlite") == nil)
        try #require(rmdir(place.mark) == 0)
        #expect(try !place.catalog().isInMemory)
    }

    private func listAsEmpty(_ catalog: Catalog) throws {
        try catalog.finishListing(of: .root, catalog.beginListing(), ListingSummary(), at: time)
    }

    /// What one has committed is there for the other, unless that one sees that its catalog is another one since.
    @Test func noCommitIsMissingInAListingThatCounts() throws {
        defer { _ = rmdir(directory) }
        defer { Self.removeFiles(in: directory) }
        let (mount, flusher) = (try Catalog(directory: directory), try Catalog(directory: directory))
        let (isOver, steps) = (Monitor(false), Monitor(0))
        let folder = directory
        try Thread.detached(name: "deletes") {
            while !isOver.inspect({ $0 }) {
                Self.removeFiles(in: folder)
                // Not before the last deletion is over and done with: a catalog that is deleted time and again while it is
                // opened goes on in memory, as it should.
                let next = steps.inspect { $0 } + Int.random(in: 2...20)
                _ = steps.wait(timeout: 1) { $0 >= next ? true : nil }
                usleep(UInt32.random(in: 0...2_000))
            }
            isOver.update { $0 = false }
        }
        var whole = 0
        for number in 0..<1500 {
            let path = ObjectKey("f\(number)")
            let found = try entry(of: path, listedBy: mount) {
                try flusher.committed(path, version: version("2"), metadata: nil, generation: 1, at: time)
            }
            if let found {
                #expect(found?.version == version("2"), "\(path)")
                whole += 1
            }
            #expect(!mount.isInMemory && !flusher.isInMemory)
            steps.update { $0 += 1 }
        }
        isOver.update { $0 = true }
        _ = isOver.wait { $0 ? nil : true }
        #expect(whole > 0 && whole < 1500)
    }

    /// What is known of a name after a listing without it that `meanwhile` happens during; nil: it does not count.
    private func entry(
        of path: ObjectKey,
        listedBy mount: Catalog,
        _ meanwhile: () throws -> Void
    ) throws -> CatalogEntry?? {
        let token = try mount.beginListing()
        let epoch = mount.epoch
        try meanwhile()
        do {
            try mount.finishListing(of: .root, token, ListingSummary(), at: time)
        } catch {
            guard error.kind == .notFound else { throw error }
            return nil
        }
        let found = try mount.entry(path)
        return mount.epoch == epoch ? .some(found) : nil
    }
}

/// A cache whose disk fails to write, and whose file system deletes nothing, when it is told so, and a folder for marks.
private struct FailingPlace {
    let cache = "/tmp/moorage-catalog-\(Randomness.hexadecimal(bytes: 8))"
    let disk: DatabaseDisk
    let deletesNothing = Monitor(false)
    var state: String { cache + "-state" }
    var mark: String { state + "/catalog.distrusted" }

    init() throws {
        try Files.makeDirectories(cache)
        disk = try DatabaseDisk(folder: cache)
        try Files.makeDirectories(state)
    }

    func catalog() throws -> Catalog {
        try Catalog(directory: cache, marks: state) { [deletesNothing] path in
            if !deletesNothing.inspect({ $0 }) { _ = unlink(path) }
        }
    }

    func failToWrite() { disk.fail { $0.kind == .write ? EROFS : 0 } }

    func end() {
        disk.end()
        for folder in [cache, state] {
            for name in (try? Files.names(in: folder)) ?? [] { _ = unlink("\(folder)/\(name.string)") }
            _ = rmdir(folder)
        }
    }
}
