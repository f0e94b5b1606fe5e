// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How fast a fetch gets on: tells when it is about to end, so that the next request is on its way by then.
///
/// Without that the line stands still for a round trip each time the fetches that share it end together, as fetches
/// of one length that were begun together do. Times are in seconds of one monotonic clock.
struct FetchPace {
    let startedAt: Double
    private var firstAt: Double?
    /// Bytes after those that came first.
    private var received: Int64 = 0
    /// What comes first may have waited on the way and comes at once: so little says nothing of the line, in bytes.
    private static let leastSample: Int64 = 1 << 20

    init(startedAt: Double) {
        self.startedAt = startedAt
    }

    /// Its first bytes have come.
    var hasBegun: Bool { firstAt != nil }

    /// Notes bytes; with the first ones it returns how long they took to come.
    mutating func note(_ bytes: Int64, at now: Double) -> Double? {
        guard firstAt == nil else {
            received += bytes
            return nil
        }
        firstAt = now
        return max(0, now - startedAt)
    }

    /// Whether the rest of the fetch will take no longer than an answer takes to begin.
    func isEnding(remaining: Int64, latency: Double, at now: Double) -> Bool {
        guard let firstAt, received > 0, received >= min(remaining, Self.leastSample), now > firstAt else {
            return false
        }
        let rate = Double(received) / (now - firstAt)
        return Double(remaining) <= rate * latency
    }
}
