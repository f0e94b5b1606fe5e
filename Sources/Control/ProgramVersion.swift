// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The version of a program, as numbers that can be compared.
package struct ProgramVersion: Comparable, Sendable {
    private let numbers: [Int]

    /// Reads `1.2.3`, also behind a name (`moorage 1.2.3`) and before more (`1.2.3-rc1`); what is no number counts as 0.
    package init(_ text: String) {
        let word = text.split(separator: " ").last ?? ""
        numbers = word.prefix { $0.isNumber || $0 == "." }.split(separator: ".").map { Int($0) ?? 0 }
    }

    package static func < (left: ProgramVersion, right: ProgramVersion) -> Bool {
        let count = max(left.numbers.count, right.numbers.count)
        return left.padded(to: count).lexicographicallyPrecedes(right.padded(to: count))
    }

    package static func == (left: ProgramVersion, right: ProgramVersion) -> Bool {
        !(left < right) && !(right < left)
    }

    private func padded(to count: Int) -> [Int] {
        numbers + Array(repeating: 0, count: count - numbers.count)
    }
}
