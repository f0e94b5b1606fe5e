// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Journal
internal import Platform

/// Waiting until content is at the remote.
extension FileSystem {
    /// Returns when what a file holds now is at the remote.
    ///
    /// Only complete content is sent: with `sealing` it is completed whoever has the file open, the next write goes to
    /// a new one; otherwise another writer that takes it over ends the wait, as its own close waits. What was removed is
    /// not waited for. ``FileError/notSent(_:)`` when it cannot arrive without a person, and when it arrived beside a
    /// version of somebody else.
    func awaitArrival(of inode: Inode, sealing: Bool) throws(FileError) {
        let began = Timestamp.now()
        while true {
            if sealing { try recordContent(of: inode, sealing: true) }
            guard let row = try row(of: inode) else { return }
            if !row.isOpen {
                try send(row.path)
                if let original = row.conflictOf, try isConflict(row.path) {
                    throw Self.conflict(original, keptAs: row.path)
                }
                try refuseConflict(at: row.path, since: began)
            }
            guard let rest = try self.row(of: inode) else { return }
            // What was asked for by a name that it had no more may not have been sent.
            if !rest.isOpen, rest.path != row.path { continue }
            guard sealing, rest.isOpen else { return }
            // Bytes of a mapping came in between.
            if Interruption.isGivenUp { throw .interrupted }
            usleep(20_000)
        }
    }

    /// The row of a file, under the name that it has now; nil when nothing of it is to be sent, or it was removed.
    private func row(of inode: Inode) throws(FileError) -> JournalNode? {
        // Not while a folder is moved, whose files get other rows.
        try namespace.shared { () throws(FileError) in
            let id = inode.state.withLock { $0.isDetached ? nil : $0.node }
            return try id.flatMap { id throws(FileError) in try translating { try journal.node(id) } }
        }
    }

    private func refuseConflict(at path: ObjectKey, since: Timestamp) throws(FileError) {
        let conflicts = try translating { try journal.conflicts() }
        guard let conflict = conflicts.last(where: { $0.path == path && $0.detectedAt >= since }) else { return }
        throw Self.conflict(path, keptAs: conflict.copy)
    }

    /// Whether a path is that of a conflict copy that nobody has dealt with.
    private func isConflict(_ copy: ObjectKey) throws(FileError) -> Bool {
        try translating { try journal.conflicts().contains { $0.copy == copy } }
    }

    private static func conflict(_ path: ObjectKey, keptAs copy: ObjectKey) -> FileError {
        .notSent("\(path.string) was changed at the remote; this content is kept as \(copy.string)")
    }
}
