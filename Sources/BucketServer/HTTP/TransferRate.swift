// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Notices a transfer that trickles: a pure value, times from any clock in seconds.
struct TransferRate: Sendable {
    private let window: Double
    private let leastBytes: Int
    private var windowStart: Double?
    private var bytes = 0

    init(limits: HTTPLimits) {
        window = limits.stallTimeout
        leastBytes = limits.leastBytesPerStallTimeout
    }

    /// Counts bytes that passed; false when too few passed since the window began.
    mutating func add(_ count: Int, now: Double) -> Bool {
        bytes += count
        guard let start = windowStart else {
            windowStart = now
            return true
        }
        guard now - start >= window else { return true }
        let isFastEnough = bytes >= leastBytes
        windowStart = now
        bytes = 0
        return isFastEnough
    }
}
