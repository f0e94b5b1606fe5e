// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Content that differs from byte to byte, so that misplaced bytes show.
func pattern(_ count: Int64) -> [UInt8] {
    (0..<count).map { UInt8(truncatingIfNeeded: $0 &* 31 ^ ($0 >> 8) &* 7) }
}

/// A stand-in for MD5: 16 bytes that depend on every byte and its place.
func fakeDigest(_ bytes: [UInt8]) -> [UInt8] {
    var state: UInt64 = 0xCBF2_9CE4_8422_2325
    for byte in bytes { state = (state ^ UInt64(byte)) &* 0x100_0000_01B3 }
    return (0..<16).map { UInt8(truncatingIfNeeded: state >> (UInt64($0 % 8) * 8)) &+ UInt8($0) }
}

func hexadecimal(_ bytes: [UInt8]) -> String {
    bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
}
