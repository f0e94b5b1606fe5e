// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base

/// What a client that reads events has not got yet: a bounded queue, so that one that reads slowly holds up nobody.
///
/// A value, so that it can be tested. Subscribers (mounts) and followers (people and programs) get different kinds.
struct EventQueue: Sendable {
    /// How many events wait for a slow reader.
    static let limit = 4096

    var isSubscribed = false
    /// The volumes whose activity is told, empty: all; nil: none is asked for.
    var followed: [String]?
    private(set) var events: [ControlEvent] = []
    /// The events of activity dropped since the last batch.
    private(set) var missed = 0

    var isEmpty: Bool { events.isEmpty && missed == 0 }

    /// Takes in an event that this client asked for.
    ///
    /// What mounts go by is replaced by `overflow` when there is too much, as then everything counts as changed. Activity
    /// is dropped, newest first, and counted.
    mutating func add(_ event: ControlEvent) {
        if case .activity(let activity) = event {
            guard let followed, followed.isEmpty || activity.volume.map({ followed.contains($0) }) ?? true else {
                return
            }
            guard events.count < Self.limit, missed == 0 else { return missed += 1 }
            events.append(event)
        } else if isSubscribed {
            if events.count >= Self.limit { events = [.overflow] }
            events.append(event)
        }
    }

    /// All that waits, with what was missed at its end.
    mutating func take(at time: Timestamp) -> [ControlEvent] {
        defer { (events, missed) = ([], 0) }
        guard missed > 0 else { return events }
        var note = TransferEvent(.missed, at: time.rfc3339)
        note.count = missed
        return events + [.activity(event: note)]
    }
}
