// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform
internal import S3Wire

/// One S3 request on its way, with what the front has found out about it.
struct S3Exchange: Sendable {
    let request: HTTPRequest
    let body: any HTTPRequestBody
    let responder: any HTTPResponder
    let query: URLQuery
    let authorization: S3Authorization
    let requestID: String

    var fields: HTTPFields { request.fields }

    func send(_ status: Int, _ fields: HTTPFields = HTTPFields(), _ body: HTTPResponseBody = .none) {
        var fields = fields
        fields["x-amz-request-id"] = requestID
        responder.send(status, fields, body)
    }

    func send(xml: [UInt8], status: Int = 200, _ fields: HTTPFields = HTTPFields()) {
        var fields = fields
        fields["Content-Type"] = "application/xml"
        send(status, fields, .bytes(xml))
    }

    func send(_ error: S3Error, _ fields: HTTPFields = HTTPFields()) {
        send(xml: error.document(requestID: requestID, request), status: error.status, fields)
    }
}

extension S3Error {
    /// The error as the client gets it.
    func document(requestID: String, _ request: HTTPRequest) -> [UInt8] {
        var error = self
        error.requestID = requestID
        if error.resource == nil { error.resource = String(request.rawPath) }
        return error.xml
    }

    /// The answer to a request that never becomes an exchange.
    func answer(to request: HTTPRequest) -> HTTPAnswer {
        let fields = HTTPFields([.init(name: "Content-Type", value: "application/xml")])
        return HTTPAnswer(status, fields, .bytes(document(requestID: Randomness.hexadecimal(bytes: 8), request)))
    }

    /// What a storage error is in S3's words.
    init(storage error: StorageError) {
        switch error {
        case .noSuchBucket: self.init(S3ErrorCode.noSuchBucket)
        case .bucketExists: self.init(S3ErrorCode.bucketAlreadyOwnedByYou)
        case .bucketNotEmpty: self.init(S3ErrorCode.bucketNotEmpty)
        case .invalidBucketName: self.init(S3ErrorCode.invalidBucketName)
        case .noSuchKey: self.init(S3ErrorCode.noSuchKey)
        case .invalidKey(let reason): self.init(S3ErrorCode.invalidArgument, reason)
        case .keyTooLong: self.init(S3ErrorCode.keyTooLongError)
        case .isFolder: self.init(S3ErrorCode.existingObjectIsDirectory)
        case .parentIsObject: self.init(S3ErrorCode.parentIsObject)
        case .preconditionFailed: self.init(S3ErrorCode.preconditionFailed)
        case .noSuchUpload: self.init(S3ErrorCode.noSuchUpload)
        case .insufficientStorage: self.init(S3ErrorCode.storageFull)
        case .forbidden(let error):
            Log.warning("serve", "\(error)")
            self.init(S3ErrorCode.accessDenied, "The server itself is not allowed to do it: \(error.reason)")
        case .system(let error):
            Log.error("serve", "\(error)")
            self.init(S3ErrorCode.internalError, "The server could not do it: \(error.reason)")
        }
    }

    /// What a body that could not be read is in S3's words.
    init(body error: HTTPBodyError) {
        switch error {
        case .cutShort: self.init(S3ErrorCode.incompleteBody)
        case .timedOut: self.init(S3ErrorCode.requestTimeout, "The body came too slowly")
        case .interrupted: self.init(S3ErrorCode.operationAborted, "Another request took this one's place")
        case .malformed(let reason): self.init(S3ErrorCode.invalidRequest, reason)
        }
    }
}

/// Runs work of the storage and turns its errors into S3's.
func inS3<Result>(_ body: () throws(StorageError) -> Result) throws(S3Error) -> Result {
    do {
        return try body()
    } catch {
        throw S3Error(storage: error)
    }
}
