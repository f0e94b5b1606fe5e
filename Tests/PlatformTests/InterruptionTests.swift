// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Testing

@testable import Platform

/// Requests that the test gives up by hand, by their addresses.
private final class Requests: Interruption.Source {
    let handlers = Monitor<[UInt: Interruption.Handler]>([:])
    /// Those that are given up without anybody being called.
    let dead = Lock<Set<UInt>>([])

    func setHandler(_ handler: Interruption.Handler?, of request: UnsafeMutableRawPointer) {
        handlers.update { $0[UInt(bitPattern: request)] = handler }
    }

    func isGivenUp(_ request: UnsafeMutableRawPointer) -> Bool {
        dead.withLock { $0.contains(UInt(bitPattern: request)) }
    }

    func giveUp(_ number: UInt) {
        handlers.wait(timeout: 10) { $0[number] }?.call()
    }
}

@Suite(.serialized) struct InterruptionTests {
    private static let requests = Requests()

    /// Waits on a thread that serves the request with this number; whether the wait was given up.
    private func start(_ number: UInt, waitingFor monitor: Monitor<Bool>) throws -> Monitor<Bool?> {
        Interruption.serve(Self.requests)
        let outcome = Monitor<Bool?>(nil)
        try Thread.detached(name: "test") {
            guard let request = UnsafeMutableRawPointer(bitPattern: number) else { return }
            let value = Interruption.during(request) { monitor.waitUnlessInterrupted { $0 ? true : nil } }
            outcome.update { $0 = value == nil }
        }
        return outcome
    }

    @Test func aWaitEndsWhenItsRequestIsGivenUp() throws {
        let monitor = Monitor(false)
        let first = try start(0x1000, waitingFor: monitor)
        let second = try start(0x2000, waitingFor: monitor)
        Self.requests.giveUp(0x1000)
        #expect(first.wait(timeout: 10) { $0 } == true)
        #expect(second.inspect { $0 } == nil)
        monitor.update { $0 = true }
        #expect(second.wait(timeout: 10) { $0 } == false)
        #expect(Self.requests.handlers.inspect { $0.isEmpty })
    }

    @Test func whatIsThereIsNotWaitedFor() throws {
        let outcome = try start(0x3000, waitingFor: Monitor(true))
        #expect(outcome.wait(timeout: 10) { $0 } == false)
    }

    @Test func whatTakesLongAsksWhetherAnybodyWaitsForIt() throws {
        Interruption.serve(Self.requests)
        Self.requests.dead.withLock { $0 = [0x4000] }
        #expect(!Interruption.isGivenUp)
        for (number, isDead) in [(0x4000, true), (0x5000, false)] {
            let request = try #require(UnsafeMutableRawPointer(bitPattern: number))
            #expect(Interruption.during(request) { Interruption.isGivenUp } == isDead)
        }
        let work = Interruption.Work()
        work.run { #expect(!Interruption.isGivenUp) }
        work.giveUp()
        work.run { #expect(Interruption.isGivenUp) }
    }

    @Test func aThreadWithoutARequestWaitsForItsAnswer() {
        Interruption.serve(Self.requests)
        #expect(Interruption.watch {} == nil)
        let monitor = Monitor(true)
        #expect(monitor.waitUnlessInterrupted { $0 ? 7 : nil } == 7)
    }

    @Test func workOfOurOwnIsGivenUpWithAllThatItWaitsForLater() throws {
        let work = Interruption.Work()
        let outcomes = Monitor<[Bool]>([])
        // It is looked at once before the wait.
        let looks = Monitor(0)
        try Thread.detached(name: "test") {
            work.run {
                for _ in 0..<2 {
                    let value = Monitor(false).waitUnlessInterrupted { state -> Bool? in
                        looks.update { $0 += 1 }
                        return state ? true : nil
                    }
                    outcomes.update { $0.append(value == nil) }
                }
            }
            outcomes.update { $0.append(Interruption.watch {} == nil) }
        }
        try #require(looks.wait(timeout: 10) { $0 >= 2 ? true : nil } == true)
        work.giveUp()
        #expect(outcomes.wait(timeout: 10) { $0.count == 3 ? $0 : nil } == [true, true, true])
    }
}
