// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Policy
import Testing

@testable import Flusher

@Suite struct RateMeterTests {
    private static let mib: Int64 = 1 << 20

    @Test func aSteadyFlowHasItsRateAndAStopIsSeenWithinTheWindow() throws {
        var meter = RateMeter()
        #expect(meter.rate(at: 0) == nil)
        for second in 0...30 { meter.note(Int64(second) * Self.mib, at: Double(second)) }
        #expect(abs(try #require(meter.rate(at: 30)) - Double(Self.mib)) < 1)
        // Half of the window has passed without a byte.
        #expect(abs(try #require(meter.rate(at: 35)) - Double(Self.mib) / 2) < 1)
        #expect(meter.rate(at: 41) == 0)
        for second in 31...45 { meter.note(30 * Self.mib, at: Double(second)) }
        #expect(meter.rate(at: 45) == 0)
    }

    @Test func aRateIsTheOneOfTheLastSeconds() throws {
        var meter = RateMeter()
        for second in 0...20 { meter.note(Int64(second) * Self.mib, at: Double(second)) }
        for second in 1...10 { meter.note((20 + Int64(second) * 3) * Self.mib, at: Double(20 + second)) }
        #expect(abs(try #require(meter.rate(at: 30)) - Double(3 * Self.mib)) < 1)
    }

    @Test func manyLooksAreBoundedAndATotalThatFellBeginsAnew() throws {
        var meter = RateMeter()
        for look in 0..<100_000 { meter.note(Int64(look), at: Double(look) / 1000) }
        #expect(abs(try #require(meter.rate(at: 100)) - 1000) < 20)
        meter.note(5, at: 100)
        meter.note(15, at: 101)
        #expect(try #require(meter.rate(at: 101)) == 10)
    }

    @Test func whatIsLeftTakesItsTimeOrIsUnknown() {
        #expect(RateMeter.secondsLeft(100, at: 10) == 10)
        #expect(RateMeter.secondsLeft(0, at: nil) == 0)
        #expect(RateMeter.secondsLeft(100, at: nil) == nil && RateMeter.secondsLeft(100, at: 0) == nil)
    }
}

@Suite struct UploadMarkTests {
    private func look(_ acknowledged: Int64, _ sent: Int64, content: Int64 = 1) -> UploadMark.Look {
        UploadMark.Look(content: content, acknowledged: acknowledged, sent: sent, size: 100)
    }

    /// What each of some looks has to tell.
    private func news(_ mark: inout UploadMark, _ looks: UploadMark.Look...) -> [[UploadMark.News]] {
        looks.map { mark.look($0) }
    }

    @Test func progressNeverFallsWhilePartsAreSentAgain() {
        var mark = UploadMark()
        #expect(news(&mark, look(0, 30), look(20, 10)) == [[.started], []])
        #expect(mark.sent == 30)
        #expect(news(&mark, look(20, 200)) == [[]])
        #expect(mark.sent == 100 && mark.restarts == 0)
    }

    @Test func anAttemptGoesOnWhereTheLastOneWas() {
        var mark = UploadMark()
        _ = news(&mark, look(0, 50), look(40, 50))
        mark.rest()
        #expect(news(&mark, look(40, 40)) == [[.resumed(offset: 40)]])
        #expect(mark.sent == 50 && mark.restarts == 0)
    }

    @Test func beginningAnewIsToldAndCounted() {
        var mark = UploadMark()
        _ = news(&mark, look(40, 60))
        mark.rest()
        #expect(news(&mark, look(0, 5)) == [[.restarted, .started]])
        #expect(mark.sent == 5 && mark.restarts == 1)
        #expect(news(&mark, look(30, 35), look(0, 1)) == [[], [.restarted]], "also in the middle of an attempt")
        #expect(mark.restarts == 2)
    }

    @Test func anAttemptThatFindsNothingAtTheRemoteBeginsAnew() {
        var mark = UploadMark()
        _ = news(&mark, look(0, 80))
        mark.rest()
        #expect(news(&mark, look(0, 3), look(0, 9)) == [[.restarted, .started], []])
        #expect(mark.sent == 9 && mark.restarts == 1)
        mark.raise(to: 20)
        #expect(news(&mark, look(0, 15)) == [[]])
        #expect(mark.sent == 20, "what was told once holds")
    }

    @Test func otherContentIsAnotherUpload() {
        var mark = UploadMark()
        _ = news(&mark, look(40, 60), look(0, 0))
        #expect(news(&mark, look(0, 1, content: 2)) == [[.started]])
        #expect(mark.sent == 1 && mark.restarts == 0)
    }
}

@Suite struct CostlyValueTests {
    @Test func whatIsCheapIsNeverKeptAndWhatIsCostlyForAMultipleOfItsCost() {
        var value = CostlyValue<Int>()
        #expect(value.kept(at: 0) == nil)
        value.keep(1, at: 10.001, cost: 0.001)
        #expect(value.kept(at: 10.001) == nil)
        value.keep(2, at: 20.1, cost: 0.1)
        #expect(value.kept(at: 22) == 2 && value.kept(at: 22.2) == nil)
        value.keep(3, at: 40, cost: 10)
        #expect(value.kept(at: 44.9) == 3 && value.kept(at: 45.1) == nil)
        value.keep(4, at: 51, cost: 1)
        value.forget()
        #expect(value.kept(at: 51) == nil)
    }
}

@Suite struct NarrationTests {
    private let row = RowID(volume: "v", node: 1)

    private func primed() -> Narration {
        var narration = Narration()
        narration.ended(from: 0, to: 0)
        return narration
    }

    /// Which of some looks at a row are to be told.
    private func told(_ narration: inout Narration, _ looks: [WaitingReason]...) -> [Bool] {
        looks.map { narration.isNews(row, $0) }
    }

    private func told(_ narration: inout Narration, gates: [WaitingReason]...) -> [Bool] {
        gates.map { narration.isNews(gate: $0, of: "v") }
    }

    @Test func aReasonIsToldOnceAndNotWithEveryRetry() {
        var narration = primed()
        #expect(told(&narration, [.backoff], [], [.backoff], [], [.backoff]) == [true, false, false, false, false])
        // A gate that closed again is told again.
        let looks = told(&narration, [.backoff, .expensive], [], [.expensive], [], [.expensive])
        #expect(looks == [true, false, true, false, true])
    }

    @Test func whoBeginsToReadIsNotToldWhatWasBefore() {
        var narration = Narration()
        #expect(told(&narration, [.expensive]) == [false])
        narration.ended(from: 0, to: 0.1)
        #expect(told(&narration, [.expensive], [.battery]) == [false, true])
        #expect(!narration.isDue(at: 1) && narration.isDue(at: 1.2), "looking may take a tenth of the time")
    }

    @Test func aGateIsToldWhenItsReasonsChange() {
        var narration = Narration()
        let looks = told(&narration, gates: [], [.expensive], [.expensive], [.expensive, .battery], [], [])
        #expect(looks == [false, true, false, true, true, false])
    }
}

@Suite struct QueueSummaryTests {
    private let now = Timestamp(seconds: 1000)

    private func scheduler(_ count: Int) -> Scheduler {
        var scheduler = Scheduler()
        scheduler.setFacts(VolumeFacts(at: now), settings: PolicySettings(quietPeriod: 0), of: "v", now: now)
        for number in 0..<count {
            var facts = WorkFacts(changed: Timestamp(seconds: Int64(number)))
            facts.isPaused = number % 10 == 0
            let id = RowID(volume: "v", node: Int64(count - number))
            scheduler.update(ScheduledRow(id: id, sequence: 1, size: .small, facts: facts), now: now)
        }
        return scheduler
    }

    @Test func aSummaryCountsReasonsAndNamesTheFirst() {
        var scheduler = scheduler(100)
        let first = scheduler.next(now: now)
        #expect(first?.id.node == 99)
        let summary = scheduler.summary(of: "v", first: 3, now: now)
        #expect(summary.running == 1 && summary.ready == 89)
        #expect(summary.groups.map { $0.waiting.reason } == [.paused] && summary.groups[0].files == 10)
        #expect(summary.groups[0].waiting.since == Timestamp(seconds: 0))
        #expect(summary.first.map(\.node) == [100, 98, 97], "in the order of the queue, whatever holds them")
    }

    @Test func aRankIsHowManyGoBefore() {
        var scheduler = scheduler(50)
        #expect(scheduler.rank(of: RowID(volume: "v", node: 50)) == 0)
        #expect(scheduler.rank(of: RowID(volume: "v", node: 1)) == 49)
        let running = scheduler.next(now: now)
        #expect(running.flatMap { scheduler.rank(of: $0.id) } == nil)
        #expect(scheduler.rank(of: RowID(volume: "v", node: 1)) == 48)
    }
}
