// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import ObjectStore
import Platform
import Synchronization
import Testing

@testable import BlockCache

/// How bytes get from the transfer thread into the file.
@Suite struct ArrivalWriterTests {
    private let folder: TemporaryFolder
    private let key = ObjectKey("arrivals")

    init() throws {
        folder = try TemporaryFolder()
    }

    private func cache(_ source: SteppedSource) -> BlockCache {
        BlockCache(options: BlockCache.Options(directory: folder.path, minimumFree: 0), source: source)
    }

    private func version(_ size: Int64) -> ObjectVersion {
        ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: size)
    }

    @Test func bytesWaitForTheEndOfAnArrival() throws {
        let source = SteppedSource()
        let size: Int64 = 200_000
        let reader = cache(source).reader(of: key, version: version(size))
        let found = Monitor([UInt8]?.none)
        let done = try Thread(name: "reader") {
            let bytes = try? reader.bytes(ByteRange(0, 1000))
            found.update { $0 = bytes }
        }
        let sink = source.sink()
        let piece = expectedBytes(ByteRange(0, 40_000))
        piece.withUnsafeBytes { sink.received($0, at: 0) }
        #expect(!reader.isResident(ByteRange(0, 1000)))
        // The block is complete with these bytes, which came in the same go.
        sink.drained()
        done.join()
        #expect(found.inspect { $0 } == Array(piece[..<1000]))
        expectedBytes(ByteRange(40_000, size)).withUnsafeBytes { sink.received($0, at: 40_000) }
        sink.finished(.success(()))
        #expect(try reader.bytes(ByteRange(0, size)) == expectedBytes(ByteRange(0, size)))
    }

    @Test func anEndWithoutADrainStoresTheRest() throws {
        let source = SteppedSource()
        let size: Int64 = 700_001
        let reader = cache(source).reader(of: key, version: version(size))
        let done = try Thread(name: "reader") { _ = try? reader.bytes(ByteRange(0, 10)) }
        let sink = source.sink()
        // More than a buffer in one piece, and a last block that is cut.
        expectedBytes(ByteRange(0, size)).withUnsafeBytes { sink.received($0, at: 0) }
        sink.finished(.success(()))
        done.join()
        #expect(try reader.bytes(ByteRange(0, size)) == expectedBytes(ByteRange(0, size)))
        #expect(source.requests == 1)
    }

    @Test func whatFailedMidwayKeepsWhatCame() throws {
        let source = SteppedSource()
        let size: Int64 = 300_000
        let reader = cache(source).reader(of: key, version: version(size))
        let done = try Thread(name: "reader") { _ = try? reader.bytes(ByteRange(0, 10)) }
        let sink = source.sink()
        expectedBytes(ByteRange(0, 100_000)).withUnsafeBytes { sink.received($0, at: 0) }
        sink.finished(.failure(StoreError(.unreachable, "cut")))
        done.join()
        // Three blocks of 32 KiB are complete; the fourth is not.
        #expect(reader.isResident(ByteRange(0, 98_304)))
        #expect(!reader.isResident(ByteRange(98_304, 98_305)))
    }

    @Test func whatArrivesAfterTheCacheWasClosedIsStored() throws {
        let source = SteppedSource()
        // Of a larger one nothing would be taken any more.
        let size: Int64 = 1 << 20
        let sink: any RangeSink
        do {
            let reader = cache(source).reader(of: key, version: version(size))
            let done = try Thread(name: "reader") { _ = try? reader.bytes(ByteRange(0, 10)) }
            sink = source.sink()
            expectedBytes(ByteRange(0, 40_000)).withUnsafeBytes { sink.received($0, at: 0) }
            sink.drained()
            done.join()
        }
        // Lets the thread end, so that the rest is done by this one.
        usleep(100_000)
        expectedBytes(ByteRange(40_000, 900_000)).withUnsafeBytes { sink.received($0, at: 40_000) }
        sink.finished(.failure(StoreError(.cancelled, "closed")))
        let next = SteppedSource()
        let again = cache(next).reader(of: key, version: version(size))
        let complete = ByteRange(0, 900_000 / 32_768 * 32_768)
        for _ in 0..<6000 where !again.isResident(complete) { usleep(10_000) }
        #expect(try again.bytes(complete) == expectedBytes(complete))
    }

    @Test func aBufferTakesWhatFits() {
        let buffer = ArrivalBuffer(ArrivalMemory())
        let bytes = expectedBytes(ByteRange(0, Int64(ArrivalBuffer.capacity) - 10))
        #expect(bytes.withUnsafeBytes { buffer.append($0) } == bytes.count)
        #expect(!buffer.isFull)
        #expect(bytes.withUnsafeBytes { buffer.append($0) } == 10)
        #expect(buffer.isFull)
        #expect(Array(buffer.bytes) == bytes + bytes[..<10])
        #expect(bytes.withUnsafeBytes { buffer.append($0) } == 0)
    }

    @Test func spareMemoryGoesBackWhenNothingArrives() {
        let memory = ArrivalMemory()
        memory.giveBack(memory.take())
        memory.trim()
        #expect(memory.spareBytes == ArrivalBuffer.capacity, "it was in use a moment ago")
        let again = memory.take()
        #expect(memory.spareBytes == 0)
        memory.giveBack(again)
        memory.trim()
        memory.trim()
        #expect(memory.spareBytes == 0)
        let buffers = (0..<200).map { _ in memory.take() }
        for buffer in buffers { memory.giveBack(buffer) }
        #expect(memory.spareBytes == 32 << 20)
    }

    @Test func buffersEndWhereTheNextIsAligned() {
        let buffer = ArrivalBuffer(ArrivalMemory())
        buffer.begin(at: Int64(3 * ArrivalBuffer.capacity) - 100)
        let bytes = expectedBytes(ByteRange(0, 1000))
        #expect(bytes.withUnsafeBytes { buffer.append($0) } == 100)
        #expect(buffer.isFull)
        #expect(buffer.range.upper == Int64(3 * ArrivalBuffer.capacity))
    }

    @Test func whatWaitsIsStoredTogetherInItsOrder() throws {
        let writer = ArrivalWriter(startsThread: false)
        let memory = ArrivalMemory()
        let object = try #require(cache(SteppedSource()).object(of: key, version: version(100 << 20)))
        let budget = FetchBudget(limit: 1)
        let fetches = (0..<2).map {
            BlockFetch(
                object,
                range: ByteRange(offset: Int64($0) << 26, count: 32 << 20),
                budget: budget,
                writer: writer
            )
        }
        func store(_ fetch: Int, _ index: Int) -> ArrivalWriter.Job {
            let buffer = ArrivalBuffer(memory)
            buffer.begin(at: fetches[fetch].range.lower + Int64(index * ArrivalBuffer.capacity))
            _ = [UInt8](repeating: 1, count: ArrivalBuffer.capacity).withUnsafeBytes { buffer.append($0) }
            return .store(fetches[fetch], [buffer])
        }
        var jobs = (0..<11).flatMap { [store(0, $0), store(1, $0 < 5 ? $0 : $0 + 1)] }
        jobs.append(.end(fetches[0], .success(())))
        let found = ArrivalWriter.gathered(jobs).map { job -> String in
            switch job {
            case .store(let fetch, let buffers):
                let first = (buffers[0].offset - fetch.range.lower) / Int64(ArrivalBuffer.capacity)
                return "\(fetch === fetches[0] ? 0 : 1): \(first)+\(buffers.count)"
            case .end(let fetch, _): return "\(fetch === fetches[0] ? 0 : 1) ends"
            }
        }
        // Eight at most, and nothing across the hole in the second's.
        #expect(found == ["0: 0+8", "1: 0+5", "1: 6+6", "0: 8+3", "0 ends"])
    }
}
