// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base

/// A file that was made a moment ago and has no row yet.
struct NewFile: Sendable {
    /// The row to be, but for its sequences.
    var node: JournalNode
    let generation: GenerationID
    /// Monotonic seconds.
    let since: Double
    var close: Close?

    /// What its close gave it, as the record of the close log with this serial tells.
    struct Close {
        let seal: Seal
        let serial: UInt64
        /// The log's claim before the first record of the file was written; while it is the same, no other process has
        /// taken the record.
        let claim: CloseLog.Claim
    }

    /// What is read of the journal.
    enum Subject {
        case anything
        case path(ObjectKey)
        /// What is directly in a folder.
        case folder(ObjectKey)
        case row(NodeID)
        case generation(GenerationID)

        var isNamed: Bool {
            if case .anything = self { false } else { true }
        }

        func includes(_ file: NewFile) -> Bool {
            switch self {
            case .anything: true
            case .path(let path): file.node.path == path
            case .folder(let path): file.node.path.parent == path
            case .row(let id): file.node.id == id
            case .generation(let id): file.generation == id
            }
        }
    }

    /// What a close gives a file.
    struct Seal {
        let node: NodeID
        let content: ContentMap
        let modified: Timestamp?
        let checksums: ChecksumList
        let now: Timestamp

        func with(_ modified: Timestamp?, now: Timestamp) -> Seal {
            Seal(node: node, content: content, modified: modified ?? self.modified, checksums: checksums, now: now)
        }
    }
}
