// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The pure decision whether work may start.
package enum Policy {
    /// Every reason why `work` must wait at `now`; none: it may start.
    ///
    /// All reasons are given, not only the first, so that a person sees what would have to change.
    package static func reasons(
        _ work: WorkFacts,
        volume: VolumeFacts,
        settings: PolicySettings,
        now: Timestamp
    ) -> [Waiting] {
        var reasons: [Waiting] = []
        if work.isPaused { reasons.append(Waiting(.paused, since: work.changed)) }
        if !work.isForced { appendTimes(work, settings: settings, now: now, to: &reasons) }
        if let dependency = work.dependency {
            reasons.append(Waiting(work.dependencyReason, since: work.changed, detail: dependency))
        }
        appendConditions(work, volume: volume, to: &reasons)
        for hold in holds(of: work, volume: volume, now: now)
        where !reasons.contains(where: { $0.reason == hold.reason }) {
            reasons.append(hold)
        }
        return reasons
    }

    /// When to look again at work that waits for `reasons`: nil when only an event can change that.
    package static func lookAgain(
        _ reasons: [Waiting],
        _ work: WorkFacts,
        volume: VolumeFacts,
        now: Timestamp
    ) -> Timestamp? {
        guard let end = lookAgain(reasons) else { return nextTurn(work, volume: volume, now: now) }
        return min(end, nextTurn(work, volume: volume, now: now) ?? end)
    }

    /// When all `reasons` are over by themselves; nil when something must happen first.
    package static func lookAgain(_ reasons: [Waiting]) -> Timestamp? {
        var latest: Timestamp?
        for reason in reasons {
            guard let until = reason.until else { return nil }
            latest = max(latest ?? until, until)
        }
        return latest
    }

    private static func appendTimes(
        _ work: WorkFacts,
        settings: PolicySettings,
        now: Timestamp,
        to reasons: inout [Waiting]
    ) {
        if let start = work.notBefore, start > now {
            reasons.append(Waiting(.notBefore, since: work.changed, until: start))
        }
        // A time further ahead than the wait is long was written before the clock was set back: it does not count.
        let quietEnd = work.changed.advanced(bySeconds: settings.quietPeriod)
        if quietEnd > now, work.changed <= now {
            reasons.append(Waiting(.quiet, since: work.changed, until: quietEnd))
        }
        if let next = work.nextAttempt, next > now, next <= now.advanced(bySeconds: settings.longestBackoff) {
            reasons.append(Waiting(.backoff, since: work.changed, until: next))
        }
    }

    private static func appendConditions(_ work: WorkFacts, volume: VolumeFacts, to reasons: inout [Waiting]) {
        if volume.connection.value == .offline {
            reasons.append(Waiting(.offline, since: volume.connection.since))
        }
        if volume.connection.value == .portal {
            reasons.append(Waiting(.captivePortal, since: volume.connection.since))
        }
        if volume.authentication.value == .refused {
            reasons.append(Waiting(.auth, since: volume.authentication.since))
        }
        if work.needsDiskSpace, !volume.hasDiskSpace.value {
            reasons.append(Waiting(.diskFull, since: volume.hasDiskSpace.since))
        }
    }
}

/// How long to wait before the next attempt.
package enum Backoff {
    /// Seconds before attempt `attempt + 1`, after `attempt` failures (from 1): doubling from `first` up to `longest`,
    /// half of it random, so that many clients do not come back at one time.
    ///
    /// `random` is in 0..<1; `hint` is what the server asked for, which is kept to within `longest`.
    package static func delay(
        afterFailures attempt: Int,
        first: Double = 1,
        longest: Double = 300,
        random: Double,
        hint: Double? = nil
    ) -> Double {
        var full = first
        for _ in 0..<max(0, min(attempt - 1, 30)) { full = min(longest, full * 2) }
        full = min(full, longest)
        let delay = full / 2 + full / 2 * random
        return min(longest, max(delay, hint ?? 0))
    }
}
