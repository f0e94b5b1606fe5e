// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire
internal import ResumableUpload

/// Sends the answers of the upload layer in the words of the request's version.
struct Reply {
    let version: InteropVersion
    let responder: any HTTPResponder

    init(version: InteropVersion, _ responder: any HTTPResponder) {
        self.version = version
        self.responder = responder
    }

    func send(_ status: Int, _ fields: HTTPFields, _ body: [UInt8] = []) {
        responder.send(status, fields, body.isEmpty ? .none : .bytes(body))
    }

    /// Sends an answer made elsewhere as it is.
    func send(_ answer: HTTPAnswer) { responder.send(answer.status, answer.fields, answer.body) }

    /// Sends an answer of the target resource, marked as such.
    func sendFinal(_ answer: UploadManifest.Answer, offset: Int64) {
        var fields = answer.fields
        UploadReply.markFinal(&fields, version: version, offset: offset)
        send(answer.status, fields, answer.body)
    }

    /// Refuses with one line of text; the upload, if there is one, is not over by it.
    func sendError(_ status: Int, _ text: String, allow: String? = nil, retryAfter: Int? = nil, offset: Int64? = nil) {
        var fields = UploadReply.refused(version)
        fields["Content-Type"] = "text/plain"
        fields["Allow"] = allow
        fields["Retry-After"] = retryAfter.map(String.init)
        if let offset { fields[UploadProtocol.offsetField] = StructuredFields.serialized(offset) }
        send(status, fields, Array((text + "\n").utf8))
    }

    /// Refuses what is larger than `limits`, which the answer tells.
    func sendTooLarge(_ text: String, limits: UploadLimits, offset: Int64? = nil) {
        var fields = UploadReply.tooLarge(version, limits: limits)
        fields["Content-Type"] = "text/plain"
        if let offset { fields[UploadProtocol.offsetField] = StructuredFields.serialized(offset) }
        send(413, fields, Array((text + "\n").utf8))
    }

    /// Refuses with one of the protocol's problem documents.
    func sendProblem(
        _ problem: UploadProtocol.Problem,
        offset: Int64? = nil,
        isComplete: Bool = false,
        members: [(String, Int64)] = []
    ) {
        var fields = UploadReply.refused(version)
        UploadProtocol.setCompletion(isComplete, version: version, in: &fields)
        if let offset { fields[UploadProtocol.offsetField] = StructuredFields.serialized(offset) }
        fields["Content-Type"] = UploadProtocol.problemType
        send(problem.status, fields, ProblemDocument.body(problem, members: members))
    }

    func sendUnknownVersion() {
        var fields = UploadReply.unknownVersion
        fields["Content-Type"] = "text/plain"
        send(400, fields, Array("this version of resumable uploads is not spoken here\n".utf8))
    }
}
