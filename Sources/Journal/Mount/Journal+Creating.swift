// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform

extension Journal {
    /// A new empty file, open for writing, or with `isComplete` as it shall stay: a special file.
    ///
    /// `.constraint` when something is at the path.
    ///
    /// The staging file is not made: the first write does that.
    package func createFile(
        at path: ObjectKey,
        attributes: FileAttributes,
        isComplete: Bool = false,
        remote: @autoclosure () throws(JournalError) -> RemoteState,
        now: Timestamp = .now()
    ) throws(JournalError) -> JournalNode {
        try change(at: now) { change throws(JournalError) in
            let remote = try remote()
            var node = try change.newNode(at: path, .file, attributes, remote)
            node.generation = try change.tables.insertGeneration(ContentMap(size: 0), .none, isSealed: isComplete)
            node.isOpen = !isComplete
            return try change.insert(node)
        }
    }

    /// A new folder, or, where the remote has an implied folder that shall not vanish, its row.
    package func createDirectory(
        at path: ObjectKey,
        attributes: FileAttributes,
        remote: @autoclosure () throws(JournalError) -> RemoteState,
        now: Timestamp = .now()
    ) throws(JournalError) -> JournalNode {
        try change(at: now) { change throws(JournalError) in
            let remote = try remote()
            return try change.insert(try change.newNode(at: path, .directory, attributes, remote))
        }
    }

    /// A new symbolic link with the text `target`.
    package func createSymbolicLink(
        at path: ObjectKey,
        target: ObjectKey,
        attributes: FileAttributes,
        remote: @autoclosure () throws(JournalError) -> RemoteState,
        now: Timestamp = .now()
    ) throws(JournalError) -> JournalNode {
        try change(at: now) { change throws(JournalError) in
            let remote = try remote()
            var node = try change.newNode(at: path, .symbolicLink, attributes, remote)
            node.target = target
            return try change.insert(node)
        }
    }
}

extension Change {
    /// A row for a path with nothing local on it, in place of a tombstone if there is one; not inserted.
    func newNode(
        at path: ObjectKey,
        _ kind: NodeKind,
        _ attributes: FileAttributes,
        _ remote: RemoteState
    ) throws(JournalError) -> JournalNode {
        guard !path.isRoot else { throw JournalError(.constraint, "journal: the root cannot be replaced") }
        let old = try tables.node(at: path)
        if let old, !old.isTombstone { throw JournalError(.constraint, "journal: the path exists") }
        // Only what was removed here is replaced, and nothing that the caller has not seen.
        if old == nil, case .file = remote { throw JournalError(.constraint, "journal: the path exists") }
        try leaveLostName(path)
        return JournalNode(at: path, kind, attributes, try vacate(old, remote), self)
    }
}
