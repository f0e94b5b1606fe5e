// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import ObjectStore
package import ResumableUpload

/// An object of which the server copies what the content has of it.
package struct UploadSource: Sendable {
    package let key: ObjectKey
    package let version: ObjectVersion
    /// Which parts are copied; they are at the same offsets in the object.
    package let composition: PartComposition

    package init(key: ObjectKey, version: ObjectVersion, composition: PartComposition) {
        self.key = key
        self.version = version
        self.composition = composition
    }

    /// As the journal keeps it.
    var record: [UInt8] { composition.encoded }
}

/// Everything the drivers of one upload share.
package struct UploadContext: Sendable {
    package let store: any ObjectStore
    package let key: ObjectKey
    package let content: UploadContent
    /// Where the rest is, when only what is sent of the content is in `content`.
    package let source: UploadSource?
    package let metadata: ObjectMetadata
    package let condition: WriteCondition
    package let recorder: any TransferRecorder
    package let progress: TransferProgress
    package let gate: RequestGate
    package let cancellation: any Cancellation
    /// Parts of one file in flight at once.
    package let parallelism: Int

    package init(
        store: any ObjectStore,
        key: ObjectKey,
        content: UploadContent,
        source: UploadSource? = nil,
        metadata: ObjectMetadata,
        condition: WriteCondition,
        recorder: any TransferRecorder,
        progress: TransferProgress,
        gate: RequestGate,
        cancellation: any Cancellation,
        parallelism: Int
    ) {
        self.store = store
        self.key = key
        self.content = content
        self.source = source
        self.metadata = metadata
        self.condition = condition
        self.recorder = recorder
        self.progress = progress
        self.gate = gate
        self.cancellation = cancellation
        self.parallelism = parallelism
    }

    var intent: UploadIntent {
        let base: UploadIntent.Foundation =
            switch condition {
            case .none: .anything
            case .absent: .absent
            case .version(let version): .version(version)
            }
        return UploadIntent(size: content.size, base: base)
    }

    /// What the remote holds at the key; nil when it holds nothing.
    func target() throws(StoreError) -> ObjectVersion? {
        do throws(StoreError) {
            return try gate.run(cancellation) { () throws(StoreError) in
                try store.status(of: key, cancellation: cancellation).version
            }
        } catch {
            if error.cause == .notFound { return nil }
            throw error
        }
    }
}

/// Writes an upload's transitions into the journal, each before the request that it is about.
package protocol TransferRecorder: Sendable {
    /// An upload is asked for next, whose name only the answer tells; durable when it returns.
    ///
    /// `time` is the server's. Ends with `begun`, `notBegun` or `perhapsBegun`.
    func beginning(at time: Timestamp) throws(StoreError)
    /// No upload came of it.
    func notBegun() throws(StoreError)
    /// No answer came: there may be an upload that nobody knows, which is somebody else's to find.
    func perhapsBegun(at time: Timestamp) throws(StoreError)
    /// This upload is wanted no more and could not be ended now: somebody else will.
    func left(upload: String, interopVersion: Int) throws(StoreError)
    /// The upload exists at the remote under this id or URL; durable against SIGKILL when it returns.
    func begun(upload: String, interopVersion: Int, partSize: Int64) throws(StoreError)
    func part(number: Int, size: Int64, md5: [UInt8], entityTag: String) throws(StoreError)
    func acknowledged(_ bytes: Int64) throws(StoreError)
    /// The request that changes the object is to be sent next; throws when it has to wait, and nothing was noted then.
    ///
    /// `expectedTag` is the one that the object gets, where that is known.
    func mayCommit(expectedTag: String?) throws(StoreError)
    /// The request that changes the object is sent next; `expectedTag` is how its result can be recognised.
    func committing(expectedTag: String?) throws(StoreError)
    /// That request was answered, or cannot have arrived: it will not be carried out later.
    func answered()
}

/// How an upload ended.
package enum UploadResult: Sendable {
    case committed(ObjectVersion)
    /// The target holds something else (nil: it is gone), which was left alone.
    case conflict(ObjectVersion?)
    /// This protocol does not work here; nothing of the content was stored.
    case unsupported
    case failed(StoreError)
}
