// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Policy
import Testing

@Suite struct LoadGateTests {
    private let start = Timestamp(seconds: 1_000_000)

    private func at(_ offset: Double) -> Timestamp { start.advanced(bySeconds: offset) }

    /// A burst of files from `from` to `to`, every 50 ms so many, with somebody waiting for `share` of the time.
    private func burst(_ gate: inout LoadGate, _ from: Double, _ to: Double, files: Int = 20, share: Double? = 0.5) {
        var time = from
        while time <= to {
            gate.noteFiles(files, at: at(time))
            gate.observe(stalled: share.map { UInt64(time * $0 * 1e6) }, at: at(time))
            time += 0.05
        }
    }

    @Test func aBurstOnABusyMachineClosesItAndItsEndOpensIt() {
        var gate = LoadGate()
        burst(&gate, 0, 2)
        #expect(gate.isClosed)
        #expect(gate.since.map { $0 > at(0) && $0 < at(0.5) } == true)
        gate.observe(stalled: 1_000_000, at: at(2.4))
        #expect(gate.isClosed)
        gate.observe(stalled: 1_000_000, at: at(2.6))
        #expect(!gate.isClosed)
    }

    @Test func nothingWaitsWhereNobodyWaitsForAProcessor() {
        var gate = LoadGate()
        burst(&gate, 0, 5, share: 0.05)
        #expect(!gate.isClosed)
    }

    @Test func whatTheKernelDoesNotTellIsNoReason() {
        var gate = LoadGate()
        burst(&gate, 0, 5, share: nil)
        #expect(!gate.isClosed)
    }

    @Test func aFewFilesAreNoBurst() {
        var gate = LoadGate()
        burst(&gate, 0, 0.5, files: 2)
        #expect(!gate.isClosed)
        var slow = LoadGate()
        for second in 1...200 {
            slow.noteFiles(30, at: at(Double(second)))
            slow.observe(stalled: UInt64(second) * 900_000, at: at(Double(second)))
        }
        #expect(!slow.isClosed)
    }

    @Test func anEndlessBurstDelaysAndNeverStops() {
        var gate = LoadGate()
        var closed = 0
        for tick in 0..<12_000 {
            let time = Double(tick) / 20
            gate.noteFiles(20, at: at(time))
            gate.observe(stalled: UInt64(time * 0.9 * 1e6), at: at(time))
            if gate.isClosed { closed += 1 }
            if let since = gate.since { #expect(at(time) < since.advanced(bySeconds: LoadGate.longest)) }
        }
        #expect((4_000...6_100).contains(closed), "\(closed) of 12,000 ticks")
    }

    @Test func whoWaitsForAnUploadOpensIt() {
        var gate = LoadGate()
        burst(&gate, 0, 2)
        gate.giveWay(at: at(2))
        #expect(!gate.isClosed)
        burst(&gate, 2, 2 + LoadGate.rest - 0.2)
        #expect(!gate.isClosed)
        burst(&gate, 2 + LoadGate.rest - 0.2, 2 + LoadGate.rest + 1)
        #expect(gate.isClosed)
    }

    @Test func aClockThatIsSetBackHoldsNothingUp() {
        var gate = LoadGate()
        burst(&gate, 1000, 1002)
        #expect(gate.isClosed)
        gate.observe(stalled: 0, at: at(0))
        #expect(!gate.isClosed)
        burst(&gate, 0.2, 2)
        #expect(gate.isClosed)
    }

    @Test func aCounterThatStartsAgainIsNotAShare() {
        var gate = LoadGate()
        for tick in 0..<6 { gate.noteFiles(20, at: at(Double(tick) / 10)) }
        gate.observe(stalled: 5_000_000, at: at(0.4))
        gate.observe(stalled: 10, at: at(0.55))
        #expect(!gate.isClosed)
    }
}
