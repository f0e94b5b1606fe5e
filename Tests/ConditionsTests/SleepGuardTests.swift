// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Conditions
import Testing

@Suite struct SleepGuardTests {
    private var state = SleepGuard()
    private var now = 1000.0

    init() {
        _ = state.handle(.manager(isThere: true), now: now)
    }

    private mutating func at(_ seconds: Double, _ event: SleepGuard.Event) -> [SleepGuard.Action] {
        now = 1000 + seconds
        return state.handle(event, now: now)
    }

    @Test mutating func aLockIsHeldWhileSomethingRunsAndNoLonger() {
        #expect(at(0, .time).isEmpty && !state.isHolding)
        #expect(at(1, .work("a")) == [.inhibit(why: "a")])
        #expect(state.dueAt == nil)
        #expect(at(5, .work(nil)).isEmpty)
        // The next one may follow at once.
        #expect(at(5.5, .work("b")).isEmpty && state.isHolding)
        #expect(at(6, .work(nil)).isEmpty)
        #expect(state.dueAt == 1007)
        #expect(at(7, .time) == [.release])
        #expect(state.dueAt == nil && !state.isHolding)
    }

    @Test mutating func theTextIsRenewedNowAndThen() {
        #expect(at(0, .work("1 MiB")) == [.inhibit(why: "1 MiB")])
        #expect(at(10, .work("2 MiB")).isEmpty)
        #expect(at(31, .work("3 MiB")) == [.inhibit(why: "3 MiB")])
        #expect(at(90, .work("3 MiB")).isEmpty)
    }

    @Test mutating func theLockGoesAsSoonAsEverythingIsSettled() {
        _ = at(0, .work("a"))
        #expect(at(1, .preparing(.sleep, true)) == [.hold(.sleep)])
        #expect(at(1.1, .preparing(.sleep, true)).isEmpty)
        #expect(at(1.5, .work(nil)).isEmpty && state.isHolding)
        #expect(at(2, .settled) == [.release])
        #expect(at(2.5, .settled).isEmpty)
        #expect(at(3, .preparing(.sleep, false)) == [.goOn])
        #expect(at(4, .work("b")) == [.inhibit(why: "b")])
    }

    @Test mutating func workThatDoesNotSettleCostsTheMachineNoMoreThanItAllows() {
        state.setDelay(5)
        _ = at(0, .work("a"))
        _ = at(1, .preparing(.sleep, true))
        #expect(state.dueAt == 1004.5)
        #expect(at(4.4, .time).isEmpty)
        #expect(at(4.5, .time) == [.release])
        // Nothing is asked for while it goes to sleep.
        #expect(at(4.6, .work("b")).isEmpty)
        #expect(at(5, .preparing(.sleep, false)) == [.goOn, .inhibit(why: "b")])
        state.setDelay(1)
        _ = at(6, .preparing(.sleep, true))
        #expect(at(6.7, .time) == [.release])
    }

    @Test mutating func whatHoldsWhileNothingRunsIsLiftedToo() {
        #expect(at(0, .preparing(.sleep, true)) == [.hold(.sleep)])
        #expect(at(1, .settled).isEmpty)
        #expect(at(2, .preparing(.sleep, false)) == [.goOn])
        #expect(at(3, .preparing(.sleep, false)).isEmpty)
    }

    @Test mutating func aSleepThatDoesNotComeDoesNotHoldForEver() {
        _ = at(0, .work("a"))
        _ = at(1, .preparing(.sleep, true))
        #expect(at(2, .manager(isThere: false)) == [.release])
        #expect(state.dueAt == 1061)
        #expect(at(61, .time) == [.goOn])
        #expect(at(70, .manager(isThere: true)) == [.inhibit(why: "a")])
    }

    @Test mutating func aShutdownIsToldAlsoOnTheWayToSleep() {
        #expect(at(0, .preparing(.sleep, true)) == [.hold(.sleep)])
        #expect(at(1, .preparing(.shutdown, true)) == [.hold(.shutdown)])
        #expect(at(2, .preparing(.shutdown, false)) == [.goOn])
    }

    @Test mutating func aRefusalIsNoReasonToAskAllTheTime() {
        _ = at(0, .work("a"))
        #expect(at(0, .refused).isEmpty && !state.isHolding)
        #expect(at(1, .work("b")).isEmpty && at(59, .time).isEmpty)
        #expect(state.dueAt == 1060)
        #expect(at(60, .time) == [.inhibit(why: "b")])
        // Another logind may be of another mind.
        _ = at(61, .refused)
        _ = at(62, .manager(isThere: false))
        #expect(at(63, .manager(isThere: true)) == [.inhibit(why: "b")])
    }

    @Test mutating func withoutALogindNothingIsAsked() {
        _ = at(0, .manager(isThere: false))
        #expect(at(1, .work("a")).isEmpty && state.dueAt == nil)
    }
}
