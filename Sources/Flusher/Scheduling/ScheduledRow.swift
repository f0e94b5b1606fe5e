// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Policy

/// Names a journal row across volumes.
package struct RowID: Hashable, Sendable, Comparable {
    /// The volume's id.
    package var volume: String
    /// The node's id in that volume's journal.
    package var node: Int64

    package init(volume: String, node: Int64) {
        self.volume = volume
        self.node = node
    }

    package static func < (left: RowID, right: RowID) -> Bool {
        left.node == right.node ? left.volume < right.volume : left.node < right.node
    }
}

/// What the scheduler knows of a row.
package struct ScheduledRow: Hashable, Sendable {
    package enum Size: Hashable, Sendable, CaseIterable {
        /// Short work: deletes, copies, markers, small content.
        case small
        /// Content that keeps a worker for long.
        case large
    }

    package var id: RowID
    /// Stamped by the journal on every change: tells an old picture of a row from a new one.
    package var sequence: Int64
    /// Higher first.
    package var priority: Int
    package var size: Size
    package var facts: WorkFacts
    /// It was found to close a circle of very many rows that wait for each other: it should break it.
    package var closesLongCircle = false

    package init(id: RowID, sequence: Int64, priority: Int = 0, size: Size, facts: WorkFacts) {
        self.id = id
        self.sequence = sequence
        self.priority = priority
        self.size = size
        self.facts = facts
    }
}

extension ScheduledRow {
    /// Whether another picture of the row shows the same, but for what the scheduler itself notes in it.
    func isSame(as other: ScheduledRow) -> Bool {
        guard sequence == other.sequence else { return false }
        var other = other
        other.facts.isForced = facts.isForced
        other.facts.dependency = facts.dependency
        other.facts.dependencyReason = facts.dependencyReason
        other.closesLongCircle = closesLongCircle
        return self == other
    }
}

/// How much goes on at one time.
package struct SchedulerLimits: Hashable, Sendable {
    /// Pieces of work at once.
    package var workers: Int
    /// Of them large ones.
    package var large: Int

    package init(workers: Int = 8, large: Int = 4) {
        precondition(workers >= 1 && large >= 1, "limits \(workers), \(large)")
        self.workers = workers
        self.large = large
    }
}
