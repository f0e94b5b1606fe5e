// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Conditions
import Policy
import Testing

@Suite struct SettlingFactTests {
    private let start = Timestamp(seconds: 1_000_000)

    private func at(_ seconds: Double) -> Moment {
        Moment(time: start.advanced(bySeconds: seconds), uptime: 50 + seconds)
    }

    /// A number that is its own badness.
    private func fact(_ value: Int) -> SettlingFact<Int> {
        SettlingFact(Fact(value, source: "first", at: start), settlingTime: 5) { $0 }
    }

    @Test func worseCountsAtOnce() {
        var fact = fact(0)
        fact.observe(1, source: "a", at: at(1))
        #expect(fact.fact.value == 1 && fact.fact.source == "a")
        #expect(fact.fact.since == at(1).time)
        #expect(fact.settlesAt == nil)
    }

    @Test func betterCountsAfterTheSettlingTime() {
        var fact = fact(2)
        fact.observe(0, source: "a", at: at(1))
        #expect(fact.fact.value == 2)
        #expect(fact.settlesAt == 56)
        fact.advance(to: at(5.99))
        #expect(fact.fact.value == 2)
        fact.advance(to: at(6))
        #expect(fact.fact.value == 0 && fact.fact.source == "a")
        #expect(fact.settlesAt == nil)
    }

    @Test func aRelapseBeginsTheWaitAnew() {
        var fact = fact(2)
        fact.observe(0, source: "a", at: at(0))
        fact.observe(2, source: "a", at: at(4))
        #expect(fact.settlesAt == nil)
        fact.observe(0, source: "a", at: at(5))
        fact.advance(to: at(9.9))
        #expect(fact.fact.value == 2)
        fact.advance(to: at(10))
        #expect(fact.fact.value == 0)
    }

    @Test func ofSeveralImprovementsTheLastCountsFromTheTimeOfTheFirst() {
        var fact = fact(9)
        fact.observe(5, source: "a", at: at(0))
        fact.observe(3, source: "a", at: at(4))
        fact.observe(4, source: "a", at: at(4.5))
        fact.advance(to: at(5))
        #expect(fact.fact.value == 4)
    }

    @Test func whatIsNoWorseChangesAtOnce() {
        var fact = SettlingFact(Fact("x", source: "none", at: start), settlingTime: 5) { _ in 0 }
        fact.observe("y", source: "a", at: at(1))
        #expect(fact.fact.value == "y")
    }

    @Test func anObservationThatComesLateTakesTheEarlierOneInFirst() {
        var fact = fact(2)
        fact.observe(0, source: "a", at: at(0))
        fact.observe(2, source: "a", at: at(60))
        #expect(fact.fact.since == at(60).time, "it was better for a minute in between")
    }

    @Test func theCalendarHasNoPartInWaiting() {
        var fact = fact(2)
        fact.observe(0, source: "a", at: at(0))
        fact.advance(to: Moment(time: start.advanced(bySeconds: 86_400), uptime: 51))
        #expect(fact.fact.value == 2)
        fact.advance(to: Moment(time: start.advanced(bySeconds: -86_400), uptime: 55))
        #expect(fact.fact.value == 0)
    }
}
