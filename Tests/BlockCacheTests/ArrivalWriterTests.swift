// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import ObjectStore
import Platform
import Synchronization
import TestSupport
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
        let slab = 2 << 20
        let memory = ArrivalMemory()
        memory.giveBack(memory.take())
        memory.trim()
        #expect(memory.spareBytes == slab, "it was in use a moment ago")
        let again = memory.take()
        #expect(memory.spareBytes == slab - ArrivalBuffer.capacity)
        memory.trim()
        memory.trim()
        #expect(memory.spareBytes == slab - ArrivalBuffer.capacity, "one of them is in use")
        memory.giveBack(again)
        memory.trim()
        #expect(memory.spareBytes == 0)
    }

    @Test func memoryIsNeverMoreThanWhatWasInUseAtOnce() {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let memory = ArrivalMemory()
        var pieces: [ArrivalMemory.Piece] = []
        var most = 0
        for step in 0..<2000 {
            if pieces.isEmpty || pieces.count < 200 && Bool.random(using: &random) {
                let piece = memory.take()
                let number = UInt64(step)
                piece.memory.storeBytes(of: number, toByteOffset: piece.memory.count - 8, as: UInt64.self)
                piece.memory.storeBytes(of: number, as: UInt64.self)
                pieces.append(piece)
            } else {
                let piece = pieces.remove(at: Int.random(in: pieces.indices, using: &random))
                let ends = [0, piece.memory.count - 8].map { piece.memory.load(fromByteOffset: $0, as: UInt64.self) }
                #expect(ends[0] == ends[1], "seed \(seed): another piece has its bytes")
                memory.giveBack(piece)
            }
            if step % 50 == 0 { memory.trim() }
            most = max(most, pieces.count)
            let mapped = memory.spareBytes + pieces.count * ArrivalBuffer.capacity
            #expect(mapped <= (most + 7) / 8 * 8 * ArrivalBuffer.capacity, "seed \(seed), step \(step)")
        }
        for piece in pieces { memory.giveBack(piece) }
        memory.trim()
        memory.trim()
        #expect(memory.spareBytes == 0)
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
        let writer = ArrivalWriter(startsThreads: false)
        let memory = ArrivalMemory()
        let object = try #require(cache(SteppedSource()).object(of: key, version: version(100 << 20)))
        let budget = FetchBudget(limit: 1)
        let fetches = (0..<2).map {
            BlockFetch(
                object,
                range: ByteRange(offset: Int64($0) << 26, count: 32 << 20),
                budget: budget,
                gauge: LineGauge(),
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
        let names = fetches.map { ObjectIdentifier($0) }
        func next(except busy: Set<ObjectIdentifier> = []) -> String? {
            switch ArrivalWriter.take(from: &jobs, except: busy) {
            case .store(let fetch, let buffers):
                let first = (buffers[0].offset - fetch.range.lower) / Int64(ArrivalBuffer.capacity)
                return "\(fetch === fetches[0] ? 0 : 1): \(first)+\(buffers.count)"
            case .end(let fetch, _): return "\(fetch === fetches[0] ? 0 : 1) ends"
            case nil: return nil
            }
        }
        // Eight at most, nothing across the hole in the second's, and nothing of a fetch that somebody stores for.
        #expect(next(except: [names[1]]) == "0: 0+8")
        #expect(next(except: [names[0]]) == "1: 0+5")
        #expect(next(except: Set(names)) == nil)
        #expect(next(except: [names[0]]) == "1: 6+6")
        #expect(next(except: [names[0]]) == nil)
        #expect(next() == "0: 8+3")
        #expect(next() == "0 ends")
        #expect(next() == nil)
        #expect(jobs.isEmpty)
    }

    @Test func aFetchDoesNotWaitForTheDiskOfAnother() throws {
        let source = SteppedSource()
        let cache = cache(source)
        let isStuck = Monitor(false)
        let mayGoOn = Monitor(false)
        cache.shared.room.serve {
            // Only the first that has room looked for.
            let isFirst = isStuck.update { stuck in
                defer { stuck = true }
                return !stuck
            }
            if isFirst { _ = mayGoOn.wait { $0 ? true : nil } }
            return .max
        }
        let size: Int64 = 100_000
        let readers = ["a", "b"].map { cache.reader(of: ObjectKey($0), version: version(size)) }
        func arrive(_ index: Int) {
            let sink = source.sink(index)
            expectedBytes(ByteRange(0, size)).withUnsafeBytes { sink.received($0, at: 0) }
            sink.finished(.success(()))
        }
        let first = try Thread(name: "first") { _ = try? readers[0].bytes(ByteRange(0, 10)) }
        arrive(0)
        _ = isStuck.wait { $0 ? true : nil }
        let second = try Thread(name: "second") { _ = try? readers[1].bytes(ByteRange(0, 10)) }
        arrive(1)
        for _ in 0..<6000 where !readers[1].isResident(ByteRange(0, size)) { usleep(10_000) }
        #expect(readers[1].isResident(ByteRange(0, size)))
        #expect(!readers[0].isResident(ByteRange(0, size)))
        mayGoOn.update { $0 = true }
        first.join()
        second.join()
        #expect(try readers[0].bytes(ByteRange(0, size)) == expectedBytes(ByteRange(0, size)))
    }

    @Test func pagesAreStoredWholeUntilTheEnd() throws {
        let source = SteppedSource()
        let cache = cache(source)
        let size: Int64 = 200_000
        let object = try #require(cache.object(of: key, version: version(size)))
        let reader = cache.reader(of: key, version: version(size))
        let done = try Thread(name: "reader") { _ = try? reader.bytes(ByteRange(size - 10, size)) }
        let sink = source.sink()
        func isStored(_ position: Int64) -> Bool {
            for _ in 0..<6000 {
                let found = object.monitor.inspect { $0.fetches.first?.progress.position }
                if found == position { return true }
                usleep(10_000)
            }
            return false
        }
        expectedBytes(ByteRange(0, 40_000)).withUnsafeBytes { sink.received($0, at: 0) }
        sink.drained()
        #expect(isStored(36_864))
        // Less than a page more is no reason to store anything.
        expectedBytes(ByteRange(40_000, 40_900)).withUnsafeBytes { sink.received($0, at: 40_000) }
        sink.drained()
        expectedBytes(ByteRange(40_900, 150_000)).withUnsafeBytes { sink.received($0, at: 40_900) }
        sink.drained()
        #expect(isStored(147_456))
        expectedBytes(ByteRange(150_000, size)).withUnsafeBytes { sink.received($0, at: 150_000) }
        sink.drained()
        #expect(isStored(size), "the last block ends here, whether or not the answer does")
        done.join()
        sink.finished(.success(()))
        #expect(try reader.bytes(ByteRange(0, size)) == expectedBytes(ByteRange(0, size)))
    }
}
