// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// When something was seen: by the calendar, for people, and by a clock that nobody sets, for waiting.
package struct Moment: Hashable, Sendable {
    package var time: Timestamp
    /// Seconds of CLOCK_MONOTONIC.
    package var uptime: Double

    package init(time: Timestamp, uptime: Double) {
        self.time = time
        self.uptime = uptime
    }
}
