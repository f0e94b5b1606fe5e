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
