// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform
package import Policy

/// What the rows of a volume wait for, in numbers.
package struct QueueSummary: Sendable, Hashable {
    /// One reason, over all rows that it holds.
    package struct Group: Sendable, Hashable {
        package var files = 0
        /// The oldest of them.
        package var waiting: Waiting
    }

    /// Rows that would start if a worker were free.
    package var ready = 0
    package var running = 0
    /// By reason, in the order of ``WaitingReason``; a row with several counts in each.
    package var groups: [Group] = []
    /// The rows that do not run which come first when nothing holds them.
    package var first: [RowID] = []
}

extension Scheduler {
    /// What the rows of a volume wait for, and the `limit` first ones that do not run.
    func summary(of volume: String, first limit: Int, now: Timestamp) -> QueueSummary {
        var summary = QueueSummary()
        var groups: [WaitingReason: QueueSummary.Group] = [:]
        var places: [Place] = []
        for (id, entry) in entries where id.volume == volume {
            guard !isRunning(id) else {
                summary.running += 1
                continue
            }
            let reasons = waiting(id, now: now)
            if reasons.isEmpty { summary.ready += 1 }
            for reason in reasons { groups[reason.reason, default: .init(waiting: reason)].add(reason) }
            places.insert(place(of: entry.row, stamp: entry.stamp, now: now), keeping: limit)
        }
        summary.groups = WaitingReason.allCases.compactMap { groups[$0] }
        summary.first = places.map(\.id)
        return summary
    }

    /// How many rows of all volumes go before a row that does not run, if nothing held them; nil for one that is not known.
    func rank(of id: RowID, now: Timestamp = .now()) -> Int? {
        guard let entry = entries[id], !isRunning(id) else { return nil }
        let own = place(of: entry.row, stamp: entry.stamp, now: now)
        return entries.values.count { !isRunning($0.row.id) && place(of: $0.row, stamp: $0.stamp, now: now) < own }
    }
}

extension QueueSummary.Group {
    fileprivate mutating func add(_ other: Waiting) {
        files += 1
        // The text of one is not true of many.
        if files > 1, other.detail != waiting.detail { waiting.detail = nil }
        waiting.since = min(waiting.since, other.since)
        waiting.until = other.until.flatMap { until in waiting.until.map { min($0, until) } }
    }
}

extension [Scheduler.Place] {
    /// Puts a place where it belongs, and lets go of the last when there are more than `limit`.
    fileprivate mutating func insert(_ place: Scheduler.Place, keeping limit: Int) {
        if count >= limit, let last, !(place < last) { return }
        insert(place, at: firstIndex { place < $0 } ?? count)
        if count > limit { removeLast() }
    }
}
