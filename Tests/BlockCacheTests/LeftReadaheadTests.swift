// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import ObjectStore
import Platform
import Testing

@testable import BlockCache

/// How much is fetched ahead at once, and what becomes of it when its readers go.
@Suite struct LeftReadaheadTests {
    private let folder: TemporaryFolder
    private let source = SteppedSource()

    init() throws {
        folder = try TemporaryFolder()
    }

    /// A cache that wants the first 64 MiB of each object from its first read on.
    private func cache(_ source: (any RangeSource)? = nil) -> BlockCache {
        let window = ReadPlanner.Limits(initialWindow: 64 << 20)
        let options = BlockCache.Options(
            directory: folder.path,
            blockSize: 65_536,
            minimumFree: 0,
            readahead: window
        )
        return BlockCache(options: options, source: source ?? self.source)
    }

    private func reader(_ cache: BlockCache, _ name: String = "object", size: Int64 = 64 << 20) -> CacheReader {
        cache.reader(of: ObjectKey(name), version: ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: size))
    }

    /// Reads a byte, for which the next request brings a block.
    private func readFirst(_ reader: CacheReader, at place: Int64 = 0) throws {
        let next = source.requests
        let done = try Thread(name: "reader") { _ = try? reader.bytes(ByteRange(offset: place, count: 1)) }
        let sink = source.sink(next)
        expectedBytes(ByteRange(offset: place, count: 65_536)).withUnsafeBytes { sink.received($0, at: place) }
        sink.drained()
        done.join()
    }

    /// Ends fetches as a transfer does that was cancelled.
    private func end(_ fetches: Range<Int>) {
        for index in fetches { source.sink(index).finished(.failure(StoreError(.cancelled, "cancelled"))) }
    }

    /// Waits until exactly so many fetches were cancelled.
    private func expectCancelled(_ count: Int) {
        for _ in 0..<500 where source.cancelled.count < count { usleep(10_000) }
        #expect(source.cancelled.count == count)
    }

    @Test func theLastReaderThatGoesGivesReadaheadBack() throws {
        let cache = cache()
        do {
            let other = reader(cache)
            do { try readFirst(reader(cache)) }
            usleep(50_000)
            #expect(source.requests == 4)
            #expect(source.cancelled.isEmpty, "another reader is still there")
            withExtendedLifetime(other) {}
        }
        expectCancelled(4)
    }

    @Test func whatNobodyReadsAnyMoreIsCancelledAndNothingBegins() throws {
        let cache = cache()
        do { try readFirst(reader(cache)) }
        expectCancelled(4)
        end(0..<4)
        usleep(50_000)
        try #require(source.requests == 4, "nothing of the queue begins")
        // The next one begins anew.
        let next = reader(cache)
        let done = try Thread(name: "reader") { _ = try? next.bytes(ByteRange(0, 100_000)) }
        let sink = source.sink(4)
        expectedBytes(ByteRange(65_536, 131_072)).withUnsafeBytes { sink.received($0, at: 65_536) }
        sink.drained()
        done.join()
        #expect(try next.bytes(ByteRange(0, 100_000)) == expectedBytes(ByteRange(0, 100_000)))
        #expect(source.cancelled.count == 4)
    }

    @Test func whatHasNotBegunWhenTheNetworkIsToBeSparedDoesNotBegin() throws {
        let cache = cache()
        let reader = reader(cache)
        try readFirst(reader)
        usleep(50_000)
        try #require(source.requests == 4, "the rest waits for its turn")
        cache.setThrifty(true)
        end(0..<4)
        usleep(50_000)
        #expect(source.requests == 4)
        // What is read comes alone, also where it was to come ahead.
        let done = try Thread(name: "reader") { _ = try? reader.bytes(ByteRange(offset: 40 << 20, count: 1)) }
        source.sink(4).finished(.failure(StoreError(.notFound, "gone")))
        done.join()
        let blocks = ByteRange(offset: 40 << 20, count: 65_536)
        #expect(source.ranges[4...].allSatisfy { $0 == blocks })
    }

    @Test func whatIsOpenedAgainAtOnceIsReadWhole() throws {
        let size: Int64 = 20 << 20
        let source = FakeSource()
        let cache = cache(source)
        for round in 0..<20 {
            let range = ByteRange(offset: Int64(round) * 100_000, count: 70_000)
            let bytes = try reader(cache, size: size).bytes(range)
            #expect(bytes == expectedBytes(range))
        }
        let bytes = try reader(cache, size: size).bytes(ByteRange(0, size))
        #expect(bytes == expectedBytes(ByteRange(0, size)))
    }

    @Test func smallObjectsAndHeldOnesComeWhole() throws {
        let cache = cache()
        do { try readFirst(reader(cache, "small", size: 1 << 20)) }
        do {
            let held = reader(cache, "held")
            _ = try cache.hold(held)
            try readFirst(held)
        }
        usleep(50_000)
        #expect(source.requests == 5 && source.cancelled.isEmpty)
    }

    @Test func whoReadsElsewhereGivesUpWhatWasAhead() throws {
        let reader = reader(cache(), size: 1 << 30)
        try readFirst(reader)
        _ = source.sink(3)
        usleep(50_000)
        #expect(source.requests == 4 && source.cancelled.isEmpty)
        // At no equal distances, which would be read ahead.
        for index in 1...8 as ClosedRange<Int64> { try readFirst(reader, at: (100 + 7 * index * index) << 20) }
        // The one whose beginning was read goes on: who reads around there would ask for the rest of it block by block.
        expectCancelled(3)
        #expect(source.cancelled == [1, 2, 3])
        end(0..<4)
    }

    @Test func whatHasNearlyComeIsLetCome() throws {
        let cache = cache()
        do {
            let reader = reader(cache, size: (8 << 20) + 300_000)
            try readFirst(reader)
            let sink = source.sink(1)
            expectedBytes(ByteRange(8 << 20, (8 << 20) + 65_536)).withUnsafeBytes { sink.received($0, at: 8 << 20) }
            sink.drained()
            while !reader.isResident(ByteRange(8 << 20, (8 << 20) + 65_536)) { usleep(1000) }
        }
        expectCancelled(1)
        #expect(source.cancelled == [0])
    }

    @Test func readaheadOfManyFilesLeavesRoomForOthers() throws {
        let cache = cache()
        var readers: [CacheReader] = []
        var requests: [Int] = []
        for index in 0..<6 {
            readers.append(reader(cache, "object\(index)"))
            // Returns only when its own request has begun.
            try readFirst(readers[index])
            requests.append(source.requests)
        }
        #expect(requests == [4, 8, 10, 11, 12, 13], "ten with what is fetched ahead, and each first read at once")
    }
}
