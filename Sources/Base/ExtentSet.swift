// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A set of byte offsets, kept as sorted, disjoint, non-adjacent ranges.
///
/// It says which parts of a file are local. All operations keep the ranges
/// normalised; a lookup costs a binary search.
package struct ExtentSet: Hashable, Sendable {
    /// The ranges in ascending order; none is empty, none touches the next.
    package private(set) var ranges: [ByteRange] = []

    package init() {}

    /// Creates a set of one range; an empty range gives an empty set.
    package init(_ range: ByteRange) {
        insert(range)
    }

    package var isEmpty: Bool { ranges.isEmpty }

    /// The number of bytes in the set.
    package var byteCount: Int64 { ranges.reduce(0) { $0 + $1.count } }

    /// The offset behind the last byte, 0 when the set is empty.
    package var upperBound: Int64 { ranges.last?.upper ?? 0 }

    /// Adds the bytes of `range`.
    package mutating func insert(_ range: ByteRange) {
        guard !range.isEmpty else { return }
        // Appending at the end is what sequential writing does: keep it O(1).
        if let last = ranges.last, last.lower <= range.lower, range.lower <= last.upper {
            if range.upper > last.upper { ranges[ranges.count - 1] = ByteRange(last.lower, range.upper) }
            return
        }
        let first = firstIndex(endingAtOrAfter: range.lower)
        var merged = range
        var end = first
        while end < ranges.count, ranges[end].lower <= range.upper {
            merged = ByteRange(min(merged.lower, ranges[end].lower), max(merged.upper, ranges[end].upper))
            end += 1
        }
        ranges.replaceSubrange(first..<end, with: CollectionOfOne(merged))
    }

    /// Removes the bytes of `range`.
    package mutating func remove(_ range: ByteRange) {
        guard !range.isEmpty else { return }
        let first = firstIndex(endingAtOrAfter: range.lower)
        var end = first
        var rest: [ByteRange] = []
        while end < ranges.count, ranges[end].lower < range.upper {
            let old = ranges[end]
            if old.lower < range.lower { rest.append(ByteRange(old.lower, min(old.upper, range.lower))) }
            if old.upper > range.upper { rest.append(ByteRange(max(old.lower, range.upper), old.upper)) }
            end += 1
        }
        ranges.replaceSubrange(first..<end, with: rest)
    }

    /// Removes every byte at or above `size`.
    package mutating func truncate(to size: Int64) {
        guard upperBound > size else { return }
        remove(ByteRange(size, upperBound))
    }

    /// Whether every byte of `range` is in the set.
    package func contains(_ range: ByteRange) -> Bool {
        guard !range.isEmpty else { return true }
        let index = firstIndex(endingAtOrAfter: range.lower + 1)
        return index < ranges.count && ranges[index].contains(range)
    }

    /// The ranges of the set within `range`, in ascending order.
    package func intersection(_ range: ByteRange) -> [ByteRange] {
        var result: [ByteRange] = []
        var index = firstIndex(endingAtOrAfter: range.lower)
        while index < ranges.count, ranges[index].lower < range.upper {
            if let part = ranges[index].intersection(range) { result.append(part) }
            index += 1
        }
        return result
    }

    /// The ranges within `range` that are not in the set, in ascending order.
    package func gaps(in range: ByteRange) -> [ByteRange] {
        var result: [ByteRange] = []
        var position = range.lower
        for part in intersection(range) {
            if part.lower > position { result.append(ByteRange(position, part.lower)) }
            position = part.upper
        }
        if position < range.upper { result.append(ByteRange(position, range.upper)) }
        return result
    }

    /// The index of the first range whose upper bound is at or above `offset`.
    private func firstIndex(endingAtOrAfter offset: Int64) -> Int {
        var low = 0
        var high = ranges.count
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upper < offset { low = middle + 1 } else { high = middle }
        }
        return low
    }
}
