// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import Platform

@Suite struct AttendedClockTests {
    @Test func timeInWhichNobodyWasThereIsLeftOut() {
        let clock = AttendedClock()
        clock.noteWait(until: 100.25, now: 112.25)
        #expect(clock.seconds(at: 120) == 108)
    }

    @Test func waitsThatEndInTimeCost() {
        let clock = AttendedClock()
        clock.noteWait(until: 100, now: 90)
        clock.noteWait(until: 100, now: 100.9)
        #expect(clock.seconds(at: 120) == 120)
    }

    @Test func oneStandstillThatTwoThreadsTellOfCountsOnce() {
        let clock = AttendedClock()
        clock.noteWait(until: 100, now: 110)
        clock.noteWait(until: 98, now: 111)
        clock.noteWait(until: 101, now: 110.5)
        #expect(clock.seconds(at: 120) == 109)
        clock.noteWait(until: 200, now: 205)
        #expect(clock.seconds(at: 210) == 194)
    }
}
