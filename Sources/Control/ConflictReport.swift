// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// The document of `uploads resolve --json`.
package struct ResolutionReport: Codable, Sendable {
    /// The conflicts that are settled now.
    package var resolved: [ConflictReport]
    /// Lines about those that are not.
    package var refused: [String]

    package init(resolved: [ConflictReport], refused: [String]) {
        self.resolved = resolved
        self.refused = refused
    }
}

/// A conflict that waits for a person: a file that was changed here and at the remote, and both are kept.
package struct ConflictReport: Codable, Sendable, Hashable {
    /// What a person wants to keep.
    package enum Choice: String, Codable, Sendable, CaseIterable {
        case mine
        case theirs
        case both
    }

    package var volume: String
    /// Where the remote's version is.
    package var path: String
    /// Where ours is.
    package var copy: String
    /// RFC 3339, UTC.
    package var detectedAt: String
    /// The remote's version that was met, for people.
    package var remote: String
    /// Whether our copy is at the remote as it is here.
    package var isUploaded: Bool

    package init(volume: String, path: String, copy: String, detectedAt: String, remote: String, isUploaded: Bool) {
        self.volume = volume
        self.path = path
        self.copy = copy
        self.detectedAt = detectedAt
        self.remote = remote
        self.isUploaded = isUploaded
    }

    private enum CodingKeys: String, CodingKey {
        case volume
        case path
        case copy
        case detectedAt = "detected_at"
        case remote
        case isUploaded = "uploaded"
    }
}
