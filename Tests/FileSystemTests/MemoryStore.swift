// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import HTTPWire
import ObjectStore
import Platform

/// A bucket in memory that can be changed, or made to vanish, under the file system.
final class MemoryStore: ObjectStore {
    struct Object {
        var content: [UInt8]
        var metadata: ObjectMetadata
        var tag: Int
        var modified = Timestamp(seconds: 1_000_000)
    }

    struct State {
        var objects: [ObjectKey: Object] = [:]
        var nextTag = 1
        var isUnreachable = false
        var heads = 0
        var listings = 0
        /// How many entries a page of a listing has at most.
        var pageSize = Int.max
        /// How many pages the remote has yet to give before it keeps its callers waiting; nil: no such bound.
        var pagesLeft: Int?
        var fetched: Int64 = 0
        /// Fetches get no byte until they are cancelled.
        var holdsFetches = false
        /// How many of them there were, and how many were cancelled.
        var held = 0
        var cancelled = 0
        /// Happens once, after the next listing of a whole tree.
        var afterTree: (@Sendable () -> Void)?
    }

    let state = Monitor(State())

    var capabilities: StoreCapabilities { StoreCapabilities() }

    @discardableResult
    func set(_ key: String, _ content: [UInt8], mode: UInt32? = nil) -> ObjectVersion {
        state.update { state in
            let object = Object(content: content, metadata: ObjectMetadata(mode: mode), tag: state.nextTag)
            state.nextTag += 1
            state.objects[ObjectKey(key)] = object
            return Self.version(object)
        }
    }

    /// Another mode on the same bytes, as a copy of an object onto itself gives it.
    func setMode(of key: String, _ mode: UInt32) {
        state.update { state in
            state.objects[ObjectKey(key)]?.metadata.mode = mode
            state.objects[ObjectKey(key)]?.modified.nanoseconds += 1_000_000_000
        }
    }

    func version(of key: String) -> ObjectVersion? {
        state.inspect { $0.objects[ObjectKey(key)].map { Self.version($0) } }
    }

    func remove(_ key: String) {
        state.update { _ = $0.objects.removeValue(forKey: ObjectKey(key)) }
    }

    /// Lets some more pages of listings through.
    func givePages(_ count: Int?) { state.update { $0.pagesLeft = count } }

    func setUnreachable(_ isUnreachable: Bool) {
        state.update { $0.isUnreachable = isUnreachable }
    }

    private static func version(_ object: Object) -> ObjectVersion {
        ObjectVersion(
            entityTag: EntityTag(opaque: "t\(object.tag)"),
            size: Int64(object.content.count),
            lastModified: object.modified
        )
    }

    private func reached<Value>(_ body: (inout State) throws(StoreError) -> Value) throws(StoreError) -> Value {
        try state.update { state throws(StoreError) in
            if state.isUnreachable { throw StoreError(.unreachable, "no route") }
            return try body(&state)
        }
    }

    func check(attempts: Int) throws(StoreError) {
        try reached { _ in }
    }

    func list(_ folder: ObjectKey, recursive: Bool, continuation: String?) throws(StoreError) -> ListingPage {
        defer { if recursive { state.update { $0.afterTree.take() }?() } }
        _ = state.wait { state -> Bool? in
            if state.pagesLeft == 0, !state.isUnreachable { return nil }
            state.pagesLeft = state.pagesLeft.map { max(0, $0 - 1) }
            return true
        }
        return try reached { state in
            state.listings += 1
            let after = continuation.map { ObjectKey($0) }
            var page = ListingPage(entries: [], folders: [], next: nil)
            let start = folder.isRoot ? 0 : folder.bytes.count + 1
            for (key, object) in state.objects.sorted(by: { $0.key < $1.key }) {
                guard key.bytes.count >= start, key.isInside(folder), key != folder else { continue }
                if let after, key <= after { continue }
                if page.entries.count + page.folders.count == state.pageSize {
                    page.next = page.entries.last?.key.string
                    return page
                }
                let rest = key.bytes[start...]
                if !recursive, let slash = rest.firstIndex(of: UInt8(ascii: "/")) {
                    let name = ObjectKey(bytes: Array(key.bytes[..<slash]))
                    if page.folders.last != name { page.folders.append(name) }
                } else {
                    page.entries.append(ListingPage.Entry(key: key, version: Self.version(object)))
                }
            }
            return page
        }
    }

    func status(of key: ObjectKey, cancellation: (any Cancellation)?) throws(StoreError) -> ObjectStatus {
        try reached { state throws(StoreError) in
            state.heads += 1
            guard let object = state.objects[key] else { throw StoreError(.notFound, "no such key") }
            return ObjectStatus(version: Self.version(object), metadata: object.metadata)
        }
    }

    func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        let isHeld = state.update { state in
            if state.holdsFetches { state.held += 1 }
            return state.holdsFetches
        }
        if isHeld { return HeldFetch(self, sink) }
        do {
            try Thread.detached(name: "fetch") { self.deliver(key, version, range, sink) }
        } catch {
            sink.finished(.failure(StoreError(.temporary, "\(error)")))
        }
        return NoFetch()
    }

    private func deliver(_ key: ObjectKey, _ version: ObjectVersion, _ range: ByteRange, _ sink: any RangeSink) {
        var position = range.lower
        while position < range.upper {
            let end = min(range.upper, position + 4096)
            do throws(StoreError) {
                let bytes = try reached { state throws(StoreError) -> [UInt8] in
                    guard let object = state.objects[key] else { throw StoreError(.notFound, "no such key") }
                    guard Self.version(object).isSame(as: version) else {
                        throw StoreError(.preconditionFailed, "changed")
                    }
                    state.fetched += end - position
                    return Array(object.content[Int(position)..<Int(end)])
                }
                bytes.withUnsafeBytes { sink.received($0, at: position) }
            } catch {
                return sink.finished(.failure(error))
            }
            position = end
        }
        sink.finished(.success(()))
    }

    // MARK: What the mount never does

    private var refusal: StoreError { StoreError(.unsupported, "the mount does not upload") }

    func put(
        _ key: ObjectKey,
        body: UploadBody,
        metadata: ObjectMetadata,
        condition: WriteCondition,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> ObjectVersion {
        throw refusal
    }

    func createMultipartUpload(_ key: ObjectKey, metadata: ObjectMetadata) throws(StoreError) -> String {
        throw refusal
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
        throw refusal
    }

    func copyPart(
        _ key: ObjectKey,
        uploadID: String,
        number: Int,
        source: ObjectKey,
        sourceVersion: ObjectVersion,
        range: ByteRange
    ) throws(StoreError) -> String {
        throw refusal
    }

    func listParts(_ key: ObjectKey, uploadID: String) throws(StoreError) -> [UploadedPart] { throw refusal }

    func completeMultipartUpload(
        _ key: ObjectKey,
        uploadID: String,
        parts: [UploadedPart],
        condition: WriteCondition
    ) throws(StoreError) -> ObjectVersion {
        throw refusal
    }

    func abortMultipartUpload(_ key: ObjectKey, uploadID: String) throws(StoreError) { throw refusal }

    func listMultipartUploads(_ key: ObjectKey) throws(StoreError) -> [UploadInProgress] { throw refusal }

    func serverTime() throws(StoreError) -> Timestamp { .now() }

    func copy(
        _ source: ObjectKey,
        sourceVersion: ObjectVersion,
        to key: ObjectKey,
        metadata: ObjectMetadata?,
        condition: WriteCondition
    ) throws(StoreError) -> ObjectVersion {
        throw refusal
    }

    func delete(_ key: ObjectKey, condition: WriteCondition) throws(StoreError) { throw refusal }

    func creationFields(metadata: ObjectMetadata, condition: WriteCondition) -> HTTPFields { HTTPFields() }

    func exchange(
        _ exchange: UploadExchange,
        informational: (@Sendable (Int, HTTPFields) -> Void)?,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> UploadExchangeResponse {
        throw refusal
    }

    func learned(_ support: StoreCapabilities.ResumableSupport) {}
}

private final class HeldFetch: RangeFetch {
    private let store: MemoryStore
    private let sink: Lock<(any RangeSink)?>

    init(_ store: MemoryStore, _ sink: any RangeSink) {
        self.store = store
        self.sink = Lock(sink)
    }

    func cancel() {
        let sink = sink.withLock { sink in
            defer { sink = nil }
            return sink
        }
        guard let sink else { return }
        store.state.update { $0.cancelled += 1 }
        sink.finished(.failure(StoreError(.cancelled, "cancelled")))
    }
}

private final class NoFetch: RangeFetch {
    func cancel() {}
}
