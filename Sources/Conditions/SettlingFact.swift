// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Policy

/// A fact that gets worse at once and better only when it has been better for a while.
///
/// Work that was stopped is not to start and stop with every flicker of a network or a plug.
package struct SettlingFact<Value: Hashable & Sendable>: Sendable {
    private struct Better: Sendable {
        var value: Value
        var source: String
        /// When it began to be better.
        var since: Moment
        var seen: Moment
    }

    package private(set) var fact: Fact<Value>
    private var better: Better?
    private let settlingTime: Double
    private let badness: @Sendable (Value) -> Int

    /// `badness` of a value says how much it holds up: a change to one with more or the same counts at once, to one
    /// with less after `settlingTime` seconds in which none with more was seen.
    package init(_ fact: Fact<Value>, settlingTime: Double, badness: @escaping @Sendable (Value) -> Int) {
        self.fact = fact
        self.settlingTime = settlingTime
        self.badness = badness
    }

    /// Takes in what a source says now.
    package mutating func observe(_ value: Value, source: String, at now: Moment) {
        advance(to: now)
        guard badness(value) < badness(fact.value) else {
            better = nil
            fact.observe(value, source: source, at: now.time)
            return
        }
        // Of several improvements in a row the last one counts, from the time of the first.
        better = Better(value: value, source: source, since: better?.since ?? now, seen: now)
        advance(to: now)
    }

    /// Lets time pass.
    package mutating func advance(to now: Moment) {
        guard let better, now.uptime >= better.since.uptime + settlingTime else { return }
        self.better = nil
        fact.observe(better.value, source: better.source, at: better.seen.time)
    }

    /// When ``advance(to:)`` changes something, in seconds of uptime; nil: not by time alone.
    package var settlesAt: Double? { better.map { $0.since.uptime + settlingTime } }
}
