// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What is to become of a piece of work.
package enum Decision: Hashable, Sendable {
    /// It starts, or goes on.
    case go
    /// It does not start, for all of these reasons.
    case hold([Waiting])
    /// It is under way, and is to end for now, for all of these reasons.
    case stop([Waiting])
}

extension Policy {
    /// The decision: whether work starts or goes on, and if not, everything that would have to change.
    ///
    /// What is under way (`isRunning`) is stopped by rules, conditions and moments alone: not by what only puts a start
    /// off, as quiet periods do, nor by a remote that is away, which its requests meet by themselves. A person's pause
    /// ends it where it is said.
    package static func decide(
        _ work: WorkFacts,
        isRunning: Bool,
        volume: VolumeFacts,
        settings: PolicySettings,
        now: Timestamp
    ) -> Decision {
        guard isRunning else {
            let reasons = reasons(work, volume: volume, settings: settings, now: now)
            return reasons.isEmpty ? .go : .hold(reasons)
        }
        var reasons = holds(of: work, volume: volume, now: now, isBegun: true)
        if !work.isForced, let start = work.notBefore, start > now {
            reasons.append(Waiting(.notBefore, since: work.changed, until: start))
        }
        return reasons.isEmpty ? .go : .stop(reasons)
    }
}
