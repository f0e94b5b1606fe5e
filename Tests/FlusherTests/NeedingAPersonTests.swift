// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Control
import Glibc
import Journal
import ObjectStore
import Platform
import Policy
import Synchronization
import Testing

@testable import Flusher

/// What waits for a person, what waits for that in turn, and what of it a flush tells.
@Suite(.serialized) struct NeedingAPersonTests {
    private func withFlusher(
        _ store: FakeStore,
        quietPeriod: Double = 0,
        _ body: (FlusherFixture, ControlClient) throws -> Void
    ) throws {
        let fixture = try FlusherFixture(store: store, quietPeriod: quietPeriod)
        defer { fixture.remove() }
        let client = try fixture.start()
        try body(fixture, client)
        try fixture.stop(client)
    }

    private func change(_ verb: UploadVerb, _ client: ControlClient, _ paths: [String] = []) throws {
        _ = try client.call(.change(verb: verb, selection: UploadSelection(paths: paths)))
    }

    private func uploads(_ client: ControlClient) throws -> [UploadReport] {
        guard case .uploads(let uploads, nil) = try client.call(.uploads(selection: UploadSelection())) else {
            return []
        }
        return uploads
    }

    /// Moves an object's file, so that its deletion waits for the copy.
    @discardableResult
    private func move(_ source: String, _ target: String, _ fixture: FlusherFixture) throws -> NodeID {
        let remote = RemoteState.file(fixture.store.foreign(source, [1]), FlusherFixture.attributes)
        let row = try fixture.journal.rename(
            from: ObjectKey(source),
            to: ObjectKey(target),
            sourceRemote: remote,
            targetRemote: .absent
        )
        return try #require(row).id
    }

    private func needAttention(_ row: NodeID, _ fixture: FlusherFixture) throws {
        let wish = try #require(try fixture.journal.node(row)).sequence
        try fixture.journal.recordFailure(row, of: wish, attempts: 1, nextAttempt: nil, error: "no", attention: "look")
    }

    @Test func nowIsNoAnswerToWhatNeedsAttention() throws {
        let store = FakeStore()
        try withFlusher(store, quietPeriod: 60) { fixture, client in
            let row = try fixture.write("a", [1])
            try needAttention(row.id, fixture)
            try change(.now, client)
            usleep(300_000)
            #expect(try uploads(client).map(\.state) == [.attention] && store.objects.isEmpty)
            try change(.retry, client)
            #expect(try fixture.flush(client, timeout: 10).isEmpty && store.holds(ObjectKey("a"), [1]))
        }
    }

    @Test func aFlushEndsWhenTheRestWaitsForWhatAPersonHolds() throws {
        for isPaused in [true, false] {
            try withFlusher(FakeStore(), quietPeriod: 60) { fixture, client in
                let row = try move("a", "b", fixture)
                if isPaused { try change(.pause, client, ["b"]) } else { try needAttention(row, fixture) }
                let started = monotonicSeconds()
                let left = try fixture.flush(client, timeout: 30)
                #expect(Set(left.map(\.path)) == ["a", "b"] && monotonicSeconds() - started < 20)
                try change(.retry, client)
                #expect(try fixture.flush(client, timeout: 30).isEmpty)
            }
        }
    }

    @Test func aFlushOfAFileWaitsForItsConflictCopy() throws {
        let store = FakeStore()
        let base = store.foreign("a.txt", [1])
        store.hook.withLock {
            $0.call = { name, key in
                if name == "put", key != ObjectKey("a.txt") { usleep(700_000) }
            }
        }
        try withFlusher(store) { fixture, client in
            store.foreign("a.txt", [3, 3, 3])
            try fixture.write("a.txt", [2, 2], remote: .file(base, FlusherFixture.attributes))
            let selection = UploadSelection(paths: ["a.txt"])
            let reply = try client.stream(.flush(selection: selection, timeout: 20), timeout: 30) { _ in }
            guard case .flushed(let remaining) = reply else { throw ControlError.malformed("\(reply)") }
            #expect(remaining.isEmpty && store.objects.count == 2, "ours is remote, if under another name")
        }
    }

    @Test func oneRefusalAfterTroubleWithTheNetworkNeedsNobody() throws {
        let store = FakeStore()
        store.state.withLock { $0.refusals["put"] = .rejected }
        try withFlusher(store, quietPeriod: 60) { fixture, client in
            let row = try fixture.write("a", [1])
            let error = "the connection broke"
            try fixture.journal.recordFailure(row.id, of: row.sequence, attempts: 7, nextAttempt: nil, error: error)
            #expect(try fixture.flush(client, timeout: 1).map(\.state) == [.waiting])
            for _ in 0..<20 where try uploads(client).first?.state == .waiting {
                try change(.now, client)
                usleep(100_000)
            }
            #expect(try uploads(client).map(\.state) == [.attention], "it says no again and again")
            store.state.withLock { $0.refusals = [:] }
            try change(.retry, client)
            #expect(try fixture.flush(client, timeout: 10).isEmpty)
        }
    }

    @Test func refusalsOfOneContentSayNothingOfTheNext() {
        var refusals = Refusals()
        let row = RowID(volume: "v", node: 1)
        for count in 1...4 { #expect(refusals.count(row, 10, counts: true) == count) }
        #expect(refusals.count(RowID(volume: "v", node: 2), 10, counts: true) == 1)
        // It was written again.
        #expect(refusals.count(row, 11, counts: true) == 1)
        #expect(refusals.count(row, 11, counts: true) == 2)
        // Something else went wrong in between.
        #expect(refusals.count(row, 11, counts: false) == 0)
        #expect(refusals.count(row, 11, counts: true) == 1)
        refusals.forget(row)
        #expect(refusals.count(row, 11, counts: true) == 1)
    }

    /// Very many rows may wait for rows that need a person: they must not keep all workers busy with asking.
    @Test func whatWaitsForAPersonLeavesTimeForOthers() throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        for number in 0..<3000 { try needAttention(try move("f/\(number)", "g/\(number)", fixture), fixture) }
        let client = try fixture.start()
        sleep(8)
        let blocked = try #require(try uploads(client).first { $0.path == "f/0" })
        #expect(blocked.waiting.map(\.reason) == ["dependency"])
        try fixture.write("new", [1])
        _ = try client.call(.wake(volume: nil))
        for _ in 0..<200 where store.objects[ObjectKey("new")] == nil { usleep(50_000) }
        #expect(store.holds(ObjectKey("new"), [1]))
        // Once a person has seen to it, what waited goes on by that.
        try change(.retry, client, ["g/0"])
        for _ in 0..<100 where store.objects[ObjectKey("f/0")] != nil { usleep(50_000) }
        #expect(store.objects[ObjectKey("f/0")] == nil && store.objects[ObjectKey("g/0")] != nil)
        try fixture.stop(client)
    }

    @Test func allThatIsWrongWithTheRemoteIsSaidOfEachUpload() throws {
        let store = FakeStore()
        store.state.withLock { $0.isOffline = true }
        try withFlusher(store) { fixture, client in
            try fixture.write("a", [1])
            _ = try client.call(.wake(volume: nil))
            func wait(for reasons: [String]) throws {
                for _ in 0..<200 where try uploads(client).first?.waiting.map(\.reason) != reasons { usleep(50_000) }
                #expect(try uploads(client).first?.waiting.map(\.reason) == reasons)
            }
            try wait(for: ["offline"])
            store.state.withLock {
                $0.isOffline = false
                $0.refusals["check"] = .authentication
            }
            try wait(for: ["offline", "auth"])
            store.state.withLock { $0.refusals = [:] }
            for _ in 0..<600 where try !fixture.pending().isEmpty { usleep(50_000) }
            #expect(store.holds([ObjectKey("a"): [1]]))
        }
    }
}
