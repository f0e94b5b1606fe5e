// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Configuration
import Control
import Flusher
import Glibc
import Journal
import ObjectStore
import Platform
import Synchronization
import Testing

/// Objects that are to be deleted or replaced while a mount reads them for files without a name.
@Suite struct OpenReadersTests {
    private let key = ObjectKey("a")

    /// A flusher, and a mount that holds the version of `a` that is at the remote.
    private struct Scene {
        let store: FakeStore
        let fixture: FlusherFixture
        let version: ObjectVersion
        let held: HeldVersions
        var remote: RemoteState { .file(version, FlusherFixture.attributes) }

        init(protocol name: String = "auto", quietPeriod: Double = 0) throws {
            store = FakeStore()
            store.state.withLock { $0.speaksResumable = name == "ietf-resumable" }
            fixture = try FlusherFixture(store: store, uploadProtocol: name, quietPeriod: quietPeriod)
            version = store.foreign("a", [1, 2, 3])
            held = HeldVersions(directory: fixture.directories.places(of: fixture.description).state)
        }
    }

    private func uploads(_ client: ControlClient) throws -> [UploadReport] {
        guard case .uploads(let uploads, nil) = try client.call(.uploads(selection: UploadSelection())) else {
            throw ControlError.malformed("no uploads")
        }
        return uploads
    }

    private func expect(_ reasons: [String], of path: String, _ client: ControlClient) throws {
        try waitUntil {
            try uploads(client).filter { $0.path == path }.flatMap { $0.waiting.map(\.reason) } == reasons
        }
    }

    private func waitUntil(_ isDone: () throws -> Bool) throws {
        for _ in 0..<1500 {
            if try isDone() { return }
            usleep(20_000)
        }
        #expect(try isDone())
    }

    @Test func aDeletionWaitsForTheLastCloseAndHoldsUpNothingElse() throws {
        let scene = try Scene()
        defer { scene.fixture.remove() }
        var hold = scene.held.hold(key, scene.version)
        try scene.fixture.journal.remove(at: key, remote: scene.remote)
        var client = try scene.fixture.start()
        try expect(["open"], of: "a", client)
        try scene.fixture.write("other", [7])
        _ = try client.call(.wake(volume: nil))
        try waitUntil { scene.store.holds(ObjectKey("other"), [7]) }
        try scene.fixture.stop(client)
        client = try scene.fixture.start()
        try expect(["open"], of: "a", client)
        #expect(scene.store.requests("delete") == 0 && scene.store.holds(key, [1, 2, 3]))
        hold = nil
        #expect(hold == nil)
        try waitUntil { scene.store.objects[key] == nil }
        try scene.fixture.stop(client)
    }

    @Test(arguments: ["put", "s3-multipart", "ietf-resumable"])
    func aReplacementWaitsWithItsLastStepOnly(_ name: String) throws {
        let scene = try Scene(protocol: name)
        defer { scene.fixture.remove() }
        let new = [UInt8](repeating: 9, count: 6 << 20)
        var hold = scene.held.hold(key, scene.version)
        try scene.fixture.write("a", new, remote: scene.remote)
        let client = try scene.fixture.start()
        try expect(["open"], of: "a", client)
        let sent = scene.store.bodyBytes
        #expect(name != "s3-multipart" ? sent == 0 : sent >= Int64(new.count), "\(sent) bytes are sent")
        #expect(scene.store.holds(key, [1, 2, 3]))
        hold = nil
        #expect(hold == nil)
        try waitUntil { scene.store.holds(key, new) }
        #expect(scene.store.bodyBytes <= Int64(new.count) + sent / 2, "nothing of it is sent twice")
        try scene.fixture.stop(client)
    }

    @Test func aReplacementDoesNotWaitForEver() throws {
        let scene = try Scene()
        defer { scene.fixture.remove() }
        let hold = scene.held.hold(key, scene.version)
        try scene.fixture.write("a", [4], remote: scene.remote)
        let client = try scene.fixture.start(readerPatience: ReaderWait.Patience(usual: 1))
        try waitUntil { scene.store.holds(key, [4]) }
        try scene.fixture.stop(client)
        #expect(hold != nil)
    }

    @Test func whoWaitsForADeletionGetsIt() throws {
        let scene = try Scene()
        defer { scene.fixture.remove() }
        let hold = scene.held.hold(key, scene.version)
        try scene.fixture.journal.remove(at: key, remote: scene.remote)
        let client = try scene.fixture.start(readerPatience: ReaderWait.Patience(ofWaiters: 1))
        try expect(["open"], of: "a", client)
        #expect(try scene.fixture.flush(client, timeout: 30).isEmpty && scene.store.objects[key] == nil)
        try scene.fixture.stop(client)
        #expect(hold != nil)
    }

    /// As when logs are rotated while somebody reads the old one, and the new one is synced.
    @Test func whoWaitsForAFileGetsWhatHasToGoFirst() throws {
        let scene = try Scene()
        defer { scene.fixture.remove() }
        let log = ObjectKey("log")
        let old = scene.store.foreign("log", [4, 5])
        let hold = scene.held.hold(key, scene.version)
        try scene.fixture.journal.rename(
            from: log,
            to: key,
            sourceRemote: .file(old, FlusherFixture.attributes),
            targetRemote: scene.remote
        )
        try scene.fixture.write("log", [6])
        let client = try scene.fixture.start(readerPatience: ReaderWait.Patience(ofWaiters: 1))
        try expect(["open"], of: "a", client)
        try expect(["dependency"], of: "log", client)
        #expect(try scene.fixture.flush(client, paths: ["log"]).isEmpty)
        #expect(scene.store.holds([log: [6], key: [4, 5]]))
        try scene.fixture.stop(client)
        #expect(hold != nil)
    }

    @Test func aChangeDuringTheUploadDoesNotMakeAFlushWaitLonger() throws {
        // Before it is over a flush has begun.
        let scene = try Scene(protocol: "s3-multipart", quietPeriod: 5)
        defer { scene.fixture.remove() }
        let hold = scene.held.hold(key, scene.version)
        try scene.fixture.write("a", [UInt8](repeating: 9, count: 6 << 20), remote: scene.remote)
        let (key, remote, journal) = (key, scene.remote, scene.fixture.journal)
        let hasChanged = Atomic(false)
        scene.store.hook.withLock { hook in
            hook.call = { name, _ in
                guard name == "part", !hasChanged.exchange(true, ordering: .relaxed) else { return }
                _ = try? journal.setAttributes(at: key, remote: remote, AttributeChanges(permissions: 0o600))
                // The flusher takes it in meanwhile.
                usleep(2_500_000)
            }
        }
        let client = try scene.fixture.start(readerPatience: ReaderWait.Patience(ofWaiters: 1))
        #expect(try scene.fixture.flush(client).isEmpty)
        // The flush waits for what was there when it began: the change may come a moment later.
        let store = scene.store
        func mode() -> UInt32? { store.objects[key]?.metadata.mode.map { $0 & 0o777 } }
        for _ in 0..<2000 where mode() != 0o600 { usleep(10_000) }
        #expect(mode() == 0o600)
        try scene.fixture.stop(client)
        #expect(hold != nil)
    }

    @Test func anUploadToALeftPathWaitsWithoutRequests() throws {
        // Before it is over what is left of the old path, which would end the upload, is paused.
        let scene = try Scene(protocol: "s3-multipart", quietPeriod: 5)
        defer { scene.fixture.remove() }
        let new = [UInt8](repeating: 9, count: 6 << 20)
        var hold = scene.held.hold(key, scene.version)
        try scene.fixture.write("a", new, remote: scene.remote)
        let client = try scene.fixture.start()
        try expect(["open"], of: "a", client)
        let moved = ObjectKey("b")
        try scene.fixture.journal.rename(from: key, to: moved, sourceRemote: scene.remote, targetRemote: .absent)
        _ = try client.call(.change(verb: .pause, selection: UploadSelection(paths: ["a"])))
        _ = try client.call(.change(verb: .now, selection: UploadSelection(paths: ["b"])))
        try expect(["open"], of: "b", client)
        let requests = scene.store.state.withLock { $0.requests }
        // It is looked at several times meanwhile.
        usleep(3_000_000)
        #expect(scene.store.state.withLock { $0.requests } == requests)
        hold = nil
        _ = try client.call(.change(verb: .resume, selection: UploadSelection(paths: ["a"])))
        #expect(try hold == nil && scene.fixture.flush(client).isEmpty && scene.store.holds([moved: new]))
        try scene.fixture.stop(client)
    }

    @Test func theNextReaderOfTheSameVersionIsWaitedForToo() throws {
        let scene = try Scene()
        defer { scene.fixture.remove() }
        let hold = scene.held.hold(key, scene.version)
        try scene.fixture.write("a", [4], remote: scene.remote)
        let client = try scene.fixture.start(readerPatience: ReaderWait.Patience(usual: 4))
        try waitUntil { try scene.store.holds(key, [4]) && scene.fixture.pending().isEmpty }
        scene.store.foreign("a", [1, 2, 3])
        try scene.fixture.write("a", [5], remote: scene.remote)
        _ = try client.call(.wake(volume: nil))
        try expect(["open"], of: "a", client)
        try waitUntil { scene.store.holds(key, [5]) }
        try scene.fixture.stop(client)
        #expect(hold != nil)
    }

    @Test func aDeletionThatAFileWaitsForDoesNotWaitForEver() throws {
        let scene = try Scene()
        defer { scene.fixture.remove() }
        let folder = ObjectKey("f")
        let inner = scene.store.foreign("f/x", [5])
        let hold = scene.held.hold(ObjectKey("f/x"), inner)
        try scene.fixture.journal.remove(at: ObjectKey("f/x"), remote: .file(inner, FlusherFixture.attributes))
        try scene.fixture.journal.remove(at: folder, remote: .directory(hasMarker: false, FlusherFixture.attributes))
        try scene.fixture.write("f", [6])
        let client = try scene.fixture.start(readerPatience: ReaderWait.Patience(usual: 1))
        try waitUntil { scene.store.holds(folder, [6]) && scene.store.objects.count == 2 }
        try scene.fixture.stop(client)
        #expect(hold != nil)
    }

    @Test func whatCannotBeFoundOutHoldsNothingForEver() throws {
        let scene = try Scene()
        defer { scene.fixture.remove() }
        let places = scene.fixture.directories.places(of: scene.fixture.description)
        try #require(symlink("/dev/null", places.state + "/held.lock") == 0)
        try scene.fixture.journal.remove(at: key, remote: scene.remote)
        var client = try scene.fixture.start()
        try expect(["open"], of: "a", client)
        #expect(try uploads(client).first?.waiting.first?.detail?.contains("cannot be found out") == true)
        try scene.fixture.stop(client)
        client = try scene.fixture.start(readerPatience: ReaderWait.Patience(usual: 1))
        try waitUntil { scene.store.objects[key] == nil }
        try scene.fixture.stop(client)
    }
}
