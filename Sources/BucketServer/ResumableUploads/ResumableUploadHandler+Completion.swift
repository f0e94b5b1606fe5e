// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import Glibc
internal import HTTPWire
internal import Platform
internal import ResumableUpload

extension ResumableUploadHandler {
    /// Hands the whole upload to the plain handler and its answer to the client.
    ///
    /// An answer of 5xx does not end the upload while its bytes are there: the client can complete it again. Only
    /// 501 (Not Implemented) does, which no repetition changes.
    func complete(_ upload: StoredUpload, _ exchange: UploadExchange) {
        let reply = exchange.reply
        do throws(SystemError) {
            guard try keepsPromise(upload) else {
                store.remove(upload)
                return reply.sendError(400, "the upload is not what its digest says")
            }
            try upload.update { $0.length = upload.offset }
            let answer = try answerOfTarget(upload, exchange.request)
            if answer.status >= 500, answer.status != 501, upload.hasData { return passOn(answer, upload, reply) }
            try upload.update { manifest in
                manifest.finalSize = upload.offset
                manifest.answer = answer
            }
            upload.removeData()
            reply.sendFinal(answer, offset: upload.offset)
        } catch {
            fail(.storage(error), upload, reply)
        }
    }

    private func answerOfTarget(
        _ upload: StoredUpload,
        _ request: HTTPRequest
    ) throws(SystemError) -> UploadManifest.Answer {
        let catcher = AnswerCatcher()
        let body = try StoredUploadBody(upload)
        plain.handle(plainRequest(upload.manifest, like: request), body: body, responder: catcher)
        return catcher.answer ?? UploadManifest.Answer(status: 500, fields: HTTPFields(), body: [])
    }

    /// Gives the target's failure as one of the upload layer, which the client answers by asking for the offset.
    private func passOn(_ answer: UploadManifest.Answer, _ upload: StoredUpload, _ reply: Reply) {
        var fields = UploadReply.incomplete(reply.version, state: state(of: upload))
        fields["Content-Type"] = answer.fields["Content-Type"]
        fields["Retry-After"] = answer.fields["Retry-After"]
        reply.send(answer.status, fields, answer.body)
    }

    /// Whether the bytes are those that `Repr-Digest` of the creation promised.
    private func keepsPromise(_ upload: StoredUpload) throws(SystemError) -> Bool {
        guard let promised = PromisedDigest(upload.manifest.fields, "Repr-Digest") else { return true }
        let file = try upload.openData(O_RDONLY)
        let digest = Digest(promised.algorithm)
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: 1 << 20, alignment: 4096)
        defer { buffer.deallocate() }
        var offset: Int64 = 0
        while true {
            let count = try file.read(into: buffer, at: offset)
            guard count > 0 else { return promised.isKept(by: digest) }
            digest.update(UnsafeRawBufferPointer(rebasing: buffer[..<count]))
            offset += Int64(count)
        }
    }
}
