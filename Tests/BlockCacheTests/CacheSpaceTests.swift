// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import ObjectStore
import Platform
import TestSupport
import Testing

@testable import BlockCache

/// The space that files take while fetches bring their bytes.
@Suite struct CacheSpaceTests {
    private let folder: TemporaryFolder
    private let source = SteppedSource()
    private let cache: BlockCache
    private let key = ObjectKey("reserved")
    private let version = ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: 64 << 20)

    init() throws {
        folder = try TemporaryFolder()
        cache = BlockCache(
            options: .init(
                directory: folder.path,
                blockSize: 65_536,
                minimumFree: 0,
                readahead: .init(initialWindow: 8 << 20)
            ),
            source: source
        )
    }

    /// The space that the object's cache file takes, in bytes.
    private func allocated() throws -> Int64 {
        let path = try cache.filePath(BlockCache.name(key, version))
        return try FileDescriptor.open(path, O_RDONLY).status().allocated
    }

    private func send(_ range: ByteRange, to index: Int) {
        let sink = source.sink(index)
        expectedBytes(range).withUnsafeBytes { sink.received($0, at: range.lower) }
        sink.drained()
    }

    @Test func aLongFetchTakesTheSpaceOfWhatCameAndNoMore() throws {
        let reader = cache.reader(of: key, version: version)
        let done = try Thread(name: "reader") { _ = try? reader.bytes(ByteRange(0, 1)) }
        let first = ByteRange(0, 3 << 20)
        send(first, to: 0)
        done.join()
        while !reader.isResident(first) { usleep(1000) }
        #expect(source.ranges[0].count > 4 << 20, "it proves nothing otherwise")
        let taken = try allocated()
        // With the index of the blocks.
        #expect(taken >= first.count && taken < first.count + 65_536, "\(taken)")
        for index in 0..<source.requests { source.sink(index).finished(.failure(StoreError(.cancelled, "cancelled"))) }
    }

    @Test func readsAtRandomTakeTheirBlocksAlone() throws {
        let reader = cache.reader(of: key, version: version)
        let range = ByteRange(10 << 20, (10 << 20) + 1)
        let done = try Thread(name: "reader") { _ = try? reader.bytes(range) }
        _ = source.sink()
        send(source.ranges[0], to: 0)
        source.sink().finished(.success(()))
        done.join()
        #expect(try allocated() <= 2 * 65_536)
    }
}
