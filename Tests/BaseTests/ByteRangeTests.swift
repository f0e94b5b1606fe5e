// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Testing

@Suite struct ByteRangeTests {
    @Test func piecesEndAtMultiplesAndLoseNothing() {
        for lower in Int64(0)..<24 {
            for count in Int64(0)..<24 {
                for length in Int64(1)..<10 {
                    let pieces = ByteRange(offset: lower, count: count).pieces(endingAtMultiplesOf: length)
                    #expect(pieces.flatMap { Array($0.lower..<$0.upper) } == Array(lower..<lower + count))
                    #expect(pieces.allSatisfy { !$0.isEmpty && $0.lower / length == ($0.upper - 1) / length })
                    // Only where a multiple lies between them.
                    #expect(pieces.dropLast().allSatisfy { $0.upper % length == 0 })
                }
            }
        }
    }
}
