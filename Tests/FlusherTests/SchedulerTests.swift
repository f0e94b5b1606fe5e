// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Flusher
import Policy
import TestSupport
import Testing

@Suite struct SchedulerTests {
    private let start = Timestamp(seconds: 1_000_000)

    private func at(_ offset: Double) -> Timestamp { start.advanced(bySeconds: offset) }

    private func id(_ node: Int64, _ volume: String = "v") -> RowID { RowID(volume: volume, node: node) }

    private func row(
        _ node: Int64,
        changed: Double,
        size: ScheduledRow.Size = .small,
        priority: Int = 0
    ) -> ScheduledRow {
        ScheduledRow(
            id: id(node),
            sequence: node,
            priority: priority,
            size: size,
            facts: WorkFacts(changed: at(changed))
        )
    }

    private func scheduler(workers: Int = 8, large: Int = 4) -> Scheduler {
        var scheduler = Scheduler(limits: SchedulerLimits(workers: workers, large: large))
        scheduler.setFacts(VolumeFacts(at: start), settings: PolicySettings(), of: "v", now: start)
        return scheduler
    }

    /// Starts all that may start and gives their nodes in order.
    private func drain(_ scheduler: inout Scheduler, at offset: Double) -> [Int64] {
        var nodes: [Int64] = []
        while let row = scheduler.next(now: at(offset)) { nodes.append(row.id.node) }
        return nodes
    }

    private func expectStarts(_ scheduler: inout Scheduler, at offset: Double, _ nodes: [Int64]) {
        let started = drain(&scheduler, at: offset)
        #expect(started == nodes)
    }

    private func expectAlarm(_ scheduler: inout Scheduler, _ time: Timestamp?) {
        let alarm = scheduler.lookAgain()
        #expect(alarm == time)
    }

    @Test func theOldestStartFirstAndPriorityGoesBeforeAge() {
        var scheduler = scheduler()
        scheduler.update(row(1, changed: -5), now: start)
        scheduler.update(row(2, changed: -9), now: start)
        scheduler.update(row(3, changed: -3, priority: 1), now: start)
        expectStarts(&scheduler, at: 0, [3, 2, 1])
    }

    /// What grows with the square of the queue takes minutes for this.
    @Test(.timeLimit(.minutes(1))) func aLongQueueIsLetGoAtOnce() {
        var scheduler = scheduler()
        var facts = VolumeFacts(at: start)
        facts.connection.observe(.offline, source: "test", at: start)
        scheduler.setFacts(facts, settings: PolicySettings(), of: "v", now: start)
        let count: Int64 = 100_000
        for node in 1...count { scheduler.update(row(node, changed: Double(node - count)), now: start) }
        expectStarts(&scheduler, at: 0, [])
        facts.connection.observe(.online, source: "test", at: start)
        scheduler.setFacts(facts, settings: PolicySettings(), of: "v", now: start)
        // Places that are outdated lie before the others.
        for node in 1...count / 2 { scheduler.update(row(node, changed: 1000), now: start) }
        for node in count / 2 + 1...count / 2 + 500 {
            let first = scheduler.next(now: start)?.id.node
            #expect(first == node)
            scheduler.finished(id(node), now: start)
            scheduler.remove(id(node), now: start)
        }
    }

    @Test func afterASleepOldFailuresDoNotCountAndNotAllBeginAtOnce() {
        var scheduler = scheduler()
        for (node, next) in [(Int64(1), 250.0), (2, 250), (3, 1)] {
            var row = row(node, changed: -9)
            row.facts.nextAttempt = at(next)
            scheduler.update(row, now: start)
        }
        expectStarts(&scheduler, at: 0, [])
        var numbers = [0.2, 0.8, 0.9]
        scheduler.renewAttempts(of: "v", now: start, spread: 5) { numbers.removeFirst() }
        // A journal that is read again says what it said before.
        var again = row(1, changed: -9)
        again.facts.nextAttempt = at(250)
        scheduler.update(again, now: start)
        expectStarts(&scheduler, at: 0.9, [])
        let first = drain(&scheduler, at: 1)
        let later = drain(&scheduler, at: 4.9)
        #expect(first.contains(3) && Set(first + later) == [1, 2, 3] && !later.isEmpty)
    }

    @Test func theQuietPeriodEndsByItself() {
        var scheduler = scheduler()
        scheduler.update(row(1, changed: 0), now: start)
        expectStarts(&scheduler, at: 1.9, [])
        expectAlarm(&scheduler, at(2))
        #expect(scheduler.waiting(id(1), now: at(1)).map(\.reason) == [.quiet])
        expectStarts(&scheduler, at: 2, [1])
        expectAlarm(&scheduler, nil)
    }

    @Test func placesDoNotPileUpBehindRowsThatDoNotGetTheirTurn() {
        var scheduler = scheduler(workers: 1)
        for node in 1...200 { scheduler.update(row(Int64(node), changed: -5), now: start) }
        expectStarts(&scheduler, at: 0, [1])
        var facts = VolumeFacts(at: start)
        for round in 1...100 {
            // The same rows again, rows with a change, and a network that comes and goes.
            for node in 2...100 { scheduler.update(row(Int64(node), changed: -5), now: start) }
            var changed = row(150, changed: -5)
            changed.sequence = Int64(1000 + round)
            changed.facts.nextAttempt = at(Double(round))
            scheduler.update(changed, now: start)
            facts.connection.observe(round.isMultiple(of: 2) ? .offline : .online, source: "test", at: start)
            scheduler.setFacts(facts, settings: PolicySettings(), of: "v", now: start)
        }
        #expect(scheduler.placeCount < 1000)
    }

    @Test func aRowThatWaitsForOneThatIsNotKnownAsksLessAndLessUntilThatComes() {
        var scheduler = scheduler()
        scheduler.update(row(1, changed: -9), now: start)
        var time = 0.0
        for pause in [0.5, 1, 2, 4, 8, 16, 32, 32] {
            expectStarts(&scheduler, at: time, [1])
            scheduler.block(id(1), on: id(2), detail: "b", now: at(time))
            expectStarts(&scheduler, at: time + pause - 0.1, [])
            time += pause
        }
        expectStarts(&scheduler, at: time, [1])
        scheduler.block(id(1), on: id(2), detail: "b", now: at(time))
        scheduler.update(row(2, changed: -8), now: at(time))
        expectStarts(&scheduler, at: time, [1, 2])
    }

    @Test func aChangeBeginsTheQuietPeriodAnew() {
        var scheduler = scheduler()
        scheduler.update(row(1, changed: 0), now: start)
        scheduler.update(row(1, changed: 1), now: at(1))
        expectStarts(&scheduler, at: 2.5, [])
        expectStarts(&scheduler, at: 3, [1])
    }

    @Test func noMoreRunThanThereAreWorkers() {
        var scheduler = scheduler(workers: 3)
        for node in 1...10 { scheduler.update(row(Int64(node), changed: -Double(20 - node)), now: start) }
        expectStarts(&scheduler, at: 0, [1, 2, 3])
        scheduler.finished(id(2), now: start)
        scheduler.remove(id(2), now: start)
        expectStarts(&scheduler, at: 0, [4])
        #expect(scheduler.count == 9 && scheduler.runningCount == 3)
    }

    @Test func largeWorkLeavesRoomForSmallAndSmallForLarge() {
        var scheduler = scheduler(workers: 4, large: 4)
        for node in 1...6 { scheduler.update(row(Int64(node), changed: -50 + Double(node), size: .large), now: start) }
        for node in 11...16 { scheduler.update(row(Int64(node), changed: -20 + Double(node - 10)), now: start) }
        expectStarts(&scheduler, at: 0, [1, 2, 3, 11])

        var other = self.scheduler(workers: 4, large: 4)
        for node in 1...6 { other.update(row(Int64(node), changed: -50 + Double(node)), now: start) }
        other.update(row(11, changed: -10, size: .large), now: start)
        expectStarts(&other, at: 0, [1, 2, 3, 11])
    }

    @Test func aSingleWorkerTakesTheOldestWhateverItsSize() {
        var scheduler = scheduler(workers: 1, large: 1)
        scheduler.update(row(1, changed: -9, size: .large), now: start)
        scheduler.update(row(2, changed: -8), now: start)
        expectStarts(&scheduler, at: 0, [1])
    }

    @Test func aBlockedRowStartsWhenItsBlockerIsDone() {
        var scheduler = scheduler()
        scheduler.update(row(1, changed: -9), now: start)
        scheduler.update(row(2, changed: -8), now: start)
        expectStarts(&scheduler, at: 0, [1, 2])
        scheduler.block(id(1), on: id(2), detail: "b", now: start)
        expectStarts(&scheduler, at: 100, [])
        #expect(scheduler.waiting(id(1), now: start).map(\.reason) == [.dependency])
        scheduler.finished(id(2), now: start)
        scheduler.remove(id(2), now: start)
        expectStarts(&scheduler, at: 0, [1])
    }

    @Test func aRowBlockedByNothingKnownIsAskedAgainSoonEvenWhenFactsChange() {
        var scheduler = scheduler()
        scheduler.update(row(1, changed: -9), now: start)
        expectStarts(&scheduler, at: 0, [1])
        scheduler.block(id(1), on: id(77), detail: "?", now: start)
        scheduler.setFacts(VolumeFacts(at: start), settings: PolicySettings(), of: "v", now: at(0.1))
        expectStarts(&scheduler, at: 0.2, [])
        expectAlarm(&scheduler, at(0.5))
        expectStarts(&scheduler, at: 0.5, [1])
    }

    @Test func offlineHoldsEverythingOfThatVolumeOnly() {
        var scheduler = scheduler()
        scheduler.setFacts(VolumeFacts(at: start), settings: PolicySettings(), of: "w", now: start)
        var other = row(9, changed: -9)
        other.id = id(9, "w")
        scheduler.update(other, now: start)
        scheduler.update(row(1, changed: -9), now: start)
        var facts = VolumeFacts(at: start)
        facts.connection.observe(.offline, source: "requests", at: start)
        scheduler.setFacts(facts, settings: PolicySettings(), of: "v", now: start)
        expectStarts(&scheduler, at: 100, [9])
        expectAlarm(&scheduler, nil)
        facts.connection.observe(.online, source: "requests", at: at(100))
        scheduler.setFacts(facts, settings: PolicySettings(), of: "v", now: at(100))
        expectStarts(&scheduler, at: 100, [1])
    }

    @Test func forcingLastsForOneAttempt() {
        var scheduler = scheduler()
        scheduler.update(row(1, changed: 0), now: start)
        scheduler.force(id(1), now: start)
        scheduler.update(row(1, changed: 0), now: start)
        expectStarts(&scheduler, at: 0, [1])
        scheduler.finished(id(1), now: start)
        var failed = row(1, changed: 0)
        failed.facts.nextAttempt = at(9)
        scheduler.update(failed, now: start)
        expectStarts(&scheduler, at: 8.9, [])
        expectStarts(&scheduler, at: 9, [1])
    }

    @Test(arguments: [1, 2, 3, 4, 5, 6] as [UInt64])
    func whateverHappensEveryRowIsDoneOnceAndNoneIsForgotten(seed: UInt64) {
        var random = SeededGenerator(seed: seed)
        var scheduler = scheduler(workers: 3, large: 2)
        var time = 0.0
        var open = Set<Int64>()
        var running: [Int64] = []
        for node in 1...200 as ClosedRange<Int64> { open.insert(node) }
        for node in open.sorted() {
            let size: ScheduledRow.Size = Bool.random(using: &random) ? .small : .large
            scheduler.update(row(node, changed: Double.random(in: -5...5, using: &random), size: size), now: start)
        }
        var steps = 0
        while !open.isEmpty {
            steps += 1
            guard steps < 20_000 else { return #expect(Bool(false), "seed \(seed): stuck with \(open)") }
            while let row = scheduler.next(now: at(time)) {
                #expect(open.contains(row.id.node) && !running.contains(row.id.node), "seed \(seed)")
                running.append(row.id.node)
            }
            #expect(running.count <= 3, "seed \(seed)")
            guard let node = running.randomElement(using: &random) else {
                time += 0.5
                continue
            }
            running.removeAll { $0 == node }
            switch Int.random(in: 0..<10, using: &random) {
            case 0:
                scheduler.block(
                    id(node),
                    on: open.randomElement(using: &random).map { id($0) },
                    detail: "x",
                    now: at(time)
                )
            case 1:
                scheduler.finished(id(node), now: at(time))
                var failed = row(node, changed: -9)
                failed.facts.nextAttempt = at(time + 1)
                scheduler.update(failed, now: at(time))
            case 2: scheduler.putBack(id(node), now: at(time))
            default:
                scheduler.finished(id(node), now: at(time))
                scheduler.remove(id(node), now: at(time))
                open.remove(node)
            }
            // Circles of waiting rows are the journal's to avoid: here another change breaks them.
            if running.isEmpty, let any = open.randomElement(using: &random) {
                scheduler.update(row(any, changed: -9), now: at(time))
            }
        }
        #expect(scheduler.count == 0 && scheduler.runningCount == 0)
    }

    @Test func nothingBeginsDuringABurstOfFilesUnlessSomebodyWaitsForIt() {
        var scheduler = scheduler()
        for node in 1...3 { scheduler.update(row(Int64(node), changed: -5), now: start) }
        for tick in 0..<20 {
            scheduler.noteFiles(20, now: at(Double(tick) / 20))
            scheduler.observe(stalled: UInt64(tick) * 40_000, now: at(Double(tick) / 20))
        }
        #expect(scheduler.standsBack)
        expectStarts(&scheduler, at: 1, [])
        #expect(scheduler.waiting(id(1), now: at(1)).map(\.reason) == [.load])
        scheduler.force(id(2), now: at(1))
        #expect(!scheduler.standsBack)
        expectStarts(&scheduler, at: 1, [2, 1, 3])
    }

    /// Rows of which the first one, then the second one, wait for the next one.
    private func chain(last: ScheduledRow) -> Scheduler {
        var scheduler = scheduler()
        scheduler.update(row(1, changed: -9), now: start)
        scheduler.update(row(2, changed: -8), now: start)
        scheduler.update(last, now: start)
        expectStarts(&scheduler, at: 0, [1, 2])
        for node in [1, 2] as [Int64] { scheduler.block(id(node), on: id(node + 1), detail: "x", now: start) }
        expectStarts(&scheduler, at: 0, [])
        return scheduler
    }

    @Test func whatAForcedRowWaitsForIsForcedToo() {
        var scheduler = chain(last: row(3, changed: 0))
        #expect(!scheduler.isAwaited(id(3)))
        scheduler.force(id(1), now: start)
        #expect([1, 2, 3].allSatisfy { scheduler.row(id($0))?.facts.isForced == true })
        expectStarts(&scheduler, at: 0, [3])
        scheduler.finished(id(3), now: start)
        scheduler.remove(id(3), now: start)
        expectStarts(&scheduler, at: 0, [2])
    }

    @Test func whatAForcedRowIsFoundToWaitForIsForcedToo() {
        var scheduler = scheduler()
        for node in 1...3 { scheduler.update(row(Int64(node), changed: 0), now: start) }
        scheduler.force(id(1), now: start)
        expectStarts(&scheduler, at: 0, [1])
        for node in [1, 2] as [Int64] {
            scheduler.block(id(node), on: id(node + 1), detail: "x", now: start)
            expectStarts(&scheduler, at: 0, [node + 1])
        }
    }

    @Test func whatFailedIsNotTriedWithoutPauseForThoseThatWaitForIt() {
        var failed = row(3, changed: -7)
        failed.facts.nextAttempt = at(9)
        var scheduler = chain(last: failed)
        scheduler.force(id(1), now: start)
        expectStarts(&scheduler, at: 8.9, [])
        expectStarts(&scheduler, at: 9, [3])
        #expect(scheduler.row(id(3))?.facts.isForced == false && scheduler.isAwaited(id(3)))
    }

    @Test func whatWaitsForReadersIsLookedAtAtOnceWhenItIsForced() {
        var scheduler = scheduler()
        scheduler.update(row(1, changed: -9), now: start)
        for pause in [true, false] {
            expectStarts(&scheduler, at: 0, [1])
            scheduler.block(id(1), on: nil, for: 10, reason: .open, detail: "x", now: start)
            expectStarts(&scheduler, at: 0, [])
            scheduler.force(id(1), now: start)
            if !pause { expectStarts(&scheduler, at: 9.9, []) }
        }
        expectStarts(&scheduler, at: 10, [1])
    }

    @Test func whatIsWaitedForGoesFirst() {
        var scheduler = scheduler()
        for node in 1...3 { scheduler.update(row(Int64(node), changed: -5, priority: 4 - node), now: start) }
        scheduler.force(id(3), now: start)
        expectStarts(&scheduler, at: 0, [3, 1, 2])
    }

    @Test func whatIsReadyGoesAheadWhenItsDeadlineComesNear() {
        var scheduler = scheduler(workers: 1)
        var late = row(2, changed: -5)
        late.facts.deadline = at(100)
        scheduler.update(row(1, changed: -9), now: start)
        scheduler.update(late, now: start)
        scheduler.update(row(3, changed: -8), now: start)
        expectStarts(&scheduler, at: 0, [1])
        expectAlarm(&scheduler, at(40))
        scheduler.finished(id(1), now: at(50))
        scheduler.remove(id(1), now: at(50))
        expectStarts(&scheduler, at: 50, [2])
    }

    @Test func discretionaryRowsRiseByThemselves() {
        var scheduler = scheduler()
        var facts = VolumeFacts(at: start)
        facts.held = [HeldRules(discretionary: [Waiting(.battery, since: start)], isDiscretionary: true)]
        scheduler.setFacts(facts, settings: PolicySettings(), of: "v", now: start)
        scheduler.update(row(1, changed: -5), now: start)
        expectStarts(&scheduler, at: 0, [])
        expectAlarm(&scheduler, at(86_395))
        expectStarts(&scheduler, at: 86_395, [1])
    }

    @Test func rowsGoByTheRulesOfTheirPath() {
        var scheduler = scheduler()
        var facts = VolumeFacts(at: start)
        facts.held = [HeldRules(), HeldRules(risen: [Waiting(.window, since: start, until: at(600))])]
        scheduler.setFacts(facts, settings: PolicySettings(), of: "v", now: start)
        var special = row(1, changed: -5)
        special.facts.rules = 1
        scheduler.update(special, now: start)
        scheduler.update(row(2, changed: -4), now: start)
        expectStarts(&scheduler, at: 0, [2])
        #expect(scheduler.waiting(id(1), now: start).map(\.reason) == [.window])
        expectAlarm(&scheduler, at(600))
    }

    @Test func aRemoteThatWantsLessKeepsNoOtherOneWaiting() {
        var scheduler = scheduler(workers: 4)
        scheduler.setFacts(VolumeFacts(at: start), settings: PolicySettings(), of: "w", now: start)
        for node in 1...6 { scheduler.update(row(Int64(node), changed: -9), now: start) }
        for node in 7...9 {
            let other = ScheduledRow(
                id: id(Int64(node), "w"),
                sequence: 1,
                size: .small,
                facts: WorkFacts(changed: at(-5))
            )
            scheduler.update(other, now: start)
        }
        scheduler.noteTrouble(with: "v", at: 1)
        scheduler.noteTrouble(with: "v", at: 10)
        #expect(scheduler.limit(of: "v") == 1 && scheduler.limit(of: "w") == 4)
        expectStarts(&scheduler, at: 0, [1, 7, 8, 9])
        scheduler.finished(id(1), now: start)
        scheduler.remove(id(1), now: start)
        expectStarts(&scheduler, at: 0, [2])
    }

    @Test func onlyChangesOfProgramsAreNews() {
        var scheduler = scheduler()
        scheduler.update(row(1, changed: -5), now: start)
        #expect(!scheduler.isNews(id(1), changed: at(-5)))
        #expect(scheduler.isNews(id(1), changed: at(-4)))
        #expect(scheduler.isNews(id(2), changed: at(-5)))
    }
}
