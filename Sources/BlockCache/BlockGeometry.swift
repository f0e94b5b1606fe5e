// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// How an object's bytes are cut into blocks.
///
/// Blocks are equally long except the last; an empty object has none. The block
/// size grows for very large objects, so that the index stays below 4 MiB.
package struct BlockGeometry: Hashable, Sendable {
    /// The most blocks an object is cut into.
    package static let maximumCount: Int64 = 262_144
    /// The longest block that can be set, in bytes.
    package static let longestPreferredBlock: Int64 = 16 << 20

    /// The object's length in bytes.
    package let size: Int64
    /// The length of every block but the last, in bytes: a power of two times the preferred size.
    package let blockSize: Int64

    /// Cuts `size` bytes into blocks of `preferredBlockSize` bytes (at least 4 KiB) or a power of two more.
    package init(size: Int64, preferredBlockSize: Int64) {
        self.size = size
        var length = max(preferredBlockSize, 4096)
        while size / length >= Self.maximumCount { length *= 2 }
        blockSize = length
    }

    /// Whether the blocks of an object of `size` bytes can have this length, in bytes.
    static func isPossible(_ length: Int64, size: Int64) -> Bool {
        let longest = BlockGeometry(size: size, preferredBlockSize: longestPreferredBlock).blockSize
        return (4096...longest).contains(length) && length.nonzeroBitCount == 1
    }

    /// The number of blocks.
    package var count: Int { Int((size + blockSize - 1) / blockSize) }

    /// The bytes of one block, numbered from 0.
    package func range(of block: Int) -> ByteRange {
        let lower = Int64(block) * blockSize
        return ByteRange(lower, min(size, lower + blockSize))
    }

    /// The blocks that hold at least one byte of `range`; empty for an empty range.
    package func blocks(in range: ByteRange) -> Range<Int> {
        guard !range.isEmpty else { return 0..<0 }
        return Int(range.lower / blockSize)..<Int((range.upper - 1) / blockSize) + 1
    }

    /// The smallest range of whole blocks around `range`, within the object.
    package func aligned(_ range: ByteRange) -> ByteRange {
        guard !range.isEmpty else { return range }
        let lower = range.lower / blockSize * blockSize
        let upper = min(size, (range.upper + blockSize - 1) / blockSize * blockSize)
        return ByteRange(min(lower, upper), upper)
    }
}
