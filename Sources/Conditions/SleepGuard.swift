// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What the machine is about to do.
package enum Preparation: String, Hashable, Sendable {
    case sleep
    case shutdown
}

/// Decides when the machine is asked to wait a moment before it sleeps or ends, and what is to happen then: a pure value,
/// told of what runs, of what logind says, and of time (seconds of one clock that stands still while the machine sleeps).
package struct SleepGuard: Sendable {
    package enum Event: Hashable, Sendable {
        /// What is left of what runs, for people; nil: nothing runs.
        case work(String?)
        /// logind announces it, or says that it is over.
        case preparing(Preparation, Bool)
        /// Nothing runs any more, and what is known of it is on the disk.
        case settled
        /// logind came, or went and took every lock along.
        case manager(isThere: Bool)
        /// The lock that was asked for last was not given.
        case refused
        /// Time has passed.
        case time
    }

    package enum Action: Hashable, Sendable {
        /// A delay lock is to be taken, in place of one that is held.
        case inhibit(why: String)
        /// The lock is to be given back.
        case release
        /// Nothing new may begin, and what runs is to end or be cut.
        case hold(Preparation)
        /// The machine is back, or stays: everything goes on.
        case goOn
    }

    private enum Phase: Hashable {
        case awake
        case preparing(Preparation, since: Double)
    }

    /// How long nothing must have run before the lock is given back, in seconds: small uploads follow each other.
    package static let calm = 1.0
    /// How long a lock keeps its text, in seconds.
    package static let textAge = 30.0
    /// How long after an announcement the machine must be asleep, or it will not be, in seconds.
    package static let longestPreparation = 60.0
    /// How long after a refusal a lock is asked for again, in seconds.
    package static let refusalPause = 60.0

    /// How long after an announcement the lock is given back whatever runs, in seconds; below what logind allows.
    private var limit: Double
    private var phase = Phase.awake
    private var isManagerThere = false
    private var work: String?
    private var calmSince = -Double.infinity
    private var lock: (why: String, since: Double)?
    private var refusedUntil = -Double.infinity

    /// `limit` is how long settling may take before the lock is given back, in seconds.
    package init(limit: Double = 3.5) {
        self.limit = limit
    }

    /// What logind waits at most (InhibitDelayMaxSec), in seconds; a part of it is left for others.
    package mutating func setDelay(_ seconds: Double) {
        limit = max(0.2, min(3.5, seconds * 0.7))
    }

    package var isHolding: Bool { lock != nil }

    package mutating func handle(_ event: Event, now: Double) -> [Action] {
        switch event {
        case .work(let left):
            if left == nil, work != nil { calmSince = now }
            work = left
        case .preparing(let what, true): return prepare(what, now)
        case .preparing(_, false):
            guard phase != .awake else { return [] }
            return goOn() + review(now)
        case .settled:
            guard phase != .awake else { return [] }
            return release()
        case .manager(let isThere):
            isManagerThere = isThere
            refusedUntil = -.infinity
            if !isThere { return release() }
        case .refused:
            lock = nil
            refusedUntil = now + Self.refusalPause
            return []
        case .time: break
        }
        return review(now)
    }

    /// When ``Event/time`` is due; nil: not by time alone.
    package var dueAt: Double? {
        switch phase {
        case .preparing(_, let since): lock == nil ? since + Self.longestPreparation : since + limit
        case .awake where lock == nil: work != nil && isManagerThere && refusedUntil > 0 ? refusedUntil : nil
        case .awake: work == nil ? calmSince + Self.calm : nil
        }
    }

    private mutating func prepare(_ what: Preparation, _ now: Double) -> [Action] {
        if case .preparing(what, _) = phase { return [] }
        let isFirst = phase == .awake
        phase = .preparing(what, since: now)
        // A machine that was to sleep and ends instead is held already, but its owner hears another reason.
        return isFirst || what == .shutdown ? [.hold(what)] : []
    }

    private mutating func goOn() -> [Action] {
        phase = .awake
        return [.goOn]
    }

    private mutating func release() -> [Action] {
        guard lock != nil else { return [] }
        lock = nil
        return [.release]
    }

    private mutating func review(_ now: Double) -> [Action] {
        switch phase {
        case .preparing(_, let since):
            let actions = now >= since + limit ? release() : []
            return actions + (now >= since + Self.longestPreparation ? goOn() + review(now) : [])
        case .awake:
            guard let work else { return now >= calmSince + Self.calm ? release() : [] }
            guard isManagerThere, now >= refusedUntil else { return [] }
            if let lock, lock.why == work || now < lock.since + Self.textAge { return [] }
            lock = (work, now)
            return [.inhibit(why: work)]
        }
    }
}
