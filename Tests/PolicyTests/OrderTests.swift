// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Policy
import Testing

@Suite struct OrderTests {
    private let now = Timestamp(seconds: 1_000_000)

    private func at(_ offset: Double) -> Timestamp { now.advanced(bySeconds: offset) }

    private func work(_ changed: Double, _ change: (inout WorkFacts) -> Void = { _ in }) -> WorkFacts {
        var work = WorkFacts(changed: at(changed))
        change(&work)
        return work
    }

    private func volume(_ change: (inout VolumeFacts) -> Void = { _ in }) -> VolumeFacts {
        var facts = VolumeFacts(at: now)
        facts.held = [
            HeldRules(),
            HeldRules(
                discretionary: [Waiting(.battery, since: now), Waiting(.window, since: now, until: at(90_000))],
                risen: [Waiting(.window, since: now, until: at(90_000))],
                isDiscretionary: true
            ),
        ]
        change(&facts)
        return facts
    }

    private func rank(_ work: WorkFacts, priority: Int = 0, _ volume: VolumeFacts? = nil) -> QueueRank {
        Policy.rank(work, priority: priority, volume: volume ?? self.volume(), now: now)
    }

    private func reasons(_ work: WorkFacts, _ volume: VolumeFacts? = nil, after: Double = 0) -> [WaitingReason] {
        Policy.holds(of: work, volume: volume ?? self.volume(), now: at(after)).map(\.reason)
    }

    @Test func theClassComesFirstThenPriorityDeadlineAndTurn() {
        let wanted = rank(work(-1) { $0.isForced = true })
        let discretionary = rank(work(-9000) { $0.rules = 1 }, priority: 100)
        let prior = rank(work(-1), priority: 1)
        let due = rank(work(-1) { $0.deadline = self.at(30) })
        let overdue = rank(work(-1) { $0.deadline = self.at(-30) })
        let old = rank(work(-20))
        let new = rank(work(-10))
        let order = [wanted, prior, overdue, due, old, new, discretionary]
        #expect(order.sorted() == order)
        #expect(order.shuffled().sorted() == order)
    }

    @Test func whatGoesInOnePieceIsNotBegunWhereItDoesNotFit() {
        let room = TransferRoom(
            closes: at(100),
            opens: at(500),
            closesNext: at(700),
            bytes: 50 << 20,
            refills: at(900),
            refill: 150 << 20
        )
        let volume = volume {
            $0.rate = 1_048_576
            $0.held = [HeldRules(room: room)]
        }
        func whole(_ size: Int64) -> WorkFacts {
            work(-1) {
                $0.isWhole = true
                $0.remaining = size
            }
        }
        #expect(reasons(whole(40 << 20), volume).isEmpty)
        #expect(reasons(whole(60 << 20), volume) == [.quota])
        #expect(reasons(whole(101 << 20), volume) == [.window, .quota])
        #expect(reasons(whole(40 << 20), volume, after: 61) == [.window])
        let holds = Policy.holds(of: whole(101 << 20), volume: volume, now: now)
        #expect(holds.compactMap(\.until) == [at(500), at(900)])
        // When it stops to fit is looked at again then.
        let turn = Policy.nextTurn(whole(40 << 20), volume: volume, now: now)
        #expect(turn.map { $0 > at(60) && $0 < at(60.1) } ?? false)
        #expect(Policy.nextTurn(whole(101 << 20), volume: volume, now: now) == nil)

        // What is under way, what can be resumed, what a person asks for, and what is due goes all the same.
        #expect(Policy.holds(of: whole(101 << 20), volume: volume, now: now, isBegun: true).isEmpty)
        #expect(reasons(work(-1) { $0.remaining = 101 << 20 }, volume).isEmpty)
        var wanted = whole(101 << 20)
        wanted.isForced = true
        #expect(reasons(wanted, volume).isEmpty)
        var due = whole(101 << 20)
        due.deadline = at(10)
        #expect(reasons(due, volume) == [.quota])
        // What fits into no window is tried, and what is more than a budget has no time at which it goes.
        let large = Policy.holds(of: whole(201 << 20), volume: volume, now: now)
        #expect(large.map(\.reason) == [.quota] && large.first?.until == nil)
        // Where nobody knows how fast it goes, it is tried.
        var unknown = volume
        unknown.rate = 0
        #expect(reasons(whole(101 << 20), unknown) == [.quota])
    }

    @Test func aDeadlineThatIsFarAwayChangesNothing() {
        #expect(rank(work(-10) { $0.deadline = self.at(86_400) }) == rank(work(-10)))
    }

    @Test func smallFilesGoAheadOfLargeOnesAndNoneWaitsForEver() {
        let large = rank(work(-100) { $0.remaining = 50 << 20 })
        #expect(rank(work(-60)) < large)
        #expect(large < rank(work(-40)))
        let huge = rank(work(-601) { $0.remaining = 1 << 50 })
        #expect(huge < rank(work(0)))
        #expect(rank(work(-10)) < huge)
    }

    @Test func discretionaryWorkRisesAfterADay() {
        let work = work(0) { $0.rules = 1 }
        #expect(reasons(work) == [.battery, .window])
        #expect(Policy.nextTurn(work, volume: volume(), now: now) == at(86_400))
        #expect(reasons(work, after: 86_400) == [.window])
        #expect(!Policy.isDiscretionary(work, volume: volume(), now: at(86_400)))
        #expect(Policy.nextTurn(work, volume: volume(), now: at(86_400)) == nil)
    }

    @Test func itRisesWhereLittleRoomIsLeft() {
        let work = work(0) { $0.rules = 1 }
        #expect(reasons(work, volume { $0.isUnderPressure = true }) == [.window])
    }

    @Test func aDeadlineOpensWindowsInTime() {
        let work = work(0) { work in
            work.rules = 1
            work.deadline = self.at(4000)
            work.remaining = 1000 << 20
        }
        // Twice the time that it takes at a mebibyte a second, and a minute.
        #expect(reasons(work, after: 1939) == [.battery, .window])
        #expect(reasons(work, after: 1941).isEmpty)
        #expect(Policy.nextTurn(work, volume: volume(), now: now) == at(1940))
        // At a known rate.
        #expect(reasons(work, volume { $0.rate = 10 * 1_048_576 }, after: 3739) == [.battery, .window])
        #expect(reasons(work, volume { $0.rate = 10 * 1_048_576 }, after: 3741).isEmpty)
    }

    @Test func whatEndsByItselfHasEndedThen() {
        let work = work(0) { $0.rules = 1 }
        #expect(reasons(work, after: 89_999).contains(.window))
        #expect(!reasons(work, after: 90_000).contains(.window))
        let volume = volume()
        let later = at(90_000)
        let reasons = Policy.reasons(work, volume: volume, settings: PolicySettings(quietPeriod: 0), now: later)
        let time = Policy.lookAgain(reasons, work, volume: volume, now: later)
        #expect(time == nil || time ?? later > later, "looking again must not be due at once")
    }

    @Test func aDeadlineDoesNotCostMoney() {
        let costly = volume {
            $0.held = [HeldRules(risen: [Waiting(.expensive, since: now), Waiting(.window, since: now)])]
        }
        #expect(reasons(work(0) { $0.deadline = self.now }, costly) == [.expensive])
    }

    @Test func whoIsWaitedForIsHeldByNothingButNoWayOut() {
        let facts = volume {
            $0.held = [HeldRules(risen: [Waiting(.expensive, since: now), Waiting(.offline, since: now)])]
        }
        #expect(reasons(work(0) { $0.isForced = true }, facts) == [.offline])
    }

    @Test func aPersonMayGiveAFileTimeThatItsRulesDoNot() {
        var facts = volume()
        facts.held[0] = HeldRules(discretionary: [Waiting(.battery, since: now)])
        #expect(reasons(work(0), facts).isEmpty)
        #expect(reasons(work(0) { $0.isDiscretionary = true }, facts) == [.battery])
    }

    @Test func whatIsLookedAtAgainIsTheFirstThatTimeChanges() {
        let work = work(0) { $0.rules = 1 }
        let facts = volume()
        let reasons = Policy.reasons(work, volume: facts, settings: PolicySettings(quietPeriod: 0), now: now)
        #expect(Policy.lookAgain(reasons) == nil, "the battery is not over by itself")
        #expect(Policy.lookAgain(reasons, work, volume: facts, now: now) == at(86_400))
        let open = reasons.filter { $0.reason == .window }
        #expect(Policy.lookAgain(open, work, volume: facts, now: now) == at(86_400))
    }
}

@Suite struct ConcurrencyLimitTests {
    /// Lets a remote that moves `rate(limit)` a second be used for some windows.
    private func run(
        _ limit: inout ConcurrencyLimit,
        from start: Double,
        windows: Int,
        isFull: Bool = true,
        _ rate: (Int) -> Double
    ) -> [Int] {
        var seen: [Int] = []
        for second in 0..<windows * Int(ConcurrencyLimit.window) + 1 {
            limit.observe(moved: second == 0 ? 0 : rate(limit.current), isFull: isFull, at: start + Double(second))
            if seen.last != limit.current { seen.append(limit.current) }
        }
        return seen
    }

    @Test func itBeginsAtTheMostAndStaysThere() {
        var limit = ConcurrencyLimit(most: 8)
        #expect(run(&limit, from: 0, windows: 20) { Double($0) } == [8])
    }

    @Test func troubleHalvesItOnceAtATimeAndNeverToNothing() {
        var limit = ConcurrencyLimit(most: 8)
        for _ in 0..<5 { limit.noteTrouble(at: 10) }
        #expect(limit.current == 4)
        for time in [16.0, 22, 28, 34] { limit.noteTrouble(at: time) }
        #expect(limit.current == 1)
    }

    @Test func itGrowsWhereThatMovesMore() {
        var limit = ConcurrencyLimit(most: 8)
        limit.noteTrouble(at: 0)
        #expect(run(&limit, from: 1, windows: 12) { Double($0) } == [4, 5, 6, 7, 8])
    }

    @Test func itStopsGrowingWhereThatMovesNothingMore() {
        var limit = ConcurrencyLimit(most: 8)
        limit.noteTrouble(at: 0)
        #expect(run(&limit, from: 1, windows: 8) { Double(min($0, 5)) } == [4, 5, 6, 5])
        // And tries again after a while.
        #expect(run(&limit, from: 100, windows: 9) { Double(min($0, 5)) }.contains(6))
    }

    @Test func whoDoesNotUseItDoesNotGrowIt() {
        var limit = ConcurrencyLimit(most: 8)
        limit.noteTrouble(at: 0)
        #expect(run(&limit, from: 1, windows: 12, isFull: false) { Double($0) } == [4])
    }

    @Test func aClockThatGoesBackStopsNothing() {
        var limit = ConcurrencyLimit(most: 4)
        limit.noteTrouble(at: 1000)
        limit.noteTrouble(at: 1)
        #expect(limit.current == 1)
        #expect(run(&limit, from: 0, windows: 9) { Double($0) }.last == 4)
    }
}

@Suite struct PathPatternTests {
    @Test(arguments: [
        ("*.raw", "a/b/c.raw", true), ("*.raw", "c.RAW", false), ("*.raw", "x.raw/inside", true),
        ("raw", "a/raw/b", true),
        ("raw/", "raw/b", true), ("a/*.raw", "a/b.raw", true), ("a/*.raw", "a/b/c.raw", false), ("/b", "b/c", true),
        ("/b", "a/b", false), ("a/**/z", "a/z", true), ("a/**/z", "a/b/c/z", true), ("a/**", "a/b", true),
        ("a/**", "a", false),
        ("**/tmp", "tmp", true), ("**/tmp", "x/y/tmp/z", true), ("**", "anything/at/all", true),
        ("?.txt", "ab.txt", false),
        ("[a-c]*", "banana", true), ("[!a-c]*", "banana", false), ("[]x]", "]", true), ("\\*", "*", true),
        ("\\*", "a", false),
        ("*a*a*a*a*a*b", String(repeating: "a", count: 5000), false), ("*", "", false),
    ])
    func itMeansWhatGitignoreMeans(_ pattern: String, _ path: String, _ isMeant: Bool) throws {
        #expect(try #require(PathPattern(pattern)).matches(Array(path.utf8)) == isMeant)
    }

    @Test(arguments: ["", "/", "a//b", "[a", "[z-a]", String(repeating: "a", count: 1025)])
    func whatMeansNothingIsRefused(_ pattern: String) { #expect(PathPattern(pattern) == nil) }

    @Test func manyStarsCostNoMoreThanTheyShould() throws {
        let pattern = try #require(PathPattern(String(repeating: "**/*a*/", count: 60) + "z"))
        #expect(!pattern.matches(Array(String(repeating: "aaaa/", count: 200).utf8)))
    }
}
