// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// An object's buffers that are kept in memory, in the order of their offsets: a read looks at those around its place only.
struct KeptBuffers {
    private var buffers: [ArrivalBuffer] = []

    mutating func insert(_ new: [ArrivalBuffer]) {
        for buffer in new { buffers.insert(buffer, at: index(from: buffer.offset)) }
    }

    /// Those that hold bytes of `range`.
    func holding(_ range: ByteRange) -> [ArrivalBuffer] {
        // No buffer is longer than its capacity.
        let first = index(from: range.lower - Int64(ArrivalBuffer.capacity) + 1)
        return buffers[first..<max(first, index(from: range.upper))].filter { $0.range.upper > range.lower }
    }

    /// Takes out buffers that it holds.
    mutating func remove(_ gone: [ArrivalBuffer]) {
        for buffer in gone {
            var index = index(from: buffer.offset)
            while index < buffers.count, buffers[index] !== buffer { index += 1 }
            if index < buffers.count { buffers.remove(at: index) }
        }
    }

    /// Takes out those that are meant, and returns them.
    mutating func removeAll(where isGone: (ArrivalBuffer) -> Bool) -> [ArrivalBuffer] {
        let gone = buffers.filter(isGone)
        remove(gone)
        return gone
    }

    /// The place of the first that begins at `offset` or behind it.
    private func index(from offset: Int64) -> Int {
        var (lower, upper) = (0, buffers.count)
        while lower < upper {
            let middle = (lower + upper) / 2
            if buffers[middle].offset < offset { lower = middle + 1 } else { upper = middle }
        }
        return lower
    }
}

/// Bytes that came a moment ago and are still in memory, in the order of their offsets; none of them twice.
struct RecentBytes {
    struct Part {
        var range: ByteRange
        /// Holds the bytes.
        var buffer: ArrivalBuffer

        var bytes: UnsafeRawBufferPointer {
            let lower = Int(range.lower - buffer.offset)
            return UnsafeRawBufferPointer(rebasing: buffer.bytes[lower..<lower + Int(range.count)])
        }
    }

    private(set) var parts: [Part] = []

    /// What of `range` the buffers hold, which are in the order of their offsets.
    init(_ buffers: [ArrivalBuffer], in range: ByteRange) {
        var position = range.lower
        for buffer in buffers {
            let rest = ByteRange(position, range.upper)
            guard let part = buffer.range.intersection(rest), !part.isEmpty else { continue }
            parts.append(Part(range: part, buffer: buffer))
            position = part.upper
        }
    }

    /// Whether the parts follow each other from the beginning of `range` to its end.
    func covers(_ range: ByteRange) -> Bool {
        var position = range.lower
        for part in parts {
            guard part.range.lower == position else { return false }
            position = part.range.upper
        }
        return position == range.upper && !parts.isEmpty
    }

    /// What of `range` is not among them.
    func gaps(in range: ByteRange) -> [ByteRange] {
        var missing = ExtentSet()
        missing.insert(range)
        for part in parts { missing.remove(part.range) }
        return missing.ranges
    }
}

extension CachedObject {
    /// What of `range` is in memory; buffers of which all was read are not kept any longer.
    func takeRecent(_ range: ByteRange) -> RecentBytes {
        let (found, done) = monitor.inspect { state -> (RecentBytes?, [ArrivalBuffer]) in
            let buffers = state.recent.holding(range)
            guard !buffers.isEmpty else { return (nil, []) }
            let found = RecentBytes(buffers, in: range)
            for part in found.parts { part.buffer.served += part.range.count }
            let done = buffers.filter { $0.served >= $0.range.count }
            state.recent.remove(done)
            return (found, done)
        }
        if !done.isEmpty { writer.recent.released(done) }
        return found ?? RecentBytes([], in: range)
    }

    /// Lets go of buffers in memory.
    func forgetRecent(where isGone: (ArrivalBuffer) -> Bool) {
        // Their memory is given back outside of the monitor.
        let gone = monitor.inspect { $0.recent.removeAll(where: isGone) }
        writer.recent.released(gone)
    }

    /// Puts a read together from what is in memory and what is only in the file; nil when that is not what it should be.
    ///
    /// `buffer` has room for whole blocks.
    func assemble(
        _ range: ByteRange,
        _ recent: RecentBytes,
        into buffer: UnsafeMutableRawBufferPointer
    ) -> UnsafeRawBufferPointer? {
        let start = geometry.aligned(range).lower
        for gap in recent.gaps(in: range) {
            let whole = geometry.aligned(gap)
            let place = UnsafeMutableRawBufferPointer(
                rebasing: buffer[Int(whole.lower - start)..<Int(whole.upper - start)]
            )
            guard copyVerified(gap, into: place) != nil else { return nil }
        }
        for part in recent.parts {
            let lower = Int(part.range.lower - start)
            UnsafeMutableRawBufferPointer(rebasing: buffer[lower...]).copyMemory(from: part.bytes)
        }
        let lower = Int(range.lower - start)
        return UnsafeRawBufferPointer(rebasing: buffer[lower..<lower + Int(range.count)])
    }
}
