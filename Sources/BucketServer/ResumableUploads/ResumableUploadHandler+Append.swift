// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import HTTPWire
internal import Platform
internal import ResumableUpload

extension ResumableUploadHandler {
    /// Serves a PATCH of an upload resource that this request holds.
    func append(to upload: StoredUpload, _ exchange: UploadExchange) {
        let reply = exchange.reply
        let fields = exchange.request.fields
        guard UploadRequestFields.hasMediaType(fields, version: reply.version) else {
            return reply.sendError(415, "an append is \(UploadProtocol.mediaType)")
        }
        guard let asked = UploadRequestFields(append: fields, version: reply.version) else {
            return reply.sendError(400, "bad or missing upload fields")
        }
        if let answer = upload.manifest.answer { return appendToEnded(upload, answer, asked, exchange) }
        guard asked.offset == upload.offset else { return refuseOffset(upload, asked, reply) }
        let declared = exchange.body.declaredLength
        if let most = limits.maxAppendSize, declared ?? 0 > most {
            let limits = announcedLimits(of: upload)
            return reply.sendTooLarge("larger than one append may be here", limits: limits, offset: upload.offset)
        }
        switch length(of: asked, from: upload.offset, known: upload.manifest.length, content: declared) {
        case .inconsistent: reply.sendProblem(.inconsistentLength, offset: upload.offset)
        case .beyondEnd: invalidate(upload, reply)
        case .tooLarge:
            let limits = announcedLimits(of: upload)
            reply.sendTooLarge("larger than uploads may be here", limits: limits, offset: upload.offset)
        case .length(let length): append(to: upload, exchange, asked, length)
        }
    }

    private func append(
        to upload: StoredUpload,
        _ exchange: UploadExchange,
        _ asked: UploadRequestFields,
        _ length: Int64?
    ) {
        let reply = exchange.reply
        if length != upload.manifest.length {
            do throws(SystemError) {
                try upload.update { $0.length = length }
            } catch {
                return fail(.storage(error), upload, reply)
            }
        }
        guard take(exchange, into: upload, completes: asked.completes) else { return }
        if asked.completes { return complete(upload, exchange) }
        reply.send(
            reply.version.incompleteAppendStatus,
            UploadReply.incomplete(reply.version, state: state(of: upload))
        )
    }

    private func refuseOffset(_ upload: StoredUpload, _ asked: UploadRequestFields, _ reply: Reply) {
        reply.sendProblem(
            .mismatchingOffset,
            offset: upload.offset,
            members: [("expected-offset", upload.offset), ("provided-offset", asked.offset ?? 0)]
        )
    }

    /// The upload is over: repeating its last request gives its answer again, anything else is refused.
    private func appendToEnded(
        _ upload: StoredUpload,
        _ answer: UploadManifest.Answer,
        _ asked: UploadRequestFields,
        _ exchange: UploadExchange
    ) {
        let reply = exchange.reply
        if asked.completes, asked.offset == upload.offset, exchange.body.declaredLength == 0 {
            return reply.sendFinal(answer, offset: upload.offset)
        }
        if reply.version.hasCompletedProblem {
            return reply.sendProblem(.completedUpload, offset: upload.offset, isComplete: true)
        }
        refuseOffset(upload, asked, reply)
    }

    // MARK: lengths

    /// What the numbers of a request say about the length of the whole upload.
    enum LengthVerdict: Hashable {
        case length(Int64?)
        case inconsistent
        /// The content goes on behind the known end.
        case beyondEnd
        case tooLarge
    }

    /// Combines what is known of the length with what a request of `content` bytes from `offset` says.
    func length(of asked: UploadRequestFields, from offset: Int64, known: Int64?, content: Int64?) -> LengthVerdict {
        var length = known
        let end = content.map { offset.addingReportingOverflow($0) }
        if let end, end.overflow || end.partialValue > limits.maxSize { return .tooLarge }
        if let end, let known, end.partialValue > known { return .beyondEnd }
        for said in [asked.length, asked.completes ? end?.partialValue : nil] {
            guard let said else { continue }
            if let length, length != said { return .inconsistent }
            length = said
        }
        if let length, length > limits.maxSize { return .tooLarge }
        if let length, length < end?.partialValue ?? offset { return .inconsistent }
        return .length(length)
    }

    // MARK: content

    /// Takes a request's content into the upload; answers itself and returns false when that failed.
    func take(_ exchange: UploadExchange, into upload: StoredUpload, completes: Bool) -> Bool {
        let reply = exchange.reply
        let hasProgress = reply.version.hasProgress
        let most = limits.maxAppendSize.map { upload.offset + $0 } ?? .max
        do throws(UploadReceiver.Failure) {
            let receiver = UploadReceiver(
                upload: upload,
                body: exchange.body,
                limit: min(upload.manifest.length ?? limits.maxSize, most),
                promised: try PromisedDigest.ofContent(exchange.request, authorizer),
                acknowledge: hasProgress
                    ? { reply.responder.sendInformational(104, UploadReply.progress(reply.version, offset: $0)) } : nil
            )
            try receiver.run()
        } catch {
            fail(error, upload, reply)
            return false
        }
        guard completes, let length = upload.manifest.length, upload.offset != length else { return true }
        reply.sendProblem(.inconsistentLength, offset: upload.offset)
        return false
    }

    /// Ends an upload whose client sends more than it said there is: what arrived cannot be what it means.
    private func invalidate(_ upload: StoredUpload, _ reply: Reply) {
        reply.sendProblem(.inconsistentLength, offset: upload.offset)
        store.remove(upload)
    }

    func fail(_ failure: UploadReceiver.Failure, _ upload: StoredUpload, _ reply: Reply) {
        let offset = upload.offset
        switch failure {
        case .body(.interrupted): reply.sendError(503, "another request took over this upload", offset: offset)
        case .body(.cutShort): reply.sendError(400, "the content broke off", offset: offset)
        case .body(.timedOut): reply.sendError(408, "the content came too slowly", offset: offset)
        case .body(.malformed(let text)): reply.sendError(400, text, offset: offset)
        case .tooLong where upload.manifest.length == offset: invalidate(upload, reply)
        case .tooLong:
            let limits = announcedLimits(of: upload)
            reply.sendTooLarge("larger than uploads or appends may be here", limits: limits, offset: offset)
        case .digestMismatch: reply.sendError(400, "the content is not what its digest says", offset: offset)
        case .storage(let error):
            Log.error("serve", "cannot store an upload's content: \(error)")
            reply.sendError(Self.status(of: error), "cannot store the content", offset: offset)
        }
    }

    /// The status that a failure of the disk is answered with.
    static func status(of error: SystemError) -> Int {
        [ENOSPC, EDQUOT, EFBIG].contains(error.code) ? 507 : 500
    }
}
