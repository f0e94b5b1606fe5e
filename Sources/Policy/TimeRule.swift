// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// A moment that a person names: `+2h` after the last change of a file, or a date.
package enum TimeRule: Hashable, Sendable {
    case at(Timestamp)
    /// In seconds.
    case after(Double)

    package static let expectation = "+TIME such as +2h, or a date such as 2026-12-24T18:00:00Z"
    /// The longest time that `+` may name, in seconds: ten years.
    package static let longest = 315_360_000.0

    package init?(parsing text: String) {
        if text.first == "+" {
            guard let seconds = Self.seconds(text.dropFirst()), (0...Self.longest).contains(seconds) else { return nil }
            self = .after(seconds)
        } else {
            guard let time = Timestamp(rfc3339: text) else { return nil }
            self = .at(time)
        }
    }

    /// The moment, for what was changed at `changed`.
    package func moment(changed: Timestamp) -> Timestamp {
        switch self {
        case .at(let time): time
        case .after(let seconds): changed.advanced(bySeconds: seconds)
        }
    }

    private static func seconds(_ text: Substring) -> Double? {
        let units: [Character: Double] = ["s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800]
        let unit = text.last.flatMap { units[$0] }
        let digits = unit == nil ? text : text.dropLast()
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (0x30...0x39).contains($0) || $0 == 0x2E }),
            let number = Double(digits)
        else { return nil }
        return number * (unit ?? 1)
    }
}
