// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// The most that the uploads of a volume, or of some of its paths, send together.
package final class RateLimit: TransferPace {
    private struct State {
        var bucket = TokenBucket()
        var rate: Int64?
    }

    private let state = Lock(State())
    private let now: @Sendable () -> Int64

    /// `now` tells nanoseconds of the monotonic clock.
    package init(now: @escaping @Sendable () -> Int64 = SharedBandwidth.now) {
        self.now = now
    }

    /// In bytes a second; nil: no limit.
    package var rate: Int64? {
        get { state.withLock { $0.rate } }
        set { state.withLock { $0.rate = newValue } }
    }

    package func wait() -> Int64 {
        state.withLock { $0.rate == nil ? 0 : $0.bucket.wait(.interactive, now: now()) }
    }

    package func piece() -> Int64 {
        state.withLock { state in
            guard let rate = state.rate else { return .max }
            return max(TokenBucket.quantum(rate: rate), state.bucket.available(.interactive, rate: rate, now: now()))
        }
    }

    package func take(_ bytes: Int64) {
        state.withLock { state in
            guard let rate = state.rate else { return }
            state.bucket.take(bytes, rate: rate, now: now())
        }
    }
}
