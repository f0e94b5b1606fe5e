// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc
internal import Platform

/// Spreads bytes over time so that they do not exceed a rate.
final class TokenBucket: Sendable {
    private struct State {
        var bytesPerSecond: Double?
        var freeAt = 0.0
    }

    private let state = Monitor(State())

    /// Sets the rate in bytes a second; nil for no limit.
    func setRate(_ rate: Int?) {
        state.inspect { $0 = State(bytesPerSecond: rate.map(Double.init)) }
    }

    /// The most bytes to take at once, so that a slow link is not bursty.
    var burst: Int {
        state.inspect { state in
            guard let rate = state.bytesPerSecond else { return Int.max }
            return max(512, Int(rate / 20))
        }
    }

    /// Waits until `count` bytes may pass; returns early when `isEnded`.
    func take(_ count: Int, isEnded: () -> Bool) {
        let start = state.inspect { state -> Double in
            guard let rate = state.bytesPerSecond, rate > 0 else { return 0 }
            let begin = max(state.freeAt, monotonicSeconds())
            state.freeAt = begin + Double(count) / rate
            return state.freeAt
        }
        while !isEnded() {
            let left = start - monotonicSeconds()
            if left <= 0 { return }
            usleep(UInt32(min(left, 0.05) * 1e6))
        }
    }
}
