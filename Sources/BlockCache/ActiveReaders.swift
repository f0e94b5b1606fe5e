// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform
internal import Synchronization

/// Counts the readers that have read within the last seconds, without a list of them.
final class ActiveReaders: Sendable {
    /// One reader's mark: the period in which it was counted last.
    final class Stamp: Sendable {
        fileprivate let period = Atomic<Int>(-1)
    }

    private struct State {
        var period = -2
        var count = 0
        var countBefore = 0
    }

    /// In seconds.
    private static let period = 2.0

    private let state = Lock(State())
    /// What the last reader that was counted got: the others of its period need not take the lock.
    private let latest = Atomic<Int>(1)

    /// Notes that a reader reads; returns how many do, itself among them.
    func count(with stamp: Stamp) -> Int {
        let now = Int(monotonicSeconds() / Self.period)
        guard stamp.period.load(ordering: .relaxed) != now, stamp.period.exchange(now, ordering: .relaxed) != now else {
            return latest.load(ordering: .relaxed)
        }
        let count = state.withLock { state in
            if state.period != now {
                state.countBefore = state.period == now - 1 ? state.count : 0
                state.count = 0
                state.period = now
            }
            state.count += 1
            return max(state.count, state.countBefore)
        }
        latest.store(count, ordering: .relaxed)
        return count
    }
}
