// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// Where work stands in the queue; the smaller goes first.
///
/// See ``Policy/rank(_:priority:volume:now:)``.
package struct QueueRank: Hashable, Sendable, Comparable {
    /// 0: somebody waits for it, 1: background, 2: discretionary.
    package var transferClass: Int
    /// Higher goes first.
    package var priority: Int
    /// When it would have to begin to be in time; nil: it has the time.
    package var latestStart: Timestamp?
    /// When it came, later by what it costs others to wait for it.
    package var turn: Timestamp

    package init(transferClass: Int, priority: Int = 0, latestStart: Timestamp? = nil, turn: Timestamp) {
        self.transferClass = transferClass
        self.priority = priority
        self.latestStart = latestStart
        self.turn = turn
    }

    package static func < (left: QueueRank, right: QueueRank) -> Bool {
        if left.transferClass != right.transferClass { return left.transferClass < right.transferClass }
        if left.priority != right.priority { return left.priority > right.priority }
        switch (left.latestStart, right.latestStart) {
        case (let one?, let other?) where one != other: return one < other
        case (.some, nil): return true
        case (nil, .some): return false
        default: return left.turn < right.turn
        }
    }
}

extension Policy {
    /// After this time discretionary work is background work, in seconds: it is to go at last.
    package static let longestDeferral = 86_400.0
    /// After this time work has a share of its own, in seconds, whatever is more urgent.
    package static let longestPrecedence = 86_400.0
    /// The longest that something small goes ahead of something large that came before it, in seconds.
    package static let longestOvertaking = 600.0
    /// How much is taken to be sent in a second where nothing is known, in bytes.
    private static let assumedRate = 1_048_576.0
    /// The least rate that is believed, in bytes a second.
    private static let leastRate = 65_536.0
    /// What is left of the time when a deadline begins to count, besides twice the time of sending, in seconds.
    private static let margin = 60.0

    /// Whether work is discretionary now.
    ///
    /// It is not any longer after ``longestDeferral``, when its deadline is near, or when there is little room left for
    /// what is not sent.
    package static func isDiscretionary(_ work: WorkFacts, volume: VolumeFacts, now: Timestamp) -> Bool {
        guard work.isDiscretionary || rules(work, volume).isDiscretionary, !work.isForced else { return false }
        return !isRisen(work, volume: volume, now: now)
    }

    /// Whether work has to begin now to be in time.
    ///
    /// From then on no window holds it, and it has no time any more; what costs money, or the rest of a battery, still
    /// holds it.
    package static func isDue(_ work: WorkFacts, volume: VolumeFacts, now: Timestamp) -> Bool {
        latestStart(work, volume).map { $0 <= now } ?? false
    }

    /// What holds work now, of what the machine's conditions and the rules give.
    ///
    /// Nobody's wish makes a way where there is none. `isBegun`: it is under way, and whether it fits was asked before.
    package static func holds(
        of work: WorkFacts,
        volume: VolumeFacts,
        now: Timestamp,
        isBegun: Bool = false
    ) -> [Waiting] {
        let held = rules(work, volume)
        if work.isForced { return held.usual.filter(\.reason.isBeyondWishes) }
        let isRisen = isRisen(work, volume: volume, now: now)
        let isDiscretionary = (held.isDiscretionary || work.isDiscretionary) && !isRisen
        let isDue = isDue(work, volume: volume, now: now)
        let holds = (isDiscretionary ? held.discretionary : held.risen).filter { hold in
            // What was found to end by itself has ended, also before anybody looked again.
            if let until = hold.until, until <= now { return false }
            return !isDue || hold.reason != .window
        }
        guard work.isWhole, !isBegun else { return holds }
        let tight = held.room.holds(size: work.remaining, rate: believed(volume.rate), now: now)
        return holds
            + tight.filter { hold in
                !holds.contains { $0.reason == hold.reason } && !(isDue && hold.reason == .window)
            }
    }

    /// A rate as far as it is believed; 0: unknown.
    private static func believed(_ rate: Double) -> Double { rate > 0 ? max(rate, leastRate) : 0 }

    /// When time alone changes what holds work, or where it stands; nil: never.
    package static func nextTurn(_ work: WorkFacts, volume: VolumeFacts, now: Timestamp) -> Timestamp? {
        guard !work.isForced else { return nil }
        var turns: [Timestamp] = []
        if isDiscretionary(work, volume: volume, now: now) {
            turns.append(work.changed.advanced(bySeconds: longestDeferral))
        }
        if let start = latestStart(work, volume) { turns.append(start) }
        if work.isWhole {
            let room = rules(work, volume).room
            if let start = room.lastStart(size: work.remaining, rate: believed(volume.rate), now: now) {
                // Up to then it fits.
                turns.append(start.advanced(bySeconds: 0.001))
            }
        }
        return turns.filter { $0 > now }.min()
    }

    /// Where work stands: its class, its priority, what has to begin now to be in time, and then what came first.
    ///
    /// Small work goes ahead of large work that came up to ``longestOvertaking`` before it, as far as the large one keeps
    /// others waiting: so small files do not wait for large ones, and none waits for ever.
    package static func rank(_ work: WorkFacts, priority: Int, volume: VolumeFacts, now: Timestamp) -> QueueRank {
        let cost = min(longestOvertaking, Double(max(0, work.remaining)) / assumedRate)
        let isDue = isDue(work, volume: volume, now: now)
        return QueueRank(
            transferClass: work.isForced ? 0 : isDiscretionary(work, volume: volume, now: now) ? 2 : 1,
            priority: priority,
            latestStart: isDue ? latestStart(work, volume) : nil,
            turn: work.changed.advanced(bySeconds: cost)
        )
    }

    private static func rules(_ work: WorkFacts, _ volume: VolumeFacts) -> HeldRules {
        volume.held.indices.contains(work.rules) ? volume.held[work.rules] : volume.held[0]
    }

    private static func isRisen(_ work: WorkFacts, volume: VolumeFacts, now: Timestamp) -> Bool {
        volume.isUnderPressure || isDue(work, volume: volume, now: now)
            || now >= work.changed.advanced(bySeconds: longestDeferral)
    }

    /// When sending has to begin, with twice the time that it takes.
    private static func latestStart(_ work: WorkFacts, _ volume: VolumeFacts) -> Timestamp? {
        guard let deadline = work.deadline else { return nil }
        let rate = volume.rate > 0 ? max(volume.rate, leastRate) : assumedRate
        return deadline.advanced(bySeconds: -(2 * Double(max(0, work.remaining)) / rate + margin))
    }
}
