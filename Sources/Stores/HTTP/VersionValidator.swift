// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import HTTPWire

/// What identifies one version of a resource well enough to put it together from several answers.
///
/// Static servers make their entity tags of size and modification time, often to
/// the second: two versions of one second have the same tag. So a tag counts as
/// strong only when the modification was two seconds old at the server's own
/// clock, as Last-Modified does anyway (RFC 9110, section 8.8.2.2).
package enum VersionValidator: Hashable, Sendable {
    /// A strong entity tag.
    case entityTag(EntityTag)
    /// A Last-Modified that is strong, where there is no entity tag at all.
    case modified(Timestamp)
    /// Nothing that tells this version from another for certain.
    case weak

    /// How many seconds the server's clock must be beyond the modification.
    package static let certainAge: Int64 = 2

    /// Judges the fields of an answer about the whole resource.
    package init(_ fields: HTTPFields) {
        let modified = fields.lastModified
        let isOld = Self.isOld(fields)
        if fields["etag"] != nil {
            // A date in If-Range is allowed only when the resource has no entity tag.
            guard let tag = fields.entityTag, !tag.isWeak, isOld ?? true else {
                self = .weak
                return
            }
            self = .entityTag(tag)
        } else if let modified, isOld == true {
            self = .modified(modified)
        } else {
            self = .weak
        }
    }

    /// Whether what the answer is about has not changed for some time, by the server's clock; nil when it does not tell.
    static func isOld(_ fields: HTTPFields) -> Bool? {
        guard let modified = fields.lastModified, let date = fields.date else { return nil }
        return date.seconds - modified.seconds >= certainAge
    }

    /// The If-Range field for a version that ``version(_:)`` made; nil when only a whole answer will do.
    package static func ifRange(_ version: ObjectVersion) -> String? {
        if let tag = version.entityTag { return tag.isWeak ? nil : tag.fieldValue }
        return version.lastModified.map { HTTPDate.format($0) }
    }
}

/// Everything an answer says of the version it is about, to be compared with another answer.
package struct Observation: Hashable, Sendable {
    /// The fields as they stand, but for the mark of a weak tag: some servers leave it out when the file has aged.
    package let entityTag: String?
    package let lastModified: String?
    /// Bytes; nil when the answer does not tell.
    package let size: Int64?
    /// It had changed just before: what it is replaced by within the same second looks the same.
    package let isYoung: Bool

    /// `size` is the whole representation's, where the fields are about a part of it.
    package init(_ fields: HTTPFields, size: Int64? = nil) {
        let tag = fields["etag"].map { trimmingOptionalWhitespace($0) }
        entityTag = tag.map { $0.hasPrefix("W/") ? String($0.dropFirst(2)) : $0 }
        lastModified = fields["last-modified"].map { trimmingOptionalWhitespace($0) }
        self.size = size ?? fields.contentLength
        isYoung = VersionValidator.isOld(fields) == false
    }

    /// Whether there is anything but the size.
    package var hasValidator: Bool { entityTag != nil || lastModified != nil }

    /// Whether a later answer is taken for one about the same version: not any more once that has aged.
    package func isStillShown(by later: Observation) -> Bool {
        agrees(with: later) && !(isYoung && !later.isYoung)
    }

    /// Whether an answer may be about the same version; an unknown size says nothing.
    package func agrees(with other: Observation) -> Bool {
        entityTag == other.entityTag && lastModified == other.lastModified
            && (size == nil || other.size == nil || size == other.size)
    }
}
