// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import HTTPWire
internal import Platform
internal import S3Wire

extension S3Handler {
    /// What S3 allows, in bytes; places of parts are products of this and the number of a part.
    private static let largestPart: Int64 = 5 << 30

    /// CreateMultipartUpload.
    func createUpload(_ path: ObjectPath, _ exchange: S3Exchange) throws(S3Error) {
        guard !path.isFolder else { throw S3Error(.invalidArgument, "A folder has no content to upload in parts") }
        let fields = try ObjectFields.collect(exchange.fields)
        let (algorithm, isComposite) = try Self.checksumKind(exchange.fields)
        let upload = try inS3 { () throws(StorageError) in
            try storage.createUpload(
                at: path,
                fields: fields,
                checksumAlgorithm: algorithm?.rawValue,
                isComposite: isComposite
            )
        }
        var answer = HTTPFields()
        if let algorithm {
            answer["x-amz-checksum-algorithm"] = algorithm.rawValue.uppercased()
            answer["x-amz-checksum-type"] = isComposite ? "COMPOSITE" : "FULL_OBJECT"
        }
        let result = CreateMultipartUploadResult(bucket: path.bucket.string, key: path.key, uploadID: upload.id)
        exchange.send(xml: result.xml, answer)
    }

    private static func checksumKind(_ fields: HTTPFields) throws(S3Error) -> (DigestAlgorithm?, Bool) {
        guard let algorithm = try ChecksumClaim.algorithm(wantedBy: fields) else { return (nil, true) }
        let isComposite =
            fields["x-amz-checksum-type"].map { $0.uppercased() == "COMPOSITE" } ?? (algorithm != .crc64nvme)
        guard isComposite ? algorithm != .crc64nvme : ChecksumCombination(algorithm) != nil else {
            throw S3Error(.invalidRequest, "This checksum type is not possible with \(algorithm.rawValue)")
        }
        return (algorithm, isComposite)
    }

    /// UploadPart and UploadPartCopy.
    func putPart(_ path: ObjectPath, _ id: String, _ exchange: S3Exchange) throws(S3Error) {
        guard let number = exchange.query["partNumber"].flatMap({ decimalNumber($0) }), (1...10_000).contains(number)
        else { throw S3Error(.invalidArgument, "Part number must be an integer between 1 and 10000") }
        let upload = try inS3 { () throws(StorageError) in try storage.upload(id, at: path) }
        let isCopy = exchange.fields["x-amz-copy-source"] != nil
        try isCopy ? copyPart(upload, Int(number), exchange) : receivePart(upload, Int(number), exchange)
    }

    private func receivePart(_ upload: MultipartUpload, _ number: Int, _ exchange: S3Exchange) throws(S3Error) {
        try requireLength(exchange)
        let algorithm = upload.checksumAlgorithm.flatMap { DigestAlgorithm(rawValue: $0) }
        let checks = try ContentChecks(
            exchange.fields,
            payload: exchange.authorization.payload,
            defaultAlgorithm: algorithm
        )
        let receiver = try ContentReceiver(exchange)
        guard receiver.length ?? 0 <= Self.largestPart else {
            throw S3Error(.entityTooLarge, "A part has at most \(Self.largestPart) bytes")
        }
        let record = try storage.withStagedPart(upload, number, size: receiver.length, S3Error.init(storage:)) {
            (part) throws(S3Error) in
            let trailers = try receiver.receive { (bytes) throws(StorageError) in
                checks.update(bytes)
                try part.content.write(bytes)
            }
            return try commit(part, try checks.finish(trailers: trailers), upload)
        }
        exchange.send(200, Self.writeFields(record))
    }

    private func commit(
        _ part: StagedPart,
        _ result: ContentChecks.Result,
        _ upload: MultipartUpload
    ) throws(S3Error) -> ObjectRecord {
        var record = ObjectRecord(entityTag: Hexadecimal.encode(result.md5), modified: Timestamp.now(), stamp: nil)
        record.checksum = result.checksum
        let finished = record
        try inS3 { () throws(StorageError) in try storage.commitPart(part, finished, of: upload) }
        return finished
    }

    private func copyPart(_ upload: MultipartUpload, _ number: Int, _ exchange: S3Exchange) throws(S3Error) {
        let source = try openSource(try Self.copySource(exchange), exchange)
        let range = try Self.copyRange(exchange.fields, size: source.size)
        guard range.count <= Self.largestPart else {
            throw S3Error(.entityTooLarge, "A part has at most \(Self.largestPart) bytes")
        }
        let algorithm = upload.checksumAlgorithm.flatMap { DigestAlgorithm(rawValue: $0) }
        let checks = try ContentChecks(HTTPFields(), payload: nil, defaultAlgorithm: algorithm)
        let record = try storage.withStagedPart(upload, number, size: range.count, S3Error.init(storage:)) {
            (part) throws(S3Error) in
            try inS3 { () throws(StorageError) in
                try source.forEachPiece(in: range) { (bytes) throws(StorageError) in
                    checks.update(bytes)
                    try part.content.write(bytes)
                }
            }
            return try commit(part, try checks.finish(trailers: HTTPFields()), upload)
        }
        var result = CopyResult(kind: .part, entityTag: record.quotedTag, lastModified: record.modified)
        result.checksum = record.checksum?.inDocumentsOfParts
        exchange.send(xml: result.xml)
    }

    /// The stretch of the source that `x-amz-copy-source-range` names; both ends must be in the object.
    private static func copyRange(_ fields: HTTPFields, size: Int64) throws(S3Error) -> ByteRange {
        guard let text = fields["x-amz-copy-source-range"] else { return ByteRange(0, size) }
        guard let specifications = RangeField(text)?.specifications, specifications.count == 1,
            case .interval(let first, let last) = specifications[0]
        else { throw S3Error(.invalidArgument, "The x-amz-copy-source-range must be of the form bytes=first-last") }
        guard last < size else { throw S3Error(.invalidRange, "The range is not within the source of \(size) bytes") }
        return ByteRange(first, last + 1)
    }

    /// ListParts.
    func listParts(_ path: ObjectPath, _ id: String, _ exchange: S3Exchange) throws(S3Error) {
        let limit = try Self.count(exchange.query, "max-parts")
        let marker = Int(min(exchange.query["part-number-marker"].flatMap { decimalNumber($0) } ?? 0, 10_000))
        let upload = try inS3 { () throws(StorageError) in try storage.upload(id, at: path) }
        let rest = try inS3 { () throws(StorageError) in
            try storage.parts(of: upload, after: marker, limit: limit + 1)
        }
        let page = rest.prefix(limit)
        var result = ListPartsResult(
            bucket: path.bucket.string,
            key: path.key,
            uploadID: id,
            partNumberMarker: marker,
            nextPartNumberMarker: page.last?.number,
            maxParts: limit,
            isTruncated: limit > 0 && rest.count > limit,
            isURLEncoded: try Self.isURLEncoded(exchange.query),
            parts: page.map(Self.listed)
        )
        result.checksumAlgorithm = upload.checksumAlgorithm?.uppercased()
        result.checksumType = upload.checksumAlgorithm.map { _ in upload.isComposite ? "COMPOSITE" : "FULL_OBJECT" }
        exchange.send(xml: result.xml)
    }

    private static func listed(_ part: StoredPart) -> ListPartsResult.Part {
        var listed = ListPartsResult.Part(
            number: part.number,
            size: part.size,
            entityTag: part.record.quotedTag,
            lastModified: part.record.modified
        )
        listed.checksum = part.record.checksum?.inDocumentsOfParts
        return listed
    }
}
