// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How many pieces of work go on with one remote at once; a pure value.
///
/// It begins at the most, halves when the remote asks for less (429, 503) or does not answer in time, and then grows by
/// one at a time, where that moves more: a step that does not is taken back, and tried again later.
/// Times are monotonic seconds.
package struct ConcurrencyLimit: Hashable, Sendable {
    /// How long is looked at before something is changed.
    package static let window = 5.0
    /// What a step must bring.
    package static let gain = 1.05
    /// Windows before a step that brought nothing is tried again.
    package static let patience = 6

    private enum Phase: Hashable, Sendable {
        case steady
        /// One more than before is tried, which moved so much in a window.
        case trying(before: Double)
    }

    package let most: Int
    package private(set) var current: Int
    private var phase = Phase.steady
    private var begin: Double?
    private var moved = 0.0
    private var wasFull = false
    private var rest = 0
    /// When it was halved last: what fails together counts once.
    private var halved = -Double.infinity

    package init(most: Int) {
        precondition(most >= 1, "limit \(most)")
        self.most = most
        current = most
    }

    /// The remote asked for less, or did not answer in time.
    package mutating func noteTrouble(at now: Double) {
        guard now - halved >= Self.window || now < halved else { return }
        halved = now
        current = max(1, current / 2)
        phase = .steady
        rest = 1
        restart(now)
    }

    /// Takes in what was moved since the last time (bytes, requests, anything that grows with the work done), and
    /// whether as much went on as may.
    package mutating func observe(moved amount: Double, isFull: Bool, at now: Double) {
        guard let begin, now >= begin else { return restart(now) }
        moved += amount
        wasFull = wasFull || isFull
        guard now - begin >= Self.window else { return }
        decide(moved / (now - begin))
        restart(now)
    }

    private mutating func decide(_ rate: Double) {
        if case .trying(let before) = phase {
            phase = .steady
            guard wasFull, rate < before * Self.gain else { return step(rate) }
            current = max(1, current - 1)
            rest = Self.patience
            return
        }
        step(rate)
    }

    private mutating func step(_ rate: Double) {
        if rest > 0 {
            rest -= 1
            return
        }
        guard wasFull, current < most else { return }
        current += 1
        phase = .trying(before: rate)
    }

    private mutating func restart(_ now: Double) {
        begin = now
        moved = 0
        wasFull = false
    }
}
