// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// One version of a remote object: what tells it from every other version of the same key.
package struct ObjectVersion: Hashable, Sendable, CustomStringConvertible {
    /// The validator; nil for a server that gives none, where size and time have to do.
    package let entityTag: EntityTag?
    /// The length of the content in bytes.
    package let size: Int64
    /// The server's modification time, to the second as HTTP carries it.
    package let lastModified: Timestamp?

    package init(entityTag: EntityTag?, size: Int64, lastModified: Timestamp? = nil) {
        self.entityTag = entityTag
        self.size = size
        self.lastModified = lastModified
    }

    /// Whether both values name the same version: by tag where both have one, else by size and time.
    package func isSame(as other: ObjectVersion) -> Bool {
        if let mine = entityTag, let theirs = other.entityTag {
            return mine.opaque == theirs.opaque && size == other.size
        }
        return entityTag == nil && other.entityTag == nil && size == other.size && lastModified == other.lastModified
    }

    package var description: String { "\(entityTag?.fieldValue ?? "no tag") (\(size) bytes)" }
}
