// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Finds the rate at which uploads use what others leave of a line; a pure value.
///
/// Others show by the queue that they build where the line is narrow: round trips take longer than the shortest ones. As
/// LEDBAT does (RFC 6817), it keeps the delay that it causes itself below a target, which is well below what others cause;
/// unlike LEDBAT it sets a rate and no window, so that one rate holds for many connections at once, and steps down in
/// proportion, as TCP does (LEDBAT++, draft-irtf-iccrg-ledbat-plus-plus).
package struct YieldController: Hashable, Sendable {
    /// What the connections together saw since the last time.
    package struct Sample: Hashable, Sendable {
        /// The smoothed round trip and the shortest one, in seconds, of the connection that waited longest.
        package var roundTrip: Double
        package var shortest: Double
        /// Bytes that arrived.
        package var acknowledged: Int64
        /// Bytes that were sent again.
        package var repeated: Int64
        /// Since the last sample, in seconds.
        package var interval: Double
        /// Whether more would have gone at a higher rate.
        package var wasHeld: Bool

        package init(
            roundTrip: Double,
            shortest: Double,
            acknowledged: Int64,
            repeated: Int64 = 0,
            interval: Double,
            wasHeld: Bool
        ) {
            self.roundTrip = roundTrip
            self.shortest = shortest
            self.acknowledged = acknowledged
            self.repeated = repeated
            self.interval = interval
            self.wasHeld = wasHeld
        }
    }

    /// How often a sample is taken, in seconds.
    package static let interval = 0.2
    /// What it begins with, in bytes a second.
    package static let initial = 128.0 * 1024
    /// It never goes slower: what goes on shows when the line is free again.
    package static let least = 4.0 * 1024
    /// And no faster.
    package static let most = 1e10

    /// Bytes a second, all connections together.
    package private(set) var rate = YieldController.initial
    /// No sign of others was seen yet: the rate grows fast.
    package private(set) var isStarting = true

    package init() {}

    /// What arrived in the last samples, in bytes a second.
    private var arrivals: [Double] = []
    private var lastDelay = 0.0
    /// Samples in a row that show nobody else.
    private var calm = 0
    /// So many samples are remembered: two seconds.
    private static let memory = 10

    /// The delay in the queue that is aimed at, in seconds: half of the shortest round trip, from 10 to 25 ms, and less
    /// where that is below 2 ms, down to 2 ms.
    ///
    /// RFC 6817 allows 100 ms, which is for senders that fill queues. Those that keep them short (BBR; where the narrow
    /// line is the machine's own, Linux keeps every sender's part of the queue to some milliseconds) would be pushed
    /// aside by that. Wireless networks, whose round trips vary by as much, have longer ones.
    package static func target(shortest: Double) -> Double {
        min(0.025, max(shortest / 2, min(0.010, 0.002 + 4 * shortest)))
    }

    /// How many bytes to send in one go where so many may go, on connections with such segments; at least two segments.
    ///
    /// Whoever receives acknowledges every second segment at once and puts off the last of an odd number until another
    /// comes or 40 ms and more have passed (RFC 9293, 3.8.6.3), which looks like a queue. An even number is sent, the last
    /// one not full: what encryption adds finds room in it.
    ///
    /// `rate`: bytes a second. Where long segments would be seconds apart they are not filled.
    package static func piece(_ bytes: Int64, segment: Int64, rate: Int64) -> Int64 {
        let pair = 2 * segment
        // Longer ones are those of connections within a machine.
        guard pair > 0, pair <= 32 << 10, pair <= max(8 << 10, rate) else { return bytes }
        return max(1, bytes / pair) * pair - segment / 4
    }

    /// Takes in a sample and sets the rate for the time until the next.
    package mutating func observe(_ sample: Sample) {
        let target = Self.target(shortest: sample.shortest)
        // One alone may be our own burst's; a queue of others lasts (RFC 6817 filters current delays for that).
        let seen = max(0, sample.roundTrip - sample.shortest)
        let delay = min(seen, lastDelay)
        lastDelay = seen
        let arrived = Double(sample.acknowledged) / max(0.001, sample.interval)
        arrivals.append(arrived)
        if arrivals.count > Self.memory { arrivals.removeFirst() }
        let isLossy = sample.repeated > 2 * 1500 && Double(sample.repeated) > 0.02 * Double(sample.acknowledged)
        calm = seen < target / 2 && !isLossy ? calm + 1 : 0
        if delay > target || isLossy {
            isStarting = false
            // A rate that did not arrive is no measure of what there is to give up.
            rate = min(rate, max(arrived, rate / 2))
            rate *= delay > 3 * target ? 0.8 : 0.9
        } else if sample.wasHeld {
            // After two seconds without a sign of others most of the line is free, and would be for long.
            let growth = isStarting ? 0.5 : calm >= Self.memory ? 0.2 : 0.1
            rate *= 1 + growth * max(0, 1 - seen / target)
        } else {
            // The line or somebody else is what holds it: a rate far above that would give nothing up for long.
            rate = min(rate, max(Self.initial, 1.1 * (arrivals.max() ?? arrived)))
        }
        rate = min(Self.most, max(Self.least, rate))
    }
}
