// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Policy
import Testing

@Suite struct PauseRulesTests {
    private let now = Timestamp(seconds: 1000)

    private func rules(_ paths: String...) -> PauseRules {
        PauseRules(paths.map { .init(path: ObjectKey($0), since: now) })
    }

    private func holding(_ rules: PauseRules, _ path: String) -> [String] {
        rules.holding(ObjectKey(path)).map(\.path.string)
    }

    @Test func aPlaceHoldsAllBelowItAndNothingBesideIt() {
        let rules = rules("a/b")
        #expect(holding(rules, "a/b") == ["a/b"] && holding(rules, "a/b/c/d") == ["a/b"])
        #expect(holding(rules, "a").isEmpty && holding(rules, "a/bc").isEmpty && holding(rules, "").isEmpty)
        #expect(holding(self.rules(""), "x/y") == [""], "the whole volume")
    }

    @Test func placesInsideEachOtherCountOneByOne() {
        var rules = rules("", "a", "a/b")
        #expect(holding(rules, "a/b/c") == ["", "a", "a/b"])
        var isGone = rules.letGo(ObjectKey("a"))
        #expect(isGone && holding(rules, "a/b/c") == ["", "a/b"])
        isGone = rules.letGo(ObjectKey("a"))
        #expect(!isGone, "it is not held any more")
        let all = rules.letGoAll(below: ObjectKey("a")).map(\.path.string)
        #expect(all == ["a/b"] && holding(rules, "a/b/c") == [""])
    }

    @Test func thePauseOfAPlaceIsOneHoweverOftenItIsAskedForAndThereAreNotTooMany() {
        var rules = rules("a")
        let wasHeld = rules.hold(ObjectKey("a"), at: Timestamp(seconds: 2000))
        #expect(wasHeld && rules.all == [.init(path: ObjectKey("a"), since: now)])
        var isHeld = true
        for number in 1..<PauseRules.limit { isHeld = rules.hold(ObjectKey("\(number)"), at: now) && isHeld }
        #expect(isHeld)
        isHeld = rules.hold(ObjectKey("one more"), at: now)
        #expect(!isHeld && rules.all.count == PauseRules.limit)
    }
}
