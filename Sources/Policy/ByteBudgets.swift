// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What went over networks that cost, of all volumes together and of each; a pure value.
package struct ByteBudgets: Hashable, Sendable {
    package private(set) var all: ByteBudget
    /// By volume, of those of which something went this month.
    package private(set) var volumes: [String: ByteBudget]

    package init(all: ByteBudget = ByteBudget(), volumes: [String: ByteBudget] = [:]) {
        self.all = all
        self.volumes = volumes
    }

    package subscript(_ volume: String) -> ByteBudget { volumes[volume] ?? ByteBudget() }

    /// Counts bytes that went of a volume.
    package mutating func note(_ bytes: Int64, of volume: String, at now: Timestamp, _ clock: any LocalClock) {
        all.note(bytes, at: now, clock)
        volumes[volume, default: ByteBudget()].note(bytes, at: now, clock)
    }

    /// Begins new days and months when their time has come, and forgets volumes of which nothing went.
    package mutating func turn(at now: Timestamp, _ clock: any LocalClock) {
        all.turn(at: now, clock)
        for volume in volumes.keys { volumes[volume]?.turn(at: now, clock) }
        volumes = volumes.filter { $0.value.monthBytes > 0 }
    }
}
