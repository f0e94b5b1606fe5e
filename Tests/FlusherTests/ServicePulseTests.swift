// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Flusher
import Policy
import Testing

@Suite struct ServicePulseTests {
    @Test func aSignOfLifeIsGivenTwiceInTheTimeTheManagerWaits() {
        var pulse = ServicePulse(watchdogTimeout: 10, now: 100)
        var signs: [Double] = []
        for step in 0..<400 {
            let now = 100 + Double(step) * 0.1
            if pulse.beat(now: now, status: { "" }).contains("WATCHDOG=1") { signs.append(now) }
        }
        #expect(signs.count == 8)
        #expect(zip(signs, signs.dropFirst()).allSatisfy { $1 - $0 < 5.2 })
    }

    @Test func withoutAWatchdogNothingIsDueByTime() {
        var pulse = ServicePulse(watchdogTimeout: nil, now: 0)
        #expect(pulse.dueAt == nil)
        #expect(pulse.beat(now: 1000, status: { "" }).isEmpty)
        pulse = ServicePulse(watchdogTimeout: 4, now: 0)
        _ = pulse.beat(now: 1, status: { "" })
        #expect(pulse.dueAt == 3)
    }

    @Test func theStatusIsToldWhenItIsAnotherOneAndAtMostOnceASecond() {
        var pulse = ServicePulse(watchdogTimeout: nil, now: 0)
        var asked = 0
        func status(_ now: Double, _ text: String) -> [String] {
            pulse.beat(now: now) {
                asked += 1
                return text
            }
        }
        #expect(status(0, "a") == ["STATUS=a"])
        #expect(status(0.5, "b").isEmpty)
        #expect(status(1, "b") == ["STATUS=b"])
        #expect(status(2.1, "b").isEmpty)
        #expect(status(3.2, "c") == ["STATUS=c"])
        // The line costs a look at every upload: it is not made to be thrown away.
        #expect(asked == 4)
    }

    @Test func theLineTellsTheQueueAndWhyItWaits() {
        func line(_ pending: Int, _ running: Int, _ reasons: [WaitingReason] = []) -> String {
            ServiceStatus(pending: pending, running: running, sent: 25, size: 100, reasons: reasons).line
        }
        #expect(line(0, 0) == "nothing pending")
        #expect(line(3, 0, [.expensive, .battery]) == "3 waiting: expensive, battery")
        #expect(line(3, 1) == "sending 1, 25 % of it; 2 waiting")
        #expect(line(2, 2) == "sending 2, 25 % of it")
        #expect(ServiceStatus(pending: 1, running: 1, sent: 0, size: 0, reasons: []).line == "sending 1")
    }
}
