// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// Bounds how many retries a store makes in all, so that an outage is not met with a storm of requests.
///
/// A bucket of tokens: each retry takes some, each success gives one back.
final class RetryBudget: Sendable {
    static let capacity = 500
    private let tokens = Lock(RetryBudget.capacity)

    /// Takes the price of one retry; false when the budget is spent.
    func take(isThrottled: Bool) -> Bool {
        tokens.withLock { tokens in
            let price = isThrottled ? 5 : 14
            guard tokens >= price else { return false }
            tokens -= price
            return true
        }
    }

    func giveBack() {
        tokens.withLock { $0 = min(Self.capacity, $0 + 1) }
    }
}
