// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The client's judgement of an answer to a ranged GET: which bytes, if any, of which version it carries.
///
/// Servers answer ranges in more ways than the RFC has (rclone sends `200` with a
/// Content-Range and a part; most S3 servers ignore If-Range), so no status is
/// believed without its fields, and every answer is compared with the wanted version.
package enum RangedResponse {
    package enum Verdict: Hashable, Sendable {
        /// The body is exactly these bytes of the wanted version; maybe fewer than asked, from the same start.
        case use(ByteRange)
        /// The body is the whole wanted version.
        case wholeObject
        /// The remote holds another version now.
        case changed
        /// The range lies behind the end; `size` is nil where the server did not say, and has to be asked.
        case endOfFile(size: Int64?)
        /// An error status that is not about ranges.
        case errorStatus
        /// The answer contradicts the request or itself.
        case reject(String)
    }

    /// Judges an answer's head.
    ///
    /// `requested` is not empty and starts within `expected.size`.
    package static func judge(
        status: Int,
        fields: HTTPFields,
        requested: ByteRange,
        expected: ObjectVersion
    ) -> Verdict {
        switch status {
        case 206: partial(fields, requested, expected)
        case 200: whole(fields, requested, expected)
        case 412: .changed
        case 416: unsatisfiable(fields, requested, expected)
        case 400...: .errorStatus
        default: .reject("status \(status) in answer to a range")
        }
    }

    private static func partial(_ fields: HTTPFields, _ requested: ByteRange, _ expected: ObjectVersion) -> Verdict {
        if (fields["content-type"] ?? "").lowercased().hasPrefix("multipart/byteranges") {
            return .reject("several ranges in answer to one")
        }
        guard let value = fields["content-range"], let contentRange = ContentRange(value),
            let range = contentRange.range
        else { return .reject("206 without a usable Content-Range") }
        if let problem = versionProblem(fields, expected) { return problem }
        if let complete = contentRange.completeLength, complete != expected.size { return .changed }
        guard range.lower == requested.lower, range.upper <= min(requested.upper, expected.size) else {
            return .reject("asked for bytes \(requested), got \(range)")
        }
        if fields["content-length"] != nil, fields.contentLength != range.count {
            return .reject("Content-Length contradicts Content-Range")
        }
        return .use(range)
    }

    private static func whole(_ fields: HTTPFields, _ requested: ByteRange, _ expected: ObjectVersion) -> Verdict {
        if let problem = versionProblem(fields, expected) { return problem }
        let length = fields.contentLength
        if fields["content-length"] != nil, length == nil { return .reject("unusable Content-Length") }
        guard let value = fields["content-range"] else {
            return length == nil || length == expected.size ? .wholeObject : .changed
        }
        guard let contentRange = ContentRange(value), let range = contentRange.range else {
            return .reject("200 with an unusable Content-Range")
        }
        if let complete = contentRange.completeLength, complete != expected.size { return .changed }
        let wanted = ByteRange(requested.lower, min(requested.upper, expected.size))
        // Only a length that says so makes this a part: guessing would truncate files.
        guard range == wanted, length == range.count else {
            return .reject("200 with Content-Range \(range) and length \(length ?? -1) for bytes \(requested)")
        }
        return .use(range)
    }

    private static func unsatisfiable(
        _ fields: HTTPFields,
        _ requested: ByteRange,
        _ expected: ObjectVersion
    ) -> Verdict {
        guard let value = fields["content-range"], let size = ContentRange(value)?.completeLength else {
            return .endOfFile(size: nil)
        }
        if size != expected.size { return .changed }
        return size <= requested.lower ? .endOfFile(size: size) : .reject("416 for bytes within the object")
    }

    /// What is wrong with the validators or the coding of an answer that carries content; nil when nothing is.
    private static func versionProblem(_ fields: HTTPFields, _ expected: ObjectVersion) -> Verdict? {
        if let wanted = expected.entityTag {
            guard let tag = fields.entityTag else { return .reject("answer without the entity tag") }
            // Weakness is ignored on purpose: some servers mark a tag weak only while it is young.
            if tag.opaque != wanted.opaque { return .changed }
        } else if let wanted = expected.lastModified {
            if let modified = fields.lastModified, modified.seconds != wanted.seconds { return .changed }
        }
        // A range of a coded representation is a range of other bytes than ours.
        if let coding = fields.contentCodings.first { return .reject("content coding \(coding)") }
        return nil
    }
}
