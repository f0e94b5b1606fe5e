// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Flusher
import Testing

@Suite struct ReaderWaitTests {
    private let patience = ReaderWait.Patience()

    /// When a change that is asked for as it says goes at last, in seconds; nil: not within two hours.
    private func end(
        of change: ReaderWait.Change,
        awaitedFrom: Double = .infinity,
        _ finding: (Double) -> ReaderWait.Finding = { _ in .held }
    ) -> Double? {
        var wait = ReaderWait()
        var now = 0.0
        while now < 7200 {
            switch wait.decide(finding(now), change, isAwaited: now >= awaitedFrom, at: 1000 + now) {
            case .go: return now
            case .wait(let seconds):
                let isUrgent = change == .replacement || now >= awaitedFrom
                #expect(seconds > 0 && seconds <= (isUrgent ? 1 : 10), "it is looked at again soon")
                // Who begins to wait has it looked at at once.
                now = now < awaitedFrom ? min(now + seconds, awaitedFrom) : now + seconds
            }
        }
        return nil
    }

    private func isNear(_ end: Double?, _ expected: Double) -> Bool { end.map { abs($0 - expected) < 0.001 } ?? false }

    @Test(arguments: [ReaderWait.Change.removal, .replacement])
    func whatNobodyHasOpenGoesAtOnce(_ change: ReaderWait.Change) {
        #expect(end(of: change) { _ in .free } == 0)
    }

    @Test func aRemovalWaitsUntilTheFileIsClosed() throws {
        #expect(end(of: .removal) == nil)
        let end = try #require(end(of: .removal) { $0 < 5000 ? .held : .free })
        #expect((5000...5010).contains(end))
    }

    @Test func aRemovalThatNobodyWaitsForIsLookedAtSeldom() {
        var wait = ReaderWait()
        var looks = 0
        var now = 0.0
        while now < 3600, case .wait(let seconds) = wait.decide(.held, .removal, isAwaited: false, at: now) {
            looks += 1
            now += seconds
        }
        #expect(looks < 400 && now >= 3600)
        #expect(wait.decide(.held, .removal, isAwaited: true, at: now) == .wait(1))
    }

    @Test func aRemovalThatBecomesAReplacementWaitsForSomeMinutes() {
        var wait = ReaderWait()
        for now in stride(from: 0.0, through: 2000, by: 10) {
            _ = wait.decide(.held, .removal, isAwaited: false, at: now)
        }
        #expect(wait.decide(.held, .replacement, isAwaited: false, at: 2000) != .go)
        #expect(wait.decide(.held, .replacement, isAwaited: false, at: 2000 + patience.usual - 1) != .go)
        #expect(wait.decide(.held, .replacement, isAwaited: false, at: 2000 + patience.usual) == .go)
    }

    @Test func aReplacementWaitsForSomeMinutes() {
        #expect(isNear(end(of: .replacement), patience.usual))
    }

    @Test(arguments: [ReaderWait.Change.removal, .replacement])
    func whatSomebodyWaitsForWaitsForMoments(_ change: ReaderWait.Change) throws {
        #expect(isNear(end(of: change, awaitedFrom: 0), patience.ofWaiters))
        let later = try #require(end(of: change, awaitedFrom: 100))
        #expect((130...132).contains(later), "the time counts from when somebody began to wait")
    }

    @Test func nothingWaitsForEverForWhatCannotBeFoundOut() throws {
        #expect(isNear(end(of: .removal) { _ in .unknown }, patience.usual))
        #expect(isNear(end(of: .replacement) { _ in .unknown }, patience.usual))
        let later = try #require(end(of: .removal) { $0 < 1000 ? .held : .unknown })
        #expect((1600...1610).contains(later), "the time counts from when it could not be found out any more")
        #expect(end(of: .removal) { Int($0) % 100 < 50 ? .held : .unknown } == nil)
    }

    @Test func whatHasGoneOnceGoesAgain() {
        var wait = ReaderWait()
        _ = wait.decide(.held, .replacement, isAwaited: false, at: 0)
        for now in [patience.usual, patience.usual + 50] {
            #expect(wait.decide(.held, .replacement, isAwaited: false, at: now) == .go, "as an attempt may fail")
        }
    }
}
