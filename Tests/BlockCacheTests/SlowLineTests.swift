// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import ObjectStore
import Platform
import Testing

@testable import BlockCache

/// What is under way on a line that is known to be slow.
@Suite struct SlowLineTests {
    private let folder: TemporaryFolder
    private let source = SteppedSource()
    private let cache: BlockCache

    init() throws {
        folder = try TemporaryFolder()
        let window = ReadPlanner.Limits(initialWindow: 64 << 20)
        cache = BlockCache(
            options: .init(directory: folder.path, blockSize: 65_536, minimumFree: 0, readahead: window),
            source: source
        )
    }

    /// Has measured that one answer fills a line of 400 kB/s.
    private func learn() {
        let gauge = cache.shared.gauge
        gauge.began(after: 0.02, at: 0)
        gauge.received(100_000, at: 0.25)
        gauge.began(after: 0.02, at: 0.25)
        gauge.received(100_000, at: 0.5)
        for _ in 0..<2 { gauge.ended(1, after: 1, at: 0.5) }
        #expect(gauge.line.ranges == 2 && gauge.line.rangeLength == 256 << 10)
    }

    private func readFirst() throws -> CacheReader {
        let version = ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: 64 << 20)
        let reader = cache.reader(of: ObjectKey("object"), version: version)
        let done = try Thread(name: "reader") { _ = try? reader.bytes(ByteRange(0, 1)) }
        expectedBytes(ByteRange(0, 65_536)).withUnsafeBytes { source.sink().received($0, at: 0) }
        source.sink().drained()
        done.join()
        return reader
    }

    private func end(_ fetches: Range<Int>) {
        for index in fetches { source.sink(index).finished(.failure(StoreError(.cancelled, "cancelled"))) }
    }

    private func expectRequests(_ count: Int) {
        _ = source.sink(count - 1)
        usleep(100_000)
        #expect(source.requests == count)
    }

    @Test func twoRangesAreUnderWay() throws {
        learn()
        let reader = try readFirst()
        expectRequests(2)
        #expect(source.ranges.allSatisfy { $0.count <= 256 << 10 })
        end(0..<2)
        withExtendedLifetime(reader) {}
    }

    @Test func shortRangesAreGivenUpToo() throws {
        learn()
        do {
            let reader = try readFirst()
            expectRequests(2)
            withExtendedLifetime(reader) {}
        }
        for _ in 0..<500 where source.cancelled.count < 2 { usleep(10_000) }
        #expect(source.cancelled == [0, 1])
        end(0..<2)
    }

    /// They were asked for when the line was not known.
    @Test func longRangesThatWaitAreCutForASlowLine() throws {
        let reader = try readFirst()
        expectRequests(4)
        #expect(source.ranges[1...].allSatisfy { $0.count == 8 << 20 })
        cache.shared.gauge.received(200_000, at: monotonicSeconds() + 0.5)
        #expect(cache.shared.gauge.line.rangeLength == 256 << 10)
        end(1..<2)
        expectRequests(5)
        #expect(source.ranges[4].count <= 256 << 10)
        // Nor does one come along whole with what somebody waits for.
        let place: Int64 = 56 << 20
        let done = try Thread(name: "reader") { _ = try? reader.bytes(ByteRange(offset: place, count: 1)) }
        expectRequests(6)
        #expect(source.ranges[5].lower == place && source.ranges[5].count <= 512 << 10)
        expectedBytes(ByteRange(offset: place, count: 65_536)).withUnsafeBytes {
            source.sink(5).received($0, at: place)
        }
        source.sink(5).drained()
        done.join()
        end(0..<1)
        end(2..<6)
        withExtendedLifetime(reader) {}
    }
}
