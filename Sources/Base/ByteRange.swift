// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A half-open range of byte offsets, `lower ..< upper`, in an object or file.
package struct ByteRange: Hashable, Sendable, CustomStringConvertible {
    /// The first offset, in bytes, never negative.
    package let lower: Int64
    /// The offset behind the last byte, never below `lower`.
    package let upper: Int64

    /// Creates a range; traps unless `0 <= lower <= upper`.
    package init(_ lower: Int64, _ upper: Int64) {
        precondition(lower >= 0 && upper >= lower, "byte range \(lower)..<\(upper)")
        self.lower = lower
        self.upper = upper
    }

    /// Creates the range of `count` bytes from `offset`; traps on negative values and overflow.
    package init(offset: Int64, count: Int64) {
        self.init(offset, offset + count)
    }

    /// The number of bytes.
    package var count: Int64 { upper - lower }
    package var isEmpty: Bool { upper == lower }

    /// The bytes in both ranges, nil when there are none.
    package func intersection(_ other: ByteRange) -> ByteRange? {
        let low = max(lower, other.lower)
        let high = min(upper, other.upper)
        return low < high ? ByteRange(low, high) : nil
    }

    /// The range cut at multiples of `length` (in bytes, at least 1), in ascending order; none for an empty one.
    package func pieces(endingAtMultiplesOf length: Int64) -> [ByteRange] {
        precondition(length > 0, "pieces of \(length) bytes")
        var pieces: [ByteRange] = []
        var position = lower
        while position < upper {
            let end = min(upper, (position / length + 1) * length)
            pieces.append(ByteRange(position, end))
            position = end
        }
        return pieces
    }

    package func contains(_ other: ByteRange) -> Bool { lower <= other.lower && other.upper <= upper }

    package var description: String { "\(lower)..<\(upper)" }
}
