// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// One conditional PUT, repeated until its fate is known.
///
/// Call ``start()``, do what the action says, report with ``handle(_:)``, and so on until the action ends it.
/// A lost answer is never repeated blindly and never taken for a failure: the target is asked first.
package struct SinglePutMachine: Sendable {
    package enum Action: Hashable, Sendable {
        /// Send the whole content under the intent's condition; answer `stored` or `failed`.
        case put
        /// HEAD the target; answer `target`, or `failed` when that failed.
        case verifyTarget
        /// Wait, then report `waited`.
        case wait(TransferPause)
        /// Over: the target holds the content.
        case done(ObjectVersion)
        /// Over: the target holds something else (nil: it is gone), which was left alone.
        case conflict(ObjectVersion?)
        /// Over: nothing more can be done without a change.
        case failed(TransferFault)
    }

    package enum Event: Hashable, Sendable {
        case stored(ObjectVersion)
        case failed(TransferFault, retryAfter: Double?)
        /// `expectedTag` is the lower-case hexadecimal MD5 of the content; it may be nil when the sizes differ.
        case target(ObjectVersion?, expectedTag: String?)
        case waited
    }

    private enum Phase: Hashable {
        case putting
        case verifying
        case waiting(thenVerify: Bool)
        case over
    }

    private let intent: UploadIntent
    private var phase = Phase.putting
    private var credentialsRefreshed = false
    /// Preconditions refused although the target was unchanged: a server that misreads them must not hold us for ever.
    private var contradictions = 0

    package init(intent: UploadIntent) {
        self.intent = intent
    }

    /// For a PUT that a process before this one may have sent: asks the target first.
    package init(resuming intent: UploadIntent) {
        self.intent = intent
        phase = .verifying
    }

    package mutating func start() -> Action { phase == .verifying ? .verifyTarget : .put }

    package mutating func handle(_ event: Event) -> Action {
        switch (phase, event) {
        case (.putting, .stored(let version)): end(.done(version))
        case (.putting, .failed(let fault, let retryAfter)): putFailed(fault, retryAfter)
        case (.verifying, .failed(.notFound, _)): judged(nil, nil)
        case (.verifying, .failed(let fault, let retryAfter)): pauseOrFail(fault, retryAfter, thenVerify: true)
        case (.verifying, .target(let found, let tag)): judged(found, tag)
        case (.waiting(let verify), .waited): begin(verify)
        default: end(.failed(.protocolViolation))
        }
    }

    private mutating func begin(_ verify: Bool) -> Action {
        phase = verify ? .verifying : .putting
        return verify ? .verifyTarget : .put
    }

    private mutating func end(_ action: Action) -> Action {
        phase = .over
        return action
    }

    private mutating func putFailed(_ fault: TransferFault, _ retryAfter: Double?) -> Action {
        if fault == .preconditionFailed {
            contradictions += 1
            return contradictions > 3 ? end(.failed(fault)) : begin(true)
        }
        return pauseOrFail(fault, retryAfter, thenVerify: fault.mayHaveHappened)
    }

    private mutating func pauseOrFail(_ fault: TransferFault, _ retryAfter: Double?, thenVerify: Bool) -> Action {
        if fault == .authentication, !credentialsRefreshed {
            credentialsRefreshed = true
        } else if !fault.isTransient && fault != .protocolViolation {
            return end(.failed(fault))
        }
        phase = .waiting(thenVerify: thenVerify)
        return .wait(TransferPause(fault, retryAfter: retryAfter))
    }

    private mutating func judged(_ found: ObjectVersion?, _ tag: String?) -> Action {
        switch TargetVerdict(found: found, intent: intent, expectedTag: tag) {
        case .ours(let version): return end(.done(version))
        case .foreign(let version): return end(.conflict(version))
        case .unchanged: return begin(false)
        }
    }
}
