// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Journal
internal import Platform

/// Cutting and extending files.
extension FileSystem {
    /// Cuts or extends a file; recorded at once when nobody has it open for writing.
    ///
    /// Power loss brings back what was synced, or what it was cut to: to nothing, the synced bytes are set aside until
    /// the new content is safe; to a part, no more than that counts as synced from before the cut on, and it is synced
    /// before this returns.
    /// `isOpening`: a handle that will write was opened with it. `isByName`: nobody asked for it by a handle.
    func truncate(
        _ inode: Inode,
        to size: Int64,
        isOpening: Bool = false,
        isByName: Bool
    ) throws(FileError) {
        guard size <= Self.maximumSize else { throw .tooLarge }
        if isByName, try isMovedAside(inode) { throw .stale }
        try load(inode)
        if size == 0 { try setAsideSynced(inode) }
        let staging = try beginWrite(inode, replacing: size == 0, isByName: isByName)
        let cutsSynced: Bool
        do throws(FileError) {
            cutsSynced = try withRoom { () throws(FileError) in
                // A sync under way would note what there was before.
                try inode.commit.withLock { _ throws(FileError) in try cut(inode, staging, to: size) }
            }
        } catch {
            // All of it counts as synced again, where it was.
            if inode.state.withLock({ $0.syncedEnd > size }) { try? makeSafe(inode) }
            try endChange(inode)
            throw error
        }
        let isOpen = inode.state.withLock { state in
            state.activeWrites -= 1
            return state.writers > 0
        }
        try forgetFailure(of: inode, staging)
        // What close(2) completed stays complete while its handle is on the way: a flush of uploads has to wait for it.
        if !isOpen || (!isOpening && flushed.holds(inode)) { try recordContent(of: inode, sealing: true) }
        // What is written behind the cut next would otherwise be taken for the bytes that were there.
        if cutsSynced { try makeSafe(inode) }
    }

    /// Cuts or extends the staging file and its content; returns whether bytes were synced that are gone now.
    private func cut(_ inode: Inode, _ staging: StagingFile, to size: Int64) throws(FileError) -> Bool {
        let (generation, cutsSynced) = inode.state.withLock { state in
            let cutsSynced = state.lastingFailure == nil && !state.isDetached && state.syncedEnd > size
            return (state.content.generation, cutsSynced)
        }
        if cutsSynced, let generation { try translating { try journal.cutSynced(generation, to: size) } }
        do throws(SystemError) {
            try staging.descriptor.truncate(to: size)
        } catch {
            throw .system(error)
        }
        inode.state.withLock { state in
            staging.checksums.forget(ByteRange(size, .max))
            state.content.map.truncate(to: size)
            state.revision += 1
            state.noteContentChange()
        }
        return cutsSynced
    }

    /// A file that is made anew from nothing has none of the bytes that a sync failed for.
    private func forgetFailure(of inode: Inode, _ staging: StagingFile) throws(FileError) {
        let isDone = inode.state.withLock { state in
            guard state.lastingFailure != nil, state.content.map.extents.isEmpty else { return false }
            return state.activeWrites == 0
        }
        guard isDone else { return }
        // The record of it takes the doubt from the journal.
        try recordContent(of: inode, sealing: false)
        staging.becameEmpty()
        inode.state.withLock { $0.failure = nil }
    }

    /// Puts a new content without a byte over an open one that power loss would bring back; not while somebody writes to
    /// it, as on a local disk.
    private func setAsideSynced(_ inode: Inode) throws(FileError) {
        guard inode.state.withLock({ $0.syncedEnd > 0 }) else { return }
        try withRoom { () throws(FileError) in
            try namespace.shared { () throws(FileError) in
                try inode.commit.withLock { _ throws(FileError) in try replaceSynced(inode) }
            }
        }
    }

    private func replaceSynced(_ inode: Inode) throws(FileError) {
        guard let (node, old) = inode.state.withLock({ $0.takeWritable() }) else { return }
        var staging: StagingFile?
        var new: Generation?
        // Nothing has changed unless it was committed.
        defer { inode.state.withLock { $0.giveBack(new, staging) } }
        do throws(JournalError) {
            new = try journal.setAsideSynced(node, old) { id throws(JournalError) in
                do throws(SystemError) {
                    staging = try StagingFile(journal, id, creating: true)
                } catch {
                    throw JournalError(system: error)
                }
            }
        } catch {
            throw .journal(error)
        }
    }
}

extension Inode.State {
    /// The row and the open content with synced bytes, to which nobody writes from here on; nil where that cannot be.
    fileprivate mutating func takeWritable() -> (NodeID, GenerationID)? {
        guard isWritable, !isDetached, activeWrites == 0, lastingFailure == nil, syncedEnd > 0 else { return nil }
        guard let node, let generation = content.generation else { return nil }
        isWritable = false
        return (node, generation)
    }

    /// Goes on with a new content, or with the one of before where there is none.
    fileprivate mutating func giveBack(_ new: Generation?, _ staging: StagingFile?) {
        isWritable = true
        guard let new, let staging else { return }
        content = FileContent(generation: new.id, map: new.content, staging: staging)
        copied = nil
        isLoaded = true
        synced = revision
        syncedEnd = 0
        isOverSynced = true
    }
}
