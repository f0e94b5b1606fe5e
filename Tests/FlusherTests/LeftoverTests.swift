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

/// Nothing that was begun stays at the remote, and nothing that others began goes.
@Suite(.serialized) struct LeftoverTests {
    private func bytes(_ count: Int) -> [UInt8] { (0..<count).map { UInt8(truncatingIfNeeded: $0 * 7) } }

    private func wait(_ seconds: Double, until condition: () throws -> Bool) rethrows -> Bool {
        let end = monotonicSeconds() + seconds
        while monotonicSeconds() < end {
            if try condition() { return true }
            usleep(50_000)
        }
        return try condition()
    }

    @Test func uploadsWhoseNamesWereLostAreEndedAndThoseOfOthersAreNot() throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store, uploadProtocol: "s3-multipart", partSize: 100_000)
        defer { fixture.remove() }
        store.state.withLock { state in
            state.creationsToLose = 2
            state.abortsToRepeat = 1
        }
        store.foreignUpload("before", "big", initiated: Timestamp.now().advanced(bySeconds: -30))
        store.foreignUpload("sending", "big", parts: [1: [1]])
        store.foreignUpload("elsewhere", "bigger")
        let client = try fixture.start(idle: 0.1)
        try fixture.write("big", bytes(250_000))
        #expect(try fixture.flush(client).isEmpty)
        #expect(store.holds(ObjectKey("big"), bytes(250_000)))
        #expect(store.uploads.count == 5, "two names were lost")
        #expect(wait(30) { store.uploads.count == 3 })
        #expect(Set(store.uploads.keys) == ["before", "sending", "elsewhere"])
        #expect(try wait(5) { try fixture.journal.leftovers().isEmpty })
        try fixture.stop(client)
    }

    @Test func anUploadThatCouldNotBeEndedIsEndedLater() throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        store.foreignUpload("old", "k")
        try fixture.journal.leave("old", at: ObjectKey("k"), method: .multipart, interopVersion: 0)
        try fixture.journal.leave("gone", at: ObjectKey("k"), method: .multipart, interopVersion: 0)
        let client = try fixture.start()
        #expect(try wait(20) { try fixture.journal.leftovers().isEmpty })
        #expect(store.uploads.isEmpty)
        try fixture.stop(client)
    }

    @Test func anUploadThatMayNotBeEndedHoldsNothingUp() throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store, uploadProtocol: "s3-multipart", partSize: 50_000)
        defer { fixture.remove() }
        store.state.withLock { $0.refusals = ["part": .rejected, "abort": .forbidden] }
        let client = try fixture.start()
        try fixture.write("a", bytes(1_000_000))
        _ = try client.call(.wake(volume: nil))
        #expect(wait(10) { store.requests("part") > 0 })
        #expect(try wait(10) { try fixture.pending().first?.schedule.attempts == 1 })
        store.state.withLock { $0.refusals["part"] = nil }
        try fixture.write("a", [1, 2, 3])
        #expect(try fixture.flush(client, timeout: 20).isEmpty && store.holds([ObjectKey("a"): [1, 2, 3]]))
        #expect(try store.uploads.count == 1 && fixture.journal.leftovers().count == 1)
        store.state.withLock { $0.refusals = [:] }
        #expect(try wait(20) { try store.uploads.isEmpty && fixture.journal.leftovers().isEmpty })
        try fixture.stop(client)
    }
}
