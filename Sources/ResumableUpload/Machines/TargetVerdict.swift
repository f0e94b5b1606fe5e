// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What an upload is about: enough to recognise its result at the remote.
package struct UploadIntent: Hashable, Sendable {
    /// What the remote object was when the content was made.
    package enum Foundation: Hashable, Sendable {
        /// It does not matter: last writer wins.
        case anything
        case absent
        case version(ObjectVersion)
    }

    /// Bytes of the whole content.
    package var size: Int64
    package var base: Foundation

    package init(size: Int64, base: Foundation) {
        precondition(size >= 0, "upload size \(size)")
        self.size = size
        self.base = base
    }
}

/// What the target resource turned out to be after a commit whose answer was lost or was a refusal.
package enum TargetVerdict: Hashable, Sendable {
    /// It holds what we sent: the commit had happened.
    case ours(ObjectVersion)
    /// It is what it was: the commit did not happen.
    case unchanged
    /// It is something else; nil when it is gone.
    case foreign(ObjectVersion?)

    /// Judges what a HEAD found.
    ///
    /// - Parameters:
    ///   - found: The object at the target, nil when there is none.
    ///   - intent: What was sent, and over what.
    ///   - expectedTag: The opaque entity tag our content has on servers that derive it from MD5, lower-case.
    ///   - wasCompleted: Whether the server said that it took the whole upload; then size is enough
    ///     where the tag is none that can be compared.
    package init(found: ObjectVersion?, intent: UploadIntent, expectedTag: String?, wasCompleted: Bool = false) {
        guard let found else {
            self = intent.base == .absent || intent.base == .anything ? .unchanged : .foreign(nil)
            return
        }
        if case .version(let base) = intent.base, found.isSame(as: base), !Self.isTag(found, expectedTag) {
            self = .unchanged
        } else if found.size == intent.size,
            Self.isTag(found, expectedTag) || wasCompleted && !Self.isComparable(found, expectedTag)
        {
            self = .ours(found)
        } else {
            self = intent.base == .anything ? .unchanged : .foreign(found)
        }
    }

    private static func isTag(_ found: ObjectVersion, _ expected: String?) -> Bool {
        guard let expected, let tag = found.entityTag else { return false }
        return tag.opaque.lowercased() == expected
    }

    /// Whether the tag found could be the MD5 of content, in the form of the expected one.
    private static func isComparable(_ found: ObjectVersion, _ expected: String?) -> Bool {
        guard let expected, let tag = found.entityTag?.opaque else { return false }
        return tag.utf8.count == expected.utf8.count
            && tag.utf8.prefix(32).allSatisfy { ($0 >= 0x30 && $0 <= 0x39) || ($0 | 0x20 >= 0x61 && $0 | 0x20 <= 0x66) }
    }
}
