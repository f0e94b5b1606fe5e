// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import HTTPWire

/// What must hold at the remote for a change to happen.
package enum WriteCondition: Hashable, Sendable {
    /// Nothing: last writer wins.
    case none
    /// The key does not exist (`If-None-Match: *`).
    case absent
    /// The key holds exactly this version (`If-Match`).
    case version(ObjectVersion)
}

/// A range of a local file to send.
///
/// The descriptor stays open and the bytes unchanged until the call returns.
package struct UploadBody: Sendable {
    package let descriptor: Int32
    package let range: ByteRange
    /// What the bytes of the file have to be: others are never sent; nil where nobody knows.
    package let check: (any FileCheck)?

    package init(descriptor: Int32, range: ByteRange, check: (any FileCheck)? = nil) {
        self.descriptor = descriptor
        self.range = range
        self.check = check
    }

    package static let empty = UploadBody(descriptor: -1, range: ByteRange(0, 0))
}

/// A part that the remote holds.
package struct UploadedPart: Hashable, Sendable {
    /// 1 to 10,000.
    package let number: Int
    package let size: Int64
    package let entityTag: String

    package init(number: Int, size: Int64, entityTag: String) {
        self.number = number
        self.size = size
        self.entityTag = entityTag
    }
}

/// A multipart upload that was begun and neither completed nor aborted.
package struct UploadInProgress: Hashable, Sendable {
    package let uploadID: String
    /// When it was begun by the server's clock, to the second at most servers; nil when the server does not say.
    package let initiated: Timestamp?
    /// The server's name for whoever began it; nil when the server does not say.
    package let initiator: String?

    package init(uploadID: String, initiated: Timestamp?, initiator: String? = nil) {
        self.uploadID = uploadID
        self.initiated = initiated
        self.initiator = initiator
    }
}

/// What a server was seen or probed to do; learned while working, never assumed.
package struct StoreCapabilities: Hashable, Sendable {
    /// Conditional writes are enforced (412), nil while unknown.
    package var conditionalWrites: Bool?
    /// CopyObject works, nil while unknown.
    package var copy: Bool?
    /// Copies are made only where what they are conditional on holds, for the source and for a target that must not exist;
    /// nil while unknown.
    package var conditionalCopies: Bool?
    /// Deletions are made only of the version that is named, nil while unknown.
    package var conditionalDeletions: Bool?
    /// UploadPartCopy works, nil while unknown.
    package var partCopy: Bool?
    /// An object `folder/` can stand beside objects in the folder, nil while unknown; without it empty folders
    /// cannot be kept at this remote, and putting a marker throws `.unsupported`.
    package var folderMarkers: Bool?
    /// Multipart uploads work, nil while unknown.
    package var multipart: Bool?
    /// The interop version of IETF resumable uploads, 0 for the final form; `.some(nil)` when there is none.
    package var resumableUpload: ResumableSupport

    package enum ResumableSupport: Hashable, Sendable {
        case unknown
        case none
        /// Interop version 3 to 9; 0 for the final form without a version field.
        case version(Int)
    }

    package init() {
        resumableUpload = .unknown
    }
}

/// Lets another thread give up a request; the blocked call then throws `.cancelled`.
package protocol Cancellation: AnyObject, Sendable {
    var isCancelled: Bool { get }
    /// No new request is to be begun; what is under way may end.
    var isWindingDown: Bool { get }
    /// How urgent the request is now.
    var trafficClass: TrafficClass { get }
    /// How fast it may send besides what holds for all; nil: as fast as that.
    var pace: (any TransferPace)? { get }
    /// How long it may take to connect, and nothing may move; nil: as long as the store lets all requests.
    var timeouts: TransferTimeouts? { get }
    /// Calls `handler` once when cancelled, at once when it already is. Returns a token for ``removeHandler(_:)``.
    func onCancel(_ handler: @escaping @Sendable () -> Void) -> Int
    func removeHandler(_ token: Int)
}

extension Cancellation {
    package var isWindingDown: Bool { false }
    package var trafficClass: TrafficClass { .interactive }
    package var pace: (any TransferPace)? { nil }
    package var timeouts: TransferTimeouts? { nil }
}

/// How long requests with content are waited for, in seconds.
package struct TransferTimeouts: Hashable, Sendable {
    /// For a connection.
    package var connect: Double
    /// While nothing moves.
    package var stall: Double

    package init(connect: Double, stall: Double) {
        self.connect = connect
        self.stall = stall
    }
}

/// Receives the bytes of a ranged read on the transfer thread; must not block.
package protocol RangeSink: AnyObject, Sendable {
    /// Bytes in ascending order without gaps, from the start of the range. Called only after the
    /// response's head was validated against the wanted version.
    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64)
    /// All that has come from the network so far was handed over: a sink that gathers need not wait for more.
    func drained()
    /// Called exactly once, last. Success means every byte of the range was delivered.
    func finished(_ result: Result<Void, StoreError>)
}

extension RangeSink {
    package func drained() {}
}

/// A ranged read under way.
package protocol RangeFetch: AnyObject, Sendable {
    /// Gives up; the sink's `finished` is still called, with `.cancelled` unless already over.
    func cancel()
}

/// One HTTP exchange of a resumable upload, built and read by the protocol's state machine.
package struct UploadExchange: Sendable {
    package enum Target: Hashable, Sendable {
        /// The object's own URL.
        case object(ObjectKey)
        /// The upload resource's absolute URL, as the server gave it.
        case resource(String)
    }

    package var method: String
    package var target: Target
    package var fields: HTTPFields
    package var body: UploadBody?

    package init(method: String, target: Target, fields: HTTPFields, body: UploadBody? = nil) {
        self.method = method
        self.target = target
        self.fields = fields
        self.body = body
    }
}

/// The final response to an ``UploadExchange``.
package struct UploadExchangeResponse: Sendable {
    package var status: Int
    package var fields: HTTPFields
    /// At most 64 KiB.
    package var body: [UInt8]
    /// The absolute URL that was asked, for resolving a relative Location.
    package var url: String

    package init(status: Int, fields: HTTPFields, body: [UInt8], url: String) {
        self.status = status
        self.fields = fields
        self.body = body
        self.url = url
    }
}

/// A bucket, or the part of it under a prefix.
///
/// Every call blocks its thread until answered, within the
/// configured time limits, and retries what is safe to retry within its budget.
///
/// Keys are relative to the volume's prefix. Progress closures are called on the transfer thread with the
/// number of body bytes handed to the network so far.
package protocol ObjectStore: AnyObject, Sendable {
    var capabilities: StoreCapabilities { get }

    /// Forgets what it answers from memory, other than the names of versions.
    func forgetAges()

    /// Checks that the bucket answers and the credentials are good; sends no more requests than `attempts` (1...5).
    func check(attempts: Int) throws(StoreError)

    /// One page, of at most 1,000 entries where the server has pages.
    ///
    /// Throws `.unsupported` when the remote does not tell what is in the folder. `folder` is listed with its marker object, if it has one, as the entry `folder/`.
    /// With `recursive` every key below is listed and `folders` is empty.
    func list(_ folder: ObjectKey, recursive: Bool, continuation: String?) throws(StoreError) -> ListingPage

    /// The same; where it can be told, `foretell` gets what to pass for the next page while this one is still being read.
    ///
    /// What counts is what the page itself says.
    func list(
        _ folder: ObjectKey,
        recursive: Bool,
        continuation: String?,
        foretell: (String) -> Void
    ) throws(StoreError) -> ListingPage

    func status(of key: ObjectKey, cancellation: (any Cancellation)?) throws(StoreError) -> ObjectStatus

    /// Starts reading `range` of exactly `version`; a differing version finishes with `.preconditionFailed`.
    func fetch(_ key: ObjectKey, version: ObjectVersion, range: ByteRange, into sink: any RangeSink) -> any RangeFetch

    /// Somebody has this version open from now on, until ``closed(_:version:)``; must not block.
    func opened(_ key: ObjectKey, version: ObjectVersion)
    func closed(_ key: ObjectKey, version: ObjectVersion)

    func put(
        _ key: ObjectKey,
        body: UploadBody,
        metadata: ObjectMetadata,
        condition: WriteCondition,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> ObjectVersion

    func createMultipartUpload(_ key: ObjectKey, metadata: ObjectMetadata) throws(StoreError) -> String

    /// Sends one part; `md5` is the digest of its bytes. Returns the part's entity tag.
    func uploadPart(
        _ key: ObjectKey,
        uploadID: String,
        number: Int,
        body: UploadBody,
        md5: [UInt8],
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> String

    /// Server-side copy of a range of another object as a part. Returns the part's entity tag.
    func copyPart(
        _ key: ObjectKey,
        uploadID: String,
        number: Int,
        source: ObjectKey,
        sourceVersion: ObjectVersion,
        range: ByteRange
    ) throws(StoreError) -> String

    func listParts(_ key: ObjectKey, uploadID: String) throws(StoreError) -> [UploadedPart]

    func completeMultipartUpload(
        _ key: ObjectKey,
        uploadID: String,
        parts: [UploadedPart],
        condition: WriteCondition
    ) throws(StoreError) -> ObjectVersion

    func abortMultipartUpload(_ key: ObjectKey, uploadID: String) throws(StoreError)

    /// The multipart uploads in progress for exactly this key, whoever began them.
    func listMultipartUploads(_ key: ObjectKey) throws(StoreError) -> [UploadInProgress]

    /// The server's clock: not ahead of it, and behind it by a second and the way of an answer at most.
    ///
    /// Sends a request only when no answer has told the time yet; our own clock where the server never tells it.
    func serverTime() throws(StoreError) -> Timestamp

    /// Server-side copy of `source` at `sourceVersion`; `metadata` replaces the source's when given.
    func copy(
        _ source: ObjectKey,
        sourceVersion: ObjectVersion,
        to key: ObjectKey,
        metadata: ObjectMetadata?,
        condition: WriteCondition
    ) throws(StoreError) -> ObjectVersion

    /// Deletes the key; a key that is already gone is success unless `condition` names a version.
    func delete(_ key: ObjectKey, condition: WriteCondition) throws(StoreError)

    /// The fields a resumable upload's creation needs to make this object: metadata and condition.
    func creationFields(metadata: ObjectMetadata, condition: WriteCondition) -> HTTPFields

    /// Sends one signed request of a resumable upload, once, with no retry and no redirect.
    ///
    /// `informational` is called for each 1xx response. HTTP error statuses are returned, not thrown.
    func exchange(
        _ exchange: UploadExchange,
        informational: (@Sendable (Int, HTTPFields) -> Void)?,
        progress: (@Sendable (Int64) -> Void)?,
        cancellation: (any Cancellation)?
    ) throws(StoreError) -> UploadExchangeResponse

    /// What somebody has stored with an object, of what a look at it has told: without what the server, or what is
    /// before it, says of any object.
    func stored(_ found: ObjectMetadata) throws(StoreError) -> ObjectMetadata

    /// What an answer of ``exchange(_:informational:progress:cancellation:)`` with an error status says, in the server's words.
    func error(of response: UploadExchangeResponse) -> StoreError?

    /// Records what was learned about resumable uploads at this endpoint.
    func learned(_ support: StoreCapabilities.ResumableSupport)
}

extension ObjectStore {
    /// Checks that the bucket answers and the credentials are good, as patiently as any other request.
    package func check() throws(StoreError) { try check(attempts: 5) }

    /// Most tell of an object what was stored with it.
    package func stored(_ found: ObjectMetadata) throws(StoreError) -> ObjectMetadata { found }

    /// Most take no resumable uploads.
    package func error(of response: UploadExchangeResponse) -> StoreError? { nil }

    /// Most answer nothing from memory.
    package func forgetAges() {}

    /// Most fetch ranges only, which end by themselves.
    package func opened(_ key: ObjectKey, version: ObjectVersion) {}
    package func closed(_ key: ObjectKey, version: ObjectVersion) {}

    /// Most cannot tell before the page is read.
    package func list(
        _ folder: ObjectKey,
        recursive: Bool,
        continuation: String?,
        foretell: (String) -> Void
    ) throws(StoreError) -> ListingPage {
        try list(folder, recursive: recursive, continuation: continuation)
    }
}
