// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import Glibc
internal import HTTPWire
internal import Platform
internal import S3Wire

extension S3Handler {
    func putOrCopy(_ path: ObjectPath, _ exchange: S3Exchange) throws(S3Error) {
        if exchange.fields["x-amz-copy-source-range"] != nil {
            throw S3Error(.invalidRequest, "A range can be copied into a part of an upload only")
        }
        if exchange.fields["x-amz-copy-source"] != nil { return try copyObject(path, exchange) }
        if exchange.query.contains("partNumber") { throw S3Error(.invalidArgument, "partNumber without uploadId") }
        try putObject(path, exchange)
    }

    /// PutObject.
    private func putObject(_ path: ObjectPath, _ exchange: S3Exchange) throws(S3Error) {
        try requireLength(exchange)
        let fields = try ObjectFields.collect(exchange.fields)
        let conditions = WriteConditions(exchange.fields)
        try inS3 { () throws(StorageError) in try storage.precheck(path, conditions) }
        let checks = try ContentChecks(exchange.fields, payload: exchange.authorization.payload)
        let receiver = try ContentReceiver(exchange)
        if path.isFolder { return try putMarker(path, fields, conditions, checks, receiver, exchange) }
        let staged = try inS3 { () throws(StorageError) in try stage(exchange, expected: receiver.length) }
        let trailers = try receiver.receive { (bytes) throws(StorageError) in
            checks.update(bytes)
            if !staged.isWhole { try staged.write(bytes) }
        }
        let result = try checks.finish(trailers: trailers)
        var record = ObjectRecord(
            entityTag: Hexadecimal.encode(result.md5),
            modified: Timestamp.now(),
            stamp: nil
        )
        record.fields = fields
        record.checksum = result.checksum
        let unfinished = record
        let finished = try inS3 { () throws(StorageError) in
            try storage.commit(staged, unfinished, at: path, conditions)
        }
        exchange.send(200, Self.writeFields(finished))
    }

    /// A file for the content: the body's own, when it lies whole on the storage's disk already.
    private func stage(_ exchange: S3Exchange, expected: Int64?) throws(StorageError) -> StagedFile {
        if let body = exchange.body as? any AdoptableRequestBody, let size = body.declaredLength {
            return try storage.adopt(body.path, size: size)
        }
        return try storage.stage(expected: expected)
    }

    private func putMarker(
        _ path: ObjectPath,
        _ fields: HTTPFields,
        _ conditions: WriteConditions,
        _ checks: ContentChecks,
        _ receiver: ContentReceiver,
        _ exchange: S3Exchange
    ) throws(S3Error) {
        var count = 0
        let trailers = try receiver.receive { (bytes) throws(StorageError) in
            count += bytes.count
            checks.update(bytes)
        }
        guard count == 0 else {
            throw S3Error(.invalidArgument, "A key that ends in a slash is a folder, without content")
        }
        let result = try checks.finish(trailers: trailers)
        var record = ObjectRecord(entityTag: Hexadecimal.encode(result.md5), modified: Timestamp.now(), stamp: nil)
        record.fields = fields
        record.checksum = result.checksum
        let finished = record
        try inS3 { () throws(StorageError) in try storage.putMarker(finished, at: path, conditions) }
        exchange.send(200, Self.writeFields(finished))
    }

    /// DeleteObject.
    func deleteObject(_ path: ObjectPath, _ exchange: S3Exchange) throws(S3Error) {
        let conditions = try Self.deletionConditions(exchange.fields)
        try inS3 { () throws(StorageError) in try storage.delete(path, conditions) }
        exchange.send(204)
    }

    /// The conditions on a deletion; one that cannot be read must not become none.
    private static func deletionConditions(_ fields: HTTPFields) throws(S3Error) -> WriteConditions {
        var conditions = WriteConditions(fields)
        if let text = fields["x-amz-if-match-size"] {
            guard let size = decimalNumber(text) else {
                throw S3Error(.invalidArgument, "x-amz-if-match-size is not a size")
            }
            conditions.size = size
        }
        if let text = fields["x-amz-if-match-last-modified-time"] {
            guard let time = HTTPDate.parse(text) ?? Timestamp(s3: text) else {
                throw S3Error(.invalidArgument, "x-amz-if-match-last-modified-time is not a time")
            }
            conditions.modified = time.seconds
        }
        return conditions
    }

    /// S3 wants the length of what is stored to be announced.
    func requireLength(_ exchange: S3Exchange) throws(S3Error) {
        let isAnnounced = exchange.fields["Content-Length"] != nil || exchange.body.declaredLength == nil
        guard isAnnounced || exchange.request.isAuthorized else { throw S3Error(.missingContentLength) }
    }

    /// The fields of the answer to a write.
    static func writeFields(_ record: ObjectRecord) -> HTTPFields {
        var fields = HTTPFields([.init(name: "ETag", value: record.quotedTag)])
        if let checksum = record.checksum {
            fields.append("x-amz-checksum-\(checksum.algorithm)", checksum.value)
            fields.append("x-amz-checksum-type", checksum.type)
        }
        return fields
    }
}

extension StoredChecksum {
    /// The checksum of an object as answers' documents have it.
    var inDocuments: DocumentChecksum { DocumentChecksum(algorithm: algorithm.uppercased(), value: value, type: type) }
    /// The checksum of a part as answers' documents have it.
    var inDocumentsOfParts: DocumentChecksum { DocumentChecksum(algorithm: algorithm.uppercased(), value: value) }
}
