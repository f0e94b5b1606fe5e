// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Control
import Glibc
import Journal
import ObjectStore
import Platform
import Synchronization
import Testing

/// Requests without an answer whose outcome looks like something else, or whose condition holds once more.
extension LateRequestTests {
    private var source: ObjectKey { ObjectKey("p") }
    private var target: ObjectKey { ObjectKey("q") }
    private var attributes: FileAttributes { FlusherFixture.attributes }

    /// What an object has for the attributes of the tests' files.
    private var metadata: ObjectMetadata {
        ObjectMetadata(
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            modified: attributes.modified
        )
    }

    private func rename(_ fixture: FlusherFixture, _ version: ObjectVersion) throws {
        try fixture.journal.rename(
            from: source,
            to: target,
            sourceRemote: .file(version, attributes),
            targetRemote: .absent
        )
    }

    private func setMode(_ fixture: FlusherFixture, _ store: FakeStore) throws {
        let remote = try remote(store)
        try fixture.journal.setAttributes(at: key, remote: remote, AttributeChanges(permissions: 0o600))
    }

    /// Changes a byte in place.
    private func patch(_ fixture: FlusherFixture, _ store: FakeStore, _ byte: UInt8) throws {
        let remote = try remote(store)
        let node = try fixture.journal.beginWriting(at: key, remote: remote)
        let generation = try #require(node.generation)
        var content = generation.content
        let file = try fixture.journal.openStaging(generation.id, creating: true)
        try [byte].withUnsafeBytes { try file.write($0, at: 1) }
        content.write(ByteRange(1, 2))
        let modified = attributes.modified
        #expect(try fixture.journal.seal(node.id, generation.id, content: content, modified: modified))
        try fixture.journal.synchronizeSealed()
    }

    // MARK: copies

    @Test func anObjectOfAnotherThatLooksLikeACopyIsNone() throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        let version = store.foreign("p", [1, 2], metadata: metadata)
        let client = try fixture.start()
        store.atFirst("copy") { [metadata] in store.foreign("q", [9, 9], metadata: metadata) }
        try holding("copy", store, client) { try rename(fixture, version) }
        try flush(fixture, client)
        let contents = store.objects.values.map(\.bytes)
        #expect(store.holds(target, [9, 9]) && contents.contains([1, 2]), "what was renamed is lost")
        #expect(store.objects[source] == nil && contents.count == 2)
        try fixture.stop(client)
        #expect(try fixture.journal.conflicts().count == 1)
    }

    /// An older object of ours, that came late to the name, looks as the copy would.
    @Test func whatCameLateToTheNameIsNoCopy() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 5) { fixture, client in
            let version = store.foreign("p", [2, 2], metadata: metadata)
            try holding("put", store, client) { try fixture.write("q", [1, 1]) }
            try flush(fixture, client)
            let old = try #require(store.objects[target]).version
            try fixture.journal.remove(at: target, remote: .file(old, attributes))
            try flush(fixture, client)
            store.atFirst("copy") { store.deliver() }
            try holding("copy", store, client) { try rename(fixture, version) }
            try flush(fixture, client)
            #expect(store.holds([target: [2, 2]]), "what was renamed is lost")
        }
    }

    /// The tag of what was uploaded in parts, or is encrypted, is not the one of its copy.
    @Test(arguments: ["parts", "encrypted source", "encrypted copy"])
    func aCopyWithATagOfItsOwnIsOurs(_ kind: String) throws {
        let store = FakeStore()
        let (source, target) = (source, target)
        try withFlusher(store, lateRequests: 5) { fixture, client in
            store.foreign("p", [1, 2], metadata: metadata)
            store.state.withLock { state in
                state.objects[source]?.tag = String(repeating: "0", count: 32) + (kind == "parts" ? "-2" : "")
                if kind != "parts" { state.encrypted = [kind == "encrypted source" ? source : target] }
            }
            let version = try #require(store.objects[source]).version
            store.hook.withLock { $0.call = { name, key in if name == "status", key == target { store.deliver() } } }
            try holding("copy", store, client) { try rename(fixture, version) }
            try flush(fixture, client)
            #expect(store.holds([target: [1, 2]]) && store.requests("copy") == 1)
        }
    }

    // MARK: the same bytes again

    @Test func theSameBytesThatComeLateDoNotUndoNewAttributes() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 2) { fixture, client in
            try fixture.write("a", [1, 2])
            try flush(fixture, client)
            try holding("put", store, client) { try fixture.write("a", [1, 2], remote: try remote(store)) }
            try flush(fixture, client)
            try setMode(fixture, store)
            _ = try client.call(.wake(volume: nil))
            usleep(300_000)
            store.deliver()
            try flush(fixture, client)
            #expect(store.objects[key]?.metadata.mode == 0o100600)
        }
    }

    @Test func theSameBytesThatWereAnsweredHoldNothingUp() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 3600) { fixture, client in
            try fixture.write("a", [1, 2])
            try flush(fixture, client)
            try fixture.write("a", [1, 2], remote: try remote(store))
            try flush(fixture, client)
            #expect(store.requests("put") == 2 && store.requests("copy") == 0)
            try setMode(fixture, store)
            try flush(fixture, client)
            #expect(try fixture.journal.doubtCount() == 0)
            #expect(store.objects[key]?.metadata.mode == 0o100600)
        }
    }

    // MARK: what was there before is there again

    /// The late write's condition holds of it again, whether the write was repeated with success before or not.
    @Test(arguments: [[1, 2], []] as [[UInt8]], [true, false])
    func contentThatIsBackStays(_ bytes: [UInt8], isRepeated: Bool) throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 3) { fixture, client in
            try fixture.write("a", bytes)
            try flush(fixture, client)
            if !isRepeated { store.state.withLock { $0.refusals["status a"] = .temporary } }
            try holding("put", store, client) { try fixture.write("a", [3, 3, 3], remote: try remote(store)) }
            if isRepeated { try flush(fixture, client) }
            try fixture.write("a", bytes, remote: try remote(store))
            store.state.withLock { $0.refusals = [:] }
            _ = try client.call(.wake(volume: nil))
            usleep(500_000)
            store.deliver()
            try flush(fixture, client)
            #expect(store.holds(key, bytes))
        }
    }

    @Test func aChangeInPlaceThatWasTakenBackStaysSo() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 3) { fixture, client in
            try fixture.write("a", [1, 2, 3])
            try flush(fixture, client)
            try holding("put", store, client) { try patch(fixture, store, 9) }
            try flush(fixture, client)
            #expect(store.holds(key, [1, 9, 3]), "the test proves nothing")
            try patch(fixture, store, 2)
            _ = try client.call(.wake(volume: nil))
            usleep(500_000)
            store.deliver()
            try flush(fixture, client)
            #expect(store.holds(key, [1, 2, 3]))
        }
    }

    @Test func aCopyOfWhatWasThereBeforeStays() throws {
        let store = FakeStore()
        try withFlusher(store, lateRequests: 3) { fixture, client in
            let version = store.foreign("p", [1, 2], metadata: metadata)
            try fixture.write("a", [1, 2])
            try flush(fixture, client)
            try holding("put", store, client) { try fixture.write("a", [3, 3, 3], remote: try remote(store)) }
            try flush(fixture, client)
            let replaced = try remote(store)
            try fixture.journal.rename(
                from: source,
                to: key,
                sourceRemote: .file(version, attributes),
                targetRemote: replaced
            )
            _ = try client.call(.wake(volume: nil))
            usleep(500_000)
            store.deliver()
            try flush(fixture, client)
            #expect(store.holds([key: [1, 2]]))
        }
    }
}
