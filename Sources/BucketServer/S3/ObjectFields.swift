// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import HTTPWire
internal import S3Wire

/// The fields of a request that are kept with an object.
enum ObjectFields {
    private static let kept = [
        "Content-Type", "Content-Disposition", "Content-Language", "Cache-Control", "Expires",
    ]
    private static let metadataPrefix = "x-amz-meta-"
    /// S3 allows 2 KiB; there is no harm in somewhat more.
    private static let metadataLimit = 8192

    /// Collects them; throws `MetadataTooLarge`.
    static func collect(_ request: HTTPFields) throws(S3Error) -> HTTPFields {
        var fields = HTTPFields()
        for name in kept {
            if let value = request[name] { fields.append(name, value) }
        }
        let codings = request.values("Content-Encoding")
            .flatMap { $0.split(separator: ",") }
            .map { $0.trimmingSpaces() }
            .filter { !$0.isEmpty && !HTTPFields.equal($0, "aws-chunked") }
        if !codings.isEmpty { fields.append("Content-Encoding", codings.joined(separator: ", ")) }
        for field in request.fields where field.name.lowercased().hasPrefix(metadataPrefix) {
            let name = field.name.lowercased()
            // Several lines of one name are one value, as S3 has it.
            fields[name] = fields[name].map { "\($0),\(field.value)" } ?? field.value
        }
        let size = fields.fields.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
        guard size <= metadataLimit else { throw S3Error(.metadataTooLarge) }
        return fields
    }
}
