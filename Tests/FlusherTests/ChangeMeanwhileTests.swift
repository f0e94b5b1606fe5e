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
import Synchronization
import Testing

/// A row that changes while a request for it is under way: what is found out by that request is about what was wanted before.
@Suite(.serialized) struct ChangeMeanwhileTests {
    private let attributes = FlusherFixture.attributes
    private let p = ObjectKey("p")
    private let q = ObjectKey("q")

    /// Changes the remote and the journal while the first request of a kind is under way; `body` then sees what came of it.
    private func whileFirst(
        _ kind: String,
        _ store: FakeStore,
        begin: (FlusherFixture) throws -> Void,
        change: @escaping @Sendable (FlusherFixture) throws -> Void,
        _ body: ([UploadReport]) throws -> Void
    ) throws {
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        let outcome = Mutex<Result<Void, any Error>?>(nil)
        store.atFirst(kind) {
            let result = Result { try change(fixture) }
            outcome.withLock { $0 = result }
        }
        let client = try fixture.start()
        try begin(fixture)
        _ = try client.call(.wake(volume: nil))
        for _ in 0..<1000 where outcome.withLock({ $0 == nil }) { usleep(20_000) }
        try #require(outcome.withLock { $0 }).get()
        // Where the remote was away it is there again.
        usleep(200_000)
        store.state.withLock { $0.isOffline = false }
        try body(try fixture.flush(client, timeout: 20))
        try fixture.stop(client)
    }

    /// Moves one remote file in place of the other.
    private func rename(_ fixture: FlusherFixture, _ old: ObjectVersion, _ replaced: ObjectVersion) throws {
        try fixture.journal.rename(
            from: p,
            to: q,
            sourceRemote: .file(old, attributes),
            targetRemote: .file(replaced, attributes)
        )
    }

    /// The contents of all objects, by the beginnings of their names.
    private func contents(_ store: FakeStore, _ prefix: String) -> Set<[UInt8]> {
        Set(store.objects.filter { $0.key.string.hasPrefix(prefix) }.map(\.value.bytes))
    }

    /// New attributes are refused because others replaced the object, and meanwhile the file is written: that is a conflict,
    /// though the attributes alone would have been none.
    @Test func contentThatComesWhileAttributesAreRefusedOverwritesNobody() throws {
        let store = FakeStore()
        let remote = RemoteState.file(store.foreign("p", [1, 1]), attributes)
        try whileFirst("copy", store) { fixture in
            try fixture.journal.setAttributes(at: p, remote: remote, AttributeChanges(permissions: 0o600))
        } change: { fixture in
            store.foreign(p.string, [2, 2, 2])
            try fixture.write(p.string, [3, 3, 3, 3], remote: remote)
        } _: { left in
            #expect(left.isEmpty, "\(left)")
            #expect(store.objects[p]?.bytes == [2, 2, 2], "what others wrote is overwritten")
            #expect(contents(store, "p") == [[2, 2, 2], [3, 3, 3, 3]])
        }
    }

    /// An upload to the name that the file has left finds nothing there, which says nothing of its new one.
    @Test func whatIsFoundAtTheOldNameIsNotBelievedOfTheNew() throws {
        let store = FakeStore()
        let (old, replaced) = (store.foreign("p", [1, 1]), store.foreign("q", [9, 9, 9]))
        try whileFirst("put", store) { fixture in
            try fixture.write("p", [3, 3, 3, 3], remote: .file(old, attributes))
        } change: { fixture in
            store.state.withLock { state in
                state.isOffline = true
                state.objects[p] = nil
            }
            try rename(fixture, old, replaced)
        } _: { left in
            #expect(left.isEmpty && store.holds([q: [3, 3, 3, 3]]), "\(left) \(store.objects.keys)")
        }
    }

    /// The same of new attributes.
    @Test(arguments: [nil, [2, 2, 2], []] as [[UInt8]?])
    func whatBecameOfTheOldNameDoesNotUndoARename(theirs: [UInt8]?) throws {
        let store = FakeStore()
        let (old, replaced) = (store.foreign("p", [1, 1]), store.foreign("q", [9, 9, 9]))
        try whileFirst("copy", store) { fixture in
            let changes = AttributeChanges(permissions: 0o600)
            try fixture.journal.setAttributes(at: p, remote: .file(old, attributes), changes)
        } change: { fixture in
            store.state.withLock { $0.isOffline = true }
            if let theirs { store.foreign(p.string, theirs) }
            if theirs?.isEmpty == true { store.state.withLock { $0.objects[p] = nil } }
            try rename(fixture, old, replaced)
        } _: { left in
            guard theirs?.isEmpty != true else {
                // Nobody has its bytes any more: that is for a person to know.
                #expect(left.contains { $0.path == "q" && $0.state == .attention }, "\(left)")
                #expect(store.holds([q: [9, 9, 9]]))
                return
            }
            let expected: [ObjectKey: [UInt8]] = if let theirs { [p: theirs, q: theirs] } else { [q: [1, 1]] }
            #expect(left.isEmpty && store.holds(expected), "\(left) \(store.objects.keys)")
            #expect(store.objects[q]?.metadata.mode == 0o100600)
        }
    }

    /// An upload whose answer was lost is found at the remote, without the attributes that the file has got since: these are not
    /// taken for the object's, so that a change back to them is one.
    @Test func attributesOfAnEarlierAttemptAreNotTakenForTheNewOnes() throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        let client = try fixture.start()
        store.state.withLock { $0.holding = ["put"] }
        try fixture.write("p", [1])
        _ = try client.call(.wake(volume: nil))
        try wait { store.heldCount == 1 }
        store.state.withLock { $0.isOffline = true }
        // The attempt ends with that.
        usleep(500_000)
        try fixture.journal.setAttributes(at: p, remote: .absent, AttributeChanges(permissions: 0o600))
        store.deliver()
        store.state.withLock { state in
            state.refusals["copy"] = .forbidden
            (state.holding, state.isOffline) = ([], false)
        }
        try wait { try fixture.journal.node(at: p)?.base != .absent }
        let catalog = try Catalog(directory: fixture.directories.places(of: fixture.description).cache)
        let entry = try #require(try catalog.entry(p))
        #expect(store.objects[p]?.metadata.mode == 0o100644, "the test proves nothing")
        let told = entry.metadata?.mode.map { attributes.applying(AttributeChanges(permissions: $0 & 0o7777)) }
        let remote = RemoteState.file(try #require(entry.version), told)
        for permissions in [0o640, 0o600] as [UInt32] {
            try fixture.journal.setAttributes(at: p, remote: remote, AttributeChanges(permissions: permissions))
        }
        store.state.withLock { $0.refusals = [:] }
        #expect(try fixture.flush(client, timeout: 20).isEmpty)
        #expect(store.objects[p]?.metadata.mode == 0o100600)
        try fixture.stop(client)
    }

    /// New attributes whose answer was lost, and which were given up then, are known where they came to pass.
    @Test func attributesThatCameToPassAlthoughTheyWereGivenUpAreKnown() throws {
        let store = FakeStore()
        let metadata = ObjectMetadata(
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            modified: attributes.modified
        )
        let version = store.foreign("p", [1], metadata: metadata)
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        let client = try fixture.start()
        store.state.withLock { $0.holding = ["copy"] }
        let changes = AttributeChanges(permissions: 0o600)
        try fixture.journal.setAttributes(at: p, remote: .file(version, attributes), changes)
        _ = try client.call(.wake(volume: nil))
        try wait { store.heldCount == 1 }
        store.state.withLock { $0.isOffline = true }
        let row = try #require(try fixture.journal.node(at: p))
        try wait { try fixture.journal.node(at: p)?.schedule.attempts ?? 0 > 0 }
        #expect(try fixture.journal.cancel(row.id))
        store.deliver()
        store.state.withLock { ($0.holding, $0.isOffline) = ([], false) }
        _ = try client.call(.wake(volume: nil))
        let catalog = try Catalog(directory: fixture.directories.places(of: fixture.description).cache)
        try wait { try catalog.entry(p)?.metadata?.mode == 0o100600 }
        try fixture.stop(client)
    }

    private func wait(_ condition: () throws -> Bool) throws {
        for _ in 0..<1500 where try !condition() { usleep(10_000) }
        #expect(try condition())
    }

    /// A name that the remote refuses is given up before the refusal arrives, and may not be looked at either.
    @Test(arguments: [nil, .rejected, .invalidKey, .forbidden] as [StoreError.Cause?])
    func aRefusalIsOfWhatWasWantedThen(look: StoreError.Cause?) throws {
        let store = FakeStore()
        store.state.withLock { state in
            state.refusals["put p"] = look ?? .invalidKey
            state.refusals["status p"] = look
        }
        try whileFirst("put", store) { fixture in
            try fixture.write("p", [3, 3])
        } change: { fixture in
            try fixture.journal.rename(from: p, to: q, sourceRemote: .absent, targetRemote: .absent)
        } _: { left in
            #expect(left.isEmpty && store.holds([q: [3, 3]]), "\(left)")
        }
    }
}
