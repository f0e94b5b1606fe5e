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
import TestSupport
import Testing

@Suite(.serialized) struct FlusherTests {
    @Test func aVolumeMountedAMomentAgoIsToldOf() throws {
        try withFlusher { fixture, client in
            guard case .status(let before) = try client.call(.status) else { return }
            #expect(before.volumes.count == 1)
            let other = try VolumeDescription(bucket: "c", prefix: "", values: OptionValues(), environment: [:])
            let places = fixture.directories.places(of: other)
            try places.prepare()
            let journal = try Journal.recovering(directory: places.state).journal
            _ = try journal.createFile(at: ObjectKey("y"), attributes: FlusherFixture.attributes, remote: .absent)
            try other.save(to: places.description)
            guard case .uploads(let uploads, nil) = try client.call(.uploads(selection: UploadSelection())) else {
                return
            }
            #expect(uploads.map(\.path) == ["y"])
            guard case .status(let after) = try client.call(.status) else { return }
            #expect(after.volumes.count == 2)
            try journal.remove(at: ObjectKey("y"), remote: .absent)
        }
    }

    private func bytes(_ count: Int, _ seed: UInt64) -> [UInt8] {
        var random = SeededGenerator(seed: seed)
        return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    }

    /// Runs `body` with a flusher, and checks that nothing is left behind afterwards.
    private func withFlusher(
        _ store: FakeStore = FakeStore(),
        uploadProtocol: String = "auto",
        partSize: Int64? = nil,
        _ body: (FlusherFixture, ControlClient) throws -> Void
    ) throws {
        let fixture = try FlusherFixture(store: store, uploadProtocol: uploadProtocol, partSize: partSize)
        defer { fixture.remove() }
        let client = try fixture.start()
        try body(fixture, client)
        try fixture.stop(client)
        #expect(store.leftovers == 0)
        let staging = try Files.names(in: fixture.journal.directory + "/staging")
        if try fixture.pending().isEmpty { #expect(staging.isEmpty, "staging: \(staging)") }
    }

    @Test func filesLinksAndFoldersArrive() throws {
        let store = FakeStore()
        try withFlusher(store) { fixture, client in
            var expected: [ObjectKey: [UInt8]] = [:]
            for number in 0..<50 {
                let content = bytes(number * 37, UInt64(number + 1))
                try fixture.write("f/\(number)", content)
                expected[ObjectKey("f/\(number)")] = content
            }
            let folder = FileAttributes(mode: 0o040755, uid: 1, gid: 2, modified: Timestamp(seconds: 5))
            _ = try fixture.journal.createDirectory(at: ObjectKey("f"), attributes: folder, remote: .absent)
            expected[ObjectKey("f/")] = []
            let link = FileAttributes(mode: 0o120777, uid: 1, gid: 2, modified: Timestamp(seconds: 6))
            _ = try fixture.journal.createSymbolicLink(
                at: ObjectKey("l"),
                target: ObjectKey("f/1"),
                attributes: link,
                remote: .absent
            )
            expected[ObjectKey("l")] = Array("f/1".utf8)
            let device = FileAttributes(mode: 0o020600, uid: 1, gid: 2, modified: Timestamp(seconds: 7), device: 259)
            let path = ObjectKey("device")
            _ = try fixture.journal.createFile(at: path, attributes: device, isComplete: true, remote: .absent)
            expected[path] = []
            let left = try fixture.flush(client)
            #expect(left.isEmpty)
            #expect(store.holds(expected))
            #expect(store.objects[ObjectKey("l")]?.metadata.mode == 0o120777)
            #expect(store.objects[ObjectKey("f/")]?.metadata.mode == 0o040755)
            #expect(store.objects[path]?.metadata.device == 259)
            #expect(try fixture.pending().isEmpty)
        }
    }

    @Test(arguments: ["put", "s3-multipart", "ietf-resumable"])
    func largeContentArrivesByEveryProtocolThroughFaults(name: String) throws {
        let store = FakeStore(seed: 5)
        store.state.withLock {
            $0.faults = 100
            $0.speaksResumable = true
        }
        try withFlusher(store, uploadProtocol: name, partSize: 100_000) { fixture, client in
            let content = bytes(1_234_567, 9)
            try fixture.write("big", content)
            let left = try fixture.flush(client)
            #expect(left.isEmpty)
            #expect(store.holds(ObjectKey("big"), content))
        }
    }

    @Test func manySmallFilesThroughFaultsArriveOnceAndMakeNoConflicts() throws {
        let store = FakeStore(seed: 77)
        store.state.withLock { $0.faults = 60 }
        try withFlusher(store) { fixture, client in
            for number in 0..<300 { try fixture.write("d/\(number)", bytes(100, UInt64(number + 1))) }
            var left = try fixture.flush(client, timeout: 120)
            if !left.isEmpty { left = try fixture.flush(client, timeout: 120) }
            #expect(left.isEmpty)
            #expect(store.objects.count == 300)
            for number in 0..<300 {
                #expect(store.holds(ObjectKey("d/\(number)"), bytes(100, UInt64(number + 1))))
            }
            #expect(try fixture.journal.conflicts().isEmpty)
        }
    }

    @Test func aRemoteChangeUnderALocalOneKeepsBoth() throws {
        let store = FakeStore()
        let base = store.foreign("a.txt", [1])
        try withFlusher(store) { fixture, client in
            try fixture.write("a.txt", [2, 2], remote: .file(base, FlusherFixture.attributes))
            store.foreign("a.txt", [3, 3, 3])
            let left = try fixture.flush(client)
            #expect(left.isEmpty)
            #expect(store.holds(ObjectKey("a.txt"), [3, 3, 3]))
            let copies = store.objects.keys.filter {
                $0.string.hasPrefix("a (conflict ") && $0.string.hasSuffix(" here).txt")
            }
            #expect(copies.count == 1 && store.objects[copies[0]]?.bytes == [2, 2])
            #expect(try fixture.journal.conflicts().count == 1)
        }
    }

    @Test func aFileDeletedRemotelyUnderALocalEditIsMadeAnew() throws {
        let store = FakeStore()
        let base = store.foreign("a", [1])
        try withFlusher(store) { fixture, client in
            try fixture.write("a", [2, 2], remote: .file(base, FlusherFixture.attributes))
            store.state.withLock { $0.objects = [:] }
            let left = try fixture.flush(client)
            #expect(left.isEmpty && store.holds(ObjectKey("a"), [2, 2]))
            #expect(try fixture.journal.conflicts().isEmpty)
        }
    }

    @Test func aDeletionGivesWayToARemoteChange() throws {
        let store = FakeStore()
        let base = store.foreign("a", [1])
        store.foreign("b", [1])
        try withFlusher(store) { fixture, client in
            try fixture.journal.remove(at: ObjectKey("a"), remote: .file(base, FlusherFixture.attributes))
            try fixture.journal.remove(at: ObjectKey("b"), remote: .file(base, FlusherFixture.attributes))
            store.foreign("a", [9])
            let left = try fixture.flush(client)
            #expect(left.isEmpty && store.holds([ObjectKey("a"): [9]]))
        }
    }

    @Test func aRenameIsCopiedAtTheRemoteAndNothingIsSent() throws {
        let store = FakeStore()
        let content = bytes(5000, 1)
        let version = store.foreign("a", content)
        try withFlusher(store) { fixture, client in
            let remote = RemoteState.file(version, FlusherFixture.attributes)
            try fixture.journal.rename(
                from: ObjectKey("a"),
                to: ObjectKey("b"),
                sourceRemote: remote,
                targetRemote: .absent
            )
            let left = try fixture.flush(client)
            #expect(left.isEmpty && store.holds([ObjectKey("b"): content]))
            #expect(store.bodyBytes == 0 && store.requests("copy") == 1)
        }
    }

    @Test func namesThatChangePlacesAreUntangled() throws {
        let store = FakeStore()
        let first = bytes(5000, 1)
        let second = bytes(3000, 2)
        let versionA = store.foreign("a", first)
        let versionB = store.foreign("b", second)
        try withFlusher(store) { fixture, client in
            let journal = fixture.journal
            let remoteA = RemoteState.file(versionA, FlusherFixture.attributes)
            let remoteB = RemoteState.file(versionB, FlusherFixture.attributes)
            try journal.rename(from: ObjectKey("a"), to: ObjectKey("t"), sourceRemote: remoteA, targetRemote: .absent)
            try journal.rename(from: ObjectKey("b"), to: ObjectKey("a"), sourceRemote: remoteB, targetRemote: remoteA)
            try journal.rename(from: ObjectKey("t"), to: ObjectKey("b"), sourceRemote: .absent, targetRemote: remoteB)
            let left = try fixture.flush(client)
            #expect(left.isEmpty, "\(left)")
            #expect(store.holds([ObjectKey("a"): second, ObjectKey("b"): first]))
        }
    }

    @Test func newAttributesTravelWithoutTheContent() throws {
        let store = FakeStore()
        let version = store.foreign("a", bytes(5000, 1))
        try withFlusher(store) { fixture, client in
            try fixture.journal.setAttributes(
                at: ObjectKey("a"),
                remote: .file(version, FlusherFixture.attributes),
                AttributeChanges(permissions: 0o600)
            )
            let left = try fixture.flush(client)
            #expect(left.isEmpty && store.objects[ObjectKey("a")]?.metadata.mode == 0o100600)
            #expect(store.bodyBytes == 0)
        }
    }

    @Test func newExtendedAttributesTravelWithoutTheContentAlsoAfterALostAnswer() throws {
        let store = FakeStore()
        let attributes = FlusherFixture.attributes
        let metadata = ObjectMetadata(
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            modified: attributes.modified
        )
        let version = store.foreign("a", bytes(5000, 1), metadata: metadata)
        let extended = try #require(ExtendedAttributes(text: "%7B%22user.a%22%3A%22%22%7D"))
        try withFlusher(store) { fixture, client in
            // The first request is lost: what is there then looks like the copy but for these attributes.
            store.hook.withLock { hook in
                hook.call = { name, _ in
                    if name == "copy" { store.state.withLock { $0.isOffline = true } }
                }
            }
            try fixture.journal.setAttributes(
                at: ObjectKey("a"),
                remote: .file(version, attributes),
                AttributeChanges(extended: extended)
            )
            _ = try client.call(.wake(volume: nil))
            for _ in 0..<1000 where store.requests("copy") == 0 { usleep(10_000) }
            store.hook.withLock { $0.call = nil }
            usleep(100_000)
            store.state.withLock { $0.isOffline = false }
            let left = try fixture.flush(client)
            #expect(left.isEmpty && store.objects[ObjectKey("a")]?.metadata.extended == extended)
            #expect(store.bodyBytes == 0)
        }
    }

    @Test func aPartlyRewrittenFileIsFilledUpFromTheRemote() throws {
        let store = FakeStore()
        let old = bytes(100_000, 1)
        let version = store.foreign("a", old)
        try withFlusher(store) { fixture, client in
            let node = try fixture.journal.beginWriting(
                at: ObjectKey("a"),
                remote: .file(version, FlusherFixture.attributes)
            )
            let generation = try #require(node.generation)
            let file = try fixture.journal.openStaging(generation.id, creating: true)
            try [UInt8](repeating: 7, count: 10).withUnsafeBytes { try file.write($0, at: 500) }
            var content = generation.content
            content.write(ByteRange(500, 510))
            try fixture.journal.seal(node.id, generation.id, content: content, modified: nil)
            try fixture.journal.synchronizeSealed()
            let left = try fixture.flush(client)
            var expected = old
            for index in 500..<510 { expected[index] = 7 }
            #expect(left.isEmpty && store.holds(ObjectKey("a"), expected))
        }
    }

    @Test func aFileRewrittenWhileItIsSentEndsAsItsLastContent() throws {
        let store = FakeStore()
        try withFlusher(store, uploadProtocol: "s3-multipart", partSize: 50_000) { fixture, client in
            let done = Mutex(false)
            store.hook.withLock {
                $0.call = { name, _ in
                    guard name == "part",
                        done.withLock({ old in
                            defer { old = true }
                            return !old
                        })
                    else { return }
                    _ = try? fixture.write("a", [1, 2, 3])
                }
            }
            try fixture.write("a", bytes(1_000_000, 3))
            var left = try fixture.flush(client)
            if left.isEmpty { left = try fixture.flush(client) }
            #expect(left.isEmpty && store.holds(ObjectKey("a"), [1, 2, 3]))
            #expect(try fixture.journal.conflicts().isEmpty)
        }
    }

    @Test func aFileRenamedWhileItIsSentIsNotSentAgain() throws {
        let store = FakeStore()
        let content = bytes(1_000_000, 3)
        try withFlusher(store, uploadProtocol: "s3-multipart", partSize: 50_000) { fixture, client in
            let done = Mutex(false)
            store.hook.withLock {
                $0.call = { name, _ in
                    guard name == "part",
                        done.withLock({ old in
                            defer { old = true }
                            return !old
                        })
                    else { return }
                    _ = try? fixture.journal.rename(
                        from: ObjectKey("a"),
                        to: ObjectKey("b"),
                        sourceRemote: .absent,
                        targetRemote: .absent
                    )
                }
            }
            try fixture.write("a", content)
            var left = try fixture.flush(client)
            if left.isEmpty { left = try fixture.flush(client) }
            #expect(left.isEmpty, "\(left)")
            #expect(store.holds([ObjectKey("b"): content]))
            #expect(store.bodyBytes == Int64(content.count))
        }
    }

    @Test func anUnlinkedFileLeavesNothingAtTheRemote() throws {
        let store = FakeStore()
        try withFlusher(store, uploadProtocol: "s3-multipart", partSize: 50_000) { fixture, client in
            let done = Mutex(false)
            store.hook.withLock {
                $0.call = { name, _ in
                    guard name == "part",
                        done.withLock({ old in
                            defer { old = true }
                            return !old
                        })
                    else { return }
                    _ = try? fixture.journal.remove(at: ObjectKey("a"), remote: .absent)
                }
            }
            try fixture.write("a", bytes(1_000_000, 3))
            var left = try fixture.flush(client)
            if left.isEmpty { left = try fixture.flush(client) }
            for _ in 0..<100 where try !fixture.pending().isEmpty || store.leftovers > 0 { usleep(100_000) }
            #expect(try fixture.pending().isEmpty && store.objects.isEmpty)
        }
    }

    @Test func offlineIsWaitingAndEverythingFlowsWhenItIsOver() throws {
        let store = FakeStore()
        store.state.withLock { $0.isOffline = true }
        try withFlusher(store) { fixture, client in
            for number in 0..<20 { try fixture.write("\(number)", [UInt8(number)]) }
            _ = try client.call(.wake(volume: nil))
            var state = ""
            for _ in 0..<100 where state != "offline" {
                usleep(50_000)
                guard case .status(let report) = try client.call(.status) else { break }
                state = report.volumes.first?.connection ?? ""
            }
            #expect(state == "offline")
            guard case .uploads(let uploads, nil) = try client.call(.uploads(selection: UploadSelection())) else {
                return
            }
            #expect(uploads.count == 20)
            #expect(uploads.contains { $0.waiting.contains { $0.reason == "offline" } && $0.attempts == 0 })
            store.state.withLock { $0.isOffline = false }
            for _ in 0..<300 where try !fixture.pending().isEmpty { usleep(50_000) }
            #expect(store.objects.count == 20)
        }
    }

    @Test func aFlushDoesNotCallRemoteWhatItCannotLookAt() throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        var other = try VolumeDescription(bucket: "c", prefix: "", values: OptionValues(), environment: [:])
        other.quietPeriod = 0
        let places = fixture.directories.places(of: other)
        try places.prepare()
        try other.save(to: places.description)
        try Files.makeDirectories(places.state + "/journal.sqlite")
        let client = try fixture.start()
        do {
            _ = try client.stream(.flush(selection: UploadSelection(), timeout: 30), timeout: 60) { _ in }
            Issue.record("everything was called remote")
        } catch {
            #expect("\(error)".hasPrefix("s3://c: "))
        }
        // Others are not held up by it.
        let mine = UploadSelection(volumes: [fixture.description.id])
        let second = try client.stream(.flush(selection: mine, timeout: 30), timeout: 60) { _ in }
        guard case .flushed(let remaining) = second, remaining.isEmpty else {
            Issue.record("\(second)")
            return try fixture.stop(client)
        }
        try fixture.stop(client)
    }

    @Test func pausedUploadsWaitAndAFlushSaysWhatIsLeft() throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store, quietPeriod: 60)
        defer { fixture.remove() }
        try fixture.write("a", [1])
        try fixture.write("b", [2])
        let client = try fixture.start()
        _ = try client.call(.change(verb: .pause, selection: UploadSelection(paths: ["a"])))
        let left = try fixture.flush(client, timeout: 30)
        #expect(left.map(\.path) == ["a"] && left.first?.state == .paused)
        #expect(store.objects.keys.map(\.string) == ["b"])
        _ = try client.call(.change(verb: .resume, selection: UploadSelection(paths: ["a"])))
        let rest = try fixture.flush(client, timeout: 30)
        #expect(rest.isEmpty && store.objects.count == 2)
        try fixture.stop(client)
    }

    @Test func aStopInTheMiddleOfAnUploadLosesNothingThatWasAcknowledged() throws {
        let store = FakeStore()
        let content = bytes(6_000_000, 4)
        let fixture = try FlusherFixture(store: store, uploadProtocol: "s3-multipart", partSize: 50_000)
        defer { fixture.remove() }
        try fixture.write("a", content)
        for round in 1...6 {
            let client = try fixture.start()
            let count = Mutex(0)
            let flag = Monitor(false)
            store.hook.withLock {
                $0.call = { name, _ in
                    guard name == "part", round < 6 else { return }
                    let number = count.withLock { value in
                        value += 1
                        return value
                    }
                    if number == 5 { flag.update { $0 = true } }
                    // Few are sent until the stop begins, so that there are some left for the next round.
                    usleep(number < 5 ? 2000 : 100_000)
                }
            }
            if round < 6, !store.holds(ObjectKey("a"), content) {
                _ = flag.wait(timeout: 60) { $0 ? true : nil }
            } else if round == 6 {
                let left = try fixture.flush(client)
                #expect(left.isEmpty)
            }
            try fixture.stop(client)
        }
        #expect(store.holds(ObjectKey("a"), content) && store.leftovers == 0)
        // Parts given up in mid-request may be sent twice: at most four a stop.
        #expect(store.bodyBytes <= Int64(content.count + 5 * 4 * 50_000))
    }

    @Test func anIdleFlusherEndsAndALaterOneFindsNewWork() throws {
        let store = FakeStore()
        let fixture = try FlusherFixture(store: store)
        defer { fixture.remove() }
        try fixture.write("a", [1])
        try fixture.start(idle: 0.5).shutdown()
        #expect(fixture.waitForEnd() == 0)
        #expect(store.objects.count == 1)
        try fixture.write("b", [2])
        try fixture.start(idle: 0.5).shutdown()
        #expect(fixture.waitForEnd() == 0)
        #expect(store.objects.count == 2)
    }
}
