// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// SplitMix64: the same numbers for the same seed.
struct SeededGenerator: RandomNumberGenerator {
    private var state: UInt64

    init(seed: UInt64) { state = seed }

    mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var word = state
        word = (word ^ (word >> 30)) &* 0xBF58_476D_1CE4_E5B9
        word = (word ^ (word >> 27)) &* 0x94D0_49BB_1331_11EB
        return word ^ (word >> 31)
    }

    /// True with a chance of `percent` in a hundred.
    mutating func chance(_ percent: Int) -> Bool { Int.random(in: 0..<100, using: &self) < percent }
}

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
