// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Why a step failed, as the machines tell causes apart.
///
/// The names are those of the store's causes.
package enum TransferFault: String, Hashable, Sendable, CaseIterable, Error {
    case unreachable
    case temporary
    case notFound
    case noSuchBucket
    case noSuchUpload
    case preconditionFailed
    case authentication
    case forbidden
    case unsupported
    case tooLarge
    case invalidKey
    case noSpace
    case corrupted
    case protocolViolation
    case redirected
    case cancelled
    case localInput
    case rejected

    /// Whether the step may have happened at the remote although no good answer came.
    package var mayHaveHappened: Bool {
        self == .unreachable || self == .temporary || self == .protocolViolation
    }

    /// Whether the same step may succeed later without anyone changing anything.
    package var isTransient: Bool { self == .unreachable || self == .temporary || self == .corrupted }
}

/// Why and how long to wait before the next step; how long without a hint is the caller's backoff.
package struct TransferPause: Hashable, Sendable {
    /// What went wrong; `.authentication` asks to refresh the credentials meanwhile.
    package var fault: TransferFault
    /// Seconds the server asked for.
    package var retryAfter: Double?

    package init(_ fault: TransferFault, retryAfter: Double? = nil) {
        self.fault = fault
        self.retryAfter = retryAfter
    }
}
