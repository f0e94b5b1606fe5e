// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import BlockCache

/// When a fetch counts as about to end.
@Suite struct FetchPaceTests {
    @Test func theFirstBytesTellTheLatencyOnce() {
        var pace = FetchPace(startedAt: 10)
        #expect(pace.note(1000, at: 10.25) == 0.25)
        #expect(pace.note(1000, at: 10.5) == nil)
    }

    @Test func aFetchEndsWhenTheRestTakesNoLongerThanAnAnswer() {
        var pace = FetchPace(startedAt: 0)
        _ = pace.note(500, at: 1)
        _ = pace.note(1000, at: 2)
        // 1,000 bytes a second; what came first says nothing of the rate.
        #expect(pace.isEnding(remaining: 100, latency: 0.1, at: 2))
        #expect(!pace.isEnding(remaining: 101, latency: 0.1, at: 2))
        #expect(pace.isEnding(remaining: 0, latency: 0, at: 2))
    }

    @Test func aFetchThatSlowsDownIsNoLongerEnding() {
        var pace = FetchPace(startedAt: 0)
        _ = pace.note(500, at: 1)
        _ = pace.note(1000, at: 2)
        #expect(pace.isEnding(remaining: 100, latency: 0.1, at: 2))
        #expect(!pace.isEnding(remaining: 100, latency: 0.1, at: 3))
    }

    /// After a wait of the whole machine answers come in bursts.
    @Test func aBurstAtTheBeginningIsNoRate() {
        var pace = FetchPace(startedAt: 0)
        _ = pace.note(10_000, at: 0.5)
        _ = pace.note(120_000, at: 0.501)
        #expect(!pace.isEnding(remaining: 8 << 20, latency: 0.5, at: 0.501))
        _ = pace.note(1 << 20, at: 0.505)
        #expect(pace.isEnding(remaining: 7 << 20, latency: 0.5, at: 0.505))
    }

    @Test func nothingIsSaidBeforeARateIsKnown() {
        var pace = FetchPace(startedAt: 0)
        #expect(!pace.isEnding(remaining: 0, latency: 1, at: 1))
        _ = pace.note(500, at: 1)
        #expect(!pace.isEnding(remaining: 0, latency: 1, at: 1))
    }
}
