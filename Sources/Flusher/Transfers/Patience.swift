// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import ObjectStore
internal import Policy
internal import ResumableUpload

/// Decides how long a running upload waits for another try before it gives its worker to others.
///
/// A cut connection costs the bytes in flight; going through the queue again costs requests on top. So a few short
/// waits are spent in place, counted anew whenever the remote acknowledged something meanwhile.
struct Patience {
    private static let limit = 5
    /// Nothing longer is waited for in place, in seconds.
    private static let longest = 4.0

    private var failures = 0
    private var acknowledged: Int64 = 0

    /// Seconds to wait in place; nil: end the attempt.
    mutating func wait(_ pause: TransferPause, acknowledged: Int64, random: Double) -> Double? {
        if acknowledged > self.acknowledged { failures = 0 }
        self.acknowledged = max(self.acknowledged, acknowledged)
        failures += 1
        guard pause.fault != .unreachable, pause.fault != .authentication, failures <= Self.limit else { return nil }
        let delay = Backoff.delay(
            afterFailures: failures,
            first: 0.25,
            longest: Self.longest,
            random: random,
            hint: pause.retryAfter.map { min($0, Self.longest) }
        )
        return pause.retryAfter ?? 0 > Self.longest ? nil : delay
    }
}

extension TransferFault {
    /// The machines' fault of a store's error; the names are the same.
    init(_ error: StoreError) {
        self = TransferFault(rawValue: error.cause.rawValue) ?? .rejected
    }
}

/// Remembers the store's own words for a fault that a machine ends with.
struct LastError {
    private var last: StoreError?

    mutating func note(_ error: StoreError) -> TransferFault {
        last = error
        return TransferFault(error)
    }

    /// Whether it says that the remote has too much to do.
    var isOverload: Bool { last?.isOverload ?? false }

    /// The error to report for `fault`.
    func error(_ fault: TransferFault, retryAfter: Double? = nil) -> StoreError {
        if let last, TransferFault(last) == fault { return last }
        let cause = StoreError.Cause(rawValue: fault.rawValue) ?? .rejected
        return StoreError(cause, last?.message ?? "the upload failed: \(fault.rawValue)", retryAfter: retryAfter)
    }
}
