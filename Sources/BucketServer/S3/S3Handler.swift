// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform
internal import S3Wire

/// Answers S3 requests in path style over a storage of folders.
struct S3Handler: HTTPRequestHandler {
    let storage: BucketStorage
    let authenticator: S3Authenticator
    static let region = "us-east-1"
    /// Everything belongs to the one user.
    static let owner = "moorage"

    func handle(_ request: HTTPRequest, body: any HTTPRequestBody, responder: any HTTPResponder) {
        let requestID = Randomness.hexadecimal(bytes: 8)
        do throws(S3Error) {
            let authorization = try authenticator.authorize(request)
            guard let query = URLQuery(wire: request.rawQuery) else { throw S3Error(.invalidURI) }
            let exchange = S3Exchange(
                request: request,
                body: body,
                responder: responder,
                query: query,
                authorization: authorization,
                requestID: requestID
            )
            try route(exchange)
        } catch {
            answer(error, requestID, request, responder)
        }
    }

    private func answer(
        _ error: S3Error,
        _ requestID: String,
        _ request: HTTPRequest,
        _ responder: any HTTPResponder
    ) {
        var fields = HTTPFields([.init(name: "Content-Type", value: "application/xml")])
        fields["x-amz-request-id"] = requestID
        if let size = error.detail("ActualObjectSize") { fields["Content-Range"] = "bytes */\(size)" }
        responder.send(error.status, fields, .bytes(error.document(requestID: requestID, request)))
    }

    private func route(_ exchange: S3Exchange) throws(S3Error) {
        let path = exchange.request.path.dropFirst()
        guard exchange.request.path.first == UInt8(ascii: "/") else { throw S3Error(.methodNotAllowed) }
        try RequestScope(exchange.request).check(exchange.query, exchange.fields)
        guard let slash = path.firstIndex(of: UInt8(ascii: "/")), slash + 1 < path.endIndex else {
            let bucket = ObjectKey(bytes: path.filter { $0 != UInt8(ascii: "/") })
            return try bucket.isRoot ? serveService(exchange) : serveBucket(bucket, exchange)
        }
        let bucket = ObjectKey(bytes: Array(path[..<slash]))
        let key = ObjectKey(bytes: Array(path[(slash + 1)...]))
        try serveObject(try inS3 { () throws(StorageError) in try ObjectPath(bucket: bucket, key: key) }, exchange)
    }

    private func serveService(_ exchange: S3Exchange) throws(S3Error) {
        guard exchange.request.method == "GET" || exchange.request.method == "HEAD" else {
            throw S3Error(.methodNotAllowed)
        }
        try listBuckets(exchange)
    }

    private func serveObject(_ path: ObjectPath, _ exchange: S3Exchange) throws(S3Error) {
        let uploadID = exchange.query["uploadId"]
        switch (exchange.request.method, uploadID) {
        case ("GET", nil), ("HEAD", nil): try getObject(path, exchange)
        case ("GET", let id?): try listParts(path, id, exchange)
        case ("PUT", nil): try putOrCopy(path, exchange)
        case ("PUT", let id?): try putPart(path, id, exchange)
        case ("POST", nil) where exchange.query.contains("uploads"): try createUpload(path, exchange)
        case ("POST", let id?): try completeUpload(path, id, exchange)
        case ("DELETE", nil): try deleteObject(path, exchange)
        case ("DELETE", let id?):
            try inS3 { () throws(StorageError) in try storage.abortUpload(id, at: path) }
            exchange.send(204)
        default: throw S3Error(.methodNotAllowed)
        }
    }
}
