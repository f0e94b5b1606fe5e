// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire

extension ResumableUploadMachine {
    // MARK: discovery

    mutating func discovered(_ answer: UploadAnswer) -> Action {
        if answer.status == 429 || answer.status == 503 { return undiscovered(pause(.temporary, answer)) }
        if answer.isSuccess, let limits = answer.limits {
            support = .version(version)
            return fits(limits) ? take(.create) : end(.unsupported)
        }
        return tryNext(hint: answer.version)
    }

    /// No answer to OPTIONS: some servers break off or fail at a method they do not know, and must not hold us.
    mutating func undiscovered(_ pause: TransferPause) -> Action {
        if pause.fault != .unreachable { silences += 1 }
        return silences <= Self.silenceLimit ? wait(pause, then: .discover) : end(.unsupported)
    }

    /// Asks for the next version down, or the one the server named if that is still to come.
    mutating func tryNext(hint: InteropVersion?) -> Action {
        var rest = candidates ?? InteropVersion.discoveryOrder.filter { $0 < version && $0 != .final }
        if let hint, let index = rest.firstIndex(of: hint) { rest.removeFirst(index) }
        guard let next = rest.first else {
            support = .none
            return end(.unsupported)
        }
        version = next
        candidates = Array(rest.dropFirst())
        return take(.discover)
    }

    private func fits(_ limits: UploadLimits) -> Bool {
        intent.size <= limits.maxSize ?? .max && intent.size >= limits.minSize ?? 0 && limits.maxAppendSize != 0
    }

    // MARK: creation

    mutating func created(_ answer: UploadAnswer, url: String) -> Action {
        if answer.isSuccess {
            if let location = answer.location { resource = UploadURL.resolve(location, against: url) ?? resource }
            guard resource != nil else { return disbelieve() }
            guard fits(limits) else { return delete(then: .end(.unsupported)) }
            return take(.append)
        }
        if let fault = Self.transientFault(answer) {
            return wait(pause(fault, answer), then: resource == nil ? .create : .ask)
        }
        switch answer.status {
        case 400, 415: return tryNext(hint: answer.version)
        case 405, 501: return tryNext(hint: nil)
        case 409, 412: return take(.verify)
        case 413: return end(.unsupported)
        default: return wait(pause(Self.fault(answer.status), answer), then: .create)
        }
    }

    /// A success without an upload resource: the server took the empty body for the object.
    ///
    /// Never ask it again.
    private mutating func disbelieve() -> Action {
        support = .none
        return end(.unsupported)
    }

    mutating func journal() -> Action {
        guard let state else { return end(.failed(.protocolViolation)) }
        journalledResource = state.resource
        phase = .journalling
        return .journal(state)
    }

    // MARK: the offset

    mutating func told(_ answer: UploadAnswer) -> Action {
        guard answer.isSuccess else { return refusedOffset(answer) }
        guard let offset = answer.offset, offset <= intent.size, answer.length ?? intent.size == intent.size else {
            return discard()
        }
        if answer.isComplete == true {
            wasCompleted = offset == intent.size
            return take(.verify)
        }
        return advance(to: offset, next: .append)
    }

    private mutating func refusedOffset(_ answer: UploadAnswer) -> Action {
        if let fault = Self.transientFault(answer) { return wait(pause(fault, answer), then: .ask) }
        switch answer.status {
        case 404, 410: return vanished()
        case 401, 403: return wait(pause(Self.fault(answer.status), answer), then: .ask)
        default: return discard()
        }
    }

    /// The upload resource is gone: complete and tidied up, or lost.
    private mutating func vanished() -> Action {
        resource = nil
        return mayBeComplete ? take(.verify) : startOver()
    }

    private mutating func advance(to offset: Int64, next: Step) -> Action {
        if offset > acknowledgedBytes { stalls = 0 }
        acknowledgedBytes = offset
        return take(next)
    }

    // MARK: appending

    mutating func appended(_ answer: UploadAnswer, piece: ByteRange) -> Action {
        if answer.problem == .completedUpload { return askAgain() }
        if answer.isComplete == true { return finished(answer, piece: piece) }
        if answer.isSuccess { return stored(answer, piece: piece) }
        if let fault = Self.transientFault(answer) { return wait(pause(fault, answer), then: .ask) }
        switch answer.status {
        case 409: return misplaced(answer)
        case 404, 410: return vanished()
        case 413: return shrink()
        case 400, 415: return refusedAppend(answer)
        case 405, 501: return delete(then: .end(.unsupported))
        default: return wait(pause(Self.fault(answer.status), answer), then: .ask)
        }
    }

    /// A piece was stored and more is to come, or the answer leaves it open whether this was the end.
    private mutating func stored(_ answer: UploadAnswer, piece: ByteRange) -> Action {
        if piece.upper == intent.size, answer.isComplete == nil { return askAgain() }
        let offset = answer.offset ?? piece.upper
        guard offset >= acknowledgedBytes, offset <= piece.upper else { return askAgain() }
        guard offset > piece.lower else { return askAgain() }
        return advance(to: offset, next: .append)
    }

    private mutating func misplaced(_ answer: UploadAnswer) -> Action {
        guard let offset = answer.offset, offset <= intent.size, offset != acknowledgedBytes,
            stalls < Self.stallLimit
        else { return askAgain() }
        stalls += 1
        acknowledgedBytes = offset
        return take(.append)
    }

    private mutating func shrink() -> Action {
        let current = min(pieceSize, limits.maxAppendSize ?? .max)
        guard current > Self.smallestPiece, current / 2 >= limits.minAppendSize ?? 0 else {
            return delete(then: .end(.failed(.tooLarge)))
        }
        pieceSize = max(Self.smallestPiece, current / 2)
        return askAgain()
    }

    /// A bad request: the content broke off, the length is disputed, or the version is misunderstood.
    private mutating func refusedAppend(_ answer: UploadAnswer) -> Action {
        if answer.problem == .inconsistentLength { return discard() }
        guard stalls >= Self.stallLimit else { return askAgain() }
        stalls = 0
        return delete(then: .lower)
    }

    // MARK: the end

    /// The target resource's own answer to the whole upload.
    private mutating func finished(_ answer: UploadAnswer, piece: ByteRange) -> Action {
        mayBeComplete = true
        wasCompleted = answer.isSuccess && piece.upper == intent.size
        guard !answer.isSuccess else { return succeeded(answer, piece: piece) }
        switch answer.status {
        case 404, 409, 412: return take(.verify)
        default:
            let fault = Self.transientFault(answer) ?? Self.fault(answer.status)
            return wait(pause(fault, answer), then: .verify)
        }
    }

    private mutating func succeeded(_ answer: UploadAnswer, piece: ByteRange) -> Action {
        guard piece.upper == intent.size, let tag = answer.fields["ETag"].flatMap({ EntityTag(fieldValue: $0) }) else {
            return take(.verify)
        }
        return end(.done(ObjectVersion(entityTag: tag, size: intent.size, lastModified: answer.fields.date)))
    }

    mutating func judged(_ found: ObjectVersion?, _ tag: String?) -> Action {
        switch TargetVerdict(found: found, intent: intent, expectedTag: tag, wasCompleted: wasCompleted) {
        case .ours(let version): return end(.done(version))
        case .foreign(let version):
            return resource == nil ? end(.conflict(version)) : delete(then: .end(.conflict(version)))
        case .unchanged: return startOver()
        }
    }

    // MARK: statuses

    private func pause(_ fault: TransferFault, _ answer: UploadAnswer) -> TransferPause {
        TransferPause(fault, retryAfter: answer.fields["Retry-After"].flatMap { Int64($0) }.map { Double($0) })
    }

    /// The fault of a status that invites the same request again; nil for any other.
    ///
    /// An answer of the target (complete) is judged by its own rules.
    private static func transientFault(_ answer: UploadAnswer) -> TransferFault? {
        switch answer.status {
        case 408, 423, 425, 429: .temporary
        case 500...599 where answer.status != 501 && answer.status != 507: .temporary
        default: nil
        }
    }

    private static func fault(_ status: Int) -> TransferFault {
        switch status {
        case 300..<400: .redirected
        case 401: .authentication
        case 403: .forbidden
        case 404, 410: .notFound
        case 409, 412: .preconditionFailed
        case 413: .tooLarge
        case 405, 501: .unsupported
        case 507: .noSpace
        default: .rejected
        }
    }
}
