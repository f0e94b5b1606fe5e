// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

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

    /// What of `range` the buffers hold.
    init(_ buffers: [ArrivalBuffer], in range: ByteRange) {
        var position = range.lower
        for buffer in buffers.sorted(by: { $0.offset < $1.offset }) {
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
            let buffers = state.recent.filter { $0.range.intersection(range) != nil }
            guard !buffers.isEmpty else { return (nil, []) }
            let found = RecentBytes(buffers, in: range)
            for part in found.parts { part.buffer.served += part.range.count }
            let done = buffers.filter { $0.served >= $0.range.count }
            state.recent.removeAll { buffer in done.contains { $0 === buffer } }
            return (found, done)
        }
        if !done.isEmpty { writer.recent.released(done) }
        return found ?? RecentBytes([], in: range)
    }

    /// Lets go of buffers in memory.
    func forgetRecent(where isGone: (ArrivalBuffer) -> Bool) {
        // Their memory is given back outside of the monitor.
        let gone = monitor.inspect { state in
            defer { state.recent.removeAll(where: isGone) }
            return state.recent.filter(isGone)
        }
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
