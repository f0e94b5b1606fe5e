// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Decides when the service manager hears that the flusher lives, and what it does: a pure value, told of time.
package struct ServicePulse: Sendable {
    /// The time between two lines of status, in seconds.
    package static let statusPause = 1.0

    /// The time between two signs of life, in seconds: half of what the manager waits.
    private let interval: Double?
    private var pingAt: Double
    private var status = ""
    private var statusAt: Double

    /// `watchdogTimeout` is how long the manager waits for a sign of life, nil when it does not; all times in seconds
    /// of one clock.
    package init(watchdogTimeout: Double?, now: Double) {
        interval = watchdogTimeout.map { $0 / 2 }
        pingAt = now
        statusAt = now
    }

    /// What to tell the manager now; `current` gives the line of status, and is asked only when one may be told.
    package mutating func beat(now: Double, status current: () -> String) -> [String] {
        var lines: [String] = []
        if let interval, now >= pingAt {
            lines.append("WATCHDOG=1")
            pingAt = now + interval
        }
        if now >= statusAt {
            let text = current()
            if text != status {
                lines.append("STATUS=\(text)")
                status = text
            }
            statusAt = now + Self.statusPause
        }
        return lines
    }

    /// When the next sign of life is due; nil when none is wanted.
    package var dueAt: Double? { interval == nil ? nil : pingAt }
}
