// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
package import HTTPWire

/// An IETF resumable upload from nothing, or from what the journal knows, to the object at the remote.
///
/// Support is discovered by OPTIONS, the upload is created with an empty body, its URL is journalled before
/// any content goes out, the content is appended in pieces, and after any doubt the server is asked for
/// the offset. One step at a time: call ``start()``, do what the action says, report with ``handle(_:)``.
package struct ResumableUploadMachine: Sendable {
    /// What the driver chooses.
    package struct Options: Hashable, Sendable {
        /// PUT, or POST where the server only takes that.
        package var method: String
        /// Bytes of one append where the server sets no limit.
        package var pieceSize: Int64

        package init(method: String = "PUT", pieceSize: Int64 = 64 << 20) {
            precondition(pieceSize > 0, "piece size \(pieceSize)")
            self.method = method
            self.pieceSize = pieceSize
        }
    }

    let intent: UploadIntent
    let options: Options
    /// The fields that make the object what it shall be: metadata and conditions.
    let creationFields: HTTPFields
    /// What is known of the server now; the driver may remember it for the next upload.
    package internal(set) var support: ResumableSupport
    var version: InteropVersion
    var phase: Phase
    var resource: String?
    /// Where the next piece begins: what the server last told.
    package internal(set) var acknowledgedBytes: Int64
    var limits = UploadLimits()
    var pieceSize: Int64
    /// Versions to ask for when `version` is not spoken, the next one first; nil before the first is asked.
    var candidates: [InteropVersion]?
    /// The upload resource that the journal holds.
    var journalledResource: String?
    /// The whole content was sent in requests whose last one ended the upload, so it may be complete.
    var mayBeComplete: Bool
    /// The server said that it has all and the target has answered.
    var wasCompleted = false
    var credentialsRefreshed = false
    var restarts = 0
    /// Answers since the last progress that gave no reason to wait.
    var stalls = 0
    /// Requests for the versions that broke off or met a busy server.
    var silences = 0
    var isCancelled = false

    /// How many of those there may be before another protocol is taken for this upload.
    static let silenceLimit = 3
    /// How often an upload is begun anew before giving up.
    static let restartLimit = 5
    /// How many fruitless answers are followed by another request at once.
    static let stallLimit = 2
    /// The smallest piece that a 413 shrinks to, in bytes.
    static let smallestPiece: Int64 = 1 << 20

    /// Begins anew.
    package init(
        intent: UploadIntent,
        creationFields: HTTPFields,
        support: ResumableSupport = .unknown,
        options: Options = Options()
    ) {
        self.intent = intent
        self.options = options
        self.creationFields = creationFields
        self.support = support
        pieceSize = options.pieceSize
        acknowledgedBytes = 0
        mayBeComplete = false
        if case .version(let known) = support { version = known } else { version = InteropVersion.discoveryOrder[0] }
        phase = .over
    }

    /// Goes on with an upload that the journal knows: asks the server for its offset first.
    package init(
        resuming state: ResumableUploadState,
        intent: UploadIntent,
        creationFields: HTTPFields,
        options: Options = Options()
    ) {
        self.init(intent: intent, creationFields: creationFields, support: .version(state.version), options: options)
        resource = state.length == intent.size ? state.resource : nil
        journalledResource = resource
        acknowledgedBytes = resource == nil ? 0 : min(max(0, state.offset), intent.size)
        // The process before this one may have sent everything.
        mayBeComplete = resource != nil
    }

    /// What the journal should hold now; nil while there is no upload resource.
    package var state: ResumableUploadState? {
        resource.map {
            ResumableUploadState(resource: $0, version: version, offset: acknowledgedBytes, length: intent.size)
        }
    }

    /// An upload that the server has named and that was not journalled before the machine's end; nil for none.
    package var unrecordedState: ResumableUploadState? { resource == journalledResource ? nil : state }

    package mutating func start() -> Action {
        if resource != nil { return take(.ask) }
        switch support {
        case .none: return end(.unsupported)
        case .unknown:
            candidates = Array(InteropVersion.discoveryOrder.dropFirst())
            return take(.discover)
        case .version: return take(.create)
        }
    }

    /// Gives up: once the step under way is reported, the upload resource is deleted, then `cancelled`.
    package mutating func cancel() {
        isCancelled = true
    }

    package mutating func handle(_ event: Event) -> Action {
        switch (phase, event) {
        case (.deleting(let next), .response), (.deleting(let next), .failed):
            return deleted(next)
        case (.waiting(let next), .waited): return take(next)
        case (.journalling, .journalled): return take(.append)
        case (.verifying, .target(let found, let tag)): return judged(found, tag)
        case (.verifying, .failed(.notFound, _)): return judged(nil, nil)
        case (_, .failed(let fault, let retryAfter)): return unanswered(TransferPause(fault, retryAfter: retryAfter))
        case (_, .response(let response)): return answered(response)
        default: return end(.failed(.protocolViolation))
        }
    }

    /// Notes an interim response.
    ///
    /// Returns the offset it acknowledges, if it does.
    package mutating func informational(status: Int, fields: HTTPFields, url: String) -> Int64? {
        let answer = UploadAnswer(status: status, fields: fields, version: version)
        guard answer.isInterim(version: version) else { return nil }
        if phase == .creating, resource == nil, let location = answer.location {
            resource = UploadURL.resolve(location, against: url)
        }
        limits = limits.updated(by: answer.limits)
        guard case .appending(let piece) = phase, let offset = answer.offset,
            offset >= acknowledgedBytes, offset <= piece.upper
        else { return nil }
        acknowledgedBytes = offset
        stalls = 0
        return offset
    }

    mutating func end(_ action: Action) -> Action {
        phase = .over
        return action
    }

    private mutating func answered(_ response: Response) -> Action {
        let answer = UploadAnswer(
            status: response.status,
            fields: response.fields,
            body: response.body,
            version: version
        )
        limits = limits.updated(by: answer.limits)
        switch phase {
        case .discovering: return discovered(answer)
        case .creating: return created(answer, url: response.url)
        case .asking: return told(answer)
        case .appending(let piece): return appended(answer, piece: piece)
        default: return end(.failed(.protocolViolation))
        }
    }
}
