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
import TestSupport
import Testing

/// Files that get another name while their upload stands still in the middle.
@Suite(.serialized) struct StandingUploadTests {
    private let a = ObjectKey("a")
    private let b = ObjectKey("b")
    private let attributes = FlusherFixture.attributes
    private static let size = 1_500_000

    private static func content() -> [UInt8] {
        var random = SeededGenerator(seed: 11)
        return (0..<size).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    }

    /// A file of which a part is at the remote, and a flusher that ended then.
    private struct Scene {
        let store = FakeStore()
        let fixture: FlusherFixture
        let content = StandingUploadTests.content()
        let node: JournalNode
        /// What was there before.
        let remote: RemoteState
        /// How many bytes were sent of it.
        var sent: Int64 = 0

        init(
            _ name: String,
            _ path: String = "a",
            isNew: Bool = true,
            canCopy: Bool? = nil,
            _ prepare: (FlusherFixture) throws -> Void = { _ in }
        ) throws {
            fixture = try FlusherFixture(store: store, uploadProtocol: name, partSize: 100_000)
            remote = isNew ? .absent : .file(store.foreign(path, [1, 2, 3]), FlusherFixture.attributes)
            store.state.withLock { state in
                state.speaksResumable = true
                state.capabilities.copy = canCopy
                state.cutsBodyAt = name == "s3-multipart" ? nil : 550_000
            }
            let parts = Mutex(0)
            let store = store
            if name == "s3-multipart" {
                store.hook.withLock { hook in
                    hook.call = { name, _ in
                        guard name == "part" else { return }
                        let count = parts.withLock { count in
                            count += 1
                            return count
                        }
                        if count == 6 { store.state.withLock { $0.isOffline = true } }
                    }
                }
            }
            node = try fixture.write(path, content, remote: remote)
            try prepare(fixture)
            let client = try fixture.start()
            _ = try client.call(.wake(volume: nil))
            for _ in 0..<1000 where !store.state.withLock({ $0.isOffline }) { usleep(10_000) }
            try fixture.stop(client)
            sent = store.bodyBytes
            #expect(sent > 300_000 && sent < 1_000_000 && store.leftovers == 1, "the test proves nothing: \(sent)")
            store.state.withLock { $0.isOffline = false }
        }

        /// What came over since.
        var rest: Int64 { store.bodyBytes - sent }

        func move(_ source: String, _ target: String, from remote: RemoteState? = nil) throws {
            try fixture.journal.rename(
                from: ObjectKey(source),
                to: ObjectKey(target),
                sourceRemote: remote ?? self.remote,
                targetRemote: .absent
            )
        }

        func flush(timeout: Double = 30) throws -> [UploadReport] {
            let client = try fixture.start()
            let left = try fixture.flush(client, timeout: timeout)
            for _ in 0..<50 where store.leftovers > 0 { usleep(100_000) }
            try fixture.stop(client)
            #expect(try fixture.journal.conflicts().isEmpty)
            return left
        }
    }

    @Test(arguments: ["s3-multipart", "ietf-resumable"], [true, false])
    func aRenamedFileGoesOnWhereItStood(_ name: String, isNew: Bool) throws {
        let scene = try Scene(name, isNew: isNew)
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        let left = try scene.flush()
        #expect(left.isEmpty && scene.store.holds([b: scene.content]), "\(left)")
        #expect(scene.store.bodyBytes == Self.size, "\(scene.store.bodyBytes) bytes were sent")
        #expect(scene.store.requests("copy") == 1 && scene.store.leftovers == 0)
    }

    @Test(arguments: ["s3-multipart", "ietf-resumable"])
    func aFileThatTakesTheOldNameWaits(_ name: String) throws {
        let scene = try Scene(name, isNew: false)
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        try scene.fixture.write("a", [7, 7])
        let left = try scene.flush()
        #expect(left.isEmpty && scene.store.holds([a: [7, 7], b: scene.content]), "\(left)")
        #expect(scene.store.bodyBytes == Self.size + 2, "\(scene.store.bodyBytes) bytes were sent")
    }

    @Test func aFolderThatTakesTheOldNameWaits() throws {
        let scene = try Scene("s3-multipart")
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        let folder = FileAttributes(mode: 0o040755, uid: 1, gid: 2, modified: Timestamp(seconds: 5))
        _ = try scene.fixture.journal.createDirectory(at: a, attributes: folder, remote: .absent)
        try scene.fixture.write("a/x", [8])
        let left = try scene.flush()
        #expect(left.isEmpty && scene.store.holds(b, scene.content) && scene.store.holds(ObjectKey("a/x"), [8]))
        #expect(scene.store.bodyBytes == Self.size + 1, "\(scene.store.bodyBytes) bytes were sent")
    }

    @Test(arguments: ["s3-multipart", "ietf-resumable"])
    func onlyTheBeginningIsSentTwiceWithoutCopies(_ name: String) throws {
        let scene = try Scene(name, canCopy: false)
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        let left = try scene.flush()
        #expect(left.isEmpty && scene.store.holds([b: scene.content]), "\(left)")
        #expect(scene.rest == Self.size, "\(scene.rest) bytes were sent")
    }

    @Test func eachNameIsSentOnceWithoutCopies() throws {
        let (a, c) = (a, ObjectKey("c"))
        let scene = try Scene("s3-multipart", canCopy: false) { fixture in
            let attributes = FlusherFixture.attributes
            let absent = RemoteState.absent
            _ = try fixture.journal.link(a, to: c, attributes: attributes, sourceRemote: absent, targetRemote: absent)
        }
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        let left = try scene.flush()
        #expect(left.isEmpty && scene.store.holds([b: scene.content, c: scene.content]), "\(left)")
        #expect(scene.rest == 2 * Self.size, "\(scene.rest) bytes were sent")
    }

    /// The folder would have to go before the file, and the file's object is in it.
    @Test(arguments: ["s3-multipart", "ietf-resumable"])
    func aFileThatTakesThePlaceOfItsFolderDoesNotWait(_ name: String) throws {
        let scene = try Scene(name, "d/x", isNew: false)
        defer { scene.fixture.remove() }
        try scene.move("d/x", "t")
        try scene.move("t", "d", from: .absent)
        let left = try scene.flush()
        #expect(left.isEmpty && scene.store.holds([ObjectKey("d"): scene.content]), "\(left)")
        #expect(scene.rest == Self.size, "\(scene.rest) bytes were sent")
    }

    @Test func aFileThatGoesIntoAFolderOfItsNameDoesNotWait() throws {
        let scene = try Scene("s3-multipart")
        defer { scene.fixture.remove() }
        try scene.move("a", "t")
        let folder = FileAttributes(mode: 0o040755, uid: 1, gid: 2, modified: Timestamp(seconds: 5))
        _ = try scene.fixture.journal.createDirectory(at: a, attributes: folder, remote: .absent)
        try scene.move("t", "a/x", from: .absent)
        let left = try scene.flush()
        #expect(left.isEmpty && scene.store.holds(ObjectKey("a/x"), scene.content), "\(left)")
        #expect(scene.rest == Self.size, "\(scene.rest) bytes were sent")
    }

    // MARK: what a person holds

    @Test func aFlushDoesNotWaitForWhatIsPaused() throws {
        let scene = try Scene("s3-multipart", isNew: false)
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        try scene.fixture.journal.setPaused([scene.node.id], true)
        let started = Timestamp.now()
        let left = try scene.flush(timeout: 60)
        #expect(left.map(\.path) == ["b"] && left.first?.state == .paused, "\(left)")
        #expect(scene.store.objects[a] == nil && Timestamp.now() < started.advanced(bySeconds: 30))
    }

    /// What is waited for already may be paused later.
    @Test func aPauseLetsThoseGoThatWaited() throws {
        let scene = try Scene("s3-multipart", isNew: false)
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        scene.store.state.withLock { $0.refusals["complete a"] = .temporary }
        let client = try scene.fixture.start()
        _ = try client.call(.wake(volume: nil))
        for _ in 0..<1000 where scene.store.requests("complete") == 0 { usleep(10_000) }
        usleep(300_000)
        #expect(scene.store.holds(a, [1, 2, 3]) && scene.store.requests("abort") == 0)
        _ = try client.call(.change(verb: .pause, selection: UploadSelection(paths: ["b"])))
        let left = try scene.fixture.flush(client, timeout: 20)
        #expect(left.map(\.path) == ["b"] && left.first?.state == .paused, "\(left)")
        #expect(scene.store.objects[a] == nil)
        try scene.fixture.stop(client)
    }

    /// Nor for what is to go at a time of its own.
    @Test func whatIsDeferredHoldsNothingUp() throws {
        let scene = try Scene("s3-multipart", isNew: false)
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        _ = try scene.fixture.journal.reschedule(scene.node.id) { $0.notBefore = .now().advanced(bySeconds: 3600) }
        try scene.fixture.write("a", [7, 7])
        let client = try scene.fixture.start()
        _ = try client.call(.wake(volume: nil))
        for _ in 0..<2000 where !scene.store.holds(a, [7, 7]) { usleep(10_000) }
        #expect(scene.store.holds([a: [7, 7]]))
        try scene.fixture.stop(client)
    }

    /// The deletion of what the old name has makes the room that the upload needs.
    @Test func whereThereIsNoRoomTheDeletionGoesFirst() throws {
        let scene = try Scene("s3-multipart", isNew: false)
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        scene.store.state.withLock { $0.refusals["complete a"] = .noSpace }
        let left = try scene.flush()
        #expect(left.isEmpty && scene.store.holds([b: scene.content]), "\(left)")
    }

    /// Nothing would make room under its old name.
    @Test func whereThereIsNoRoomNothingIsThrownAwayForNothing() throws {
        let scene = try Scene("s3-multipart")
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        let store = scene.store
        store.state.withLock { $0.refusals["complete a"] = .noSpace }
        let client = try scene.fixture.start()
        _ = try client.call(.wake(volume: nil))
        for _ in 0..<1000 where store.requests("complete") == 0 { usleep(10_000) }
        store.state.withLock { $0.refusals = [:] }
        #expect(try scene.fixture.flush(client, timeout: 30).isEmpty && store.holds([b: scene.content]))
        #expect(store.bodyBytes == Self.size, "\(store.bodyBytes) bytes were sent")
        try scene.fixture.stop(client)
    }

    /// A small file may find the room that the large one of before does not.
    @Test func whereThereIsNoRoomAFileOfTheOldNameDoesNotWait() throws {
        let scene = try Scene("s3-multipart")
        defer { scene.fixture.remove() }
        try scene.move("a", "b")
        try scene.fixture.write("a", [7, 7])
        let store = scene.store
        store.state.withLock { $0.refusals["complete a"] = .noSpace }
        let client = try scene.fixture.start()
        _ = try client.call(.wake(volume: nil))
        for _ in 0..<1000 where store.requests("abort") == 0 { usleep(10_000) }
        #expect(store.requests("abort") == 1, "what has no room still takes some, and keeps the other one waiting")
        store.state.withLock { $0.refusals = [:] }
        #expect(try scene.fixture.flush(client, timeout: 30).isEmpty && store.holds([a: [7, 7], b: scene.content]))
        try scene.fixture.stop(client)
    }

    /// Both names are wanted by files that wait for each other.
    @Test func filesThatChangePlacesDoNotWaitForEver() throws {
        let scene = try Scene("s3-multipart", isNew: false)
        defer { scene.fixture.remove() }
        let other = RemoteState.file(scene.store.foreign("b", [4, 5]), attributes)
        try scene.fixture.journal.exchange(a, b, firstRemote: scene.remote, secondRemote: other)
        let left = try scene.flush()
        #expect(left.isEmpty && scene.store.holds([a: [4, 5], b: scene.content]), "\(left)")
    }
}
