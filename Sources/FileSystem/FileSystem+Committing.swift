// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Platform

/// From memory into the journal.
extension FileSystem {
    private struct Pending {
        let node: NodeID
        let generation: GenerationID
        let map: ContentMap
        /// Nil while a time is being set.
        let modified: Timestamp?
        let timesSet: Int
        let revision: Int64
        let seals: Bool
        let staging: StagingFile?
        /// Nothing was written since the last sync.
        let isUnchanged: Bool
        /// A sync of these bytes failed.
        let isDoubtful: Bool
        /// It is a copy of what others replaced, to which nothing was written.
        let isBareCopy: Bool
        /// By a close(2) that may not be the last one.
        var isByClose = false

        init(_ state: Inode.State, _ node: NodeID, _ generation: GenerationID, seals: Bool) {
            self.node = node
            self.generation = generation
            map = state.content.map
            modified = state.timesBeingSet > 0 ? nil : state.attributes.modified
            timesSet = state.timesSet
            revision = state.revision
            self.seals = seals
            staging = state.content.staging
            isUnchanged = state.revision == state.synced
            isDoubtful = state.lastingFailure?.isOfData ?? false
            isBareCopy = state.copied == state.revision
        }

        /// When it was written; nil where a time was set after this was looked at, which it must not bring back.
        func modified(of inode: Inode) -> Timestamp? {
            inode.state.withLock { $0.timesSet == timesSet ? modified : nil }
        }
    }

    /// Records what was written to a file, and seals it when nobody writes any more.
    ///
    /// `closingWriter`: the caller is one of the writers, about to leave. `sealing`: seal whoever is there.
    /// Returns whether it was sealed.
    @discardableResult
    func recordContent(of inode: Inode, sealing: Bool, closingWriter: Bool = false) throws(FileError) -> Bool {
        let hasSealed = try inode.commit.withLock { _ throws(FileError) -> Bool in
            guard var pending = pending(inode, sealing, closingWriter) else { return false }
            // With `close=remote` it is sent before anybody knows.
            pending.isByClose = closingWriter && !options.closesToRemote
            try commit(pending, of: inode)
            return pending.seals
        }
        if hasSealed { onChange() }
        return hasSealed
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
            return Pending(state, node, generation, seals: seals)
        }
    }

    private func commit(_ pending: Pending, of inode: Inode) throws(FileError) {
        var isGivenUp = false
        do throws(JournalError) {
            if pending.seals, pending.isBareCopy, try giveUpCopy(inode, pending.node, pending.generation) {
                isGivenUp = true
            } else if pending.seals {
                if let staging = pending.staging { committer.hold(pending.generation, staging) }
                if pending.isByClose { committer.expectHandle(of: inode.number, pending.generation) }
                try journal.seal(
                    pending.node,
                    pending.generation,
                    content: pending.map,
                    modified: pending.modified(of: inode),
                    isUnchanged: pending.isUnchanged,
                    isDoubtful: pending.isDoubtful,
                    checksums: pending.staging?.checksums.list ?? ChecksumList()
                )
            } else {
                try journal.record(
                    pending.node,
                    pending.generation,
                    content: pending.map,
                    modified: pending.modified(of: inode),
                    durable: false
                )
            }
        } catch {
            // Not sealed after all: the bytes are in staging, the next close tries again.
            if pending.seals {
                committer.decided(inode.number)
                inode.state.withLock { state in
                    if state.content.generation == pending.generation { state.isWritable = true }
                }
                noteUnfinished(inode)
            }
            throw .journal(error)
        }
        inode.state.withLock { state in
            state.recorded = max(state.recorded, pending.revision)
            if pending.seals { state.copied = nil }
        }
        if pending.seals, !isGivenUp, pending.map.extents.isEmpty { try noteUnchanged(inode, pending) }
    }

    /// A file opened for writing but not changed went back to what it was: its row has the older generation, or is gone.
    private func noteUnchanged(_ inode: Inode, _ pending: Pending) throws(FileError) {
        // There was nothing before.
        if journal.isNewFile(pending.node) { return }
        let row = try translating { try journal.node(pending.node) }
        let isSame = row?.generation?.id == pending.generation
        inode.state.withLock { state in
            guard state.content.generation == pending.generation, !state.isWritable, !state.isDetached else { return }
            // What is below is what shows, and knows by itself where its bytes are, and of which upload it is the content.
            if let row, case .content(var older) = state.content.below, pending.map.isPure(length: older.map.size),
                older.generation == row.generation?.id || older.uploaded != nil
            {
                older.generation = row.generation?.id
                state.content = older
            } else if isSame {
                return
            } else if let row {
                state.content.generation = row.generation?.id
            } else if case .remote(let key, let version) = state.content.below,
                pending.map.isPure(length: version.size)
            {
                state.node = nil
                state.content = .remote(key, version)
            } else if case .content(let older) = state.content.below, pending.map.isPure(length: older.map.size) {
                state.node = nil
                state.content = older
            }
        }
    }

    /// Makes what was written to a file survive power loss (fsync(2)), and waits for the remote when that is asked for.
    ///
    /// What failed once fails for ever for this content, whichever handle asks, also after the next mount.
    package func synchronize(_ handle: FileHandle) throws(FileError) {
        try makeSafe(handle.inode)
        if options.syncsToRemote { try awaitArrival(of: handle.inode, sealing: true) }
    }

    /// Makes what a file holds now survive power loss; what failed once fails for ever.
    func makeSafe(_ inode: Inode) throws(FileError) {
        try inode.commit.withLock { _ throws(FileError) in
            let state = inode.state.withLock { $0 }
            if state.lastingFailure != nil { throw .writeFailed }
            // What is written during the sync is not covered.
            let record = try unrecorded(state)
            // A file that cannot be opened is not one that the disk failed to write.
            let staging = try stagingFile(of: state, record)
            do throws(FileError) {
                try synchronizeData(staging)
            } catch {
                noteFailure(inode, state.content, isOfData: true)
                Log.error("mount", "fsync failed: \(error)")
                throw error
            }
            do throws(FileError) {
                try makeDurable(record, of: inode)
            } catch {
                if error.mayHideLoss { noteFailure(inode, state.content, isOfData: false) }
                Log.error("mount", "fsync failed: \(error)")
                throw error
            }
        }
    }

    /// The file that has the bytes of a content; opened anew where nobody has the content open.
    private func stagingFile(of state: Inode.State, _ record: SyncRecord) throws(FileError) -> StagingFile? {
        if let staging = state.content.staging { return staging }
        guard case .sealed(let generation?) = record, !generation.content.extents.isEmpty else { return nil }
        return try staging(of: generation.id, creating: false)
    }

    /// What the journal is to be told of a file that is synced now.
    private enum SyncRecord {
        case open(Pending)
        /// Sealed already, by a close of another handle; nil: nothing but names and attributes are to be kept.
        case sealed(Generation?)
    }

    private func unrecorded(_ state: Inode.State) throws(FileError) -> SyncRecord {
        let generation = state.content.generation
        if state.isWritable, !state.isDetached, let node = state.node, let generation {
            return .open(Pending(state, node, generation, seals: false))
        }
        return .sealed(try translating { try generation.flatMap { try journal.generation($0) } })
    }

    private func synchronizeData(_ staging: StagingFile?) throws(FileError) {
        guard let staging else { return }
        try translating {
            try staging.synchronizeData(journal)
            try staging.synchronizeName { () throws(SystemError) in try journal.synchronizeStagingDirectory() }
        }
    }

    private func makeDurable(_ record: SyncRecord, of inode: Inode) throws(FileError) {
        switch record {
        case .open(let open):
            _ = try translating {
                try journal.record(
                    open.node,
                    open.generation,
                    content: open.map,
                    modified: open.modified(of: inode),
                    durable: true
                )
            }
            let wasOverSynced = inode.state.withLock { state in
                state.recorded = max(state.recorded, open.revision)
                state.synced = open.revision
                state.syncedEnd = open.map.extents.upperBound
                defer { state.isOverSynced = false }
                return state.isOverSynced
            }
            // The file of what was synced before is not needed any more.
            if wasOverSynced { committer.changed() }
        case .sealed(let generation):
            let doubtful = try translating { try journal.markSynced(generation.map { [$0] } ?? []) }
            if !doubtful.isEmpty { throw .writeFailed }
        }
    }

    /// The kernel may have dropped the bytes: a later success would be a lie, also for who opens the file later.
    private func noteFailure(_ inode: Inode, _ content: FileContent, isOfData: Bool) {
        inode.state.withLock { $0.failure = Inode.SyncFailure(generation: content.generation, isOfData: isOfData) }
        guard isOfData, let generation = content.generation else { return }
        do throws(JournalError) {
            try journal.noteFailedSync(of: [generation])
        } catch {
            Log.error("mount", "a failed fsync could not be recorded yet: \(error)")
        }
    }

    /// Makes every change of names so far survive power loss (fsync(2) of a folder); waits for the remote, with regard
    /// to what is in the folder, when that is asked for.
    package func synchronizeNames(_ handle: DirectoryHandle) throws(FileError) {
        try translating {
            try journal.noteNewNames()
            // A closed file is there after power loss when its content is.
            committer.awaitDecisions()
            _ = try committer.synchronizeAll()
        }
        guard options.syncsToRemote, !options.isReadOnly, let path = table.path(of: handle.inode.number) else { return }
        try send(path)
    }
}
