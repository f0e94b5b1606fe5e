// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Policy
import Testing

@Suite struct PolicyTests {
    private let now = Timestamp(seconds: 1_000_000)
    private let settings = PolicySettings(quietPeriod: 2, longestBackoff: 300)

    private func at(_ offset: Double) -> Timestamp { now.advanced(bySeconds: offset) }

    private func names(_ work: WorkFacts, _ volume: VolumeFacts? = nil) -> [WaitingReason] {
        Policy.reasons(work, volume: volume ?? VolumeFacts(at: now), settings: settings, now: now).map(\.reason)
    }

    @Test func workThatWasLeftAloneStarts() {
        #expect(names(WorkFacts(changed: at(-2))).isEmpty)
        #expect(names(WorkFacts(changed: at(-1.9))) == [.quiet])
    }

    @Test func theQuietPeriodSaysWhenItEnds() {
        let reasons = Policy.reasons(
            WorkFacts(changed: at(-1)),
            volume: VolumeFacts(at: now),
            settings: settings,
            now: now
        )
        #expect(reasons.first?.until == at(1))
        #expect(Policy.lookAgain(reasons) == at(1))
    }

    @Test func whatIsUnderWayIsStoppedByRulesAndMomentsAlone() {
        var volume = VolumeFacts(at: now)
        func decide(_ work: WorkFacts, _ isRunning: Bool) -> Decision {
            Policy.decide(work, isRunning: isRunning, volume: volume, settings: settings, now: now)
        }
        var work = WorkFacts(changed: at(-1), nextAttempt: at(5))
        #expect(decide(work, true) == .go)
        guard case .hold(let reasons) = decide(work, false) else {
            Issue.record("it starts")
            return
        }
        #expect(reasons.map(\.reason) == [.quiet, .backoff])
        work.notBefore = at(60)
        #expect(decide(work, true) == .stop([Waiting(.notBefore, since: at(-1), until: at(60))]))
        volume.held = [HeldRules(risen: [Waiting(.expensive, since: at(-3)), Waiting(.window, since: at(-2))])]
        guard case .stop(let stops) = decide(work, true) else {
            Issue.record("it goes on")
            return
        }
        #expect(stops.map(\.reason) == [.expensive, .window, .notBefore])
        work.isForced = true
        #expect(decide(work, true) == .go && decide(work, false) == .go)
        volume.held = [HeldRules(risen: [Waiting(.sleep, since: at(-1))])]
        #expect(decide(work, true) == .stop([Waiting(.sleep, since: at(-1))]))
    }

    @Test func aClockSetBackHoldsNothingUp() {
        #expect(names(WorkFacts(changed: at(3600))).isEmpty)
        #expect(names(WorkFacts(changed: at(-5), nextAttempt: at(3600))).isEmpty)
        #expect(names(WorkFacts(changed: at(-5), nextAttempt: at(299))) == [.backoff])
    }

    @Test func forcingOverridesTimesButNotPausesAndFacts() {
        var work = WorkFacts(changed: now, isPaused: false, notBefore: at(50), nextAttempt: at(50))
        #expect(names(work) == [.notBefore, .quiet, .backoff])
        work.isForced = true
        #expect(names(work).isEmpty)
        work.isPaused = true
        #expect(names(work) == [.paused])
    }

    @Test func everyReasonIsNamedAndAnEventIsNeededWhenOneHasNoEnd() {
        var volume = VolumeFacts(at: at(-60))
        volume.connection.observe(.offline, source: "requests", at: at(-30))
        volume.authentication.observe(.refused, source: "requests", at: at(-20))
        volume.hasDiskSpace.observe(false, source: "statvfs", at: at(-10))
        let work = WorkFacts(changed: at(-1), dependency: "a/b", needsDiskSpace: true)
        let reasons = Policy.reasons(work, volume: volume, settings: settings, now: now)
        #expect(reasons.map(\.reason) == [.quiet, .dependency, .offline, .auth, .diskFull])
        #expect(reasons[2].since == at(-30))
        #expect(Policy.lookAgain(reasons) == nil)
        #expect(names(WorkFacts(changed: at(-9)), volume) == [.offline, .auth])
    }

    @Test func aFactKeepsSinceUntilItsValueChanges() {
        var fact = Fact(false, source: "none", at: at(-100))
        let repeated = fact.observe(false, source: "x", at: at(-50))
        #expect(!repeated)
        #expect(fact.since == at(-100) && fact.age(at: now) == 50)
        let changed = fact.observe(true, source: "x", at: at(-5))
        #expect(changed)
        #expect(fact.since == at(-5))
        #expect(fact.age(at: at(-10)) == 0)
    }

    @Test func backoffDoublesWithinItsBounds() {
        for attempt in 1...40 {
            let low = Backoff.delay(afterFailures: attempt, random: 0)
            let high = Backoff.delay(afterFailures: attempt, random: 0.999_999)
            #expect(low >= 0.5 && high <= 300 && low < high && high <= 2 * low)
        }
        #expect(Backoff.delay(afterFailures: 1, random: 0) == 0.5)
        #expect(Backoff.delay(afterFailures: 3, random: 0) == 2)
        #expect(Backoff.delay(afterFailures: 1, random: 0, hint: 20) == 20)
        #expect(Backoff.delay(afterFailures: 1, random: 0, hint: 86_400) == 300)
    }
}
