// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import HTTPWire
internal import Platform
internal import S3Wire

extension S3Handler {
    private static let leastPartSize: Int64 = 5 << 20

    /// CompleteMultipartUpload.
    func completeUpload(_ path: ObjectPath, _ id: String, _ exchange: S3Exchange) throws(S3Error) {
        let root = try readDocument(exchange.withoutObjectChecksum)
        let request: CompleteMultipartUploadRequest
        do {
            request = try CompleteMultipartUploadRequest(root)
        } catch {
            throw S3Error(.malformedXML, error.description)
        }
        let conditions = WriteConditions(exchange.fields)
        let elements = root.all("Part")
        let record = try storage.completeUpload(id, at: path, conditions, S3Error.init(storage:)) {
            (upload, stored) throws(S3Error) in
            let parts = try Self.choose(request.parts, elements, from: stored)
            try Self.checkSize(parts, exchange.fields)
            let record = try Self.record(of: upload, parts)
            try Self.checkChecksum(record, exchange.fields)
            return (parts, record)
        }
        var result = CompleteMultipartUploadResult(
            location: "/\(path.bucket)/\(PercentEncoding.encode(path.key.bytes, keepSlash: true))",
            bucket: path.bucket.string,
            key: path.key,
            entityTag: record.quotedTag
        )
        result.checksum = record.checksum?.inDocuments
        exchange.send(xml: result.xml)
    }

    /// The stored parts that the client names, in its order, which must be ascending.
    private static func choose(
        _ wanted: [CompleteMultipartUploadRequest.Part],
        _ elements: [XMLElement],
        from stored: [StoredPart]
    ) throws(S3Error) -> [StoredPart] {
        let byNumber = Dictionary(stored.map { ($0.number, $0) }) { first, _ in first }
        var parts: [StoredPart] = []
        for (part, element) in zip(wanted, elements) {
            if let last = parts.last, last.number >= part.number { throw S3Error(.invalidPartOrder) }
            guard let found = byNumber[part.number], let tag = EntityTag(fieldValue: part.entityTag),
                tag.opaque == found.record.entityTag, checksumMatches(element, found.record.checksum)
            else { throw S3Error(.invalidPart) }
            parts.append(found)
        }
        return parts
    }

    private static func checksumMatches(_ element: XMLElement, _ checksum: StoredChecksum?) -> Bool {
        guard let checksum, let given = element["Checksum\(checksum.algorithm.uppercased())"] else { return true }
        return given == checksum.value
    }

    private static func checkSize(_ parts: [StoredPart], _ fields: HTTPFields) throws(S3Error) {
        for part in parts.dropLast() where part.size < leastPartSize {
            var error = S3Error(.entityTooSmall)
            error.details = [
                XMLElement(name: "PartNumber", text: String(part.number)),
                XMLElement(name: "ProposedSize", text: String(part.size)),
                XMLElement(name: "MinSizeAllowed", text: String(leastPartSize)),
            ]
            throw error
        }
        guard let text = fields["x-amz-mp-object-size"] else { return }
        guard decimalNumber(text) == parts.reduce(0, { $0 + $1.size }) else {
            throw S3Error(.invalidRequest, "The parts do not have the size that x-amz-mp-object-size says")
        }
    }

    private static func record(of upload: MultipartUpload, _ parts: [StoredPart]) throws(S3Error) -> ObjectRecord {
        let digests = parts.flatMap { Hexadecimal.decode($0.record.entityTag) ?? [] }
        let tag = Hexadecimal.encode(Digest.of(digests, .md5)) + "-\(parts.count)"
        var record = ObjectRecord(entityTag: tag, modified: Timestamp.now(), stamp: nil)
        record.fields = upload.fields
        record.uploadID = upload.id
        record.checksum = checksum(of: upload, parts)
        return record
    }

    /// The object's checksum from those of its parts; nil when the upload keeps none.
    private static func checksum(of upload: MultipartUpload, _ parts: [StoredPart]) -> StoredChecksum? {
        guard let name = upload.checksumAlgorithm, let algorithm = DigestAlgorithm(rawValue: name) else { return nil }
        let values = parts.compactMap { part in
            part.record.checksum.flatMap { $0.algorithm == name ? Base64.decode($0.value) : nil }
        }
        guard values.count == parts.count else { return nil }
        if upload.isComposite {
            let value = Base64.encode(Digest.of(values.flatMap { $0 }, algorithm)) + "-\(parts.count)"
            return StoredChecksum(algorithm: name, value: value, isComposite: true)
        }
        guard let combination = ChecksumCombination(algorithm) else { return nil }
        let whole = combination.combine(zip(values, parts).map { ($0, $1.size) })
        return StoredChecksum(algorithm: name, value: Base64.encode(whole), isComposite: false)
    }

    /// Compares with the checksum of the object that the client may give.
    private static func checkChecksum(_ record: ObjectRecord, _ fields: HTTPFields) throws(S3Error) {
        if let type = fields["x-amz-checksum-type"], let checksum = record.checksum, type != checksum.type {
            throw S3Error(.invalidRequest, "The upload was begun with the checksum type \(checksum.type)")
        }
        guard let claim = try ChecksumClaim.of(fields, allowsComposite: true), let value = claim.value else { return }
        guard let checksum = record.checksum, checksum.algorithm == claim.algorithm.rawValue else {
            throw S3Error(.badDigest, "The upload keeps no checksum of this kind")
        }
        // Some clients leave the number of parts out.
        let isRight = checksum.value == value || (checksum.isComposite && checksum.value.hasPrefix(value + "-"))
        guard isRight else { throw S3Error(.badDigest) }
    }
}

extension S3Exchange {
    /// The exchange without checksum fields: here they are about the object, not about the document.
    fileprivate var withoutObjectChecksum: S3Exchange {
        var request = request
        request.fields.fields.removeAll { field in
            let name = field.name.lowercased()
            return name.hasPrefix("x-amz-checksum-") && fields["x-amz-trailer"] == nil
        }
        return S3Exchange(
            request: request,
            body: body,
            responder: responder,
            query: query,
            authorization: authorization,
            requestID: requestID
        )
    }
}
