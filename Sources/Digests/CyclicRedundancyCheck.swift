// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A reflected CRC of up to 64 bits, eight bytes a step ("slicing by 8").
package struct CyclicRedundancyCheck {
    /// Which polynomial, and how wide.
    package enum Kind: Hashable, Sendable {
        case crc32
        case crc32c
        case crc64nvme
    }

    private let kind: Kind
    private let tables: UnsafePointer<UInt64>
    private var register: UInt64

    package init(_ kind: Kind) {
        self.kind = kind
        tables = Tables.of(kind)
        register = kind == .crc64nvme ? .max : 0xFFFF_FFFF
    }

    /// Adds bytes.
    package mutating func update(_ bytes: UnsafeRawBufferPointer) {
        guard let base = bytes.baseAddress else { return }
        register = Self.advance(register, base, bytes.count, tables)
    }

    /// The checksum of the bytes so far.
    package var value: UInt64 { kind == .crc64nvme ? ~register : ~register & 0xFFFF_FFFF }

    /// The checksum in network byte order: 4 or 8 bytes.
    package var bigEndianBytes: [UInt8] {
        let width = kind == .crc64nvme ? 8 : 4
        return (0..<width).map { UInt8(truncatingIfNeeded: value >> UInt64(8 * (width - 1 - $0))) }
    }

    /// One pass over a buffer, kept free of class and generic accesses: it is the hot loop.
    private static func advance(
        _ start: UInt64,
        _ base: UnsafeRawPointer,
        _ count: Int,
        _ tables: UnsafePointer<UInt64>
    ) -> UInt64 {
        var register = start
        var index = 0
        while index &+ 8 <= count {
            let word = register ^ UInt64(littleEndian: base.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            // A 32-bit register has been shifted out wholly after eight bytes, so both widths share this step.
            var next = tables[7 &* 256 &+ Int(truncatingIfNeeded: word & 0xFF)]
            next ^= tables[6 &* 256 &+ Int(truncatingIfNeeded: word >> 8 & 0xFF)]
            next ^= tables[5 &* 256 &+ Int(truncatingIfNeeded: word >> 16 & 0xFF)]
            next ^= tables[4 &* 256 &+ Int(truncatingIfNeeded: word >> 24 & 0xFF)]
            next ^= tables[3 &* 256 &+ Int(truncatingIfNeeded: word >> 32 & 0xFF)]
            next ^= tables[2 &* 256 &+ Int(truncatingIfNeeded: word >> 40 & 0xFF)]
            next ^= tables[256 &+ Int(truncatingIfNeeded: word >> 48 & 0xFF)]
            next ^= tables[Int(truncatingIfNeeded: word >> 56)]
            register = next
            index &+= 8
        }
        while index < count {
            let byte = UInt64(base.load(fromByteOffset: index, as: UInt8.self))
            register = tables[Int(truncatingIfNeeded: (register ^ byte) & 0xFF)] ^ (register >> 8)
            index &+= 1
        }
        return register
    }
}

/// The lookup tables of one polynomial: 8 tables of 256 entries, made once and kept for the life of the process.
private struct Tables: @unchecked Sendable {
    // Written before it is shared, never again.
    let entries: UnsafePointer<UInt64>

    static func of(_ kind: CyclicRedundancyCheck.Kind) -> UnsafePointer<UInt64> {
        switch kind {
        case .crc32: crc32.entries
        case .crc32c: crc32c.entries
        case .crc64nvme: crc64nvme.entries
        }
    }

    private static let crc32 = Tables(reflectedPolynomial: 0xEDB8_8320)
    private static let crc32c = Tables(reflectedPolynomial: 0x82F6_3B78)
    private static let crc64nvme = Tables(reflectedPolynomial: 0x9A6C_9329_AC4B_C9B5)

    private init(reflectedPolynomial polynomial: UInt64) {
        let table = UnsafeMutablePointer<UInt64>.allocate(capacity: 8 * 256)
        for byte in 0..<256 {
            var value = UInt64(byte)
            for _ in 0..<8 { value = value & 1 == 1 ? (value >> 1) ^ polynomial : value >> 1 }
            table[byte] = value
        }
        for index in 256..<(8 * 256) {
            let previous = table[index - 256]
            table[index] = table[Int(previous & 0xFF)] ^ (previous >> 8)
        }
        entries = UnsafePointer(table)
    }
}

// The tables it points to never change.
extension CyclicRedundancyCheck: @unchecked Sendable {}
