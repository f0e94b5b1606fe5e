// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import ObjectStore

/// When to send a failed request again: the pure part, given what happened and random numbers.
struct RetryPolicy: Sendable {
    static let usualAttempts = 5

    /// How many times a request is sent at most.
    var attempts = RetryPolicy.usualAttempts
    /// How long to go on beginning new attempts, in seconds since the first.
    var timeLimit: Double
    /// Whether sending again cannot do harm even when the first was carried out.
    var isRepeatable: Bool

    /// A read that brings fewer bytes, in one answer or within the time of a stall, counts as failed: a server that
    /// gives them one by one must not keep somebody for ever.
    static let leastProgress: Int64 = 1024

    static let base = 0.05
    static let throttledBase = 1.0
    static let cap = 20.0

    /// Seconds to wait before the next attempt, nil to give up.
    ///
    /// `attempt` counts from 1; `elapsed` is the time since the first began; `random` is 0 to 1.
    func delay(after error: StoreError, attempt: Int, elapsed: Double, random: Double) -> Double? {
        guard attempt < attempts, isWorthwhile(error, attempt: attempt) else { return nil }
        let base = Self.isThrottle(error) ? Self.throttledBase : Self.base
        let exponential = min(Self.cap, base * Double(1 << min(attempt - 1, 16)))
        let delay = max(exponential * random, error.retryAfter ?? 0)
        return elapsed + delay < timeLimit ? delay : nil
    }

    private func isWorthwhile(_ error: StoreError, attempt: Int) -> Bool {
        switch error.cause {
        case .unreachable:
            // Nothing was sent, but waiting for a network is the caller's business, not ours: one more try is
            // for a server that was just restarting.
            attempt == 1 && (error.status == nil) && (isRepeatable || Self.wasNotSent(error))
        case .temporary: isRepeatable || Self.isDefinite(error)
        case .corrupted: attempt == 1
        default: false
        }
    }

    /// Whether the server said that it did not do it.
    private static func isDefinite(_ error: StoreError) -> Bool {
        error.status == 503 || error.status == 429 || error.code == "SlowDown"
    }

    /// Whether the request cannot have arrived.
    private static func wasNotSent(_ error: StoreError) -> Bool { error.code == StoreError.notSent }

    /// Whether the server asks for fewer requests.
    static func isThrottle(_ error: StoreError) -> Bool {
        if error.status == 429 || error.status == 503 { return true }
        switch error.code {
        case "SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests",
            "RequestThrottled", "BandwidthLimitExceeded":
            return true
        default: return false
        }
    }
}
