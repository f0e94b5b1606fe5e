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

    /// What a storage error is in S3's words.
    init(_ error: StorageError) {
        switch error {
        case .noSuchBucket: self.init(.noSuchBucket)
        case .bucketExists: self.init(.bucketAlreadyOwnedByYou)
        case .bucketNotEmpty: self.init(.bucketNotEmpty)
        case .invalidBucketName: self.init(.invalidBucketName)
        case .noSuchKey: self.init(.noSuchKey)
        case .invalidKey(let reason): self.init(.invalidArgument, reason)
        case .keyTooLong: self.init(.keyTooLongError)
        case .isFolder: self.init(.existingObjectIsDirectory)
        case .parentIsObject: self.init(.parentIsObject)
        case .preconditionFailed: self.init(.preconditionFailed)
        case .noSuchUpload: self.init(.noSuchUpload)
        case .insufficientStorage: self.init(.storageFull)
        case .system(let error):
            Log.error("serve", "\(error)")
            self.init(.internalError, "The server could not do it: \(error.reason)")
        }
    }

    /// What a body that could not be read is in S3's words.
    init(_ error: HTTPBodyError) {
        switch error {
        case .cutShort: self.init(.incompleteBody)
        case .timedOut: self.init(.requestTimeout, "The body came too slowly")
        case .interrupted: self.init(.operationAborted, "Another request took this one's place")
        case .malformed(let reason): self.init(.invalidRequest, reason)
        }
    }
}

/// Runs work of the storage and turns its errors into S3's.
func inS3<Result>(_ body: () throws(StorageError) -> Result) throws(S3Error) -> Result {
    do {
        return try body()
    } catch {
        throw S3Error(error)
    }
}
