// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import HTTPWire
internal import S3Wire

extension S3Handler {
    func serveBucket(_ bucket: ObjectKey, _ exchange: S3Exchange) throws(S3Error) {
        switch exchange.request.method {
        case "PUT":
            try checkConfiguration(exchange)
            try inS3 { () throws(StorageError) in try storage.createBucket(bucket) }
            exchange.send(200, HTTPFields([.init(name: "Location", value: "/\(bucket)")]))
        case "DELETE":
            try inS3 { () throws(StorageError) in try storage.deleteBucket(bucket) }
            exchange.send(204)
        case "HEAD":
            _ = try inS3 { () throws(StorageError) in try storage.openBucket(bucket) }
            exchange.send(200, HTTPFields([.init(name: "x-amz-bucket-region", value: Self.region)]))
        case "GET":
            try readBucket(bucket, exchange)
        case "POST" where exchange.query.contains("delete"):
            try deleteObjects(bucket, exchange)
        default:
            throw S3Error(.methodNotAllowed)
        }
    }

    /// Refuses content that is not about the bucket: somebody who left the bucket out of a file's URL must not
    /// take the answer for a success.
    private func checkConfiguration(_ exchange: S3Exchange) throws(S3Error) {
        guard exchange.body.declaredLength != 0 else { return }
        guard try readDocument(exchange).name == "CreateBucketConfiguration" else { throw S3Error(.malformedXML) }
    }

    /// ListBuckets.
    func listBuckets(_ exchange: S3Exchange) throws(S3Error) {
        let query = exchange.query
        let limit = try Self.count(query, "max-buckets", limit: 10_000)
        guard limit > 0 else { throw S3Error(.invalidArgument, "max-buckets must be at least 1") }
        let after = ObjectKey(bytes: try query["continuation-token"].map(Self.decodeToken) ?? [])
        let prefix = Array((query["prefix"] ?? "").utf8)
        let isHere = query["bucket-region"].map { $0 == Self.region } ?? true
        let all = try inS3 { () throws(StorageError) in try storage.buckets() }
        let wanted = all.filter { isHere && $0.name > after && $0.name.bytes.starts(with: prefix) }
        let page = wanted.prefix(limit)
        var result = ListBucketsResult(buckets: page.map { .init(name: $0.name.string, created: $0.created) })
        result.prefix = query["prefix"]
        if wanted.count > limit { result.continuationToken = page.last.map { Base64.encode($0.name.bytes) } }
        exchange.send(xml: result.xml)
    }

    private func readBucket(_ bucket: ObjectKey, _ exchange: S3Exchange) throws(S3Error) {
        _ = try inS3 { () throws(StorageError) in try storage.openBucket(bucket) }
        if exchange.query.contains("uploads") {
            try listUploads(bucket, exchange)
        } else if exchange.query.contains("location") {
            var writer = XMLWriter()
            // Empty is us-east-1.
            writer.element("LocationConstraint", isNamespaced: true) { _ in }
            exchange.send(xml: writer.bytes)
        } else if exchange.query.contains("versioning") {
            var writer = XMLWriter()
            writer.element("VersioningConfiguration", isNamespaced: true) { _ in }
            exchange.send(xml: writer.bytes)
        } else {
            try listObjects(bucket, exchange)
        }
    }

    private func deleteObjects(_ bucket: ObjectKey, _ exchange: S3Exchange) throws(S3Error) {
        let root = try readDocument(exchange)
        let request: DeleteRequest
        do { request = try DeleteRequest(root) } catch { throw S3Error(.malformedXML, error.description) }
        _ = try inS3 { () throws(StorageError) in try storage.openBucket(bucket) }
        var result = DeleteResult(deleted: [], failures: [])
        for object in request.objects {
            do throws(S3Error) {
                try delete(object, in: bucket)
                if !request.isQuiet { result.deleted.append(object.key) }
            } catch {
                result.failures.append(.init(key: object.key, code: error.code, message: error.message))
            }
        }
        exchange.send(xml: result.xml)
    }

    private func delete(_ object: DeleteRequest.Object, in bucket: ObjectKey) throws(S3Error) {
        guard ["null", "", nil].contains(object.versionID) else {
            throw S3Error(.notImplemented, "There are no versions here")
        }
        var conditions = WriteConditions()
        if let tag = object.entityTag {
            conditions = WriteConditions(HTTPFields([.init(name: "If-Match", value: tag)]))
        }
        conditions.size = object.size
        conditions.modified = object.lastModified?.seconds
        let wanted = conditions
        try inS3 { () throws(StorageError) in
            try storage.delete(try ObjectPath(bucket: bucket, key: object.key), wanted)
        }
    }
}
