// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// An S3 multipart upload from nothing, or from what the journal knows, to the object at the remote.
///
/// Call ``start()``, carry out every action (part uploads side by side), and report the outcome of each with
/// ``handle(_:)``, which returns the actions to begin next. The last action of all ends it; no action is
/// outstanding then. Journalling is done by the driver before it reports or calls again.
package struct MultipartUploadMachine: Sendable {
    package enum Action: Hashable, Sendable {
        /// CreateMultipartUpload; answer `created`.
        case create
        /// Make this durable before anything is sent to it; answer `journalled`.
        case journal(MultipartState)
        /// ListParts, all pages; answer `listed`.
        case listParts(uploadID: String)
        /// Compute the MD5 of a part's local bytes; answer `digested`.
        case digest(number: Int, range: ByteRange)
        /// UploadPart; answer `partUploaded` or `partFailed`.
        case uploadPart(uploadID: String, number: Int, range: ByteRange)
        /// UploadPartCopy of these bytes of the source; answer `partCopied` or `partFailed`.
        ///
        /// `.preconditionFailed` says that the source is not what it was.
        case copyPart(uploadID: String, number: Int, range: ByteRange)
        /// Make this part durable; no answer.
        case journalPart(MultipartState.Part)
        /// CompleteMultipartUpload under the intent's condition; answer `completed` or `failed`.
        case complete(uploadID: String, parts: [MultipartState.Part])
        /// HEAD the target; answer `target` or `failed`.
        case verifyTarget
        /// AbortMultipartUpload; answer `aborted` whatever came of it.
        case abort(uploadID: String)
        /// Wait, then report `waited`.
        case wait(TransferPause)
        case done(ObjectVersion)
        /// The target holds something else (nil: it is gone), which was left alone.
        case conflict(ObjectVersion?)
        case failed(TransferFault)
        /// Given up on request; the remote was told.
        case cancelled
    }

    /// A part as ListParts tells it.
    package struct Listed: Hashable, Sendable {
        package var number: Int
        package var size: Int64
        package var entityTag: String

        package init(number: Int, size: Int64, entityTag: String) {
            self.number = number
            self.size = size
            self.entityTag = entityTag
        }
    }

    package enum Event: Hashable, Sendable {
        case created(uploadID: String)
        case journalled
        case listed([Listed])
        case digested(number: Int, md5: [UInt8])
        case partUploaded(number: Int, md5: [UInt8], entityTag: String)
        /// `md5` as the entity tag tells it, empty where it is none.
        case partCopied(number: Int, md5: [UInt8], entityTag: String)
        case partFailed(number: Int, TransferFault, retryAfter: Double?)
        case completed(ObjectVersion)
        /// Of create, listParts, complete and verifyTarget.
        case failed(TransferFault, retryAfter: Double?)
        /// `wholeTag` is the lower-case hexadecimal MD5 of the content, which some servers give whatever came in parts;
        /// it may be nil where the target's size or the form of its tag differs.
        case target(ObjectVersion?, wholeTag: String?)
        case aborted
        case waited
    }

    /// What goes on, one thing at a time but for parts.
    enum Phase: Hashable {
        case creating
        case journalling
        case listing
        case sending
        /// Listing once more before the end: whether the server has exactly what was to be put together.
        case checking
        case completing
        case verifying
        /// Waiting; what to do afterwards.
        case waiting(Resumption)
        /// Parts still run, then this is done.
        case draining(Resumption)
        case aborting(Resumption)
        case over
    }

    /// What to do once a wait, the last running part or an abort is over.
    enum Resumption: Hashable {
        case create
        case list
        case send
        case check
        case complete
        case verify
        case end(Action)
        /// Abort the upload, then begin anew.
        case redo
    }

    let intent: UploadIntent
    /// How many parts may be in flight.
    package internal(set) var window: PartWindow
    /// MD5, for the entity tag of the whole object.
    let md5: @Sendable ([UInt8]) -> [UInt8]
    var partSize: Int64
    let composition: PartComposition?
    var uploadID: String?
    var parts: [Int: MultipartState.Part]
    var phase: Phase
    var running: Set<Int> = []
    /// Parts listed at the remote whose local digest is being computed.
    var unproven: [Int: Listed] = [:]
    var credentialsRefreshed = false
    var restarts = 0
    var relistings = 0
    var isCancelled = false
    /// What a verification found unchanged calls for.
    var afterUnchanged = Resumption.list

    /// How often an upload the remote forgot is begun anew before giving up.
    static let restartLimit = 5

    /// Begins anew, or where `state` says the one before was.
    ///
    /// - Parameters:
    ///   - intent: What is uploaded, and over what.
    ///   - state: What the journal holds of the upload, nil to begin one.
    ///   - partSize: Bytes of a part of a new upload, nil for the usual; raised where it would make too many parts.
    ///   - composition: What the server copies, where it has a part of the content; `state` must be of the same.
    ///   - parallelism: Parts in flight at most, at least 1.
    ///   - md5: The MD5 digest of its argument.
    package init(
        intent: UploadIntent,
        state: MultipartState? = nil,
        partSize: Int64? = nil,
        composition: PartComposition? = nil,
        parallelism: Int,
        md5: @escaping @Sendable ([UInt8]) -> [UInt8]
    ) {
        self.intent = intent
        window = PartWindow(limit: parallelism, isResumed: state != nil)
        self.md5 = md5
        precondition(composition.map { $0.size == intent.size } ?? true, "a composition of another size")
        self.composition = composition
        self.partSize =
            composition == nil ? state?.partSize ?? PartLayout.partSize(for: intent.size, wanted: partSize) : 0
        uploadID = state?.uploadID
        parts = Dictionary((state?.parts ?? []).map { ($0.number, $0) }) { _, last in last }
        phase = state == nil ? .creating : .listing
    }

    package var layout: PartLayout {
        composition.map { PartLayout($0) } ?? PartLayout(size: intent.size, partSize: partSize)
    }

    /// Bytes the remote acknowledged.
    package var acknowledgedBytes: Int64 { parts.values.reduce(0) { $0 + $1.size } }

    /// What the journal should hold now; nil while there is no upload.
    package var state: MultipartState? {
        uploadID.map {
            MultipartState(uploadID: $0, partSize: partSize, composition: composition, parts: sortedParts)
        }
    }

    var sortedParts: [MultipartState.Part] { parts.values.sorted { $0.number < $1.number } }

    /// The opaque entity tag of the whole: hex(md5(md5 of each part)) and the number of parts; nil while that is not known.
    package var expectedTag: String? {
        let sorted = sortedParts
        guard sorted.count == layout.count, !sorted.contains(where: { $0.md5.isEmpty }) else { return nil }
        let digest = md5(sorted.flatMap(\.md5))
        return Self.hexadecimal(digest) + "-\(sorted.count)"
    }

    static func hexadecimal(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        return String(decoding: bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }, as: UTF8.self)
    }
}
