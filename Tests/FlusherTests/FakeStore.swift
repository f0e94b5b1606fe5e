// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Digests
import Glibc
import HTTPWire
import ObjectStore
import Platform
import Synchronization
import TestSupport

/// A bucket in memory that fails as networks do: requests that never arrive, answers that never come back,
/// connections cut in the middle of a body.
final class FakeStore: ObjectStore {
    struct Object {
        var bytes: [UInt8]
        var tag: String
        var metadata: ObjectMetadata
        var version: ObjectVersion { ObjectVersion(entityTag: EntityTag(opaque: tag), size: Int64(bytes.count)) }
    }

    struct Upload {
        var key: ObjectKey
        var metadata: ObjectMetadata
        var parts: [Int: [UInt8]] = [:]
        var initiated = Timestamp.now()
        var initiator = "us"
    }

    struct Resumable {
        var key: ObjectKey
        var metadata: ObjectMetadata
        var condition: WriteCondition
        var length: Int
        var bytes: [UInt8] = []
        var isComplete = false
    }

    struct State {
        var objects: [ObjectKey: Object] = [:]
        var uploads: [String: Upload] = [:]
        var resumables: [String: Resumable] = [:]
        var random: SeededGenerator
        /// The chance, of 1000, that a request is lost, that its answer is, or that its body is cut.
        var faults = 0
        var isOffline = false
        var speaksResumable = false
        var copiesParts = false
        /// The next body that is longer is cut after so many bytes, and the remote is away from then on.
        var cutsBodyAt: Int?
        var bodyBytes: Int64 = 0
        var requests: [String: Int] = [:]
        var nextID = 0
        var unannounced: Set<String> = []
        /// How many of the next multipart uploads are begun without an answer.
        var creationsToLose = 0
        /// Aborts whose repetition finds nothing, as the answer to the first was lost.
        var abortsToRepeat = 0
        var tagCounter = 0
        /// Requests of these names are cut off and kept, to be carried out by ``FakeStore/deliver()``.
        var holding: Set<String> = []
        var held: [@Sendable (inout State) -> Void] = []
        /// How long after their client lost sight of them requests are carried out at most, in seconds; 0: never.
        var lateness = 0.0
        var ignoresConditions = false
        /// The objects whose tags say nothing of their bytes, as the server tells.
        var encrypted: Set<ObjectKey> = []
        /// Requests of these names, or of a name and a key, are refused in so many words, each for its cause.
        var refusals: [String: StoreError.Cause] = [:]
        var capabilities = StoreCapabilities()
    }

    let state: Mutex<State>
    /// Called before each request with its name and key, outside the lock.
    let hook = Mutex(Hook())

    struct Hook {
        var call: (@Sendable (String, ObjectKey) -> Void)?
    }

    init(seed: UInt64 = 1) {
        state = Mutex(State(random: SeededGenerator(seed: seed)))
    }

    var objects: [ObjectKey: Object] { state.withLock { $0.objects } }
    var uploads: [String: Upload] { state.withLock { $0.uploads } }
    /// Uploads begun and neither finished nor ended, but for those whose name never reached the client.
    var leftovers: Int {
        state.withLock { state in
            state.uploads.keys.count { !state.unannounced.contains($0) }
                + state.resumables.count { !$0.value.isComplete && !state.unannounced.contains($0.key) }
        }
    }
    var bodyBytes: Int64 { state.withLock { $0.bodyBytes } }

    func requests(_ name: String) -> Int { state.withLock { $0.requests[name] ?? 0 } }

    /// Whether the objects are exactly these; says so without printing them.
    func holds(_ expected: [ObjectKey: [UInt8]]) -> Bool { objects.mapValues(\.bytes) == expected }
    func holds(_ key: ObjectKey, _ bytes: [UInt8]) -> Bool { objects[key]?.bytes == bytes }

    /// Puts an object there as somebody else would.
    @discardableResult
    func foreign(_ key: String, _ bytes: [UInt8], metadata: ObjectMetadata = ObjectMetadata()) -> ObjectVersion {
        state.withLock { state in
            let object = Object(bytes: bytes, tag: md5Hex(bytes), metadata: metadata)
            state.objects[ObjectKey(key)] = object
            return object.version
        }
    }

    /// Calls `body` at the first request of a kind, before it is carried out.
    func atFirst(_ kind: String, _ body: @escaping @Sendable () -> Void) {
        let isDone = Mutex(false)
        hook.withLock {
            $0.call = { name, _ in
                let isFirst = isDone.withLock { old in
                    guard name == kind, !old else { return false }
                    old = true
                    return true
                }
                if isFirst { body() }
            }
        }
    }

    /// Begins a multipart upload as somebody else would.
    func foreignUpload(_ id: String, _ key: String, parts: [Int: [UInt8]] = [:], initiated: Timestamp = .now()) {
        state.withLock { state in
            var upload = Upload(key: ObjectKey(key), metadata: ObjectMetadata(), parts: parts)
            upload.initiated = initiated
            state.uploads[id] = upload
        }
    }

    /// Carries out what was held, long after its client has given up.
    func deliver() {
        state.withLock { state in
            let held = state.held
            state.held = []
            for operation in held { operation(&state) }
        }
    }

    var heldCount: Int { state.withLock { $0.held.count } }

    // MARK: faults

    enum Fate {
        case good
        case lostRequest
        case lostAnswer
        case cut
        case late
    }

    /// Keeps a request for later if it is to be; the client loses sight of it.
    private func hold(
        _ name: String,
        _ fate: Fate,
        _ operation: @escaping @Sendable (inout State) throws(StoreError) -> Void
    ) throws(StoreError) {
        let perform: @Sendable (inout State) -> Void = { state in
            do throws(StoreError) {
                try operation(&state)
            } catch {
                if getenv("MOORAGE_TEST_LOG") != nil { Log.debug("fake", "late \(name): \(error)") }
            }
        }
        let (isHeld, lateness) = state.withLock { state in
            guard state.holding.contains(name) else { return (false, state.lateness) }
            state.held.append(perform)
            return (true, 0)
        }
        if isHeld { throw Self.lost }
        guard fate == .late else { return }
        let delay = Double.random(in: 0...lateness)
        _ = try? Thread.detached(name: "late") { [self] in
            usleep(UInt32(delay * 1e6))
            state.withLock { perform(&$0) }
        }
        throw Self.lost
    }

    func fate(_ name: String, _ key: ObjectKey) throws(StoreError) -> Fate {
        if getenv("MOORAGE_TEST_LOG") != nil { Log.debug("fake", "\(name) \(key)") }
        if let call = hook.withLock({ $0.call }) { call(name, key) }
        let (isOffline, fate): (Bool, Fate) = state.withLock { state in
            state.requests[name, default: 0] += 1
            guard Int.random(in: 0..<1000, using: &state.random) < state.faults else { return (state.isOffline, .good) }
            var fates = [Fate.lostRequest, .lostAnswer, .cut]
            if state.lateness > 0 { fates += [.late, .late] }
            return (state.isOffline, fates.randomElement(using: &state.random) ?? .cut)
        }
        if isOffline { throw StoreError(.unreachable, "connection refused") }
        let refusal = state.withLock { $0.refusals[name] ?? $0.refusals["\(name) \(key)"] }
        if let refusal { throw StoreError(refusal, "refused", status: 403) }
        if fate == .lostRequest { throw StoreError(.temporary, "connection reset before the request") }
        return fate
    }

    /// Runs a request that has no body.
    private func request<Value>(
        _ name: String,
        _ key: ObjectKey,
        _ body: @escaping @Sendable (inout State) throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        let fate = try fate(name, key)
        try hold(name, fate) { (state) throws(StoreError) in _ = try body(&state) }
        let value = try locked(body)
        if fate != .good { throw StoreError(.temporary, "connection reset before the answer") }
        return value
    }

    private func locked<Value>(_ body: (inout State) throws(StoreError) -> Value) throws(StoreError) -> Value {
        let result: Result<Value, StoreError> = state.withLock { state in
            do throws(StoreError) {
                return .success(try body(&state))
            } catch {
                return .failure(error)
            }
        }
        return try result.get()
    }

    private func read(_ body: UploadBody) throws(StoreError) -> [UInt8] {
        guard body.descriptor >= 0, !body.range.isEmpty else { return [] }
        var bytes = [UInt8](repeating: 0, count: Int(body.range.count))
        let count = bytes.withUnsafeMutableBytes {
            pread(body.descriptor, $0.baseAddress, $0.count, Int(body.range.lower))
        }
        guard count == bytes.count else { throw StoreError(.localInput, "staging file too short") }
        return bytes
    }

    /// The bytes that arrive, and whether the connection is cut then.
    func receive(
        _ fate: Fate,
        _ body: UploadBody,
        _ cancellation: (any Cancellation)?
    ) throws(StoreError) -> (bytes: [UInt8], isCut: Bool) {
        if cancellation?.isCancelled == true { throw StoreError(.cancelled, "given up") }
        let bytes = try read(body)
        let arrived = state.withLock { state in
            var count = fate == .cut ? Int.random(in: 0...bytes.count, using: &state.random) : bytes.count
            if let limit = state.cutsBodyAt, limit < count {
                state.cutsBodyAt = nil
                state.isOffline = true
                count = limit
            }
            state.bodyBytes += Int64(count)
            return count
        }
        return (Array(bytes[..<arrived]), fate == .cut || arrived < bytes.count)
    }

    private static let lost = StoreError(.temporary, "connection reset")

    // MARK: ObjectStore

    var capabilities: StoreCapabilities { state.withLock { $0.capabilities } }

    func check(attempts: Int) throws(StoreError) { try request("check", .root) { _ in } }

    func list(_ folder: ObjectKey, recursive: Bool, continuation: String?) throws(StoreError) -> ListingPage {
        try request("list", folder) { state in
            let entries = state.objects.filter { $0.key.isInside(folder) && $0.key != folder }
                .map { ListingPage.Entry(key: $0.key, version: $0.value.version) }.sorted { $0.key < $1.key }
            return ListingPage(entries: entries, folders: [], next: nil)
        }
    }

    func status(of key: ObjectKey, cancellation: (any Cancellation)?) throws(StoreError) -> ObjectStatus {
        try request("status", key) { (state) throws(StoreError) in
            guard let object = state.objects[key] else { throw StoreError(.notFound, "404", status: 404) }
            let isEncrypted = state.encrypted.contains(key)
            return ObjectStatus(version: object.version, metadata: object.metadata, isEncrypted: isEncrypted)
        }
    }

    func fetch(_ key: ObjectKey, version: ObjectVersion, range: ByteRange, into sink: any RangeSink) -> any RangeFetch {
        do throws(StoreError) {
            let bytes = try request("fetch", key) { (state) throws(StoreError) in
                guard let object = state.objects[key] else { throw StoreError(.notFound, "404", status: 404) }
                guard object.version.isSame(as: version) else {
                    throw StoreError(.preconditionFailed, "412", status: 412)
                }
                return Array(object.bytes[Int(range.lower)..<Int(range.upper)])
            }
            bytes.withUnsafeBytes { sink.received($0, at: range.lower) }
            sink.finished(.success(()))
        } catch {
            sink.finished(.failure(error))
        }
        return DoneFetch()
    }

    func put(
        _ key: ObjectKey,
        body: UploadBody,
        metadata: ObjectMetadata,
        condition: WriteCondition,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> ObjectVersion {
        let fate = try fate("put", key)
        let (bytes, isCut) = try receive(fate, body, cancellation)
        progress?(Int64(bytes.count))
        if isCut { throw Self.lost }
        let write: @Sendable (inout State) throws(StoreError) -> ObjectVersion = { (state) throws(StoreError) in
            try state.check(condition, state.objects[key])
            let object = Object(bytes: bytes, tag: md5Hex(bytes), metadata: metadata)
            state.objects[key] = object
            return object.version
        }
        try hold("put", fate) { (state) throws(StoreError) in _ = try write(&state) }
        let version = try locked(write)
        if fate == .lostAnswer { throw Self.lost }
        return version
    }

    func createMultipartUpload(_ key: ObjectKey, metadata: ObjectMetadata) throws(StoreError) -> String {
        let fate = try fate("create", key)
        let id = state.withLock { state in
            state.nextID += 1
            state.uploads["upload-\(state.nextID)"] = Upload(key: key, metadata: metadata)
            var isLost = fate != .good
            if state.creationsToLose > 0 {
                state.creationsToLose -= 1
                isLost = true
            }
            if isLost { state.unannounced.insert("upload-\(state.nextID)") }
            return (name: "upload-\(state.nextID)", isLost: isLost)
        }
        if id.isLost { throw Self.lost }
        return id.name
    }

    func uploadPart(
        _ key: ObjectKey,
        uploadID: String,
        number: Int,
        body: UploadBody,
        md5: [UInt8],
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> String {
        let fate = try fate("part", key)
        let (bytes, isCut) = try receive(fate, body, cancellation)
        progress?(Int64(bytes.count))
        if isCut { throw Self.lost }
        guard Digest.of(bytes, .md5) == md5 else { throw StoreError(.corrupted, "BadDigest") }
        try locked { (state) throws(StoreError) in
            guard state.uploads[uploadID]?.key == key else {
                throw StoreError(.noSuchUpload, "NoSuchUpload", status: 404)
            }
            state.uploads[uploadID]?.parts[number] = bytes
        }
        if fate == .lostAnswer { throw Self.lost }
        return "\"" + md5Hex(bytes) + "\""
    }

    func copyPart(
        _ key: ObjectKey,
        uploadID: String,
        number: Int,
        source: ObjectKey,
        sourceVersion: ObjectVersion,
        range: ByteRange
    ) throws(StoreError) -> String {
        guard state.withLock({ $0.copiesParts }) else { throw StoreError(.unsupported, "501", status: 501) }
        return try request("copyPart", key) { (state) throws(StoreError) in
            guard let object = state.objects[source], object.version.isSame(as: sourceVersion) else {
                throw StoreError(.preconditionFailed, "PreconditionFailed", status: 412)
            }
            guard state.uploads[uploadID] != nil else {
                throw StoreError(.noSuchUpload, "NoSuchUpload", status: 404)
            }
            let bytes = Array(object.bytes[Int(range.lower)..<Int(range.upper)])
            state.uploads[uploadID]?.parts[number] = bytes
            return "\"" + md5Hex(bytes) + "\""
        }
    }

    func listParts(_ key: ObjectKey, uploadID: String) throws(StoreError) -> [UploadedPart] {
        try request("parts", key) { (state) throws(StoreError) in
            guard let upload = state.uploads[uploadID] else {
                throw StoreError(.noSuchUpload, "NoSuchUpload", status: 404)
            }
            return upload.parts.sorted { $0.key < $1.key }.map {
                UploadedPart(number: $0.key, size: Int64($0.value.count), entityTag: "\"" + md5Hex($0.value) + "\"")
            }
        }
    }

    func completeMultipartUpload(
        _ key: ObjectKey,
        uploadID: String,
        parts: [UploadedPart],
        condition: WriteCondition
    ) throws(StoreError) -> ObjectVersion {
        try request("complete", key) { (state) throws(StoreError) in
            guard let upload = state.uploads[uploadID] else {
                throw StoreError(.noSuchUpload, "NoSuchUpload", status: 404)
            }
            try state.check(condition, state.objects[key])
            let bodies = parts.compactMap { upload.parts[$0.number] }
            guard bodies.count == parts.count else { throw StoreError(.rejected, "InvalidPart", status: 400) }
            let tag = md5Hex(bodies.flatMap { Digest.of($0, .md5) }) + "-\(bodies.count)"
            let object = Object(bytes: Array(bodies.joined()), tag: tag, metadata: upload.metadata)
            state.objects[key] = object
            state.uploads[uploadID] = nil
            return object.version
        }
    }

    func abortMultipartUpload(_ key: ObjectKey, uploadID: String) throws(StoreError) {
        try request("abort", key) { (state) throws(StoreError) in
            state.uploads[uploadID] = nil
            guard state.abortsToRepeat > 0 else { return }
            state.abortsToRepeat -= 1
            throw StoreError(.noSuchUpload, "there is no such upload")
        }
    }

    func listMultipartUploads(_ key: ObjectKey) throws(StoreError) -> [UploadInProgress] {
        try request("uploads", key) { state in
            state.uploads.filter { $0.value.key == key }.map { id, upload in
                let seconds = Timestamp(seconds: upload.initiated.seconds)
                return UploadInProgress(uploadID: id, initiated: seconds, initiator: upload.initiator)
            }
        }
    }

    func serverTime() throws(StoreError) -> Timestamp { Timestamp(seconds: Timestamp.now().seconds) }

    func copy(
        _ source: ObjectKey,
        sourceVersion: ObjectVersion,
        to key: ObjectKey,
        metadata: ObjectMetadata?,
        condition: WriteCondition
    ) throws(StoreError) -> ObjectVersion {
        try request("copy", key) { (state) throws(StoreError) in
            guard let object = state.objects[source] else { throw StoreError(.notFound, "404", status: 404) }
            guard object.version.isSame(as: sourceVersion) else {
                throw StoreError(.preconditionFailed, "412", status: 412)
            }
            try state.check(condition, state.objects[key])
            let copy = Object(bytes: object.bytes, tag: md5Hex(object.bytes), metadata: metadata ?? object.metadata)
            state.objects[key] = copy
            return copy.version
        }
    }

    func delete(_ key: ObjectKey, condition: WriteCondition) throws(StoreError) {
        try request("delete", key) { (state) throws(StoreError) in
            if case .version = condition { try state.check(condition, state.objects[key]) }
            state.objects[key] = nil
        }
    }

    func creationFields(metadata: ObjectMetadata, condition: WriteCondition) -> HTTPFields {
        var fields = HTTPFields()
        switch condition {
        case .none: break
        case .absent: fields["If-None-Match"] = "*"
        case .version(let version): fields["If-Match"] = version.entityTag?.fieldValue
        }
        fields["x-amz-meta-mode"] = metadata.mode.map { String($0) }
        return fields
    }

    func learned(_ support: StoreCapabilities.ResumableSupport) {
        state.withLock { $0.capabilities.resumableUpload = support }
    }
}

private final class DoneFetch: RangeFetch {
    func cancel() {}
}

func md5Hex(_ bytes: [UInt8]) -> String { Hexadecimal.encode(Digest.of(bytes, .md5)) }
