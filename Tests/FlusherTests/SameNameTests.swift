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

/// Changes of one name that meet: what is in flight for it, what stood there before, what looks the same.
@Suite(.serialized) struct SameNameTests {
    private let attributes = FlusherFixture.attributes

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

    @Test func namesThatChangedPlacesAndWereRewrittenAreUntangled() throws {
        let store = FakeStore()
        let remoteA = RemoteState.file(store.foreign("a", [1, 1, 1]), attributes)
        let remoteB = RemoteState.file(store.foreign("b", [2, 2]), attributes)
        try withFlusher(store) { fixture, client in
            let journal = fixture.journal
            try journal.exchange(
                ObjectKey("a"),
                ObjectKey("b"),
                firstRemote: remoteA,
                secondRemote: remoteB
            )
            try fixture.write("a", [3, 3, 3, 3])
            try fixture.write("b", [4, 4, 4, 4, 4])
            let left = try fixture.flush(client)
            #expect(left.isEmpty, "\(left)")
            #expect(store.holds([ObjectKey("a"): [3, 3, 3, 3], ObjectKey("b"): [4, 4, 4, 4, 4]]))
        }
    }

    @Test func theSameBytesWrittenAgainKeepTheirNewTimeAfterALostRequest() throws {
        let store = FakeStore()
        let base = store.foreign("a", [1, 2, 3])
        try withFlusher(store) { fixture, client in
            // The request never arrives, and the object has the tag that ours will have.
            store.atFirst("put") { store.state.withLock { $0.isOffline = true } }
            let old = FileAttributes(mode: 0o100600, uid: 1, gid: 1, modified: Timestamp(seconds: 5))
            try fixture.write("a", [1, 2, 3], remote: .file(base, old))
            _ = try client.call(.wake(volume: nil))
            for _ in 0..<100 where store.requests("put") == 0 { usleep(20_000) }
            usleep(200_000)
            store.state.withLock { $0.isOffline = false }
            let left = try fixture.flush(client, timeout: 20)
            #expect(left.isEmpty && store.holds([ObjectKey("a"): [1, 2, 3]]))
            #expect(store.objects[ObjectKey("a")]?.metadata.modified == FlusherFixture.attributes.modified)
        }
    }

    @Test func whatARenameReplacesIsNotTakenForTheCopy() throws {
        let store = FakeStore()
        // Tags of multipart uploads, which tell nothing; everything else is alike.
        let versions = [("a", UInt8(1)), ("b", UInt8(2))].map { name, byte in
            let object = FakeStore.Object(
                bytes: [byte],
                tag: "\(name)-2",
                metadata: ObjectMetadata(
                    mode: attributes.mode,
                    uid: attributes.uid,
                    gid: attributes.gid,
                    modified: attributes.modified
                )
            )
            store.state.withLock { $0.objects[ObjectKey(name)] = object }
            return object.version
        }
        try withFlusher(store) { fixture, client in
            store.atFirst("copy") { store.state.withLock { $0.isOffline = true } }
            try fixture.journal.rename(
                from: ObjectKey("a"),
                to: ObjectKey("b"),
                sourceRemote: .file(versions[0], attributes),
                targetRemote: .file(versions[1], attributes)
            )
            _ = try client.call(.wake(volume: nil))
            for _ in 0..<100 where store.requests("copy") == 0 { usleep(20_000) }
            usleep(200_000)
            store.state.withLock { $0.isOffline = false }
            let left = try fixture.flush(client, timeout: 20)
            #expect(left.isEmpty && store.holds([ObjectKey("b"): [1]]))
        }
    }

    /// It waits for what is in the folder to go, and that for the file, whose content it has.
    @Test(arguments: [false, true])
    func aFileTakesThePlaceOfTheFolderItWasIn(isAlone: Bool) throws {
        let store = FakeStore()
        let remote = RemoteState.file(store.foreign("d/a", [1, 1, 1]), attributes)
        let other = isAlone ? nil : RemoteState.file(store.foreign("d/x/b", [2, 2]), attributes)
        let folder = FileAttributes(mode: 0o040755, uid: 1, gid: 2, modified: Timestamp(seconds: 5))
        let implied = RemoteState.directory(hasMarker: false, folder)
        try withFlusher(store, quietPeriod: 60) { fixture, client in
            let journal = fixture.journal
            let (file, place, temporary) = (ObjectKey("d/a"), ObjectKey("d"), ObjectKey("t"))
            try journal.rename(from: file, to: temporary, sourceRemote: remote, targetRemote: .absent)
            if let other {
                let (from, to) = (ObjectKey("d/x/b"), ObjectKey("b"))
                try journal.rename(from: from, to: to, sourceRemote: other, targetRemote: .absent)
                try journal.remove(at: ObjectKey("d/x"), remote: implied)
            }
            try journal.remove(at: place, remote: implied)
            try journal.rename(from: temporary, to: place, sourceRemote: .absent, targetRemote: implied)
            let left = try fixture.flush(client, timeout: 15)
            #expect(left.isEmpty, "\(left)")
            let expected: [ObjectKey: [UInt8]] =
                isAlone ? [place: [1, 1, 1]] : [place: [1, 1, 1], ObjectKey("b"): [2, 2]]
            #expect(store.holds(expected))
        }
    }

    @Test func aFileOpenedWhileItsObjectTurnsOutToBeGoneIsKept() throws {
        let store = FakeStore()
        let remote = RemoteState.file(store.foreign("a", [1, 1]), attributes)
        try withFlusher(store) { fixture, client in
            let opened = Monitor<JournalNode?>(nil)
            store.atFirst("copy") {
                store.state.withLock { $0.objects = [:] }
                let node = try? fixture.journal.beginWriting(at: ObjectKey("a"), remote: remote)
                opened.update { $0 = node }
            }
            try fixture.journal.setAttributes(at: ObjectKey("a"), remote: remote, AttributeChanges(permissions: 0o600))
            _ = try client.call(.wake(volume: nil))
            let node = try #require(opened.wait(timeout: 20) { $0 })
            // The flusher finds out what became of the object.
            for _ in 0..<200 where try fixture.journal.transfers().contains(where: { $0.transfer.method == .copy }) {
                usleep(20_000)
            }
            let generation = try #require(node.generation)
            let file = try fixture.journal.openStaging(generation.id, creating: true)
            try [UInt8](repeating: 9, count: 2).withUnsafeBytes { try file.write($0, at: 0) }
            var content = generation.content
            content.write(ByteRange(0, 2))
            let isKept = try fixture.journal.seal(node.id, generation.id, content: content, modified: nil)
            #expect(isKept)
            try fixture.journal.synchronizeSealed()
            let left = try fixture.flush(client, timeout: 10)
            #expect(left.isEmpty && store.holds([ObjectKey("a"): [9, 9]]))
        }
    }

    /// A renamed file whose bytes were fetched since it was changed, and that the remote refuses.
    private func withRefusedRename(_ body: (FakeStore, FlusherFixture, ControlClient) throws -> Void) throws {
        let store = FakeStore()
        let remote = RemoteState.file(store.foreign("a", [1, 2, 3]), attributes)
        store.state.withLock { $0.refusals["put"] = .forbidden }
        try withFlusher(store) { fixture, client in
            let journal = fixture.journal
            let (from, to) = (ObjectKey("a"), ObjectKey("b"))
            try journal.rename(from: from, to: to, sourceRemote: remote, targetRemote: .absent)
            let node = try journal.beginWriting(at: to, remote: .absent)
            let generation = try #require(node.generation)
            let file = try journal.openStaging(generation.id, creating: true)
            try [4].withUnsafeBytes { try file.write($0, at: 3) }
            var content = generation.content
            content.write(ByteRange(3, 4))
            try journal.seal(node.id, generation.id, content: content, modified: nil)
            try journal.synchronizeSealed()
            _ = try client.call(.wake(volume: nil))
            for _ in 0..<1000 where store.requests("put") < 2 { usleep(20_000) }
            _ = try fixture.flush(client, timeout: 1)
            #expect(try journal.node(at: to)?.generation?.underlay == Underlay.none, "fetched")
            #expect(store.holds([from: [1, 2, 3]]), "the only copy of these bytes that the remote has")
            try body(store, fixture, client)
        }
    }

    @Test func whatARenamedFileWasFetchedFromStaysUntilItArrives() throws {
        try withRefusedRename { store, fixture, client in
            store.state.withLock { $0.refusals = [:] }
            let left = try fixture.flush(client, timeout: 20)
            #expect(left.isEmpty && store.holds([ObjectKey("b"): [1, 2, 3, 4]]), "\(left)")
        }
    }

    @Test func cancellingARenameLeavesTheRemoteAsItIs() throws {
        try withRefusedRename { store, fixture, client in
            let selection = UploadSelection(paths: ["b"])
            guard case .changed = try client.call(.change(verb: .cancel, selection: selection)) else {
                Issue.record("not cancelled")
                return
            }
            let left = try fixture.flush(client, timeout: 20)
            #expect(try left.isEmpty && fixture.pending().isEmpty)
            #expect(store.holds([ObjectKey("a"): [1, 2, 3]]))
        }
    }

    @Test func manyNamesThatMoveOnByOneAreUntangled() throws {
        let store = FakeStore()
        let count = 150
        let names = (0..<count).map { ObjectKey("f\($0)") }
        let remotes = names.enumerated().map { index, name in
            RemoteState.file(store.foreign(name.string, [UInt8(index)]), attributes)
        }
        try withFlusher(store, quietPeriod: 60) { fixture, client in
            let (journal, aside) = (fixture.journal, ObjectKey("t"))
            try journal.rename(from: names[0], to: aside, sourceRemote: remotes[0], targetRemote: .absent)
            for index in 1..<count {
                let (from, to) = (names[index], names[index - 1])
                try journal.rename(from: from, to: to, sourceRemote: remotes[index], targetRemote: remotes[index - 1])
            }
            let last = names[count - 1]
            try journal.rename(from: aside, to: last, sourceRemote: .absent, targetRemote: remotes[count - 1])
            let left = try fixture.flush(client, timeout: 60)
            let isDone = left.isEmpty
            #expect(isDone, "\(left.count) are left")
            var expected: [ObjectKey: [UInt8]] = [:]
            for index in 0..<count { expected[names[index]] = [UInt8((index + 1) % count)] }
            let isRight = store.holds(expected)
            #expect(isRight)
        }
    }
}
