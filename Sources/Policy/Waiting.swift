// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// Why work waits; the raw values are what commands print.
package enum WaitingReason: String, Hashable, Sendable, CaseIterable {
    case offline
    case captivePortal = "captive-portal"
    case expensive
    case constrained
    case cellular
    case battery
    case powerSaver = "power-saver"
    case load
    case thermal
    case window
    case notBefore = "not-before"
    case backoff
    case quiet
    case paused
    case sleep
    case quota
    case diskFull = "disk-full"
    case auth
    case conflict
    /// A program on this machine still reads what it would delete or replace.
    case open
    case dependency

    /// Whether it holds also what somebody asked for: there is no way, or no time.
    package var isBeyondWishes: Bool { self == .offline || self == .sleep }
}

/// One reason why a piece of work waits, since when, and until when if it ends by itself.
package struct Waiting: Hashable, Sendable {
    package var reason: WaitingReason
    package var since: Timestamp
    /// When it ends by itself; nil when something must happen first.
    package var until: Timestamp?
    /// More for people.
    package var detail: String?

    package init(_ reason: WaitingReason, since: Timestamp, until: Timestamp? = nil, detail: String? = nil) {
        self.reason = reason
        self.since = since
        self.until = until
        self.detail = detail
    }
}
