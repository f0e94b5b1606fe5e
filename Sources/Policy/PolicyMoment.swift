// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The time at which it is decided, and what went over networks that cost.
package struct PolicyMoment: Sendable {
    package var now: Timestamp
    package var clock: any LocalClock
    /// Why nothing more may go over networks that cost, where something else could.
    package var quota: Waiting?

    package init(now: Timestamp, clock: any LocalClock, quota: Waiting? = nil) {
        self.now = now
        self.clock = clock
        self.quota = quota
    }
}
