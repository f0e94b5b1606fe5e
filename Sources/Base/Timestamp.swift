// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A point of civil time: nanoseconds since 1970-01-01T00:00:00Z, as the file system keeps them.
package struct Timestamp: Hashable, Sendable, Comparable {
    package var nanoseconds: Int64

    package init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// Creates a time from whole seconds and the nanoseconds behind them, saturating at about the years 1678 and 2262.
    package init(seconds: Int64, nanoseconds: Int64 = 0) {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, carry) = product.addingReportingOverflow(nanoseconds)
        self.nanoseconds = overflow || carry ? (seconds < 0 ? .min : .max) : sum
    }

    /// Whole seconds, rounded towards the past.
    package var seconds: Int64 {
        nanoseconds / 1_000_000_000 - (nanoseconds % 1_000_000_000 < 0 ? 1 : 0)
    }

    /// The nanoseconds behind `seconds`, 0 to 999,999,999.
    package var nanosecondsOfSecond: Int64 {
        let rest = nanoseconds % 1_000_000_000
        return rest < 0 ? rest + 1_000_000_000 : rest
    }

    /// The time `seconds` later (earlier when negative), saturating.
    package func advanced(bySeconds seconds: Double) -> Timestamp {
        let (sum, overflow) = nanoseconds.addingReportingOverflow(Int64(seconds * 1_000_000_000))
        return Timestamp(nanoseconds: overflow ? (seconds < 0 ? .min : .max) : sum)
    }

    package static func < (left: Timestamp, right: Timestamp) -> Bool { left.nanoseconds < right.nanoseconds }
}
