// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import TestSupport
import Testing

@Suite struct ExtentSetTests {
    /// The set as a plain array of flags: slow and obviously right.
    private struct Model {
        var flags = [Bool](repeating: false, count: 64)

        mutating func set(_ range: ByteRange, _ value: Bool) {
            for index in range.lower..<range.upper { flags[Int(index)] = value }
        }

        var ranges: [ByteRange] {
            var result: [ByteRange] = []
            for (index, flag) in flags.enumerated() where flag {
                if let last = result.last, last.upper == Int64(index) {
                    result[result.count - 1] = ByteRange(last.lower, Int64(index) + 1)
                } else {
                    result.append(ByteRange(Int64(index), Int64(index) + 1))
                }
            }
            return result
        }
    }

    @Test(arguments: 0..<40) func randomOperationsAgreeWithFlags(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var model = Model()
        var set = ExtentSet()
        for step in 0..<300 {
            let low = Int64.random(in: 0..<64, using: &random)
            let range = ByteRange(low, Int64.random(in: low...64, using: &random))
            switch Int.random(in: 0..<5, using: &random) {
            case 0, 1:
                set.insert(range)
                model.set(range, true)
            case 2:
                set.remove(range)
                model.set(range, false)
            case 3:
                set.truncate(to: range.upper)
                model.set(ByteRange(range.upper, 64), false)
            default:
                let inside = model.flags[Int(range.lower)..<Int(range.upper)]
                #expect(set.contains(range) == inside.allSatisfy { $0 }, "seed \(seed) step \(step)")
                let gapBytes = set.gaps(in: range).reduce(0) { $0 + $1.count }
                #expect(gapBytes == Int64(inside.count { !$0 }), "seed \(seed) step \(step)")
            }
            #expect(set.ranges == model.ranges, "seed \(seed) step \(step)")
        }
    }

    @Test func sequentialAppendsStayOneRange() {
        var set = ExtentSet()
        for index in 0..<1000 { set.insert(ByteRange(offset: Int64(index) * 10, count: 10)) }
        #expect(set.ranges == [ByteRange(0, 10_000)])
    }
}
