// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire

extension ResumableUploadMachine {
    /// Begins a step, or the deletion when the upload was cancelled.
    mutating func take(_ step: Step) -> Action {
        if isCancelled, step != .end(.cancelled) { return delete(then: .end(.cancelled)) }
        switch step {
        case .discover: return discover()
        case .lower: return tryNext(hint: nil)
        case .create: return create()
        case .ask: return ask()
        case .append: return append()
        case .verify:
            phase = .verifying
            return .verifyTarget
        case .end(let action): return end(action)
        }
    }

    /// Waits when waiting can help, else ends.
    mutating func wait(_ pause: TransferPause, then next: Step) -> Action {
        if isCancelled { return delete(then: .end(.cancelled)) }
        var pause = pause
        if !credentialsRefreshed, pause.fault == .authentication || pause.fault == .forbidden {
            credentialsRefreshed = true
            pause.fault = .authentication
        } else if !pause.fault.isTransient && pause.fault != .protocolViolation {
            return end(.failed(pause.fault))
        }
        phase = .waiting(next)
        return .wait(pause)
    }

    /// No answer came to the step under way.
    mutating func unanswered(_ pause: TransferPause) -> Action {
        switch phase {
        case .discovering: return undiscovered(pause)
        case .creating: return wait(pause, then: resource == nil ? .create : .ask)
        case .asking, .appending: return wait(pause, then: .ask)
        case .verifying: return wait(pause, then: .verify)
        default: return end(.failed(.protocolViolation))
        }
    }

    // MARK: requests

    private func head(_ extra: HTTPFields = HTTPFields()) -> HTTPFields {
        var fields = extra
        fields[UploadProtocol.versionField] = version.fieldValue
        return fields
    }

    private mutating func discover() -> Action {
        phase = .discovering
        return .send(Request(method: "OPTIONS", target: .object, fields: head(), body: nil))
    }

    private mutating func create() -> Action {
        resource = nil
        acknowledgedBytes = 0
        mayBeComplete = false
        wasCompleted = false
        phase = .creating
        var fields = head(creationFields)
        UploadProtocol.setCompletion(false, version: version, in: &fields)
        if version.hasLength { fields[UploadProtocol.lengthField] = StructuredFields.serialized(intent.size) }
        return .send(Request(method: options.method, target: .object, fields: fields, body: ByteRange(0, 0)))
    }

    private mutating func ask() -> Action {
        guard let resource else { return create() }
        phase = .asking
        return .send(Request(method: "HEAD", target: .resource(resource), fields: head(), body: nil))
    }

    /// The next piece: the largest allowed; the last one ends the upload.
    private mutating func append() -> Action {
        guard let resource else { return create() }
        guard journalledResource == resource else { return journal() }
        let size = max(min(pieceSize, limits.maxAppendSize ?? .max), max(1, limits.minAppendSize ?? 1))
        let piece = ByteRange(acknowledgedBytes, min(intent.size - acknowledgedBytes, size) + acknowledgedBytes)
        phase = .appending(piece)
        var fields = head()
        fields[UploadProtocol.offsetField] = StructuredFields.serialized(piece.lower)
        UploadProtocol.setCompletion(piece.upper == intent.size, version: version, in: &fields)
        fields["Content-Type"] = UploadProtocol.mediaType
        if piece.upper == intent.size { mayBeComplete = true }
        return .send(Request(method: "PATCH", target: .resource(resource), fields: fields, body: piece))
    }

    /// Deletes the upload resource whatever the server says to it, then goes on.
    mutating func delete(then next: Step) -> Action {
        guard let resource else { return take(next) }
        phase = .deleting(next)
        return .send(Request(method: "DELETE", target: .resource(resource), fields: head(), body: nil))
    }

    mutating func deleted(_ next: Step) -> Action {
        resource = nil
        return take(next)
    }

    /// Begins a new upload for one that is lost; from the second time on after a wait.
    mutating func startOver() -> Action {
        resource = nil
        acknowledgedBytes = 0
        restarts += 1
        guard restarts <= Self.restartLimit else { return end(.failed(.noSuchUpload)) }
        return restarts == 1 ? take(.create) : wait(TransferPause(.temporary), then: .create)
    }

    /// Deletes an upload that cannot be continued and begins a new one.
    mutating func discard() -> Action {
        restarts += 1
        guard restarts <= Self.restartLimit else { return delete(then: .end(.failed(.protocolViolation))) }
        return delete(then: .create)
    }

    /// Asks for the offset, after a wait when answers keep being fruitless.
    mutating func askAgain(_ fault: TransferFault = .temporary) -> Action {
        stalls += 1
        return stalls <= Self.stallLimit ? take(.ask) : wait(TransferPause(fault), then: .ask)
    }
}
