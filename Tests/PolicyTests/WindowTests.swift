// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Policy
import Testing

/// Central European time, with its changes of 2026: forward on 29 March, back on 25 October, both at 01:00 UTC.
private struct CentralEurope: LocalClock {
    func offset(at time: Timestamp) -> Int64 {
        let forward = Timestamp(rfc3339: "2026-03-29T01:00:00Z")
        let back = Timestamp(rfc3339: "2026-10-25T01:00:00Z")
        guard let forward, let back else { return 0 }
        return (forward..<back).contains(time) ? 7200 : 3600
    }
}

private func time(_ text: String) -> Timestamp { Timestamp(rfc3339: text) ?? Timestamp(seconds: -1) }

@Suite struct WindowTests {
    private let utc = FixedClock()

    private func windows(_ text: String) throws -> TransferWindows { try #require(TransferWindows(parsing: text)) }

    @Test(arguments: [
        "22:00-06:00", "0:00-24:00", "Mon 01:00-02:00", "sat-SUN 00:00-24:00,Mon-Fri 22:00-06:00", " 01:00-02:00 ",
    ])
    func whatPeopleWriteIsRead(_ text: String) { #expect(TransferWindows(parsing: text) != nil) }

    @Test(arguments: [
        "", ",", "22:00", "22-06", "24:00-01:00", "01:00-25:00", "01:60-02:00", "01:00-01:00", "Foo 01:00-02:00",
        "Mon-Foo 01:00-02:00", "Mon-Tue-Wed 01:00-02:00", "01:00-02:00,", "Mon 01:00-02:00 x", "-1:00-02:00",
        "1:0-2:00",
        Array(repeating: "01:00-02:00", count: 33).joined(separator: ","),
    ])
    func anythingElseIsNot(_ text: String) { #expect(TransferWindows(parsing: text) == nil) }

    @Test func aWindowOverMidnightBelongsToTheDayOnWhichItBegins() throws {
        let windows = try windows("Fri 22:00-06:00")
        // 2026-11-20 is a Friday.
        for (moment, isOpen) in [
            ("2026-11-20T05:00:00Z", false), ("2026-11-20T21:59:59Z", false), ("2026-11-20T22:00:00Z", true),
            ("2026-11-21T05:59:59Z", true), ("2026-11-21T06:00:00Z", false), ("2026-11-21T22:30:00Z", false),
        ] {
            #expect(windows.isOpen(at: time(moment), utc) == isOpen, "\(moment)")
        }
        #expect(windows.nextOpening(after: time("2026-11-21T06:00:00Z"), utc) == time("2026-11-27T22:00:00Z"))
        #expect(windows.closing(after: time("2026-11-20T23:00:00Z"), utc) == time("2026-11-21T06:00:00Z"))
    }

    @Test func windowsThatMeetAreOne() throws {
        let windows = try windows("22:00-24:00, 00:00-06:00")
        #expect(windows.closing(after: time("2026-11-20T23:00:00Z"), utc) == time("2026-11-21T06:00:00Z"))
        #expect(try self.windows("00:00-24:00").closing(after: time("2026-11-20T23:00:00Z"), utc) == nil)
    }

    @Test func daysMayGoOverTheEndOfTheWeek() throws {
        let windows = try windows("Sat-Mon 10:00-11:00")
        let open = (20...26).filter { windows.isOpen(at: time("2026-11-\($0)T10:30:00Z"), utc) }
        #expect(open == [21, 22, 23])
    }

    @Test func timesAreThoseOfTheClocksOnTheWall() throws {
        let windows = try windows("22:00-06:00")
        let clock = CentralEurope()
        #expect(!windows.isOpen(at: time("2026-07-01T19:59:59Z"), clock))
        #expect(windows.isOpen(at: time("2026-07-01T20:00:00Z"), clock))
        #expect(windows.isOpen(at: time("2026-01-01T21:00:00Z"), clock))
        #expect(!windows.isOpen(at: time("2026-01-01T20:59:59Z"), clock))
        // The night in which clocks are put forward is seven hours long, the one in which they are put back nine.
        #expect(windows.closing(after: time("2026-03-28T22:00:00Z"), clock) == time("2026-03-29T04:00:00Z"))
        #expect(windows.closing(after: time("2026-10-24T21:00:00Z"), clock) == time("2026-10-25T05:00:00Z"))
    }

    @Test func anHourThatClocksSkipIsNoWindow() throws {
        let windows = try windows("02:00-03:00")
        let clock = CentralEurope()
        let night = time("2026-03-28T12:00:00Z")
        let open = stride(from: 0, to: 86_400.0, by: 60).filter {
            windows.isOpen(at: night.advanced(bySeconds: $0), clock)
        }
        #expect(open.isEmpty)
        #expect(windows.isOpen(at: time("2026-03-30T00:30:00Z"), clock))
    }

    /// What is told of the next change agrees with what is open at every minute of some days around both changes.
    @Test(arguments: ["22:00-06:00", "02:30-02:45", "Sun 00:00-24:00", "Mon-Fri 01:15-03:10, Sat 23:30-00:30"])
    func theNextChangeIsTheFirstOne(_ text: String) throws {
        let windows = try windows(text)
        let clock = CentralEurope()
        for start in ["2026-03-27T00:00:00Z", "2026-10-23T00:00:00Z"] {
            for minute in stride(from: 0.0, to: 4 * 1440, by: 61) {
                let now = time(start).advanced(bySeconds: minute * 60)
                let isOpen = windows.isOpen(at: now, clock)
                let change = isOpen ? windows.closing(after: now, clock) : windows.nextOpening(after: now, clock)
                let end = min(change ?? now.advanced(bySeconds: 86_400), now.advanced(bySeconds: 86_400))
                var probe = now
                var isConstant = true
                while probe < end {
                    // An hour that comes twice may open a window once more than is told.
                    if windows.isOpen(at: probe, clock) != isOpen { isConstant = false }
                    probe = probe.advanced(bySeconds: 300)
                }
                let isSpecial = text.contains("02:30") || text.contains("01:15")
                #expect(isConstant || isSpecial, "\(text) at \(now.rfc3339), change \(change?.rfc3339 ?? "-")")
            }
        }
    }
}

@Suite struct TimeRuleTests {
    private let changed = Timestamp(seconds: 1_800_000_000)

    @Test(arguments: [("+0", 0.0), ("+90", 90), ("+1.5h", 5400), ("+2d", 172_800), ("+1w", 604_800), ("+10m", 600)])
    func timesCountFromTheChange(_ text: String, _ seconds: Double) {
        #expect(TimeRule(parsing: text)?.moment(changed: changed) == changed.advanced(bySeconds: seconds))
    }

    @Test func datesAreWhatTheySay() {
        let rule = TimeRule(parsing: "2026-12-24T18:00:00+01:00")
        #expect(rule?.moment(changed: changed) == time("2026-12-24T17:00:00Z"))
    }

    @Test(arguments: [
        "", "+", "2h", "+2y", "+-1", "+1e9", "+11w1", "+99999999999", "2026-12-24", "2026-12-24T18:00:00",
        "2026-13-01T00:00:00Z",
        "2026-02-29T00:00:00Z", "2026-12-24T18:00:00+1:00", "tomorrow",
    ])
    func anythingElseIsRefused(_ text: String) { #expect(TimeRule(parsing: text) == nil) }
}

@Suite struct ByteBudgetTests {
    private let clock = FixedClock(offset: 3600)
    private let limits = ByteBudget.Limits(daily: 100, monthly: 250)

    @Test func theDayIsThatOfTheClocksOnTheWall() {
        var budget = ByteBudget()
        budget.note(100, at: time("2026-11-20T22:59:59Z"), clock)
        let hold = budget.hold(limits, at: time("2026-11-20T22:59:59Z"), clock)
        #expect(hold?.reason == .quota && hold?.until == time("2026-11-20T23:00:00Z"))
        budget.turn(at: time("2026-11-20T23:00:00Z"), clock)
        #expect(budget.hold(limits, at: time("2026-11-20T23:00:00Z"), clock) == nil)
        #expect(budget.remaining(limits) == 100 && budget.monthBytes == 100)
    }

    @Test func theMonthEndsWhereTheNextOneBegins() {
        var budget = ByteBudget()
        for day in 10...12 { budget.note(90, at: time("2026-12-\(day)T12:00:00Z"), clock) }
        let hold = budget.hold(limits, at: time("2026-12-12T13:00:00Z"), clock)
        #expect(hold?.until == time("2026-12-31T23:00:00Z"))
        #expect(budget.remaining(limits) == 0)
        budget.turn(at: time("2026-12-31T23:00:00Z"), clock)
        #expect(budget.hold(limits, at: time("2026-12-31T23:00:00Z"), clock) == nil && budget.monthBytes == 0)
    }

    @Test func aClockThatIsSetBackGivesNothingBack() {
        var budget = ByteBudget()
        budget.note(100, at: time("2026-11-20T12:00:00Z"), clock)
        budget.turn(at: time("2026-10-01T12:00:00Z"), clock)
        #expect(budget.dayBytes == 100 && budget.monthBytes == 100)
        #expect(budget.hold(limits, at: time("2026-10-01T12:00:00Z"), clock) != nil)
        budget.turn(at: time("2026-10-02T12:00:00Z"), clock)
        #expect(budget.dayBytes == 0 && budget.monthBytes == 100)
    }

    @Test func whatIsLeftIsToldInSteps() throws {
        let limits = ByteBudget.Limits(daily: 6400, monthly: 64_000)
        let noon = time("2026-11-20T12:00:00Z")
        var budget = ByteBudget()
        #expect(budget.room(limits, at: noon, clock).map(\.bytes) == 6400)
        budget.note(1, at: noon, clock)
        #expect(budget.room(limits, at: noon, clock).map(\.bytes) == 6300)
        #expect(budget.room(limits, at: noon, clock).map(\.until) == time("2026-11-20T23:00:00Z"))
        budget.note(6399, at: noon, clock)
        #expect(budget.room(limits, at: noon, clock).map(\.bytes) == 0)
        budget.note(60_000, at: noon, clock)
        #expect(budget.room(limits, at: noon, clock).map(\.until) == time("2026-11-30T23:00:00Z"))
        #expect(budget.room(ByteBudget.Limits(), at: noon, clock) == nil)
        #expect(ByteBudget().room(.init(monthly: 10), at: noon, clock).map(\.bytes) == 10)
    }

    @Test func withoutLimitsNothingIsHeld() {
        var budget = ByteBudget()
        budget.note(.max, at: time("2026-11-20T12:00:00Z"), clock)
        budget.note(.max, at: time("2026-11-20T12:00:00Z"), clock)
        #expect(budget.hold(ByteBudget.Limits(), at: time("2026-11-20T12:00:00Z"), clock) == nil)
        #expect(budget.remaining(ByteBudget.Limits()) == nil && budget.dayBytes == .max)
    }
}

@Suite struct ScheduleHoldTests {
    private let clock = FixedClock()
    private let night = time("2026-11-20T23:00:00Z")
    private let noon = time("2026-11-20T12:00:00Z")

    private func reasons(_ rules: TransferRules, _ moment: PolicyMoment, metered: Bool = false) -> [WaitingReason] {
        var facts = MachineFacts(at: moment.now)
        if metered { facts.metered.observe(.yes, source: "test", at: moment.now) }
        return Policy.holds(facts, rules: rules, at: moment).map(\.reason)
    }

    @Test func aClosedWindowHoldsUntilItOpens() {
        let rules = TransferRules(windows: TransferWindows(parsing: "22:00-06:00"))
        #expect(reasons(rules, PolicyMoment(now: night, clock: clock)).isEmpty)
        let holds = Policy.holds(MachineFacts(at: noon), rules: rules, at: PolicyMoment(now: noon, clock: clock))
        #expect(holds.map(\.reason) == [.window] && holds[0].until == time("2026-11-20T22:00:00Z"))
    }

    @Test func aBudgetCountsWhereTheNetworkCostsAndIsUsed() {
        let moment = PolicyMoment(now: noon, clock: clock, quota: Waiting(.quota, since: noon))
        let paying = TransferRules(allowsExpensive: true)
        #expect(reasons(paying, moment, metered: true) == [.quota])
        #expect(reasons(paying, moment).isEmpty)
        #expect(reasons(TransferRules(), moment, metered: true) == [.expensive])
    }
}
