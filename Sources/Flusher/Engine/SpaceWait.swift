// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Policy

/// When to try again what found no room on the local disk; times are monotonic seconds.
struct SpaceWait: Hashable {
    /// The least that has to be free for some row to go on, in bytes.
    private(set) var needed: Int64 = 0
    private var lookAt = 0.0
    /// Attempts in a row that found no room although the disk seemed to have it, as with a quota.
    private var surprises = 0

    /// Takes in that a row which needs `needed` bytes found no room, with `free` bytes said to be free.
    mutating func note(_ needed: Int64, free: Int64, isFirst: Bool, at now: Double) {
        self.needed = isFirst ? needed : min(self.needed, needed)
        surprises = free < needed ? 0 : surprises + 1
        let pause = surprises == 0 ? 0 : Backoff.delay(afterFailures: surprises, first: 5, random: 1)
        lookAt = max(lookAt, now + pause)
    }

    /// Whether it is worth an attempt now that `free` bytes are free.
    func isOver(free: Int64, at now: Double) -> Bool { now >= lookAt && free >= needed }

    /// A row found room.
    mutating func succeed() {
        surprises = 0
        lookAt = 0
    }
}
