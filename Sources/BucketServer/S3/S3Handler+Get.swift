// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform
internal import S3Wire

extension S3Handler {
    /// GetObject and HeadObject.
    func getObject(_ path: ObjectPath, _ exchange: S3Exchange) throws(S3Error) {
        let object = try inS3 { () throws(StorageError) in try storage.object(at: path) }
        let current = CurrentRepresentation(entityTag: object.record.tag, lastModified: object.record.modified)
        let method = exchange.request.method
        switch Preconditions.evaluate(method: method, fields: exchange.fields, current: current) {
        case .failed:
            throw S3Error(.preconditionFailed)
        case .notModified:
            return exchange.send(304, Self.validators(object.record))
        case .proceed:
            break
        }
        var fields = Self.fields(of: object.record)
        try Self.override(&fields, exchange)
        guard let range = try Self.range(exchange.fields, current, size: object.size) else {
            Self.addChecksum(object.record, exchange, to: &fields)
            return exchange.send(200, fields, Self.content(object, ByteRange(0, object.size)))
        }
        fields["Content-Range"] = "bytes \(range.lower)-\(range.upper - 1)/\(object.size)"
        exchange.send(206, fields, Self.content(object, range))
    }

    private static func content(_ object: StoredObject, _ range: ByteRange) -> HTTPResponseBody {
        guard let file = object.file, !range.isEmpty else { return .none }
        return .file(file, range)
    }

    /// The range to answer with; nil for the whole.
    ///
    /// Throws `InvalidRange`.
    private static func range(
        _ fields: HTTPFields,
        _ current: CurrentRepresentation,
        size: Int64
    ) throws(S3Error) -> ByteRange? {
        guard let text = fields["Range"], let range = RangeField(text),
            Preconditions.allowsRange(fields: fields, current: current, now: Timestamp.now())
        else { return nil }
        switch range.resolve(size: size) {
        case .whole: return nil
        case .partial(let range): return range
        case .unsatisfiable:
            var error = S3Error(.invalidRange)
            error.details = [
                XMLElement(name: "RangeRequested", text: text),
                XMLElement(name: "ActualObjectSize", text: String(size)),
            ]
            throw error
        }
    }

    private static func validators(_ record: ObjectRecord) -> HTTPFields {
        HTTPFields([
            .init(name: "ETag", value: record.quotedTag),
            .init(name: "Last-Modified", value: HTTPDate.format(record.modified)),
        ])
    }

    private static func fields(of record: ObjectRecord) -> HTTPFields {
        var fields = validators(record)
        fields.append("Accept-Ranges", "bytes")
        if record.fields["Content-Type"] == nil { fields.append("Content-Type", "binary/octet-stream") }
        for field in record.fields.fields { fields.append(field.name, field.value) }
        return fields
    }

    private static func addChecksum(_ record: ObjectRecord, _ exchange: S3Exchange, to fields: inout HTTPFields) {
        guard let checksum = record.checksum, let mode = exchange.fields["x-amz-checksum-mode"],
            HTTPFields.equal(mode, "ENABLED")
        else { return }
        fields["x-amz-checksum-\(checksum.algorithm)"] = checksum.value
        fields["x-amz-checksum-type"] = checksum.type
    }

    /// Replaces fields as the query asks for, for links that are given to browsers.
    private static func override(_ fields: inout HTTPFields, _ exchange: S3Exchange) throws(S3Error) {
        for name in [
            "Content-Type", "Content-Language", "Expires", "Cache-Control", "Content-Disposition", "Content-Encoding",
        ] {
            guard let value = exchange.query["response-\(name.lowercased())"] else { continue }
            guard HTTPFields.isSafe(name: name, value: value) else {
                throw S3Error(.invalidArgument, "response-\(name.lowercased()) cannot be a field value")
            }
            fields[name] = value
        }
    }
}
