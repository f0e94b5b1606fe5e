// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Platform
internal import Synchronization

/// From memory into the journal.
extension FileSystem {
    private struct Pending {
        let node: NodeID
        let generation: GenerationID
        let map: ContentMap
        let modified: Timestamp
        let revision: Int64
        let seals: Bool
    }

    /// Records what was written to a file, and seals it when nobody writes any more.
    ///
    /// `closingWriter`: the caller is one of the writers, about to leave. `sealing`: seal whoever is there.
    func recordContent(of inode: Inode, sealing: Bool, closingWriter: Bool = false) throws(FileError) {
        let hasSealed = try inode.commit.withLock { _ throws(FileError) -> Bool in
            guard let pending = pending(inode, sealing, closingWriter) else { return false }
            try commit(pending, of: inode)
            return pending.seals
        }
        if hasSealed {
            onChange()
        }
    }

    /// What has to be recorded now; a file to be sealed takes no writes from here on.
    private func pending(_ inode: Inode, _ sealing: Bool, _ closingWriter: Bool) -> Pending? {
        inode.state.withLock { state in
            guard state.isWritable, !state.isDetached, let node = state.node else { return nil }
            guard let generation = state.content.generation else { return nil }
            let remaining = state.writers - (closingWriter ? 1 : 0)
            let seals = state.activeWrites == 0 && (sealing || remaining <= 0)
            guard seals || state.revision != state.recorded else { return nil }
            if seals { state.isWritable = false }
            return Pending(
                node: node,
                generation: generation,
                map: state.content.map,
                modified: state.attributes.modified,
                revision: state.revision,
                seals: seals
            )
        }
    }

    private func commit(_ pending: Pending, of inode: Inode) throws(FileError) {
        do throws(JournalError) {
            if pending.seals {
                try journal.seal(pending.node, pending.generation, content: pending.map, modified: pending.modified)
            } else {
                try journal.record(
                    pending.node,
                    pending.generation,
                    content: pending.map,
                    modified: pending.modified,
                    durable: false
                )
            }
        } catch {
            // Not sealed after all: the bytes are in staging, the next close tries again.
            if pending.seals { inode.state.withLock { $0.isWritable = true } }
            throw .journal(error)
        }
        inode.state.withLock { $0.recorded = max($0.recorded, pending.revision) }
        if pending.seals, pending.map.extents.isEmpty { try noteUnchanged(inode, pending) }
    }

    /// A file opened for writing but not changed went back to what it was: its row has the older generation, or is gone.
    private func noteUnchanged(_ inode: Inode, _ pending: Pending) throws(FileError) {
        let row = try translating { try journal.node(pending.node) }
        guard row?.generation?.id != pending.generation else { return }
        inode.state.withLock { state in
            guard state.content.generation == pending.generation, !state.isWritable else { return }
            if let row {
                state.content.generation = row.generation?.id
            } else if case .remote(let key, let version) = state.content.below {
                state.node = nil
                state.content = .remote(key, version)
            } else if case .content(let older) = state.content.below {
                state.node = nil
                state.content = older
            }
        }
    }

    /// Makes what was written to a file survive power loss (fsync(2)).
    package func synchronize(_ handle: FileHandle) throws(FileError) {
        let inode = handle.inode
        try inode.commit.withLock { _ throws(FileError) in
            let (content, failure) = inode.state.withLock { ($0.content, $0.failure) }
            if let failure { throw failure }
            do throws(FileError) {
                try synchronize(inode, content)
            } catch {
                // The kernel may have dropped the pages: a later success would be a lie.
                inode.state.withLock { state in
                    if state.content.generation == content.generation { state.failure = .writeFailed }
                }
                Log.error("mount", "fsync failed: \(error)")
                throw error
            }
        }
    }

    /// The record is of the moment before the sync: what is written during it is not covered.
    private func synchronize(_ inode: Inode, _ content: FileContent) throws(FileError) {
        let open = inode.state.withLock { state -> Pending? in
            guard state.isWritable, !state.isDetached, let node = state.node else { return nil }
            guard let generation = state.content.generation else { return nil }
            return Pending(
                node: node,
                generation: generation,
                map: state.content.map,
                modified: state.attributes.modified,
                revision: state.revision,
                seals: false
            )
        }
        try translating {
            // Sealed already, by a close of another handle; or nothing but names and attributes are to be kept.
            let sealed = open == nil ? try content.generation.flatMap { try journal.generation($0) } : nil
            if let staging = content.staging {
                try staging.descriptor.synchronizeData()
                try staging.synchronizeName { () throws(SystemError) in try journal.synchronizeStagingDirectory() }
            }
            guard let open else { return try journal.markSynced(sealed.map { [$0] } ?? []) }
            try journal.record(open.node, open.generation, content: open.map, modified: open.modified, durable: true)
        }
        if let open { inode.state.withLock { $0.recorded = max($0.recorded, open.revision) } }
    }

    /// Makes every change of names so far survive power loss (fsync(2) of a folder).
    package func synchronizeNames() throws(FileError) {
        try translating { try journal.makeDurable() }
    }
}
