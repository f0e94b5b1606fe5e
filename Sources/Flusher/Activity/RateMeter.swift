// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How fast a total grows, by its mean rate over the last seconds.
package struct RateMeter: Sendable, Hashable {
    private struct Sample: Hashable {
        var time: Double
        var total: Int64
    }

    /// What came before these seconds counts no more.
    package static let window = 10.0
    /// A rate over less than this time says nothing, in seconds.
    private static let least = 0.5
    /// Looks nearer to each other than this are taken for one, so that the samples are bounded.
    private static let step = 0.2

    private var samples: [Sample] = []

    package init() {}

    /// Takes in the total at `time` (monotonic seconds, never falling); a total that fell begins anew.
    package mutating func note(_ total: Int64, at time: Double) {
        if let last = samples.last, total < last.total { samples = [] }
        if samples.count >= 2, let last = samples.last, time - samples[samples.count - 2].time < Self.step {
            samples[samples.count - 1] = Sample(time: max(time, last.time), total: total)
        } else {
            samples.append(Sample(time: time, total: total))
        }
        // The newest of those that are too old stays: from it on the window is whole.
        if let first = samples.lastIndex(where: { $0.time <= time - Self.window }) { samples.removeFirst(first) }
    }

    /// Bytes a second over the window that ends at `time`; nil while that is not known, 0 when nothing moved in it.
    package func rate(at time: Double) -> Double? {
        let start = time - Self.window
        guard let last = samples.last, let first = samples.last(where: { $0.time <= start }) ?? samples.first else {
            return nil
        }
        let span = time - max(first.time, start)
        guard span >= Self.least else { return nil }
        var before = Double(first.total)
        if first.time < start, let next = samples.first(where: { $0.time > start }) {
            // Of the step that reaches into the window only the part that lies in it.
            let share = (start - first.time) / (next.time - first.time)
            before += share * Double(next.total - first.total)
        } else if first.time < start {
            return 0
        }
        return max(0, Double(last.total) - before) / span
    }

    /// Seconds until `left` bytes are sent at that rate; nil where nothing moves.
    package static func secondsLeft(_ left: Int64, at rate: Double?) -> Double? {
        guard left > 0 else { return 0 }
        guard let rate, rate >= 1 else { return nil }
        return Double(left) / rate
    }
}
