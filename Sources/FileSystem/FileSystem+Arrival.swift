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
            let id = inode.state.withLock { $0.isDetached ? nil : $0.node }
            guard let id, let row = try translating({ try journal.node(id) }) else { return }
            if !row.isOpen {
                try send(row.path)
                try refuseConflict(at: row.path, since: began)
            }
            guard sealing, try translating({ try journal.node(id) })?.isOpen == true else { return }
            // Bytes of a mapping came in between.
            usleep(20_000)
        }
    }

    private func refuseConflict(at path: ObjectKey, since: Timestamp) throws(FileError) {
        let conflicts = try translating { try journal.conflicts() }
        guard let conflict = conflicts.last(where: { $0.path == path && $0.detectedAt >= since }) else { return }
        throw .notSent("\(path.string) was changed at the remote; this content is kept as \(conflict.copy.string)")
    }
}
