// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Catalog
import Configuration
import Control
import Flusher
import Glibc
import Journal
import ObjectStore
import Platform
import Synchronization
import Testing

/// Requests that the server carries out long after their client lost sight of them.
@Suite(.serialized) struct LateRequestTests {
    let key = ObjectKey("a")

    func withFlusher(
        _ store: FakeStore,
        lateRequests: Double,
        _ body: (FlusherFixture, ControlClient) throws -> Void
    ) throws {
        let fixture = try FlusherFixture(store: store, lateRequests: lateRequests)
        defer { fixture.remove() }
        let client = try fixture.start()
        try body(fixture, client)
        try fixture.stop(client)
        #expect(try fixture.journal.conflicts().isEmpty)
    }

    /// Does something of which one request is held, and goes on with requests that are not.
    func holding(_ name: String, _ store: FakeStore, _ client: ControlClient, _ body: () throws -> Void) throws {
        store.state.withLock { $0.holding = [name] }
        try body()
        _ = try client.call(.wake(volume: nil))
        for _ in 0..<500 where store.heldCount == 0 { usleep(10_000) }
        #expect(store.heldCount == 1, "nothing is in flight: the test proves nothing")
        store.state.withLock { $0.holding = [] }
    }

    func expectNothingLeft(_ fixture: FlusherFixture) throws {
        for _ in 0..<500 where try !fixture.pending().isEmpty { usleep(20_000) }
        #expect(try fixture.pending().isEmpty)
    }

    func flush(_ fixture: FlusherFixture, _ client: ControlClient) throws {
        let left = try fixture.flush(client, timeout: 20)
        #expect(left.isEmpty, "\(left)")
    }

    func remote(_ store: FakeStore) throws -> RemoteState {
        .file(try #require(store.objects[key]).version, FlusherFixture.attributes)
    }

    func remove(_ fixture: FlusherFixture, _ store: FakeStore) throws {
        let remote = try remote(store)
        try fixture.journal.remove(at: key, remote: remote)
    }

    @Test func aDeletedFileDoesNotComeBack() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 3) { fixture, client in
            try holding("put", store, client) { try fixture.write("a", [1, 2]) }
            try flush(fixture, client)
            try remove(fixture, store)
            try flush(fixture, client)
            #expect(store.objects.isEmpty)
            store.deliver()
            #expect(store.holds(key, [1, 2]), "it did not come late")
            #expect(try fixture.journal.node(at: key)?.isTombstone == true, "it would show again")
            try expectNothingLeft(fixture)
            #expect(store.objects.isEmpty)
        }
    }

    @Test func aFileDeletedBeforeItArrivedDoesNotComeBack() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 3) { fixture, client in
            try holding("put", store, client) { try fixture.write("a", [1, 2]) }
            try fixture.journal.remove(at: key, remote: .absent)
            try flush(fixture, client)
            store.deliver()
            try expectNothingLeft(fixture)
            #expect(store.objects.isEmpty)
        }
    }

    @Test func aDeletionWithoutAnAnswerLeavesNoNameInTheCatalog() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 60) { fixture, client in
            try fixture.write("a", [1, 2])
            try flush(fixture, client)
            let catalog = try Catalog(directory: fixture.directories.places(of: fixture.description).cache)
            #expect(try catalog.entry(key)?.kind == .file, "the test proves nothing")
            try holding("delete", store, client) { try remove(fixture, store) }
            store.state.withLock { $0.refusals["put"] = .forbidden }
            store.deliver()
            try fixture.write("a", [3])
            _ = try client.call(.wake(volume: nil))
            for _ in 0..<1000 where try fixture.journal.node(at: key)?.base != .absent { usleep(10_000) }
            #expect(try fixture.journal.node(at: key)?.base == .absent)
            // Nothing stands here any more, so its name leaves no row behind.
            try fixture.journal.remove(at: key, remote: .absent)
            for _ in 0..<1000 where try fixture.journal.node(at: key) != nil { usleep(10_000) }
            #expect(try fixture.journal.node(at: key) == nil && catalog.entry(key)?.kind != .file)
        }
    }

    @Test func somebodyElsesFileStaysWhereOursMayComeLate() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 1) { fixture, client in
            try holding("put", store, client) { try fixture.write("a", [1, 2]) }
            try flush(fixture, client)
            try remove(fixture, store)
            try flush(fixture, client)
            store.foreign("a", [9])
            store.deliver()
            try expectNothingLeft(fixture)
            #expect(store.holds(key, [9]))
        }
    }

    @Test func anOlderVersionThatComesLateIsNoConflict() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 5) { fixture, client in
            try holding("put", store, client) { try fixture.write("a", [1, 2]) }
            try flush(fixture, client)
            try remove(fixture, store)
            try flush(fixture, client)
            try fixture.write("a", [3, 3, 3])
            store.deliver()
            try flush(fixture, client)
            #expect(store.holds(key, [3, 3, 3]))
        }
    }

    @Test func aLateDeletionDoesNotTakeTheSameContentMadeAgain() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 2) { fixture, client in
            try fixture.write("a", [1, 2])
            try flush(fixture, client)
            try holding("delete", store, client) { try remove(fixture, store) }
            try flush(fixture, client)
            try fixture.write("a", [1, 2])
            _ = try client.call(.wake(volume: nil))
            usleep(300_000)
            store.deliver()
            try flush(fixture, client)
            #expect(store.holds(key, [1, 2]))
        }
    }

    @Test func aDeletionThatIsSeenLetsTheNameBeUsedAtOnce() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 3600) { fixture, client in
            try fixture.write("a", [1, 2])
            try flush(fixture, client)
            try holding("delete", store, client) { try remove(fixture, store) }
            store.deliver()
            try flush(fixture, client)
            try fixture.write("a", [3])
            try flush(fixture, client)
            #expect(store.holds(key, [3]))
        }
    }

    @Test func aRemovedFolderDoesNotComeBack() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 3) { fixture, client in
            let attributes = FileAttributes(mode: 0o040755, uid: 1, gid: 2, modified: Timestamp(seconds: 5))
            try holding("put", store, client) {
                _ = try fixture.journal.createDirectory(at: key, attributes: attributes, remote: .absent)
            }
            try flush(fixture, client)
            try fixture.journal.remove(at: key, remote: .directory(hasMarker: true, attributes))
            try flush(fixture, client)
            #expect(store.objects.isEmpty)
            store.deliver()
            #expect(store.objects.count == 1, "it did not come late")
            try expectNothingLeft(fixture)
            #expect(store.objects.isEmpty)
        }
    }

    /// Without conditions an older version overwrites a newer one: the newer waits for its end.
    @Test func anOlderVersionDoesNotReplaceANewerOneWhereConditionsAreIgnored() throws {
        let store = FakeStore()
        store.state.withLock { state in
            state.ignoresConditions = true
            state.capabilities.conditionalWrites = false
        }
        try withFlusher(store, lateRequests: 2) { fixture, client in
            try holding("put", store, client) { try fixture.write("a", [1, 2]) }
            try flush(fixture, client)
            try fixture.write("a", [3, 3, 3], remote: try remote(store))
            _ = try client.call(.wake(volume: nil))
            usleep(300_000)
            store.deliver()
            try flush(fixture, client)
            #expect(store.holds(key, [3, 3, 3]))
        }
    }

    @Test func aClockThatIsSetBackMakesNobodyWaitLonger() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 0.5) { fixture, client in
            let other = try fixture.journal.createFile(
                at: ObjectKey("open"),
                attributes: FlusherFixture.attributes,
                remote: .absent
            )
            let request = try #require(try fixture.journal.noteRequest(for: other, key, .deletion))
            try fixture.journal.doubt(request, until: Timestamp.now().advanced(bySeconds: 3600))
            try fixture.write("a", [1, 2])
            try flush(fixture, client)
            #expect(store.holds(key, [1, 2]))
        }
    }

    @Test func nothingIsInDoubtAfterAnswers() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 3600) { fixture, client in
            try fixture.write("a", [1, 2])
            try fixture.write("b", [1, 2])
            try flush(fixture, client)
            try remove(fixture, store)
            let attributes = FileAttributes(mode: 0o040755, uid: 1, gid: 2, modified: Timestamp(seconds: 5))
            _ = try fixture.journal.createDirectory(at: ObjectKey("d"), attributes: attributes, remote: .absent)
            try flush(fixture, client)
            try expectNothingLeft(fixture)
            #expect(try fixture.journal.doubtCount() == 0)
        }
    }
}
