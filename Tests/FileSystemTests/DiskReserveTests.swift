// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import FileSystem

@Suite struct DiskReserveTests {
    /// fallocate(2) claims its whole range at once.
    @Test func aClaimIsGrantedWheneverItLeavesTheReserve() {
        let counts: [Int64] = [1, 1 << 20, 16 << 20, 17 << 20, 100 << 20]
        for free in stride(from: Int64(0), through: 200 << 20, by: 1 << 20) {
            for count in counts {
                let share = DiskReserve.share(of: free, atLeast: count)
                #expect((share >= count) == (free - count >= DiskReserve.reserve), "\(free) \(count)")
                #expect(share == 0 || share <= free - DiskReserve.reserve, "\(free) \(count)")
            }
        }
    }
}
