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

    @Test func whatCameTakesItsSpaceAndNoMore() throws {
        let object = try #require(cache.object(of: key, version: version))
        defer { cache.unpin(object) }
        let memory = ArrivalMemory()
        let buffers = (0..<8 as Range<Int64>).map { index in
            let buffer = ArrivalBuffer(memory, offset: index << 18)
            _ = expectedBytes(ByteRange(offset: index << 18, count: 1 << 18)).withUnsafeBytes { buffer.append($0) }
            return buffer
        }
        let before = try allocated()
        try object.put(buffers, completing: (0, []), isDirect: false)
        let taken = try allocated() - before
        #expect(taken >= 2 << 20 && taken < 3 << 20, "\(taken)")
        var bytes = [UInt8](repeating: 0, count: 2 << 20)
        let file = try FileDescriptor.open(cache.filePath(BlockCache.name(key, version)), O_RDONLY)
        let count = try bytes.withUnsafeMutableBytes { try file.read(into: $0, at: 0) }
        #expect(count == bytes.count && bytes == expectedBytes(ByteRange(0, 2 << 20)))
    }

    @Test func readsAtRandomTakeTheirBlocksAlone() throws {
        let reader = cache.reader(of: key, version: version)
        let range = ByteRange(10 << 20, (10 << 20) + 1)
        let done = try Thread(name: "reader") { _ = try? reader.bytes(range) }
        _ = source.sink()
        send(source.ranges[0], to: 0)
        source.sink().finished(.success(()))
        done.join()
        #expect(try allocated() < 1 << 20)
    }
}
