// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import ObjectStore
import Platform
import Testing

@testable import BlockCache

/// How many ranges are asked for at once, and what becomes of the others.
@Suite struct FetchQueueTests {
    private let source = SteppedSource()
    private let version = ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: 64 << 20)

    private func fetch(
        _ queue: FetchQueue,
        _ index: Int,
        count: Int64 = 1,
        into sink: any RangeSink = EndNote()
    ) -> any RangeFetch {
        let range = ByteRange(Int64(index), Int64(index) + count)
        return queue.fetch(ObjectKey("object"), version: version, range: range, into: sink)
    }

    private var begun: [Int64] { source.ranges.map(\.lower) }

    @Test func thoseAboveTheLimitBeginInTurn() {
        let queue = FetchQueue(source, limit: 2)
        let sinks = (0..<5).map { _ in EndNote() }
        let fetches = sinks.indices.map { fetch(queue, $0, into: sinks[$0]) }
        #expect(begun == [0, 1])
        source.sink(1).finished(.success(()))
        #expect(begun == [0, 1, 2])
        source.sink(0).finished(.failure(StoreError(.temporary, "in a test")))
        source.sink(2).finished(.success(()))
        #expect(begun == [0, 1, 2, 3, 4])
        #expect(sinks.map(\.causes) == [[.temporary], [nil], [nil], [], []])
        withExtendedLifetime(fetches) {}
    }

    /// Who waits for a block is not behind all whole pieces, and who waits for a piece not behind all blocks.
    @Test func theShortestAndTheOldestBeginInTurn() {
        let queue = FetchQueue(source, limit: 1)
        let counts: [Int64] = [9, 8, 7, 3, 1, 2, 1]
        let fetches = counts.indices.map { fetch(queue, $0, count: counts[$0]) }
        for index in 0..<6 { source.sink(index).finished(.success(())) }
        // The first one began as there was room: the oldest of the others is next.
        #expect(begun == [0, 1, 4, 2, 6, 3, 5])
        withExtendedLifetime(fetches) {}
    }

    @Test func whatIsCancelledBeforeItsTurnIsNeverAskedFor() {
        let queue = FetchQueue(source, limit: 1)
        let sinks = (0..<3).map { _ in EndNote() }
        let fetches = sinks.indices.map { fetch(queue, $0, into: sinks[$0]) }
        fetches[1].cancel()
        fetches[1].cancel()
        #expect(sinks[1].causes == [.cancelled])
        fetches[0].cancel()
        #expect(source.cancelled == [0] && sinks[0].causes.isEmpty, "its own end is still to come")
        source.sink(0).finished(.failure(StoreError(.cancelled, "cancelled")))
        #expect(begun == [0, 2] && sinks[0].causes == [.cancelled])
    }

    /// As when the remote counts as unreachable.
    @Test func manyThatEndAsTheyBeginDoNotPileUp() {
        let refusing = RefusingSource()
        let queue = FetchQueue(refusing, limit: 1)
        let blocker = EndNote()
        refusing.isHeld.update { $0 = true }
        _ = fetch(queue, 0, into: blocker)
        let sinks = (0..<100_000).map { _ in EndNote() }
        for index in sinks.indices { _ = fetch(queue, index, into: sinks[index]) }
        refusing.isHeld.update { $0 = false }
        refusing.held.inspect { $0 }?.finished(.success(()))
        #expect(sinks.allSatisfy { $0.causes == [.unreachable] })
    }

    @Test func theBeginningIsToldWhenTheRequestGoesOut() {
        let queue = FetchQueue(source, limit: 1)
        let told = Monitor([Int]())
        for index in 0..<2 {
            _ = queue.fetch(ObjectKey("object"), version: version, range: ByteRange(0, 1), into: EndNote()) {
                told.update { $0.append(index) }
            }
        }
        #expect(told.inspect { $0 } == [0])
        source.sink(0).finished(.success(()))
        #expect(told.inspect { $0 } == [0, 1])
    }
}

/// What many readers at once take of the connections.
@Suite struct ManyReadersTests {
    private let folder: TemporaryFolder
    private let source = SteppedSource()

    init() throws {
        folder = try TemporaryFolder()
    }

    private func cache() -> BlockCache {
        let window = ReadPlanner.Limits(initialWindow: 64 << 20)
        let options = BlockCache.Options(
            directory: folder.path,
            blockSize: 65_536,
            minimumFree: 0,
            readahead: window
        )
        return BlockCache(options: options, source: source)
    }

    /// Each a file of its own, each waiting for its first byte; returns how many are still there.
    private func start(_ count: Int, _ cache: BlockCache) throws -> Monitor<Int> {
        let left = Monitor(count)
        for index in 0..<count {
            let version = ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: 64 << 20)
            let reader = cache.reader(of: ObjectKey("object\(index)"), version: version)
            try Thread.detached(name: "reader") {
                _ = try? reader.bytes(ByteRange(0, 1))
                left.update { $0 -= 1 }
            }
        }
        return left
    }

    /// Answers each request with a block and its end until all readers are gone; returns whether that came.
    private func answerAll(_ left: Monitor<Int>) -> Bool {
        var next = 0
        for _ in 0..<2000 where left.inspect({ $0 }) > 0 {
            guard next < source.requests else {
                usleep(10_000)
                continue
            }
            let sink = source.sink(next)
            let lower = source.ranges[next].lower
            expectedBytes(ByteRange(lower, lower + 65_536)).withUnsafeBytes { sink.received($0, at: lower) }
            sink.drained()
            sink.finished(.failure(StoreError(.cancelled, "cancelled")))
            next += 1
        }
        return left.inspect { $0 } == 0
    }

    @Test func readsThatAreWaitedForLeaveConnectionsForNames() throws {
        let cache = cache()
        let left = try start(30, cache)
        _ = source.sink(12)
        usleep(100_000)
        #expect(source.requests == 13)
        #expect(answerAll(left))
    }

    @Test func readsThatWaitForConnectionsTakeLittleAlong() throws {
        let cache = cache()
        let left = try start(30, cache)
        _ = source.sink(12)
        usleep(100_000)
        let lengths = source.ranges.map(\.count)
        // Readers that begin at once go out in any order, and two of them may find the last place.
        let short = lengths.filter { $0 == 1 << 20 }.count
        #expect((1...3).contains(short) && lengths.count { $0 == 8 << 20 } == 13 - short, "\(lengths)")
        #expect(answerAll(left))
    }
}

/// Notes how a fetch ends: nil for success.
private final class EndNote: RangeSink {
    private let ends = Monitor([StoreError.Cause?]())

    var causes: [StoreError.Cause?] { ends.inspect { $0 } }

    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {}

    func finished(_ result: Result<Void, StoreError>) {
        ends.update { ends in
            if case .failure(let error) = result { ends.append(error.cause) } else { ends.append(nil) }
        }
    }
}

/// Refuses each request at once, but the first while it is told to hold it.
private final class RefusingSource: RangeSource {
    let isHeld = Monitor(false)
    let held = Monitor((any RangeSink)?.none)

    func fetch(_ key: ObjectKey, version: ObjectVersion, range: ByteRange, into sink: any RangeSink) -> any RangeFetch {
        if isHeld.inspect({ $0 }) {
            held.update { $0 = sink }
        } else {
            sink.finished(.failure(StoreError(.unreachable, "in a test")))
        }
        return FakeFetch()
    }
}
