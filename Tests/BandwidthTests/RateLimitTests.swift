// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Bandwidth
import Platform
import Testing

@Suite struct RateLimitTests {
    private final class Clock: Sendable {
        private let time = Lock<Int64>(1_000_000_000_000)
        var now: Int64 { time.withLock { $0 } }
        func pass(_ nanoseconds: Int64) { time.withLock { $0 += nanoseconds } }
    }

    @Test func whatGoesTogetherKeepsToTheRate() {
        let clock = Clock()
        let limit = RateLimit { clock.now }
        #expect(limit.wait() == 0 && limit.piece() == .max)
        limit.take(1 << 40)
        #expect(limit.wait() == 0, "nothing is owed where nothing is limited")

        limit.rate = 1_000_000
        var sum: Int64 = 0
        for _ in 0..<4000 {
            while limit.wait() == 0 {
                let piece = min(limit.piece(), 16_384)
                limit.take(piece)
                sum += piece
            }
            clock.pass(1_000_000)
        }
        // Four seconds, and what a line may carry at once after a pause.
        #expect((4_000_000...4_300_000).contains(sum), "\(sum)")
        limit.rate = nil
        #expect(limit.wait() == 0)
    }
}
