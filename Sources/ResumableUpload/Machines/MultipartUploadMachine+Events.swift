// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base

extension MultipartUploadMachine {
    package mutating func start() -> [Action] {
        if let uploadID { return [.listParts(uploadID: uploadID)] }
        return [.create]
    }

    /// Gives up: lets running parts end, aborts at the remote, then `cancelled`.
    ///
    /// Call it at most once, and not after the last action; the outcome of what runs is still reported.
    package mutating func cancel() -> [Action] {
        isCancelled = true
        switch phase {
        case .sending, .draining, .waiting: return settle(.end(.cancelled))
        default: return []
        }
    }

    package mutating func handle(_ event: Event) -> [Action] {
        switch event {
        case .created(let id): return created(id)
        case .journalled: return journalled()
        case .listed(let listed): return self.listed(listed)
        case .digested(let number, let digest): return digested(number, digest)
        case .partUploaded(let number, let digest, let tag): return partUploaded(number, digest, tag)
        case .partCopied(let number, let digest, let tag):
            guard composition != nil else { return violation() }
            return partUploaded(number, digest, tag)
        case .partFailed(let number, let fault, let retryAfter):
            running.remove(number)
            return partFailed(TransferPause(fault, retryAfter: retryAfter))
        case .completed(let version):
            // Another version that took our place before it was looked at is not to be taken for ours.
            return version.size == intent.size ? end(.done(version)) : settle(.end(.conflict(version)))
        case .failed(let fault, let retryAfter): return failed(TransferPause(fault, retryAfter: retryAfter))
        case .target(let found, let wholeTag): return judged(found, wholeTag)
        case .aborted:
            guard case .aborting(let next) = phase else { return violation() }
            uploadID = nil
            parts = [:]
            return begin(next)
        case .waited:
            guard case .waiting(let next) = phase else { return [] }
            return next == .list ? settle(next) : begin(next)
        }
    }

    // MARK: creating and listing

    private mutating func created(_ id: String) -> [Action] {
        guard phase == .creating else { return violation() }
        uploadID = id
        parts = [:]
        phase = .journalling
        return [.journal(MultipartState(uploadID: id, partSize: partSize, composition: composition))]
    }

    private mutating func journalled() -> [Action] {
        guard phase == .journalling else { return violation() }
        return isCancelled ? settle(.end(.cancelled)) : begin(.send)
    }

    /// Keeps a listed part at once when the journal vouches for it, after a look at the local bytes otherwise.
    ///
    /// A copied part that the journal does not know is copied again: its bytes are not here to be compared.
    private mutating func listed(_ listed: [Listed]) -> [Action] {
        if phase == .checking { return checked(listed) }
        guard phase == .listing else { return violation() }
        if isCancelled { return settle(.end(.cancelled)) }
        let known = parts
        let layout = layout
        parts = [:]
        unproven = [:]
        for part in listed where (1...layout.count).contains(part.number) {
            guard part.size == layout.range(part.number).count else { continue }
            if let old = known[part.number], Self.bare(old.entityTag) == Self.bare(part.entityTag) {
                parts[part.number] = old
            } else if !layout.isCopied(part.number) {
                unproven[part.number] = part
            }
        }
        return begin(.send)
    }

    /// Completes only what the server has exactly as it was meant: some take a copy of a part for something else.
    private mutating func checked(_ listed: [Listed]) -> [Action] {
        if isCancelled { return settle(.end(.cancelled)) }
        let found = Dictionary(listed.map { ($0.number, $0) }) { _, last in last }
        let isWhole = sortedParts.allSatisfy { part in
            found[part.number].map { $0.size == part.size && Self.bare($0.entityTag) == Self.bare(part.entityTag) }
                ?? false
        }
        return isWhole && found.count == parts.count ? begin(.complete) : settle(.end(.failed(.unsupported)))
    }

    private mutating func digested(_ number: Int, _ digest: [UInt8]) -> [Action] {
        running.remove(number)
        guard let part = unproven.removeValue(forKey: number) else { return violation() }
        var actions: [Action] = []
        if Self.bare(part.entityTag) == Self.hexadecimal(digest) {
            let kept = MultipartState.Part(number: number, size: part.size, md5: digest, entityTag: part.entityTag)
            parts[number] = kept
            actions = [.journalPart(kept)]
        }
        return actions + proceed()
    }

    /// An entity tag without quotes, in lower case.
    static func bare(_ tag: String) -> String {
        EntityTag(fieldValue: tag)?.opaque.lowercased() ?? tag
    }

    // MARK: parts

    private mutating func partUploaded(_ number: Int, _ digest: [UInt8], _ tag: String) -> [Action] {
        guard running.remove(number) != nil, (1...layout.count).contains(number) else { return violation() }
        let size = layout.range(number).count
        let part = MultipartState.Part(number: number, size: size, md5: digest, entityTag: tag)
        parts[number] = part
        window.arrived()
        return [.journalPart(part)] + proceed()
    }

    private mutating func partFailed(_ pause: TransferPause) -> [Action] {
        if case .draining = phase { return proceed() }
        switch pause.fault {
        case .noSuchUpload, .notFound:
            afterUnchanged = .redo
            return settle(.verify)
        case .authentication where !credentialsRefreshed:
            credentialsRefreshed = true
            return pauseSending(pause)
        case let fault where fault.isTransient || fault == .protocolViolation:
            return pauseSending(pause)
        default:
            return settle(.end(.failed(pause.fault)))
        }
    }

    /// Waits once for all: parts that fail meanwhile do not wait again, parts that run go on.
    ///
    /// A part whose answer was lost may be there: it is looked for before it is sent again.
    private mutating func pauseSending(_ pause: TransferPause) -> [Action] {
        let next = pause.fault.mayHaveHappened ? Resumption.list : .send
        if phase == .waiting(.send) { phase = .waiting(next) }
        guard phase == .sending else { return [] }
        window.interrupted()
        phase = .waiting(next)
        return [.wait(pause)]
    }

    /// Begins as many parts as may run; completes when none is left.
    mutating func proceed() -> [Action] {
        switch phase {
        case .sending: return fill()
        case .draining(let next) where running.isEmpty: return begin(next)
        default: return []
        }
    }

    private mutating func fill() -> [Action] {
        guard let uploadID else { return violation() }
        var actions: [Action] = []
        let layout = layout
        var number = 1
        while running.count < window.size, number <= layout.count {
            defer { number += 1 }
            guard parts[number] == nil, !running.contains(number) else { continue }
            running.insert(number)
            let range = layout.range(number)
            actions.append(action(uploadID, number, range))
        }
        return running.isEmpty ? begin(composition == nil ? .complete : .check) : actions
    }

    private func action(_ uploadID: String, _ number: Int, _ range: ByteRange) -> Action {
        if layout.isCopied(number) { return .copyPart(uploadID: uploadID, number: number, range: range) }
        return unproven[number] == nil
            ? .uploadPart(uploadID: uploadID, number: number, range: range)
            : .digest(number: number, range: range)
    }

    // MARK: the end

    private mutating func failed(_ pause: TransferPause) -> [Action] {
        let again: Resumption
        switch phase {
        case .creating: again = .create
        case .listing: again = .list
        case .checking: again = .check
        case .completing: return completionFailed(pause)
        case .verifying:
            if pause.fault == .notFound { return judged(nil, nil) }
            again = .verify
        default: return violation()
        }
        if phase == .listing || phase == .checking, pause.fault == .noSuchUpload || pause.fault == .notFound {
            afterUnchanged = .redo
            return begin(.verify)
        }
        return wait(pause, then: again)
    }

    private mutating func completionFailed(_ pause: TransferPause) -> [Action] {
        switch pause.fault {
        case .preconditionFailed:
            afterUnchanged = .redo
            return begin(.verify)
        case .noSuchUpload, .notFound:
            afterUnchanged = .redo
            return begin(.verify)
        case .rejected where relistings == 0:
            relistings += 1
            return begin(.list)
        default:
            return wait(pause, then: pause.fault.mayHaveHappened ? .verify : .complete)
        }
    }

    /// Waits when waiting can help, else ends the upload as failed.
    private mutating func wait(_ pause: TransferPause, then next: Resumption) -> [Action] {
        if pause.fault == .authentication, !credentialsRefreshed {
            credentialsRefreshed = true
        } else if !pause.fault.isTransient && pause.fault != .protocolViolation {
            return settle(.end(.failed(pause.fault)))
        }
        if isCancelled { return settle(.end(.cancelled)) }
        phase = .waiting(next)
        return [.wait(pause)]
    }

    private mutating func judged(_ found: ObjectVersion?, _ wholeTag: String?) -> [Action] {
        guard phase == .verifying else { return violation() }
        let tag = hasTagOfWhole(found, wholeTag) ? wholeTag : expectedTag
        switch TargetVerdict(found: found, intent: intent, expectedTag: tag) {
        case .ours(let version): return end(.done(version))
        case .foreign(let version): return settle(.end(.conflict(version)))
        case .unchanged: return unchanged()
        }
    }

    /// Whether the target has our content's tag, and did not before.
    private func hasTagOfWhole(_ found: ObjectVersion?, _ wholeTag: String?) -> Bool {
        guard let found, let wholeTag else { return false }
        if case .version(let base) = intent.base, found.isSame(as: base) { return false }
        return found.entityTag?.opaque.lowercased() == wholeTag
    }

    /// The commit did not happen: the parts may still be there, or all has to be sent again.
    ///
    /// An upload that the server says it has forgotten is ended all the same: the word may be that of one node.
    private mutating func unchanged() -> [Action] {
        let next = afterUnchanged
        afterUnchanged = .list
        if isCancelled { return settle(.end(.cancelled)) }
        guard next != .list else { return begin(.list) }
        restarts += 1
        return restarts <= Self.restartLimit ? begin(next) : end(.failed(.noSuchUpload))
    }
}
