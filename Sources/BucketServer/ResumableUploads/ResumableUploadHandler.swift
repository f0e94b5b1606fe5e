// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import HTTPWire
internal import Platform
internal import ResumableUpload

/// Gives a plain upload handler resumable uploads (draft-ietf-httpbis-resumable-upload, versions 3 to 9 and final).
///
/// A PUT or POST that carries the protocol's completion field begins an upload; the resource it lives at is
/// served here. When all bytes are there the plain handler is called once, with one whole request, and its
/// answer is the client's. Every other request goes to the plain handler as it is.
package final class ResumableUploadHandler: HTTPRequestHandler {
    /// The path under which upload resources live; bucket names cannot begin with an underscore.
    package static let pathPrefix = "/_moorage/uploads/"
    /// What upload resources allow.
    static let allowedMethods = "HEAD, GET, PATCH, DELETE, OPTIONS"

    let plain: any HTTPRequestHandler
    let authorizer: any HTTPRequestAuthorizer
    let store: UploadStore
    /// The method the plain handler is called with for an upload begun by POST.
    let methodForPost: String

    var limits: ResumableUploadLimits { store.limits }

    /// Takes up the uploads in `directory`, a private folder; one on the storage's own disk lets it take over
    /// finished files without copying.
    ///
    /// - Parameters:
    ///   - plain: The handler of the finished uploads and of all other requests.
    ///   - authorizer: Decides on every request here; the plain handler is then called with `isAuthorized`.
    ///   - directory: Where uploads live until they end, created when missing.
    ///   - limits: What uploads may cost.
    ///   - methodForPost: The method the plain handler is called with for an upload begun by POST.
    /// - Throws: When the folder cannot be made, made private or read.
    package init(
        wrapping plain: any HTTPRequestHandler,
        authorizer: any HTTPRequestAuthorizer,
        directory: String,
        limits: ResumableUploadLimits = ResumableUploadLimits(),
        methodForPost: String = "PUT"
    ) throws(SystemError) {
        self.plain = plain
        self.authorizer = authorizer
        self.methodForPost = methodForPost
        store = try UploadStore(folder: directory, limits: limits)
    }

    package func handle(_ request: HTTPRequest, body: any HTTPRequestBody, responder: any HTTPResponder) {
        let isResource = request.rawPath.utf8.starts(with: Self.pathPrefix.utf8)
        if request.method == "OPTIONS" {
            return answerOptions(request, responder, isResource: isResource)
        }
        let kind = isResource ? UploadRequestKind.ofUploadResource(request.fields) : kindOfTarget(request)
        switch kind {
        case .plain:
            plain.handle(request, body: body, responder: responder)
        case .unknownVersion:
            Reply(version: .final, responder).sendUnknownVersion()
        case .resumable(let version):
            let exchange = UploadExchange(request: request, body: body, reply: Reply(version: version, responder))
            if let refusal = authorizer.refusal(of: request) { return exchange.reply.send(refusal) }
            if isResource { serveResource(exchange) } else { create(exchange) }
        }
    }

    private func kindOfTarget(_ request: HTTPRequest) -> UploadRequestKind {
        guard request.method == "PUT" || request.method == "POST" else { return .plain }
        return UploadRequestKind.ofTarget(request.fields)
    }

    /// Tells what is possible; there is nothing secret in it, so no authority is asked for.
    private func answerOptions(_ request: HTTPRequest, _ responder: any HTTPResponder, isResource: Bool) {
        guard case .resumable(let version) = UploadRequestKind.ofUploadResource(request.fields) else {
            return Reply(version: .final, responder).sendUnknownVersion()
        }
        var fields = UploadReply.options(version, limits: limitsOfAll)
        fields["Allow"] = isResource ? Self.allowedMethods : "GET, HEAD, PUT, POST, DELETE, OPTIONS"
        responder.send(204, fields, .none)
    }

    // MARK: upload resources

    private func serveResource(_ exchange: UploadExchange) {
        let token = String(exchange.request.rawPath.dropFirst(Self.pathPrefix.count))
        guard let upload = store.find(token) else { return exchange.reply.sendError(404, "no such upload") }
        guard ["HEAD", "GET", "PATCH", "DELETE"].contains(exchange.request.method) else {
            return exchange.reply.sendError(405, "not for an upload", allow: Self.allowedMethods)
        }
        switch upload.hold(timeout: limits.holdTimeout, takesRest: exchange.request.method != "DELETE") {
        case .removed: exchange.reply.sendError(404, "no such upload")
        case .busy: exchange.reply.sendError(423, "another request uses this upload", retryAfter: 1)
        case .held:
            defer { upload.release() }
            serve(upload, exchange)
        }
    }

    private func serve(_ upload: StoredUpload, _ exchange: UploadExchange) {
        if exchange.request.method == "PATCH" { return append(to: upload, exchange) }
        let fields = exchange.request.fields
        let carriesFields = [
            UploadProtocol.offsetField, UploadProtocol.completeField, UploadProtocol.incompleteField,
        ].contains { fields[$0] != nil }
        if carriesFields, exchange.reply.version.forbidsFieldsOnRetrieval {
            return exchange.reply.sendError(400, "upload fields do not belong into this request")
        }
        if exchange.request.method == "DELETE" {
            store.remove(upload)
            return exchange.reply.send(204, UploadReply.cancelled(exchange.reply.version))
        }
        exchange.reply.send(204, UploadReply.offset(exchange.reply.version, state: state(of: upload)))
    }

    /// What the upload's responses tell of it.
    func state(of upload: StoredUpload) -> UploadReply.State {
        UploadReply.State(
            offset: upload.offset,
            isComplete: upload.hasEnded,
            length: upload.manifest.length,
            limits: announcedLimits(of: upload)
        )
    }

    /// The limits of an upload that is yet to be begun.
    var limitsOfAll: UploadLimits {
        UploadLimits(maxSize: limits.maxSize, maxAppendSize: limits.maxAppendSize, maxAge: limits.idleLife)
    }

    func announcedLimits(of upload: StoredUpload) -> UploadLimits {
        UploadLimits(
            maxSize: limits.maxSize,
            maxAppendSize: limits.maxAppendSize,
            maxAge: store.remainingLife(upload)
        )
    }
}

/// One request of the protocol under way.
struct UploadExchange {
    let request: HTTPRequest
    let body: any HTTPRequestBody
    let reply: Reply
}
