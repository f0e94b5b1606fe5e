// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import Glibc
import ObjectStore
import Platform
import Testing

@Suite struct CarryingTests {
    private static let block: Int64 = 65_536
    private let folder: TemporaryFolder
    private let old = (key: ObjectKey("a"), version: ObjectVersion(entityTag: EntityTag(opaque: "1"), size: 20 * block))
    private let everything = ByteRange(0, 20 * block)

    init() throws {
        folder = try TemporaryFolder()
    }

    private func cache(_ source: FakeSource?, capacity: Int64 = 1 << 30) -> BlockCache {
        let options = BlockCache.Options(
            directory: folder.path + "/cache",
            blockSize: Self.block,
            capacity: capacity,
            minimumFree: 0
        )
        return BlockCache(options: options, source: source)
    }

    private func fillOld() throws {
        _ = try cache(FakeSource()).reader(of: old.key, version: old.version).bytes(everything)
    }

    private func version(_ size: Int64) -> ObjectVersion {
        ObjectVersion(entityTag: EntityTag(opaque: "2"), size: size)
    }

    /// Reads all of the new version from a source with other bytes: what comes from the cache is told by that.
    private func read(_ key: ObjectKey, _ version: ObjectVersion) throws -> (bytes: [UInt8], requests: [ByteRange]) {
        let source = FakeSource(seed: 100)
        let bytes = try cache(source).reader(of: key, version: version).bytes(ByteRange(0, version.size))
        return (bytes, source.requests)
    }

    @Test func anotherNameHasAllThatWasCached() throws {
        try fillOld()
        let new = (key: ObjectKey("b"), version: version(20 * Self.block))
        cache(nil).carry(from: old, to: new, changed: ExtentSet())
        let (bytes, requests) = try read(new.key, new.version)
        #expect(bytes == expectedBytes(everything) && requests.isEmpty)
        #expect(cache(FakeSource()).holds(old.key, version: old.version), "the old one is still there")
    }

    @Test func changedBlocksAreFetchedAndLocalOnesAreNot() throws {
        try fillOld()
        let new = (key: old.key, version: version(22 * Self.block - 7))
        // Of the new bytes the local file has blocks 5 and 6, a little of 8, and what is behind the old end.
        let local = folder.path + "/local"
        let localBytes = expectedBytes(ByteRange(0, new.version.size), seed: 100)
        try FileDescriptor.open(local, O_RDWR | O_CREAT).write(localBytes)
        var extents = ExtentSet(ByteRange(5 * Self.block, 7 * Self.block))
        extents.insert(ByteRange(8 * Self.block + 10, 8 * Self.block + 20))
        extents.insert(ByteRange(20 * Self.block, new.version.size))
        cache(nil).carry(from: old, to: new, changed: extents, local: local, extents: extents)
        let (bytes, requests) = try read(new.key, new.version)
        #expect(requests == [ByteRange(8 * Self.block, 9 * Self.block)])
        for block in Int64(0)..<22 {
            let range = ByteRange(block * Self.block, min(new.version.size, (block + 1) * Self.block))
            let isNew = [5, 6, 8, 20, 21].contains(block)
            let found = Array(bytes[Int(range.lower)..<Int(range.upper)])
            #expect(found == expectedBytes(range, seed: isNew ? 100 : 0), "block \(block)")
        }
    }

    @Test func aShorterVersionKeepsItsWholeBlocks() throws {
        try fillOld()
        let new = (key: old.key, version: version(3 * Self.block + 9))
        cache(nil).carry(from: old, to: new, changed: ExtentSet())
        #expect(try read(new.key, new.version).requests == [ByteRange(3 * Self.block, 3 * Self.block + 9)])
    }

    @Test func damageInTheOldFileIsFoundInTheNew() throws {
        try fillOld()
        let path = try #require(try folder.files().first { $0.contains("/cache/") })
        let file = try FileDescriptor.open(path, O_RDWR)
        var wrong: UInt8 = 0xEE
        #expect(pwrite(file.raw, &wrong, 1, Int(2 * Self.block + 5)) == 1)
        let new = (key: ObjectKey("b"), version: version(20 * Self.block))
        cache(nil).carry(from: old, to: new, changed: ExtentSet())
        let (bytes, requests) = try read(new.key, new.version)
        #expect(requests == [ByteRange(2 * Self.block, 3 * Self.block)])
        let range = ByteRange(2 * Self.block, 3 * Self.block)
        #expect(Array(bytes[Int(range.lower)..<Int(range.upper)]) == expectedBytes(range, seed: 100))
    }

    @Test func nothingIsCarriedWhereThereIsNothingOrSomethingOrNoRoom() throws {
        let new = (key: ObjectKey("b"), version: version(20 * Self.block))
        cache(nil).carry(from: old, to: new, changed: ExtentSet())
        #expect(try folder.files().isEmpty)
        try fillOld()
        cache(nil, capacity: 4 * Self.block).carry(from: old, to: new, changed: ExtentSet())
        #expect(try folder.files().count == 1)
        _ = try cache(FakeSource(seed: 100)).reader(of: new.key, version: new.version).bytes(ByteRange(0, 10))
        cache(nil).carry(from: old, to: new, changed: ExtentSet())
        #expect(try read(new.key, new.version).bytes == expectedBytes(everything, seed: 100))
    }
}
