// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

extension MultipartUploadMachine {
    /// Does `next` as soon as no part runs any more.
    mutating func settle(_ next: Resumption) -> [Action] {
        guard running.isEmpty else {
            phase = .draining(next)
            return []
        }
        return begin(next)
    }

    mutating func begin(_ next: Resumption) -> [Action] {
        switch next {
        case .create: return beginAnew()
        case .list: return beginListing()
        case .send:
            phase = .sending
            return proceed()
        case .check: return beginCheck()
        case .complete: return beginCompletion()
        case .verify:
            phase = .verifying
            return [.verifyTarget]
        case .redo: return abort(then: .create)
        case .end(let action): return finish(action)
        }
    }

    private mutating func beginAnew() -> [Action] {
        uploadID = nil
        parts = [:]
        unproven = [:]
        phase = .creating
        return [.create]
    }

    private mutating func beginListing() -> [Action] {
        guard let uploadID else { return beginAnew() }
        phase = .listing
        return [.listParts(uploadID: uploadID)]
    }

    private mutating func beginCheck() -> [Action] {
        guard let uploadID, parts.count == layout.count else { return violation() }
        phase = .checking
        return [.listParts(uploadID: uploadID)]
    }

    private mutating func beginCompletion() -> [Action] {
        guard let uploadID, parts.count == layout.count else { return violation() }
        phase = .completing
        return [.complete(uploadID: uploadID, parts: sortedParts)]
    }

    private mutating func abort(then next: Resumption) -> [Action] {
        guard let uploadID else { return begin(next) }
        phase = .aborting(next)
        return [.abort(uploadID: uploadID)]
    }

    /// Ends; what nobody will continue is aborted first, what a later try can continue is left.
    ///
    /// Without its source a composition cannot be continued.
    private mutating func finish(_ action: Action) -> [Action] {
        switch action {
        case .conflict, .cancelled, .failed(.preconditionFailed):
            uploadID == nil ? end(action) : abort(then: .end(action))
        default: end(action)
        }
    }

    mutating func end(_ action: Action) -> [Action] {
        phase = .over
        return [action]
    }

    /// An event that does not belong here: the driver is wrong, so nothing is touched at the remote.
    mutating func violation() -> [Action] { end(.failed(.protocolViolation)) }
}
