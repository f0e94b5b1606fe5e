// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// Whether uploads stand back while programs write many files into a mount and wait for the processors; a pure value.
///
/// A copy of many small files and their uploads want the same processors, and somebody waits for the copy. So no further
/// upload begins until the burst of files is over, at most for ``longest`` seconds; after that long they go on for
/// ``rest`` seconds whatever else is wanted, so that an endless burst delays uploads and never stops them. On a machine
/// with a processor to spare nothing waits. What the kernel does not tell is no reason to wait.
package struct LoadGate: Hashable, Sendable {
    /// What makes a burst: so many files in a row, none of which came more than ``pause`` seconds after the one before.
    package static let burst = 64
    /// In seconds.
    package static let pause = 0.5
    /// The share of the time for which somebody must have waited for a processor.
    package static let contended = 0.1
    /// The shortest time over which that share is taken, in seconds.
    package static let interval = 0.1
    /// In seconds.
    package static let longest = 10.0
    /// In seconds.
    package static let rest = 10.0

    private struct Sample: Hashable, Sendable {
        var time: Timestamp
        var stalled: UInt64
    }

    private var sample: Sample?
    private var files = 0
    private var lastFile: Timestamp?
    private var openUntil: Timestamp?
    /// Since when uploads stand back; nil when they do not.
    package private(set) var since: Timestamp?

    package init() {}

    package var isClosed: Bool { since != nil }

    /// Files that programs completed.
    package mutating func noteFiles(_ count: Int, at now: Timestamp) {
        guard count > 0 else { return }
        files = isFlowing(now) ? min(files + count, Self.burst) : count
        lastFile = now
    }

    /// Takes in for how long somebody waited for a processor, in microseconds since the machine's start, nil where the
    /// kernel does not tell (`some total` of `/proc/pressure/cpu`, "PSI - Pressure Stall Information", kernel.org).
    package mutating func observe(stalled: UInt64?, at now: Timestamp) {
        let share = share(stalled, at: now)
        if let since {
            let elapsed = Self.seconds(since, now)
            if elapsed >= Self.longest { return giveWay(at: now) }
            // A clock that was set back tells nothing of how long it was.
            if elapsed < 0 || !isFlowing(now) { self.since = nil }
            return
        }
        guard let share, share >= Self.contended, files >= Self.burst, isFlowing(now), !isResting(now) else { return }
        since = now
    }

    /// Uploads go on for a while, whatever programs write: somebody waits for them.
    package mutating func giveWay(at now: Timestamp) {
        since = nil
        openUntil = now.advanced(bySeconds: Self.rest)
    }

    private static func seconds(_ start: Timestamp, _ end: Timestamp) -> Double {
        Double(end.nanoseconds - start.nanoseconds) / 1e9
    }

    private func isFlowing(_ now: Timestamp) -> Bool {
        guard let lastFile else { return false }
        return (0...Self.pause).contains(Self.seconds(lastFile, now))
    }

    private func isResting(_ now: Timestamp) -> Bool {
        guard let openUntil else { return false }
        return now < openUntil && openUntil <= now.advanced(bySeconds: Self.rest)
    }

    /// The share of the time since the last sample; nil when too little passed, or nothing is known.
    private mutating func share(_ stalled: UInt64?, at now: Timestamp) -> Double? {
        let last = sample
        let time = last.map { Self.seconds($0.time, now) } ?? 0
        guard last == nil || !(0..<Self.interval).contains(time) else { return nil }
        sample = stalled.map { Sample(time: now, stalled: $0) }
        guard let last, let stalled, time > 0, stalled >= last.stalled else { return nil }
        return Double(stalled - last.stalled) / 1e6 / time
    }
}
