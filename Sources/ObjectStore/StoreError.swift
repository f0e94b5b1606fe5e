// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Why a request to the remote failed, as far as anyone above the store has to tell causes apart.
package struct StoreError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The closed set of causes.
    package enum Cause: String, Hashable, Sendable, CaseIterable {
        /// No route, no name, refused, timed out: the request may not have arrived. Waiting, not failing.
        case unreachable
        /// The server answered 5xx, 429 or SlowDown, or the connection broke mid-way: try again.
        case temporary
        /// No such object, bucket or upload.
        case notFound
        /// No such bucket.
        case noSuchBucket
        /// The multipart or resumable upload is not known any more.
        case noSuchUpload
        /// The object is not the version the request was conditional on (412, 409, a differing tag).
        case preconditionFailed
        /// The credentials are missing, wrong or expired.
        case authentication
        /// The credentials are good, the operation is not allowed.
        case forbidden
        /// The server cannot do this (501, 405, or a lying 200): the capability is to be dropped.
        case unsupported
        /// The content is too large for the server (413, EntityTooLarge).
        case tooLarge
        /// The key is too long or not allowed here.
        case invalidKey
        /// The remote is out of space or quota (507).
        case noSpace
        /// What arrived is not what was sent (BadDigest).
        case corrupted
        /// The server's answer breaks the protocol: wrong range, wrong length, garbage XML.
        case protocolViolation
        /// A redirect that is not followed: wrong region or endpoint.
        case redirected
        /// Cancelled by us.
        case cancelled
        /// Reading the local data to send failed.
        case localInput
        /// Any other refusal of the request (4xx).
        case rejected
    }

    package let cause: Cause
    /// One line for people: what the server or system said, without secrets.
    package let message: String
    /// The HTTP status, when there was an answer.
    package let status: Int?
    /// The server's error code, such as `NoSuchKey`.
    package let code: String?
    /// How long the server asked to wait, in seconds.
    package let retryAfter: Double?

    package init(
        _ cause: Cause,
        _ message: String,
        status: Int? = nil,
        code: String? = nil,
        retryAfter: Double? = nil
    ) {
        self.cause = cause
        self.message = message
        self.status = status
        self.code = code
        self.retryAfter = retryAfter
    }

    /// Whether the same request may succeed later without anyone changing anything.
    package var isTransient: Bool { cause == .unreachable || cause == .temporary || cause == .corrupted }

    /// Whether the server says, or shows by not answering in time, that less should be asked of it at once.
    package var isOverload: Bool { cause == .temporary && (status == nil || status == 429 || status == 503) }

    /// Whether the server keeps keys as paths, and has an object where the key needs a folder, or a folder at the key.
    package var isPathConflict: Bool { code == "ParentIsObject" || code == "ExistingObjectIsDirectory" }

    /// The code of errors of requests that cannot have arrived.
    package static let notSent = "NotSent"

    /// The code of errors of requests that a network answered which wants a login first: they have not arrived either.
    package static let captivePortal = "CaptivePortal"

    private var hasNotArrived: Bool { code == Self.notSent || code == Self.captivePortal }

    /// Whether the server may have carried the request out although this came of it.
    package var mayHaveHappened: Bool {
        switch cause {
        case .unreachable: !hasNotArrived
        case .temporary: status != 503 && status != 429
        case .protocolViolation, .cancelled: true
        default: false
        }
    }

    /// Whether the request may be carried out later, by a server that has it and never got to tell.
    package var mayStillArrive: Bool {
        switch cause {
        case .unreachable: !hasNotArrived
        // Without an answer, or with that of a gateway which has lost sight of the server behind it.
        case .temporary: status == nil || status == 502 || status == 504
        case .cancelled: true
        default: false
        }
    }

    package var description: String { message }
}
