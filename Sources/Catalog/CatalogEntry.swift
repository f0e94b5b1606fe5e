// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import ObjectStore
internal import Platform

/// What the remote was seen to have at a path.
package struct CatalogEntry: Hashable, Sendable {
    package enum Kind: Int64, Hashable, Sendable {
        case file = 0
        case directory = 1
        /// Looked for, and not there.
        case absent = 2
    }

    package var path: ObjectKey
    package var kind: Kind
    /// The version of the object; of a folder, of its marker where that was looked at.
    package var version: ObjectVersion?
    /// Mode, owner and modification time as the object's metadata has them; nil until a HEAD told.
    package var metadata: ObjectMetadata?
    /// What is known of the object's other metadata: whether new attributes, or new content, leave anything to be lost.
    package var others = OtherMetadata.unknown
    /// The text of a symbolic link, where it was read.
    package var target: ObjectKey?
    /// Whether a folder has a marker object; nil while unknown.
    package var hasMarker: Bool?
    /// A folder's attributes may be of before its parent's newest listing, which has the name and tells nothing of its
    /// marker: they are asked for again, and count until there is an answer.
    package var needsValidation = false
    /// When the remote last confirmed it.
    package var checkedAt: Timestamp
    /// The journal generation whose upload made `version`, when we made it.
    package var committedGeneration: Int64?
    /// Earlier generations of the same bytes, newest first: the version is a copy of what they made.
    package var earlierGenerations: [Int64] = []

    /// Whether the version has the content of a generation of ours.
    package func isMade(by generation: Int64) -> Bool {
        committedGeneration == generation || earlierGenerations.contains(generation)
    }

    package init(
        path: ObjectKey,
        kind: Kind,
        version: ObjectVersion? = nil,
        metadata: ObjectMetadata? = nil,
        target: ObjectKey? = nil,
        hasMarker: Bool? = nil,
        checkedAt: Timestamp,
        committedGeneration: Int64? = nil
    ) {
        self.path = path
        self.kind = kind
        self.version = version
        self.metadata = metadata
        self.target = target
        self.hasMarker = hasMarker
        self.checkedAt = checkedAt
        self.committedGeneration = committedGeneration
    }

    /// The media type that a file's name tells; a folder's tells none.
    var typeOfName: String? { kind == .directory ? nil : MediaTypes.system.type(of: path) }

    /// What a HEAD told of an object.
    package init(path: ObjectKey, kind: Kind = .file, _ status: ObjectStatus, checkedAt: Timestamp) {
        self.init(path: path, kind: kind, version: status.version, metadata: status.metadata, checkedAt: checkedAt)
        others = status.metadata.others(typeOfName: typeOfName)
    }
}

/// What is known of a folder's listing.
package struct FolderState: Hashable, Sendable {
    /// When the newest complete listing began.
    package var listedAt: Timestamp
    /// Names that a file system cannot show, which that listing had.
    package var hidden: Int

    package init(listedAt: Timestamp, hidden: Int) {
        self.listedAt = listedAt
        self.hidden = hidden
    }
}

/// A moment in the order of observations, taken before asking the remote.
///
/// What we commit meanwhile is newer than the answer, which then does not replace it.
package struct CatalogToken: Hashable, Sendable {
    let stamp: Int64
    let epoch: Int
}

/// A state of the catalog, to be compared with another.
package struct CatalogChange: Hashable, Sendable {
    let epoch: Int
    let version: Int64
    let changes: Int64
}
