// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Conditions
import Control
import Flusher
import Glibc
import Platform
import Policy
import Synchronization
import Testing

/// A machine of which a test says how it is.
private final class FakeMachine: ConditionSource {
    private struct State {
        var facts: MachineFacts
        var report: (@Sendable (MachineFacts, Bool) -> Void)?
    }

    private let state = Monitor(State(facts: MachineFacts(at: .now())))

    init(metered: MachineFacts.Metering) {
        state.update { _ = $0.facts.metered.observe(metered, source: "test", at: .now()) }
    }

    func start(_ report: @escaping @Sendable (_ facts: MachineFacts, _ isComplete: Bool) -> Void) throws(SystemError) {
        state.update { $0.report = report }
        // Nothing is known yet, as when services are slow to answer.
        report(MachineFacts(at: .now()), false)
        try Thread.detached(name: "machine") {
            usleep(200_000)
            self.tell { _ in }
        }
    }

    func stop() { state.update { $0.report = nil } }

    func tell(_ change: (inout MachineFacts) -> Void) {
        let (facts, report) = state.update { state in
            change(&state.facts)
            return (state.facts, state.report)
        }
        report?(facts, true)
    }
}

@Suite struct HeldUploadsTests {
    private func with(
        _ machine: FakeMachine,
        _ body: (FlusherFixture, FakeStore, ControlClient) throws -> Void
    ) throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        try fixture.write("a", [1, 2, 3])
        let client = try fixture.start(conditions: machine)
        try body(fixture, store, client)
        try fixture.stop(client)
    }

    private func reasons(_ client: ControlClient) throws -> Set<String> {
        guard case .uploads(let uploads, nil) = try client.call(.uploads(selection: UploadSelection())) else {
            throw ControlError.malformed("no uploads")
        }
        return Set(uploads.flatMap { $0.waiting.map(\.reason) })
    }

    private func wait(for expected: Set<String>, _ client: ControlClient) throws {
        for _ in 0..<1000 {
            if try reasons(client) == expected { return }
            usleep(10_000)
        }
        #expect(try reasons(client) == expected)
    }

    private func waitUntilRemote(_ store: FakeStore) {
        for _ in 0..<3000 where !store.holds(ObjectKey("a"), [1, 2, 3]) { usleep(10_000) }
        #expect(store.holds(ObjectKey("a"), [1, 2, 3]))
    }

    @Test func nothingGoesBeforeTheMachineWasLookedAt() throws {
        let machine = FakeMachine(metered: .yes)
        try with(machine) { _, store, client in
            try wait(for: ["expensive"], client)
            #expect(store.requests("put") == 0 && store.bodyBytes == 0)
            machine.tell { _ = $0.metered.observe(.no, source: "test", at: .now()) }
            waitUntilRemote(store)
        }
    }

    @Test func aWishOutlivesAnOutage() throws {
        try with(FakeMachine(metered: .yes)) { _, store, client in
            try wait(for: ["expensive"], client)
            store.state.withLock { $0.isOffline = true }
            _ = try client.call(.change(verb: .now, selection: UploadSelection()))
            try wait(for: ["offline"], client)
            store.state.withLock { $0.isOffline = false }
            waitUntilRemote(store)
        }
    }

    @Test func aFlushIsNotHeld() throws {
        try with(FakeMachine(metered: .guessedYes)) { fixture, store, client in
            try wait(for: ["expensive"], client)
            #expect(try fixture.flush(client).isEmpty)
            waitUntilRemote(store)
            guard case .policy(let report) = try client.call(.policy) else { throw ControlError.malformed("no policy") }
            #expect(report.volumes.map { $0.holds.map(\.reason) } == [["expensive"]])
            #expect(report.conditions["metered"]?.value == "guess-yes")
        }
    }

    @Test func whatAPersonSetsGoesBeforeWhatIsSeen() throws {
        try with(FakeMachine(metered: .yes)) { _, store, client in
            try wait(for: ["expensive"], client)
            let changes = [PolicyChange(key: "metered", value: "no"), PolicyChange(key: "low-data", value: "on")]
            _ = try client.call(.setPolicy(changes: changes, seconds: 3600))
            try wait(for: ["constrained"], client)
            let wrong = [PolicyChange(key: "low-data", value: "auto"), PolicyChange(key: "metered", value: "perhaps")]
            #expect(throws: ControlError.self) {
                try client.call(.setPolicy(changes: wrong, seconds: nil))
            }
            #expect(try reasons(client) == ["constrained"], "all of it is refused")
            _ = try client.call(.unsetPolicy(keys: ["low-data"]))
            waitUntilRemote(store)
        }
    }
}
