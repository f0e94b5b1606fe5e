// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Digests

/// The CRC of joined pieces from the CRCs of the pieces: arithmetic on polynomials over two elements.
///
/// Appending n bytes multiplies a CRC's polynomial by x to the 8n, modulo the
/// CRC's generator; in the reflected form the highest bit stands for x to the 0.
struct ChecksumCombination: Sendable {
    private let generator: UInt64
    private let width: Int

    /// Nil for algorithms that are no CRC: those of pieces say nothing about the whole.
    init?(_ algorithm: DigestAlgorithm) {
        switch algorithm {
        case .crc32: (generator, width) = (0xEDB8_8320, 32)
        case .crc32c: (generator, width) = (0x82F6_3B78, 32)
        case .crc64nvme: (generator, width) = (0x9A6C_9329_AC4B_C9B5, 64)
        default: return nil
        }
    }

    /// The checksum over all pieces, each given by its checksum in network byte order and its length in bytes.
    func combine(_ pieces: [(checksum: [UInt8], size: Int64)]) -> [UInt8] {
        let whole = pieces.reduce(UInt64(0)) { whole, piece in
            let own = piece.checksum.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            return multiply(whole, power(bytes: piece.size)) ^ own
        }
        return (0..<(width / 8)).reversed().map { UInt8(truncatingIfNeeded: whole >> UInt64(8 * $0)) }
    }

    private func multiply(_ left: UInt64, _ right: UInt64) -> UInt64 {
        var product: UInt64 = 0
        var right = right
        for bit in (0..<width).reversed() {
            if left >> UInt64(bit) & 1 == 1 { product ^= right }
            right = right & 1 == 1 ? right >> 1 ^ generator : right >> 1
        }
        return product
    }

    /// x to the power of eight times `count`, by repeated squaring.
    private func power(bytes count: Int64) -> UInt64 {
        var result = UInt64(1) << UInt64(width - 1)
        var square = UInt64(1) << UInt64(width - 9)
        var rest = count
        while rest > 0 {
            if rest & 1 == 1 { result = multiply(result, square) }
            square = multiply(square, square)
            rest >>= 1
        }
        return result
    }
}
