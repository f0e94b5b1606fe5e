// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Flusher
import Glibc
import ObjectStore
import Platform
import ResumableUpload
import Synchronization
import TestSupport
import Testing

/// Keeps what a driver journalled.
final class MemoryRecorder: TransferRecorder {
    struct State {
        var upload: String?
        var interopVersion = 0
        var partSize: Int64 = 0
        var parts: [MultipartState.Part] = []
        var acknowledged: Int64 = 0
        var isCommitting = false
        var beginnings = 0
        var doubts = 0
        var left: [String] = []
    }

    let state = Mutex(State())

    func beginning(at time: Timestamp) throws(StoreError) { state.withLock { $0.beginnings += 1 } }
    func notBegun() throws(StoreError) { state.withLock { $0.beginnings -= 1 } }
    func perhapsBegun(at time: Timestamp) throws(StoreError) { state.withLock { $0.doubts += 1 } }
    func left(upload: String, interopVersion: Int) throws(StoreError) { state.withLock { $0.left.append(upload) } }

    func begun(upload: String, interopVersion: Int, partSize: Int64) throws(StoreError) {
        state.withLock {
            $0.upload = upload
            $0.interopVersion = interopVersion
            $0.partSize = partSize
            $0.parts = []
        }
    }

    func part(number: Int, size: Int64, md5: [UInt8], entityTag: String) throws(StoreError) {
        state.withLock {
            $0.parts.append(MultipartState.Part(number: number, size: size, md5: md5, entityTag: entityTag))
        }
    }

    func acknowledged(_ bytes: Int64) throws(StoreError) { state.withLock { $0.acknowledged = bytes } }
    func mayCommit(expectedTag: String?) throws(StoreError) {}
    func committing(expectedTag: String?) throws(StoreError) { state.withLock { $0.isCommitting = true } }
    func answered() { state.withLock { $0.isCommitting = false } }
}

@Suite struct DriverTests {
    private let store = FakeStore(seed: 7)
    private let recorder = MemoryRecorder()
    private let cancellation = CancellationFlag()

    private func bytes(_ count: Int, seed: UInt64 = 3) -> [UInt8] {
        var random = SeededGenerator(seed: seed)
        return (0..<count).map { _ in UInt8(truncatingIfNeeded: random.next()) }
    }

    private func context(
        _ bytes: [UInt8],
        store: FakeStore? = nil,
        condition: WriteCondition = .absent
    ) throws -> UploadContext {
        UploadContext(
            store: store ?? self.store,
            key: ObjectKey("a/b"),
            content: try UploadContent(bytes),
            metadata: ObjectMetadata(mode: 0o100644),
            condition: condition,
            recorder: recorder,
            progress: TransferProgress(size: Int64(bytes.count)),
            gate: RequestGate(limit: 8),
            cancellation: cancellation,
            parallelism: 4
        )
    }

    private func committed(_ result: UploadResult) -> ObjectVersion? {
        if case .committed(let version) = result { return version }
        Issue.record("not committed: \(result)")
        return nil
    }

    @Test(arguments: [0, 1, 4096]) func contentArrivesInOneRequest(count: Int) throws {
        let content = bytes(count)
        var driver = PutDriver(try context(content), isDoubtful: false)
        _ = committed(driver.run())
        #expect(store.objects[ObjectKey("a/b")]?.bytes == content)
        #expect(store.requests("status") == 0 && store.requests("put") == 1)
    }

    @Test func anOwnEarlierSuccessIsRecognisedAndNotAConflict() throws {
        let content = bytes(100)
        store.foreign("a/b", content)
        var driver = PutDriver(try context(content), isDoubtful: false)
        _ = committed(driver.run())
        #expect(store.requests("put") == 1 && store.requests("status") == 1)
        var doubtful = PutDriver(try context(content), isDoubtful: true)
        _ = committed(doubtful.run())
        #expect(store.requests("put") == 1)
    }

    @Test func aForeignVersionIsLeftAloneAndReported() throws {
        let foreign = store.foreign("a/b", [1, 2, 3])
        var driver = PutDriver(try context(bytes(100)), isDoubtful: false)
        guard case .conflict(let found) = driver.run() else { return #expect(Bool(false), "no conflict") }
        #expect(found == foreign && store.objects[ObjectKey("a/b")]?.bytes == [1, 2, 3])
    }

    @Test(arguments: [11, 12, 13, 14, 15, 16] as [UInt64])
    func multipartArrivesWholeWithFewBytesSentTwice(seed: UInt64) throws {
        let store = FakeStore(seed: seed)
        store.state.withLock { $0.faults = 150 }
        let content = bytes(3_000_001, seed: seed)
        var result = UploadResult.unsupported
        for _ in 0..<50 {
            let kept = recorder.state.withLock { $0 }
            let state = kept.upload.map { MultipartState(uploadID: $0, partSize: kept.partSize, parts: kept.parts) }
            var driver = MultipartDriver(try context(content, store: store), resuming: state, partSize: 200_000)
            result = driver.run()
            if case .failed(let error) = result, error.isTransient { continue }
            break
        }
        _ = committed(result)
        #expect(store.objects[ObjectKey("a/b")]?.bytes == content, "seed \(seed)")
        let cuts = store.requests("part") - 16
        #expect(store.bodyBytes <= Int64(content.count + cuts * 200_000), "seed \(seed): \(store.bodyBytes)")
    }

    @Test(arguments: [21, 22, 23, 24, 25, 26] as [UInt64])
    func resumableArrivesWholeWithNoByteSentTwice(seed: UInt64) throws {
        let store = FakeStore(seed: seed)
        store.state.withLock {
            $0.faults = 250
            $0.speaksResumable = true
        }
        let content = bytes(1_000_003, seed: seed)
        var result = UploadResult.unsupported
        for _ in 0..<50 {
            let kept = recorder.state.withLock { $0 }
            let version = InteropVersion(rawValue: kept.interopVersion) ?? .final
            let state = kept.upload.map {
                ResumableUploadState(
                    resource: $0,
                    version: version,
                    offset: kept.acknowledged,
                    length: Int64(content.count)
                )
            }
            var driver = ResumableDriver(try context(content, store: store), resuming: state)
            result = driver.run()
            if case .failed(let error) = result, error.isTransient { continue }
            break
        }
        _ = committed(result)
        #expect(store.objects[ObjectKey("a/b")]?.bytes == content, "seed \(seed)")
        #expect(store.bodyBytes == Int64(content.count), "seed \(seed)")
    }

    @Test func aServerWithoutResumableUploadsIsAskedOnlyOnce() throws {
        var driver = ResumableDriver(try context(bytes(100)), resuming: nil)
        guard case .unsupported = driver.run() else { return #expect(Bool(false), "not unsupported") }
        #expect(store.capabilities.resumableUpload == .none && store.bodyBytes == 0)
        let asked = store.requests("OPTIONS")
        var again = ResumableDriver(try context(bytes(100)), resuming: nil)
        guard case .unsupported = again.run() else { return #expect(Bool(false), "not unsupported") }
        #expect(store.requests("OPTIONS") == asked)
    }

    @Test func anUnreachableServerEndsTheAttemptAndKeepsTheUpload() throws {
        let content = bytes(1_000_000)
        let flag = Mutex(0)
        let store = store
        store.hook.withLock {
            $0.call = { name, _ in
                guard name == "part",
                    flag.withLock({ count in
                        count += 1
                        return count
                    }) == 4
                else { return }
                store.state.withLock { $0.isOffline = true }
            }
        }
        var driver = MultipartDriver(try context(content), resuming: nil, partSize: 100_000)
        guard case .failed(let error) = driver.run() else { return #expect(Bool(false), "not failed") }
        #expect(error.cause == .unreachable && store.leftovers == 1)
        store.state.withLock { $0.isOffline = false }
        let kept = recorder.state.withLock { $0 }
        let id = try #require(kept.upload)
        let state = MultipartState(uploadID: id, partSize: kept.partSize, parts: kept.parts)
        var again = MultipartDriver(try context(content), resuming: state, partSize: nil)
        _ = committed(again.run())
        #expect(store.leftovers == 0 && store.bodyBytes == Int64(content.count))
    }

    @Test func cancellingStopsBetweenPartsAndLeavesTheUploadForLater() throws {
        let cancellation = cancellation
        let count = Mutex(0)
        store.hook.withLock {
            $0.call = { name, _ in
                guard name == "part" else { return }
                if count.withLock({
                    $0 += 1
                    return $0
                }) == 6 {
                    cancellation.cancel()
                }
            }
        }
        var driver = MultipartDriver(try context(bytes(2_000_000)), resuming: nil, partSize: 100_000)
        guard case .failed(let error) = driver.run() else { return #expect(Bool(false), "not failed") }
        #expect(error.cause == .cancelled && store.leftovers == 1 && store.requests("part") < 12)
    }

    @Test func anUploadWhoseNameIsLostIsJournalledBeforeItIsAskedForAndLeftForOthersToFind() throws {
        store.state.withLock { $0.creationsToLose = 1 }
        var driver = MultipartDriver(try context(bytes(250_000)), resuming: nil, partSize: 100_000)
        _ = committed(driver.run())
        let kept = recorder.state.withLock { $0 }
        #expect(kept.beginnings == 2 && kept.doubts == 1)
        #expect(store.uploads.count == 1 && store.requests("create") == 2)
    }

    @Test func aCreationThatCannotHaveArrivedLeavesNoDoubt() throws {
        let refused = StoreError(.unreachable, "refused", code: StoreError.notSent)
        #expect(!refused.mayHaveHappened && StoreError(.unreachable, "timeout").mayHaveHappened)
        #expect(!StoreError(.temporary, "busy", status: 503).mayHaveHappened)
        #expect(StoreError(.temporary, "failed", status: 500).mayHaveHappened)
        #expect(!StoreError(.forbidden, "no", status: 403).mayHaveHappened)
    }

    @Test func anUploadTheRemoteForgotIsBegunAnew() throws {
        let content = bytes(500_000)
        let state = MultipartState(uploadID: "forgotten", partSize: 100_000)
        var driver = MultipartDriver(try context(content), resuming: state, partSize: nil)
        _ = committed(driver.run())
        #expect(store.objects[ObjectKey("a/b")]?.bytes == content && store.leftovers == 0)
    }

    @Test func aCompletedUploadWhoseAnswerWasLostIsFoundAgain() throws {
        let content = bytes(500_000)
        var first = MultipartDriver(try context(content), resuming: nil, partSize: 100_000)
        _ = committed(first.run())
        let kept = recorder.state.withLock { $0 }
        let id = try #require(kept.upload)
        let state = MultipartState(uploadID: id, partSize: kept.partSize, parts: kept.parts)
        var driver = MultipartDriver(try context(content), resuming: state, partSize: nil)
        _ = committed(driver.run())
        #expect(store.requests("create") == 1 && store.bodyBytes == Int64(content.count))
    }
}
