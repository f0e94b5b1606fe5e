// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import Testing

@Suite struct BlockGeometryTests {
    @Test func blocksCoverTheObjectWithoutOverlap() {
        for size in [0, 1, 4095, 4096, 4097, 1 << 20, (1 << 20) + 1] as [Int64] {
            let geometry = BlockGeometry(size: size, preferredBlockSize: 4096)
            let ranges = (0..<geometry.count).map { geometry.range(of: $0) }
            #expect(ranges.reduce(0) { $0 + $1.count } == size)
            for (left, right) in zip(ranges, ranges.dropFirst()) { #expect(left.upper == right.lower) }
            #expect(ranges.last?.upper ?? 0 == size)
        }
    }

    @Test func hugeObjectsGetLargerBlocks() {
        let geometry = BlockGeometry(size: 5 << 40, preferredBlockSize: 4096)
        #expect(Int64(geometry.count) <= BlockGeometry.maximumCount)
        #expect(geometry.blockSize > 4096)
    }

    @Test func alignedRangesHoldTheOriginal() {
        let geometry = BlockGeometry(size: 10_000, preferredBlockSize: 4096)
        #expect(geometry.aligned(ByteRange(5000, 5001)) == ByteRange(4096, 8192))
        #expect(geometry.aligned(ByteRange(9000, 10_000)) == ByteRange(8192, 10_000))
        #expect(geometry.blocks(in: ByteRange(4095, 4097)) == 0..<2)
        #expect(geometry.blocks(in: ByteRange(5000, 5000)).isEmpty)
    }
}

@Suite struct ReadPlannerTests {
    private let size: Int64 = 1 << 30

    @Test func theWindowGrowsWithASequentialReader() {
        var planner = ReadPlanner(limits: .init(initialWindow: 1 << 20, maximumWindow: 8 << 20))
        var position: Int64 = 0
        var widest: Int64 = 0
        while position < 64 << 20 {
            let target = planner.read(ByteRange(offset: position, count: 131_072), objectSize: size)
            position += 131_072
            #expect(target >= position)
            #expect(target - position <= 8 << 20)
            widest = max(widest, target - position)
        }
        #expect(widest > 4 << 20)
    }

    @Test func randomReadsFetchNothingAhead() {
        var planner = ReadPlanner()
        _ = planner.read(ByteRange(offset: 500 << 20, count: 4096), objectSize: size)
        for megabyte in [100, 700, 300, 900, 30] as [Int64] {
            let range = ByteRange(offset: megabyte << 20, count: 4096)
            #expect(planner.read(range, objectSize: size) == range.upper)
        }
    }

    @Test func readsOutOfOrderStayOneRun() {
        var planner = ReadPlanner()
        var target: Int64 = 0
        for index in [0, 2, 1, 4, 3, 6, 5, 8, 7] as [Int64] {
            target = planner.read(ByteRange(offset: index * 131_072, count: 131_072), objectSize: size)
        }
        #expect(target > 9 * 131_072)
    }

    @Test func theTargetEndsWithTheObject() {
        var planner = ReadPlanner()
        #expect(planner.read(ByteRange(0, 100), objectSize: 5000) == 5000)
    }
}
