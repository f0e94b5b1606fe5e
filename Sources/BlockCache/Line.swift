// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform
internal import Synchronization

/// What the way to the remote brings, as far as it was measured: from this follows how long requests are and how far they go.
package struct Line: Hashable, Sendable {
    /// Of all answers together, in bytes a second; nil before it was measured.
    package var rate: Double?
    /// Of an answer that had the line for itself, in bytes a second; nil before both such a one and several were measured.
    package var rateAlone: Double?
    /// How long answers take to begin, in seconds; 0 before the first one.
    package var latency: Double

    package init(rate: Double? = nil, rateAlone: Double? = nil, latency: Double = 0) {
        self.rate = rate
        self.rateAlone = rateAlone
        self.latency = latency
    }

    /// The length of a range where the line is slow, in bytes.
    static let shortestRange: Int64 = 256 << 10
    /// The length of a range where the line is fast, or not known, in bytes.
    package static let usualRange: Int64 = 8 << 20
    /// The length of a range where even that comes at once, so that what a request costs tells: in bytes.
    package static let longestRange: Int64 = 16 << 20
    /// How many ranges are asked for ahead at most.
    private static let rangesAhead: Int64 = 8
    /// The share of the line from which on one answer is taken to fill it.
    fileprivate static let filling = 0.75

    /// How long one range is to be, in bytes: what the line brings in half of a second, or in two times what an answer takes to
    /// begin, but no less than the half of that; the longest where it comes in a tenth of a second.
    ///
    /// What a reader needs first shares the line with what comes after it. A range takes as long as its successor takes to
    /// begin at least, so that two fill the line. A power of two, so that ranges end at the same places while the rate wavers.
    package var rangeLength: Int64 {
        guard let rate else { return Self.usualRange }
        if Double(Self.longestRange) <= rate * 0.1 { return Self.longestRange }
        let most = rate * max(0.5, 2 * latency)
        var length = Self.usualRange
        while length > Self.shortestRange, Double(length) > most { length /= 2 }
        return length
    }

    /// How long one range of several is to be for a reader that may have so many bytes ahead.
    func rangeLength(within most: Int64) -> Int64 {
        most >= 2 * rangeLength ? rangeLength : min(rangeLength, Self.usualRange)
    }

    /// The most to ask for ahead of a reader, in bytes: what takes a few seconds to come.
    package var reach: Int64 { Self.rangesAhead * rangeLength }

    /// How many ranges of one object are to be under way at once.
    ///
    /// Enough to fill a line on which one connection does not, and few, since all share it and the first is needed first: two
    /// on a slow line where several together were no faster than one.
    package var ranges: Int {
        guard rangeLength < Self.usualRange, let rate, let rateAlone else { return 4 }
        return rateAlone >= rate * Self.filling ? 2 : 4
    }

    /// How much has to be asked for ahead at least so that the line never stands still, in bytes; 0 when it is not known.
    ///
    /// Twice what is under way between an answer's source and here: more is asked for when half of it has been read.
    package var fill: Int64 { Int64(2 * (rate ?? 0) * latency) }
}

/// Measures what all answers bring together while the bytes of any are coming.
///
/// Times are in seconds of one monotonic clock.
struct LineMeter {
    /// Answers whose bytes are coming.
    private var answers = 0
    private var last = 0.0
    /// For how long bytes came since the last sample, and how many.
    private var busy = 0.0
    private var bytes: Int64 = 0
    /// The most answers at one time since then.
    private var most = 0
    /// Of all together, in bytes a second; nil before the first sample.
    private(set) var rate: Double?
    /// Of one alone, and whether several were measured since.
    private var alone: Double?
    private var isCompared = false

    /// The time a sample takes, in seconds: what had to wait somewhere comes in bursts.
    private static let sample = 0.25
    /// After a longer time without a byte the line is not slow, but something is wrong, in seconds.
    private static let longestGap = 1.0

    /// Of one alone, in bytes a second; nil before one and then several were measured.
    var rateAlone: Double? { isCompared ? alone : nil }

    /// The first bytes of an answer came; what had gathered on the way counts for nothing.
    mutating func began(at now: Double) {
        advance(to: now)
        answers += 1
        most = max(most, answers)
    }

    mutating func received(_ count: Int64, at now: Double) {
        advance(to: now)
        bytes += count
        guard busy >= Self.sample else { return }
        let new = Double(bytes) / busy
        rate = Self.average(rate, new)
        note(new, isAlone: most == 1)
        (busy, bytes, most) = (0, 0, answers)
    }

    private mutating func note(_ new: Double, isAlone: Bool) {
        if isAlone {
            alone = Self.average(alone, new)
        } else if let alone, let rate {
            // The line has changed since.
            let isOld = rate < alone * Line.filling
            if isOld { self.alone = nil }
            isCompared = !isOld
        }
    }

    /// What the line once brought it can bring; that it brings less may be the server's, or a short answer's, trouble.
    private static func average(_ old: Double?, _ new: Double) -> Double {
        old.map { max(new, (3 * $0 + new) / 4) } ?? new
    }

    /// The answer has ended; all of it took so many seconds from its request on.
    ///
    /// Of a fast line short answers come too fast to be measured by themselves: it is as fast as they were at least.
    mutating func ended(_ count: Int64, after seconds: Double, at now: Double) {
        advance(to: now)
        answers -= 1
        // And a little faster: where answers take long to begin, ranges would never come to be twice as long otherwise.
        if let rate, seconds > 0 { self.rate = max(rate, Double(count) / (seconds * 0.9)) }
    }

    private mutating func advance(to now: Double) {
        // Threads that came to the clock first may come here last.
        if answers > 0 { busy += min(max(0, now - last), Self.longestGap) }
        last = max(last, now)
    }
}

/// What the fetches of all objects have found out about the line.
final class LineGauge: Sendable {
    private let meter = Lock(LineMeter())
    /// In bytes a second; 0 before they are known.
    private let rate = Atomic<Int>(0)
    private let rateAlone = Atomic<Int>(0)
    /// In microseconds; 0 before the first answer.
    private let averageLatency = Atomic<Int>(0)
    /// A longer wait is the server's trouble and not the line's, in seconds.
    private static let longestLatency = 1.0

    var line: Line {
        func known(_ rate: Int) -> Double? { rate > 0 ? Double(rate) : nil }
        return Line(
            rate: known(rate.load(ordering: .relaxed)),
            rateAlone: known(rateAlone.load(ordering: .relaxed)),
            latency: latency
        )
    }

    /// How long answers take to begin, in seconds, averaged over the last ones.
    var latency: Double { Double(averageLatency.load(ordering: .relaxed)) / 1e6 }

    /// An answer began after so many seconds.
    func began(after latency: Double, at now: Double) {
        meter.withLock { $0.began(at: now) }
        let new = Int(min(latency, Self.longestLatency) * 1e6)
        let old = averageLatency.load(ordering: .relaxed)
        // Of two at once one may be lost, which an average can bear.
        averageLatency.store(old == 0 ? new : (old * 3 + new) / 4, ordering: .relaxed)
    }

    func received(_ count: Int64, at now: Double) { note { $0.received(count, at: now) } }

    func ended(_ count: Int64, after seconds: Double, at now: Double) {
        note { $0.ended(count, after: seconds, at: now) }
    }

    private func note(_ change: (inout LineMeter) -> Void) {
        func whole(_ rate: Double?) -> Int { rate.map { max(1, Int(min($0, 1e15))) } ?? 0 }
        meter.withLock { meter in
            change(&meter)
            rate.store(whole(meter.rate), ordering: .relaxed)
            rateAlone.store(whole(meter.rateAlone), ordering: .relaxed)
        }
    }
}
