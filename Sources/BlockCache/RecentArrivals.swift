// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// Which arrivals of all objects stay in memory until they are read, though they are in their files already.
///
/// A reader that is fast gets its bytes from here, where they were checked when they came, and not from the file. Those
/// that are there already have the right to stay for a while: they are read first. What comes meanwhile does without.
final class RecentArrivals: Sendable {
    /// The place of a buffer among those that are kept.
    ///
    /// An object of its own, so that to leave it takes no search through the others.
    final class Place: @unchecked Sendable {
        fileprivate weak let object: CachedObject?
        /// In monotonic seconds.
        fileprivate let since: Double
        /// Whether the buffer is not kept any more; guarded by the lock.
        fileprivate var isLeft = false

        fileprivate init(of object: CachedObject, since: Double) {
            self.object = object
            self.since = since
        }
    }

    private struct State {
        /// In the order of arrival, with those that were left since the last look at them.
        var places: [Place] = []
        /// How many of them are not left.
        var count = 0
    }

    /// How many buffers are kept, 40 MiB at most: what four ranges of the usual length bring while the first is read, and it.
    private static let limit = 160
    /// How long they are kept from newer ones when nobody comes, in seconds.
    private static let right = 1.0
    /// How long they are kept at all, in seconds.
    private static let age = 10.0
    /// Shorter ones cost as much as they save; in bytes.
    private static let least = 64 << 10

    private let state = Lock(State())

    /// Whether a buffer of the object may stay in memory; makes room for it where it may.
    func admit(_ buffer: ArrivalBuffer, of object: CachedObject, at now: Double = monotonicSeconds()) -> Bool {
        guard buffer.count >= Self.least else { return false }
        let (place, old) = state.withLock { state -> (Place?, Place?) in
            var old: Place?
            if state.count >= Self.limit {
                if state.places.first?.isLeft == true { Self.sweep(&state) }
                guard let first = state.places.first, first.object == nil || now - first.since > Self.right else {
                    return (nil, nil)
                }
                Self.leave(first, &state)
                old = first
            }
            let place = Place(of: object, since: now)
            state.places.append(place)
            state.count += 1
            return (place, old)
        }
        if let old { old.object?.forgetRecent { $0.place === old } }
        buffer.place = place
        return place != nil
    }

    /// Those that are still to be kept: a disk may take longer than that with them.
    func held(of buffers: [ArrivalBuffer]) -> [ArrivalBuffer] {
        state.withLock { _ in buffers.filter { $0.place?.isLeft == false } }
    }

    /// Notes that buffers are not kept any more.
    func released(_ buffers: [ArrivalBuffer]) {
        state.withLock { state in
            for buffer in buffers { buffer.place.map { Self.leave($0, &state) } }
            if state.places.count > 2 * Self.limit { Self.sweep(&state) }
        }
    }

    /// Lets go of what nobody came for.
    func expire(at now: Double = monotonicSeconds()) {
        let old = state.withLock { state -> [Place] in
            let old = state.places.filter { !$0.isLeft && ($0.object == nil || now - $0.since > Self.age) }
            for place in old { Self.leave(place, &state) }
            Self.sweep(&state)
            return old
        }
        for place in old { place.object?.forgetRecent { $0.place === place } }
    }

    /// How many places there are, with those that were left.
    var placeCount: Int { state.withLock { $0.places.count } }

    private static func leave(_ place: Place, _ state: inout State) {
        guard !place.isLeft else { return }
        place.isLeft = true
        state.count -= 1
    }

    private static func sweep(_ state: inout State) {
        state.places.removeAll { $0.isLeft }
    }
}
