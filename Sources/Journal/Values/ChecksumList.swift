// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CXXHash
internal import Glibc

/// Checksums of a staging file's bytes, by blocks: what the disk makes of them by itself is not taken for the user's.
///
/// A block's checksum is of those of its bytes that are `covered`: the others were not written when it was taken, or
/// are holes.
package struct ChecksumList: Hashable, Sendable {
    package static let blockSize: Int64 = 1 << 20
    /// How many blocks one row of the journal has.
    package static let blocksPerRow: Int64 = 1024
    /// Bytes are hashed in pieces that stay near the processor.
    static let pieceSize: Int64 = 64 << 10

    package private(set) var covered = ExtentSet()
    private var checksums: [Int64: UInt64] = [:]
    /// Rows of the journal that say something else.
    package private(set) var changedRows: Set<Int64> = []
    /// The journal's rows that are not among the changed ones are none of this list's.
    package private(set) var replacesRows = true

    /// Covers nothing, which is never wrong.
    package init() {}

    package static func range(of block: Int64) -> ByteRange { ByteRange(offset: block * blockSize, count: blockSize) }

    /// The bytes of a block that its checksum is of.
    package func covered(in block: Int64) -> [ByteRange] { covered.intersection(Self.range(of: block)) }

    package func checksum(of block: Int64) -> UInt64? { checksums[block] }

    /// Takes the checksum of the covered bytes of a block.
    package mutating func set(_ block: Int64, _ parts: [ByteRange], _ checksum: UInt64) {
        covered.remove(Self.range(of: block))
        for part in parts { covered.insert(part) }
        checksums[block] = parts.isEmpty ? nil : checksum
        changedRows.insert(block / Self.blocksPerRow)
    }

    /// Forgets the blocks of which covered bytes are in a range that is being changed.
    ///
    /// What is written beside covered bytes leaves their checksum as it is: it is looked at before a new one is taken.
    package mutating func forget(_ range: ByteRange) {
        for part in covered.intersection(range) {
            for block in part.lower / Self.blockSize...(part.upper - 1) / Self.blockSize { set(block, [], 0) }
        }
    }

    /// The parts of `extents` that have no checksum yet.
    package func missing(_ extents: ExtentSet) -> [ByteRange] { extents.ranges.flatMap { covered.gaps(in: $0) } }

    /// The list is what the journal says.
    mutating func noteStored() {
        changedRows = []
        replacesRows = false
    }
}

/// The bytes of a block.
extension ChecksumList {
    /// The checksum of parts of a block whose bytes from its beginning on are in memory.
    package static func checksum(
        _ parts: [ByteRange],
        of block: Int64,
        _ bytes: UnsafeRawBufferPointer
    ) -> UInt64 {
        var checksum: UInt64 = 0
        let start = range(of: block).lower
        for part in parts {
            forEachPiece(of: part) { piece in
                let lower = Int(piece.lower - start)
                let memory = UnsafeRawBufferPointer(rebasing: bytes[lower..<lower + Int(piece.count)])
                checksum = combine(checksum, piece.lower, memory)
            }
        }
        return checksum
    }

    /// The checksum with a further piece, which is at its own place only the same.
    static func combine(_ checksum: UInt64, _ offset: Int64, _ bytes: UnsafeRawBufferPointer) -> UInt64 {
        moorage_XXH3_64bits_withSeed(bytes.baseAddress, bytes.count, checksum ^ UInt64(bitPattern: offset))
    }

    static func forEachPiece<Failure: Error>(
        of part: ByteRange,
        _ body: (ByteRange) throws(Failure) -> Void
    ) throws(Failure) {
        var position = part.lower
        while position < part.upper {
            let end = min(part.upper, (position / pieceSize + 1) * pieceSize)
            try body(ByteRange(position, end))
            position = end
        }
    }

    /// Whether the bytes of a block from its beginning on have the checksum; true where there is none.
    package func matches(_ block: Int64, _ bytes: UnsafeRawBufferPointer) -> Bool {
        let parts = covered(in: block)
        guard let last = parts.last, let checksum = checksums[block] else { return parts.isEmpty }
        guard last.upper - Self.range(of: block).lower <= Int64(bytes.count) else { return false }
        return Self.checksum(parts, of: block, bytes) == checksum
    }

    /// Whether the bytes of a block that have no checksum are zeros.
    package func isZeroElsewhere(_ block: Int64, _ bytes: UnsafeRawBufferPointer) -> Bool {
        let start = Self.range(of: block).lower
        return covered.gaps(in: ByteRange(offset: start, count: Int64(bytes.count))).allSatisfy { gap in
            let part = bytes[Int(gap.lower - start)..<Int(gap.upper - start)]
            return UnsafeRawBufferPointer(rebasing: part).isZero
        }
    }
}

extension UnsafeRawBufferPointer {
    fileprivate var isZero: Bool {
        guard let first, first == 0 else { return isEmpty }
        guard let baseAddress else { return true }
        return memcmp(baseAddress, baseAddress + 1, count - 1) == 0
    }
}

/// The form of a row of the journal: covered ranges and, for each block of theirs, eight bytes, with a checksum over all.
extension ChecksumList {
    /// The columns of a row; nil when nothing of it is covered.
    func encoded(row: Int64) -> (covered: [UInt8], checksums: [UInt8])? {
        let blocks = row * Self.blocksPerRow..<(row + 1) * Self.blocksPerRow
        let range = ByteRange(blocks.lowerBound * Self.blockSize, blocks.upperBound * Self.blockSize)
        var part = ExtentSet()
        for range in covered.intersection(range) { part.insert(range) }
        guard !part.isEmpty else { return nil }
        let ranges = Encoding.encode(part)
        var bytes: [UInt8] = []
        for block in Self.blocks(of: part) { bytes += Self.bytes(checksums[block] ?? 0) }
        return (ranges, bytes + Self.bytes(Self.guardSum(row, ranges, bytes)))
    }

    /// Adds a row as it was stored; false when it is damaged.
    mutating func decode(row: Int64, _ ranges: [UInt8], _ bytes: [UInt8]) -> Bool {
        guard let part = try? Encoding.extents(ranges), bytes.count >= 8 else { return false }
        let blocks = Self.blocks(of: part)
        guard bytes.count == 8 * (blocks.count + 1), blocks.allSatisfy({ $0 / Self.blocksPerRow == row }) else {
            return false
        }
        let guardSum = Self.guardSum(row, ranges, Array(bytes.dropLast(8)))
        guard Self.number(bytes, bytes.count - 8) == guardSum else { return false }
        for range in part.ranges { covered.insert(range) }
        for (index, block) in blocks.enumerated() { checksums[block] = Self.number(bytes, 8 * index) }
        return true
    }

    /// Adds a row that was not stored; a damaged one is left out, which is never wrong.
    mutating func add(row: Int64, _ ranges: [UInt8], _ bytes: [UInt8]) {
        if decode(row: row, ranges, bytes) { changedRows.insert(row) }
    }

    private static func blocks(of part: ExtentSet) -> [Int64] {
        var result: [Int64] = []
        for range in part.ranges {
            for block in range.lower / blockSize...(range.upper - 1) / blockSize where result.last != block {
                result.append(block)
            }
        }
        return result
    }

    private static func guardSum(_ row: Int64, _ ranges: [UInt8], _ bytes: [UInt8]) -> UInt64 {
        (ranges + bytes).withUnsafeBytes { combine(UInt64(ranges.count), row, $0) }
    }

    private static func bytes(_ number: UInt64) -> [UInt8] {
        withUnsafeBytes(of: number.littleEndian) { Array($0) }
    }

    private static func number(_ bytes: [UInt8], _ offset: Int) -> UInt64 {
        bytes.withUnsafeBytes { UInt64(littleEndian: $0.loadUnaligned(fromByteOffset: offset, as: UInt64.self)) }
    }
}
