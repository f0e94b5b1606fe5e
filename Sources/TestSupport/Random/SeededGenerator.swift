// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Random numbers that a seed repeats, the same on every machine (SplitMix64).
///
/// Here, where the optimizer is at work: the tests themselves are built without.
package struct SeededGenerator: RandomNumberGenerator, Sendable {
    /// What the numbers begin with; for a test to print when it fails.
    package let seed: UInt64
    private var state: UInt64

    package init(seed: UInt64) {
        self.seed = seed
        state = seed
    }

    /// A generator with a seed that nobody chose, printed with the name of the test.
    package static func random(_ test: String) -> SeededGenerator {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("\(test): seed \(seed)")
        return SeededGenerator(seed: seed)
    }

    package mutating func next() -> UInt64 {
        state &+= 0x9E37_79B9_7F4A_7C15
        var value = state
        value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
        value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
        return value ^ (value >> 31)
    }

    /// A number from 0 up to `bound`, which is not among them and at least 1.
    package mutating func below(_ bound: Int) -> Int { Int.random(in: 0..<bound, using: &self) }

    /// True with a chance of `percent` in a hundred.
    package mutating func chance(_ percent: Int) -> Bool { below(100) < percent }

    /// One of the elements, nil when there are none.
    package mutating func pick<Element>(_ elements: [Element]) -> Element? { elements.randomElement(using: &self) }
}
