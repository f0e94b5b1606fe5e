// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import Glibc
import ObjectStore
import Platform
import Synchronization
import TestSupport
import Testing

/// Caches with blocks of different lengths on one folder.
@Suite struct BlockSizeTests {
    private static let sizes: [Int64] = [4096, 65_536, 1 << 20]
    private let folder: TemporaryFolder
    private let key = ObjectKey("folder/object")
    private let version = ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: 5_000_001)

    init() throws {
        folder = try TemporaryFolder()
    }

    /// A cache that fetches nothing ahead.
    private func cache(_ blockSize: Int64, _ source: (any RangeSource)?) -> BlockCache {
        let options = BlockCache.Options(directory: folder.path, blockSize: blockSize, minimumFree: 0)
        let cache = BlockCache(options: options, source: source)
        cache.setThrifty(true)
        return cache
    }

    @Test(arguments: sizes, sizes)
    func whatOneHasFetchedTheOtherReads(first: Int64, second: Int64) throws {
        let whole = ByteRange(0, version.size)
        let before = cache(first, FakeSource()).reader(of: key, version: version)
        #expect(try before.bytes(whole) == expectedBytes(whole))
        let source = FakeSource(seed: 1)
        let other = cache(second, source)
        #expect(try other.reader(of: key, version: version).bytes(whole) == expectedBytes(whole))
        #expect(other.holds(key, version: version) && source.requests.isEmpty)
        // The one that it is open for loses nothing by that, nor does one that opens it anew.
        #expect(try cache(first, CachedOnly()).reader(of: key, version: version).bytes(whole) == expectedBytes(whole))
        #expect(try before.bytes(ByteRange(100, 200)) == expectedBytes(ByteRange(100, 200)))
        #expect(try folder.files().count == 1)
        let found = cache(second, nil).verify { _ in true }
        #expect(found.damagedBlocks == 0 && found.damagedFiles == 0 && found.soundBytes == version.size)
    }

    /// The file has the blocks of whoever made it, and each byte comes once, whoever asks for it.
    @Test func readersInTurnFetchNothingTwice() throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let source = FakeSource()
        let caches = Self.sizes.map { cache($0, source) }
        for _ in 0..<200 {
            let cache = try #require(caches.randomElement(using: &random))
            let lower = Int64.random(in: 0..<version.size, using: &random)
            let range = ByteRange(lower, min(version.size, lower + Int64.random(in: 1...100_000, using: &random)))
            #expect(try cache.reader(of: key, version: version).bytes(range) == expectedBytes(range))
        }
        var asked = ExtentSet()
        for range in source.requests {
            #expect(asked.intersection(range).isEmpty, "\(range) was fetched twice")
            asked.insert(range)
        }
    }

    @Test func aLengthThatCannotBeMakesTheFileUseless() throws {
        let whole = ByteRange(0, version.size)
        _ = try cache(65_536, FakeSource()).reader(of: key, version: version).bytes(whole)
        let path = try #require(try folder.files().first)
        let place = Int((version.size + 4095) / 4096 * 4096) + 16
        for length in [0, 4095, 65_537, 1 << 40, .min, -1] as [Int64] {
            var bytes = length.littleEndian
            let file = try FileDescriptor.open(path, O_RDWR)
            #expect(pwrite(file.raw, &bytes, 8, place) == 8)
            let source = FakeSource()
            #expect(try cache(65_536, source).reader(of: key, version: version).bytes(whole) == expectedBytes(whole))
            #expect(!source.requests.isEmpty)
        }
    }

    /// Of a very large object they are longer than any that can be set.
    @Test func anObjectOfManyTebibytesIsKept() throws {
        let version = ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: 9 << 40)
        let range = ByteRange(version.size - 10_000, version.size - 5000)
        let source = FakeSource()
        let first = cache(4096, source)
        #expect(try first.reader(of: key, version: version).bytes(range) == expectedBytes(range))
        #expect(first.health.warning == nil && source.requests.count == 1)
        let other = cache(65_536, CachedOnly())
        #expect(try other.reader(of: key, version: version).bytes(range) == expectedBytes(range))
        #expect(cache(65_536, nil).verify { _ in true }.damagedFiles == 0)
    }

    /// Blocks have checksums: with another length they have none that is right.
    @Test func aLengthThatIsAnotherGivesNoWrongByte() throws {
        let whole = ByteRange(0, version.size)
        _ = try cache(65_536, FakeSource()).reader(of: key, version: version).bytes(whole)
        let path = try #require(try folder.files().first)
        var bytes = Int64(32_768).littleEndian
        let file = try FileDescriptor.open(path, O_RDWR)
        #expect(pwrite(file.raw, &bytes, 8, Int((version.size + 4095) / 4096 * 4096) + 16) == 8)
        for size in Self.sizes {
            let reader = cache(size, FakeSource()).reader(of: key, version: version)
            #expect(try reader.bytes(whole) == expectedBytes(whole))
        }
    }

    @Test func anotherNameKeepsTheBlocksThatThereWere() throws {
        let whole = ByteRange(0, version.size)
        _ = try cache(4096, FakeSource()).reader(of: key, version: version).bytes(whole)
        let new = (key: ObjectKey("b"), version: ObjectVersion(entityTag: EntityTag(opaque: "v2"), size: version.size))
        cache(65_536, nil).carry(from: (key, version), to: new, changed: ExtentSet(ByteRange(10_000, 10_001)))
        let source = FakeSource()
        let reader = cache(1 << 20, source).reader(of: new.key, version: new.version)
        #expect(try reader.bytes(whole) == expectedBytes(whole))
        #expect(source.requests == [ByteRange(8192, 12_288)])
    }
}
