// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A node of the tree of progress: a volume, a folder, a file, or a part of one that is on its way.
package struct TreeReport: Codable, Sendable, Hashable {
    package enum Kind: String, Codable, Sendable {
        case volume
        case folder
        case file
        case part
    }

    package var kind: Kind
    /// Of a volume its remote, of a part its number.
    package var name: String
    /// In the volume; empty for the volume itself.
    package var path: String
    /// Of a file that is pending, as in `uploads list`.
    package var id: String?
    package var state: UploadReport.State?
    /// Changes below it, or its own: all since nothing was pending in the volume, those that are remote by now included.
    package var files: Int
    package var filesDone: Int
    /// Their content in bytes.
    package var size: Int64
    /// Of it at the remote or on its way: never falls while nothing is added, unless ``restarts`` grows.
    package var sent: Int64
    package var bytesPerSecond: Int64
    package var restarts: Int
    /// Whether a person holds just this node.
    package var isPaused: Bool
    package var children: [TreeReport]
    /// How many children are left out.
    package var more: Int

    package init(kind: Kind, name: String, path: String) {
        self.kind = kind
        self.name = name
        self.path = path
        files = 0
        filesDone = 0
        size = 0
        sent = 0
        bytesPerSecond = 0
        restarts = 0
        isPaused = false
        children = []
        more = 0
    }

    private enum CodingKeys: String, CodingKey {
        case kind
        case name
        case path
        case id
        case state
        case files
        case filesDone = "files_done"
        case size
        case sent
        case bytesPerSecond = "bytes_per_second"
        case restarts
        case isPaused = "paused"
        case children
        case more
    }
}

/// The document of `uploads --tree --json`.
package struct TreesReport: Codable, Sendable {
    package var trees: [TreeReport]

    package init(trees: [TreeReport]) {
        self.trees = trees
    }
}
