// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Control
import Flusher
import Glibc
import Journal
import ObjectStore
import Platform
import Synchronization
import Testing

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
        guard case .uploads(let uploads) = try client.call(.uploads(selection: UploadSelection())) else { return [] }
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
        try fixture.journal.recordFailure(row, attempts: 1, nextAttempt: nil, error: "no", attention: "look")
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
}
