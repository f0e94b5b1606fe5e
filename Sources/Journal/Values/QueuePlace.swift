// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Where a row stands among those of its volume: highest priority first, then in the order of their oldest change.
///
/// It outlives the row: what comes after it can be asked for when the row is long remote.
package struct QueuePlace: Hashable, Comparable, Sendable {
    package let priority: Int64
    package let sequence: Int64
    package let id: NodeID

    init(priority: Int64, sequence: Int64, id: NodeID) {
        self.priority = priority
        self.sequence = sequence
        self.id = id
    }

    package static func < (one: QueuePlace, other: QueuePlace) -> Bool {
        (-one.priority, one.sequence, one.id.value) < (-other.priority, other.sequence, other.id.value)
    }
}

extension QueuePlace {
    /// The place that ``text`` of another one tells; nil where it tells none.
    package init?(_ text: some StringProtocol) {
        let numbers = text.split(separator: ".", omittingEmptySubsequences: false).map { Int64($0) }
        guard numbers.count == 3, let priority = numbers[0], let sequence = numbers[1], let id = numbers[2],
            priority > .min
        else { return nil }
        self.init(priority: priority, sequence: sequence, id: NodeID(id))
    }

    /// The place as a word of digits, points and signs.
    package var text: String { "\(priority).\(sequence).\(id.value)" }
}
