// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Policy

/// What somebody waits for.
extension Scheduler {
    /// How many rows that wait for one are looked through for one that is forced.
    private static let longestLook = 256

    /// Starts a row without regard to quiet period, backoff and not-before, nor to what programs write meanwhile; and with
    /// it all that has to go first.
    package mutating func force(_ id: RowID, now: Timestamp) {
        guard entries[id] != nil else { return }
        loadGate.giveWay(at: now)
        wish(id, now: now)
        forceBlockers(of: id, now: now)
    }

    /// Whether somebody waits for a row, or for one that waits for it.
    ///
    /// One that was tried and failed is not forced by those that wait for it.
    package func isAwaited(_ id: RowID) -> Bool {
        var seen: Set<RowID> = [id]
        var queue = [id]
        while let next = queue.popLast() {
            if entries[next]?.row.facts.isForced == true { return true }
            for dependent in (dependents[next] ?? []).prefix(Self.longestLook - seen.count) {
                if seen.insert(dependent).inserted { queue.append(dependent) }
            }
        }
        return false
    }

    /// Forces what a row is known to wait for, what that waits for, and so on.
    ///
    /// Not what waits for its next attempt: it would be tried again without a pause, as each end of its work has those that
    /// wait for it look again.
    mutating func forceBlockers(of id: RowID, now: Timestamp) {
        var current = id
        // What one that is forced already waits for was forced with it: so that a long chain costs little.
        while let blocker = entries[current]?.blocker, let facts = entries[blocker]?.row.facts, !facts.isForced,
            facts.nextAttempt ?? now <= now
        {
            loadGate.giveWay(at: now)
            wish(blocker, now: now)
            current = blocker
        }
    }

    private mutating func wish(_ id: RowID, now: Timestamp) {
        let isNews = entries[id]?.row.facts.isForced == false
        entries[id]?.row.facts.isForced = true
        // Readers get less time now, so that it does not wait for its next look at them.
        if isNews, entries[id]?.row.facts.dependencyReason == .open { unlink(id) }
        reconsider(id, now: now)
    }
}
