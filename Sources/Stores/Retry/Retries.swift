// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import ObjectStore
internal import Platform

/// The tries of one request: whether there is another, and the time until then.
struct Retries: ~Copyable {
    /// When the first one began, by ``AttendedClock``.
    let started = AttendedClock.shared.seconds
    private let policy: RetryPolicy
    private let budget: RetryBudget
    private let cancellation: (any Cancellation)?
    private var attempt = 1

    init(_ policy: RetryPolicy, _ budget: RetryBudget, _ cancellation: (any Cancellation)?) {
        self.policy = policy
        self.budget = budget
        self.cancellation = cancellation
    }

    /// Waits for the next try, until cancelled at most; throws the error when there is to be none.
    ///
    /// `area` and `request` say in the log what is sent again.
    mutating func wait(after error: StoreError, _ area: String, _ request: String) throws(StoreError) {
        let delay = policy.delay(
            after: error,
            attempt: attempt,
            elapsed: AttendedClock.shared.seconds - started,
            random: .random(in: 0...1)
        )
        guard let delay, budget.take(isThrottled: RetryPolicy.isThrottle(error)) else { throw error }
        Log.info(area, "\(request) again in \(Int(delay * 1000)) ms: \(error.message)")
        pause(delay)
        attempt += 1
    }

    private func pause(_ seconds: Double) {
        let isCancelled = Monitor(false)
        let token = cancellation?.onCancel { isCancelled.update { $0 = true } }
        let watch = Interruption.watch { isCancelled.update { $0 = true } }
        defer {
            if let token { cancellation?.removeHandler(token) }
            watch?.end()
        }
        let due = monotonicSeconds() + seconds
        let _: Void? = isCancelled.wait(timeout: seconds) { $0 ? () : nil }
        AttendedClock.shared.noteWait(until: due)
    }
}
