// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform
internal import ResumableUpload

extension ResumableUploadHandler {
    /// Begins an upload and takes what of its content comes with the same request.
    func create(_ exchange: UploadExchange) {
        let reply = exchange.reply
        guard let asked = UploadRequestFields(creation: exchange.request.fields, version: reply.version) else {
            return reply.sendError(400, "bad upload fields")
        }
        switch length(of: asked, from: 0, known: nil, content: exchange.body.declaredLength) {
        case .inconsistent, .beyondEnd: reply.sendProblem(.inconsistentLength)
        case .tooLarge: reply.sendTooLarge("larger than uploads may be here", limits: limitsOfAll)
        case .length(let length): create(exchange, asked, length)
        }
    }

    private func create(_ exchange: UploadExchange, _ asked: UploadRequestFields, _ length: Int64?) {
        let request = exchange.request
        let reply = exchange.reply
        let manifest = UploadManifest(
            creating: request,
            method: plainMethod(request),
            protocolFields: UploadProtocol.fields,
            length: length
        )
        if let refusal = earlyRefusal(manifest, request) { return reply.send(refusal) }
        do throws(UploadStore.Refusal) {
            let (upload, token) = try store.create(manifest)
            guard case .held = upload.hold(timeout: 0, takesRest: false) else {
                return reply.sendError(503, "upload is gone")
            }
            defer { upload.release() }
            receive(upload, exchange, asked, location: Self.pathPrefix + token)
        } catch {
            refuse(error, reply)
        }
    }

    /// A query makes a POST another operation of the plain handler's own.
    private func plainMethod(_ request: HTTPRequest) -> String {
        request.method == "POST" && request.rawQuery.isEmpty ? methodForPost : request.method
    }

    private func refuse(_ refusal: UploadStore.Refusal, _ reply: Reply) {
        switch refusal {
        case .tooMany: reply.sendError(429, "too many uploads are open", retryAfter: 30)
        case .noSpace: reply.sendError(507, "no space left for this upload")
        case .system(let error):
            Log.error("serve", "cannot begin an upload: \(error)")
            reply.sendError(Self.status(of: error), "cannot store the upload")
        }
    }

    private func receive(
        _ upload: StoredUpload,
        _ exchange: UploadExchange,
        _ asked: UploadRequestFields,
        location: String
    ) {
        let reply = exchange.reply
        let limits = announcedLimits(of: upload)
        reply.responder.sendInformational(
            UploadProtocol.resumptionSupported,
            UploadReply.announcement(reply.version, location: location, limits: limits)
        )
        guard take(exchange, into: upload, completes: asked.completes) else { return }
        if asked.completes { return complete(upload, exchange) }
        reply.send(201, UploadReply.created(reply.version, location: location, state: state(of: upload)))
    }

    // MARK: conditions

    /// Evaluates the conditions now, so that nothing is uploaded in vain; they are evaluated again at the end.
    ///
    /// The answer is the target's own to a plain request, where the plain handler refuses an empty one.
    private func earlyRefusal(_ manifest: UploadManifest, _ request: HTTPRequest) -> HTTPAnswer? {
        let conditions = ["If-Match", "If-None-Match", "If-Unmodified-Since"]
        guard conditions.contains(where: { manifest.fields[$0] != nil }) else { return nil }
        var head = plainRequest(manifest, like: request)
        head.method = "HEAD"
        for name in conditions { head.fields[name] = nil }
        let catcher = AnswerCatcher()
        plain.handle(head, body: EmptyRequestBody(), responder: catcher)
        guard let answer = catcher.answer, answer.status == 200 || answer.status == 404 else { return nil }
        let current = answer.status == 404 ? nil : Self.representation(answer.fields)
        let outcome = Preconditions.evaluate(method: manifest.method, fields: manifest.fields, current: current)
        guard outcome == .failed else { return nil }
        return HTTPAnswer(412, HTTPFields(), .bytes(Array("a condition of this upload does not hold\n".utf8)))
    }

    private static func representation(_ fields: HTTPFields) -> CurrentRepresentation {
        CurrentRepresentation(
            entityTag: fields["ETag"].flatMap { EntityTag(fieldValue: $0) },
            lastModified: fields["Last-Modified"].flatMap { HTTPDate.parse($0) }
        )
    }

    /// The plain request an upload stands for.
    func plainRequest(_ manifest: UploadManifest, like request: HTTPRequest) -> HTTPRequest {
        let parts = try? HTTPTarget.parse(manifest.target)
        var plain = HTTPRequest(
            method: manifest.method,
            target: manifest.target,
            path: parts?.path ?? [],
            query: parts?.query ?? [],
            fields: manifest.fields,
            peer: request.peer,
            isLoopback: request.isLoopback
        )
        plain.isAuthorized = true
        return plain
    }
}
