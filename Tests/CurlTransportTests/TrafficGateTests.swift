// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Bandwidth
import Base
import Glibc
import Platform
import Testing

@testable import CurlTransport

@Suite struct TrafficGateTests {
    private func gate(_ rate: Int64?) throws -> TrafficGate {
        let bandwidth = try SharedBandwidth()
        bandwidth.setRate(rate, .up)
        return TrafficGate(bandwidth, yielding: YieldPacer(nil))
    }

    /// Asks again until the transfer may go on.
    private func release(_ gate: TrafficGate, _ share: inout TrafficShare, limit: Int64) throws {
        let end = monotonicSeconds() + 30
        while gate.release(.up, .background, &share, limit: limit) != nil {
            try #require(monotonicSeconds() < end)
            usleep(10_000)
        }
    }

    @Test func whoHasALimitOfItsOwnTakesNoMoreOfTheRateOfAllThanItCanUse() throws {
        let gate = try gate(64 << 20)
        var share = TrafficShare()
        gate.holdAside(&share)
        try release(gate, &share, limit: 100)
        #expect((1...100).contains(share.credit) && share.ticket == nil)
        let credit = share.credit
        // What is left is used first.
        try release(gate, &share, limit: 1000)
        #expect(share.credit == credit)
        gate.settle(&share, .up, heads: 0)
        #expect(share.credit == 0)
    }

    @Test func whereNothingIsLimitedNobodyWaits() throws {
        let gate = try gate(nil)
        var share = TrafficShare()
        #expect(gate.admit(1 << 30, .up, .background, &share) == 1 << 30)
        #expect(gate.release(.up, .discretionary, &share, limit: 1) == nil && share.credit == 0)
    }
}
