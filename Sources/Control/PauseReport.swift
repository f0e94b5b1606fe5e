// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A place in a volume that a person holds back with all that comes below it, as it is kept and as it is told.
package struct PauseReport: Codable, Sendable, Hashable {
    /// Empty for the whole volume.
    package var path: String
    /// Seconds since 1970.
    package var since: Int64

    package init(path: String, since: Int64) {
        self.path = path
        self.since = since
    }
}

/// The file in which a volume's pauses outlive the flusher.
package struct PauseDocument: Codable, Sendable {
    package var pauses: [PauseReport]

    package init(pauses: [PauseReport]) {
        self.pauses = pauses
    }
}
