// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A value that takes a processor's time to find out, kept for a multiple of that time.
///
/// Asking often must not become the main work.
/// What is found out quickly is never kept, so that answers about queues of ordinary length are exact.
package struct CostlyValue<Value: Sendable>: Sendable {
    /// What takes less than this is found out anew each time, in seconds.
    package static var cheap: Double { 0.005 }
    /// How many times its cost a value is kept.
    package static var factor: Double { 20 }
    /// No value is kept for longer, in seconds.
    package static var longest: Double { 5 }

    private var value: Value?
    private var madeAt = 0.0
    private var cost = 0.0

    package init() {}

    /// The value, nil when it has to be found out at `now` (monotonic seconds).
    package func kept(at now: Double) -> Value? {
        guard cost >= Self.cheap, now - madeAt < min(Self.longest, cost * Self.factor) else { return nil }
        return value
    }

    /// Takes in a value that was found out before `now` (monotonic seconds), in `cost` seconds of a processor.
    package mutating func keep(_ value: Value, at now: Double, cost: Double) {
        self.value = value
        madeAt = now
        self.cost = cost
    }

    /// The value is known to be another one.
    package mutating func forget() { value = nil }
}
