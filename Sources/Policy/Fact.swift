// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// Something known about the machine or the remote: its value, who says so, since when, and when it was last seen.
package struct Fact<Value: Hashable & Sendable>: Hashable, Sendable {
    package private(set) var value: Value
    /// Where the value comes from, such as `requests`, `statvfs` or `none`.
    package private(set) var source: String
    /// When it began to be so.
    package private(set) var since: Timestamp
    /// When it was last seen to be so.
    package private(set) var observed: Timestamp

    package init(_ value: Value, source: String, at now: Timestamp) {
        self.value = value
        self.source = source
        since = now
        observed = now
    }

    /// Takes in an observation; true when the value is another one than before.
    @discardableResult
    package mutating func observe(_ value: Value, source: String, at now: Timestamp) -> Bool {
        let isNew = value != self.value
        if isNew { since = now }
        self.value = value
        self.source = source
        observed = now
        return isNew
    }

    /// Seconds since the last observation, never negative.
    package func age(at now: Timestamp) -> Double {
        max(0, Double(now.nanoseconds - observed.nanoseconds) / 1e9)
    }
}
