// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import Glibc
internal import HTTPWire
internal import Platform
internal import S3Wire

extension S3Handler {
    /// CopyObject.
    func copyObject(_ path: ObjectPath, _ exchange: S3Exchange) throws(S3Error) {
        let sourcePath = try Self.copySource(exchange)
        let source = try openSource(sourcePath, exchange)
        let conditions = WriteConditions(exchange.fields)
        let replaces = try Self.replacesFields(exchange.fields)
        let record: ObjectRecord
        if sourcePath == path {
            guard replaces else {
                throw S3Error(.invalidRequest, "A copy onto itself must replace the metadata")
            }
            let fields = try ObjectFields.collect(exchange.fields)
            record = try inS3 { () throws(StorageError) in
                try storage.replaceFields(at: path, fields, expecting: source.record, conditions)
            }
        } else {
            var copy = source.record
            copy.modified = Timestamp.now()
            copy.uploadID = nil
            if replaces { copy.fields = try ObjectFields.collect(exchange.fields) }
            if let checksum = try Self.wantedChecksum(of: source, exchange.fields) { copy.checksum = checksum }
            let unfinished = copy
            record = try inS3 { () throws(StorageError) in
                try storage.copy(source, unfinished, to: path, conditions)
            }
        }
        var result = CopyResult(kind: .object, entityTag: record.quotedTag, lastModified: record.modified)
        result.checksum = record.checksum?.inDocuments
        exchange.send(xml: result.xml)
    }

    /// The checksum that the copy is to have, when it is another one than the source's.
    private static func wantedChecksum(
        of source: StoredObject,
        _ fields: HTTPFields
    ) throws(S3Error) -> StoredChecksum? {
        guard let algorithm = try ChecksumClaim.algorithm(wantedBy: fields) else { return nil }
        let name = algorithm.rawValue
        if let own = source.record.checksum, own.algorithm == name, !own.isComposite { return nil }
        let digest = Digest(algorithm)
        try inS3 { () throws(StorageError) in
            try source.forEachPiece(in: ByteRange(0, source.size)) { (bytes) throws(StorageError) in
                digest.update(bytes)
            }
        }
        return StoredChecksum(algorithm: name, value: Base64.encode(digest.finalize()), isComposite: false)
    }

    /// The object that `x-amz-copy-source` names.
    static func copySource(_ exchange: S3Exchange) throws(S3Error) -> ObjectPath {
        let text = exchange.fields["x-amz-copy-source"] ?? ""
        let parts = text.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.count == 2, parts[1] != "versionId=null" {
            throw S3Error(.notImplemented, "There are no versions here")
        }
        guard var bytes = PercentEncoding.decode(parts.first ?? "") else {
            throw S3Error(.invalidArgument, "x-amz-copy-source is not percent-encoded")
        }
        if bytes.first == UInt8(ascii: "/") { bytes.removeFirst() }
        guard let slash = bytes.firstIndex(of: UInt8(ascii: "/")) else {
            throw S3Error(.invalidArgument, "x-amz-copy-source must be BUCKET/KEY")
        }
        let bucket = ObjectKey(bytes: Array(bytes[..<slash]))
        let key = ObjectKey(bytes: Array(bytes[(slash + 1)...]))
        return try inS3 { () throws(StorageError) in try ObjectPath(bucket: bucket, key: key) }
    }

    /// Opens the source of a copy if the conditions on it hold.
    func openSource(_ path: ObjectPath, _ exchange: S3Exchange) throws(S3Error) -> StoredObject {
        let source = try inS3 { () throws(StorageError) in try storage.object(at: path) }
        var conditions = HTTPFields()
        for name in ["If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"] {
            conditions[name] = exchange.fields["x-amz-copy-source-\(name)"]
        }
        let current = CurrentRepresentation(entityTag: source.record.tag, lastModified: source.record.modified)
        guard Preconditions.evaluate(method: "GET", fields: conditions, current: current) == .proceed else {
            throw S3Error(.preconditionFailed)
        }
        return source
    }

    private static func replacesFields(_ fields: HTTPFields) throws(S3Error) -> Bool {
        switch fields["x-amz-metadata-directive"]?.uppercased() {
        case nil, "COPY": return false
        case "REPLACE": return true
        default: throw S3Error(.invalidArgument, "x-amz-metadata-directive must be COPY or REPLACE")
        }
    }
}
