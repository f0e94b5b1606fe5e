// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// How content that is partly at the remote already is put together: parts that the server copies from an object it
/// has, and parts that are sent.
///
/// Every part but the last has at least ``minimumPartSize`` bytes, as S3 requires of both kinds (UploadPart and
/// UploadPartCopy). Bytes are at the same offsets in the source and in the result.
package struct PartComposition: Hashable, Sendable {
    package struct Piece: Hashable, Sendable {
        package let range: ByteRange
        /// The server has the bytes; else they are sent.
        package let isCopied: Bool

        package init(_ range: ByteRange, isCopied: Bool) {
            self.range = range
            self.isCopied = isCopied
        }
    }

    package static let minimumPartSize: Int64 = 5 << 20
    /// Bytes of a copied part aimed at.
    ///
    /// S3 allows 5 GiB; a smaller part is answered within the time limit of a request.
    package static let copiedPartSize: Int64 = 512 << 20
    /// Copying less saves less than the requests cost.
    package static let worthwhile: Int64 = 8 << 20
    private static let largestCopy: Int64 = 5 << 30
    /// Copied parts aimed at where the content is large: half of what S3 allows leaves room for those between.
    private static let copyGoal: Int64 = 5000
    private static let mostParts = 10_000

    /// The parts in order, from offset 0 without gaps; never empty.
    package let pieces: [Piece]

    package init(pieces: [Piece]) {
        self.pieces = pieces
    }

    /// The bytes of the whole.
    package var size: Int64 { pieces.last?.range.upper ?? 0 }
    package var copiedBytes: Int64 { pieces.reduce(0) { $0 + ($1.isCopied ? $1.range.count : 0) } }
    /// The ranges that are sent, in order.
    package var sentRanges: [ByteRange] { pieces.filter { !$0.isCopied }.map(\.range) }

    // MARK: planning

    /// The composition of `size` bytes of which the server has `remote` (ascending, disjoint); nil when it is not
    /// worth it.
    ///
    /// Parts that are sent have `partSize` bytes or more, up to less than twice that.
    package static func plan(size: Int64, remote: [ByteRange], partSize: Int64) -> PartComposition? {
        var smallest = minimumPartSize
        while true {
            let runs = runs(size: size, remote: remote, smallest: smallest)
            guard runs.contains(where: \.isCopied) else { return nil }
            let copied = min(max(copiedPartSize, smallest, size / copyGoal), largestCopy / 2)
            let pieces = cut(runs, sent: max(partSize, smallest), copied: copied)
            guard pieces.count > mostParts else {
                let plan = PartComposition(pieces: pieces)
                return plan.copiedBytes >= worthwhile ? plan : nil
            }
            smallest *= 2
        }
    }

    /// What is copied and what is sent, in turn: between two copies there are at least `smallest` bytes to send, for
    /// which the end of what could be copied is sent too, and no copy but the last is smaller.
    private static func runs(size: Int64, remote: [ByteRange], smallest: Int64) -> [Piece] {
        var runs: [Piece] = []
        var position: Int64 = 0
        for range in remote {
            var lower = max(range.lower, position)
            if lower > position { lower = max(lower, position + smallest) }
            guard lower < range.upper, range.upper - lower >= smallest || range.upper == size else { continue }
            if lower > position { runs.append(Piece(ByteRange(position, lower), isCopied: false)) }
            runs.append(Piece(ByteRange(lower, range.upper), isCopied: true))
            position = range.upper
        }
        if position < size { runs.append(Piece(ByteRange(position, size), isCopied: false)) }
        return runs
    }

    /// Cuts runs into equal parts of `sent` and `copied` bytes to less than twice as many, never into smaller ones.
    private static func cut(_ runs: [Piece], sent: Int64, copied: Int64) -> [Piece] {
        runs.flatMap { run in
            let count = max(1, run.range.count / (run.isCopied ? copied : sent))
            let each = run.range.count / count
            return (0..<count).map { index in
                let lower = run.range.lower + index * each
                let upper = index == count - 1 ? run.range.upper : lower + each
                return Piece(ByteRange(lower, upper), isCopied: run.isCopied)
            }
        }
    }
}

extension PartComposition {
    /// As the journal keeps it: each part's length, doubled, plus one where it is copied, in LEB128.
    package var encoded: [UInt8] {
        var bytes: [UInt8] = []
        for piece in pieces {
            var rest = UInt64(piece.range.count) << 1 | (piece.isCopied ? 1 : 0)
            while rest >= 0x80 {
                bytes.append(UInt8(rest & 0x7F) | 0x80)
                rest >>= 7
            }
            bytes.append(UInt8(rest))
        }
        return bytes
    }

    /// Reads what ``encoded`` wrote; nil when it is damaged, or no composition of `size` bytes.
    package init?(encoded bytes: [UInt8], size: Int64) {
        var pieces: [Piece] = []
        var (position, value, shift) = (Int64(0), UInt64(0), UInt64(0))
        for byte in bytes {
            guard shift < 63, pieces.count < Self.mostParts else { return nil }
            value |= UInt64(byte & 0x7F) << shift
            shift += 7
            guard byte < 0x80 else { continue }
            let count = Int64(value >> 1)
            guard count > 0, count <= size - position else { return nil }
            pieces.append(Piece(ByteRange(offset: position, count: count), isCopied: value & 1 == 1))
            position += count
            (value, shift) = (0, 0)
        }
        guard shift == 0, position == size, !pieces.isEmpty else { return nil }
        self.init(pieces: pieces)
    }
}
