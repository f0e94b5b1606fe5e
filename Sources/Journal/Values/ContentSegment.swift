// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database

/// A range of a file whose bytes all come from one place, at the same offsets.
package struct ContentSegment: Hashable, Sendable {
    package enum Source: Hashable, Sendable {
        /// The staging file of this or of an older generation.
        case staging(GenerationID)
        case remote(ObjectKey, ObjectVersion)
        case zeros
    }

    package let range: ByteRange
    package let source: Source

    package init(range: ByteRange, source: Source) {
        self.range = range
        self.source = source
    }

    /// Where the bytes of `range` of a generation are: ascending, without gaps, clipped at its size.
    ///
    /// `lookup` finds an older generation; an unknown one throws `.notFound`.
    package static func resolve(
        _ range: ByteRange,
        in generation: Generation,
        lookup: (GenerationID) throws(JournalError) -> Generation?
    ) throws(JournalError) -> [ContentSegment] {
        var segments: [ContentSegment] = []
        guard let wanted = range.intersection(ByteRange(0, generation.size)) else { return [] }
        try append(wanted, of: generation, to: &segments, lookup)
        return segments
    }

    /// Appends the segments of `range`, which may reach behind the generation's end: that reads as zeros.
    private static func append(
        _ range: ByteRange,
        of generation: Generation,
        to segments: inout [ContentSegment],
        _ lookup: (GenerationID) throws(JournalError) -> Generation?
    ) throws(JournalError) {
        var position = range.lower
        for extent in generation.content.extents.intersection(range) {
            try appendUnderlay(ByteRange(position, extent.lower), of: generation, to: &segments, lookup)
            add(extent, .staging(generation.id), to: &segments)
            position = extent.upper
        }
        try appendUnderlay(ByteRange(position, range.upper), of: generation, to: &segments, lookup)
    }

    private static func appendUnderlay(
        _ range: ByteRange,
        of generation: Generation,
        to segments: inout [ContentSegment],
        _ lookup: (GenerationID) throws(JournalError) -> Generation?
    ) throws(JournalError) {
        let shown = ByteRange(0, generation.content.underlayLength)
        if let visible = range.intersection(shown) {
            switch generation.underlay {
            case .none:
                add(visible, .zeros, to: &segments)
            case .remote(let key, let version):
                let present = visible.intersection(ByteRange(0, version.size))
                if let present { add(present, .remote(key, version), to: &segments) }
                add(ByteRange(present?.upper ?? visible.lower, visible.upper), .zeros, to: &segments)
            case .generation(let id):
                // Older generations have smaller names, so the recursion ends.
                guard id < generation.id, let older = try lookup(id) else {
                    throw JournalError(.notFound, "journal: generation \(id), which shows through, is gone")
                }
                try append(visible, of: older, to: &segments, lookup)
            }
        }
        add(ByteRange(min(max(range.lower, shown.upper), range.upper), range.upper), .zeros, to: &segments)
    }

    private static func add(_ range: ByteRange, _ source: Source, to segments: inout [ContentSegment]) {
        guard !range.isEmpty else { return }
        if let last = segments.last, last.source == source, last.range.upper == range.lower {
            segments[segments.count - 1] = ContentSegment(
                range: ByteRange(last.range.lower, range.upper),
                source: source
            )
        } else {
            segments.append(ContentSegment(range: range, source: source))
        }
    }
}
