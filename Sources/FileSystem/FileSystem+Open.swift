// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Journal
internal import Platform

/// Opening and closing files.
extension FileSystem {
    package func open(_ number: InodeNumber, _ mode: OpenMode) throws(FileError) -> FileHandle {
        let inode = try inode(number)
        guard inode.kind == .file else { throw inode.kind == .directory ? .isDirectory : .invalidArgument }
        if mode.isWritable || mode.isTruncating { try ensureWritable() }
        let handle = addHandle(inode, mode)
        do throws(FileError) {
            try load(inode)
            if mode.isTruncating { try truncate(inode, to: 0, isOpening: true, isByName: true) }
            return handle
        } catch {
            release(handle)
            throw error
        }
    }

    func addHandle(_ inode: Inode, _ mode: OpenMode) -> FileHandle {
        inode.state.withLock { state in
            state.handles += 1
            if mode.isWritable { state.writers += 1 } else { state.noteRead() }
            if mode.isWritable, mode.isReadable { state.mappers += 1 }
            if let node = state.node { noteOpen(inode, node, &state) }
        }
        return FileHandle(inode, isReadable: mode.isReadable, isWritable: mode.isWritable)
    }

    /// One close(2) of a handle: what it wrote is recorded, and complete when nobody else writes.
    package func flush(_ handle: FileHandle) throws(FileError) {
        guard handle.isWritable else { return }
        let hasSealed = try recordContent(of: handle.inode, sealing: false, closingWriter: true)
        defer {
            if hasSealed {
                // Not before it arrived: until then its handle is on the way and nobody is to open it again.
                flushed.note(handle)
                // Of the commit it has heard, perhaps before there was anything to look for.
                committer.changed()
            }
        }
        let isLast = handle.inode.state.withLock { $0.writers <= 1 }
        if options.closesToRemote, isLast { try awaitArrival(of: handle.inode, sealing: false) }
    }

    /// The last close of a handle.
    ///
    /// Nobody hears of an error any more, so it is logged.
    package func release(_ handle: FileHandle) {
        if handle.isWritable {
            // Counted off first: of writers that leave at the same moment the last one has to know that it is.
            let isLast = handle.inode.state.withLock { state in
                state.writers -= 1
                return state.writers == 0
            }
            let isDecided = flushed.forget(handle, isLast: isLast)
            do throws(FileError) {
                try recordContent(of: handle.inode, sealing: false)
            } catch {
                Log.error("mount", "a file could not be completed when it was closed: \(error)")
            }
            if isDecided { committer.decided(handle.inode.number) }
        }
        removeHandle(handle)
    }

    /// An open file has a row, which keeps the inode wherever it moves.
    func noteOpen(_ inode: Inode, _ node: NodeID, _ state: inout Inode.State) {
        guard !state.openRows.contains(node) else { return }
        state.openRows.append(node)
        openNodes.withLock { $0[node] = inode }
    }

    /// Nobody has a file open any more, or it is not the row's any more.
    func noteClosed(_ state: inout Inode.State) {
        let rows = state.openRows
        guard !rows.isEmpty else { return }
        state.openRows = []
        openNodes.withLock { nodes in
            for row in rows { nodes[row] = nil }
        }
    }

    private func removeHandle(_ handle: FileHandle) {
        let ended = handle.inode.state.withLock { state in
            state.handles -= 1
            if handle.isWritable, handle.isReadable { state.mappers -= 1 }
            return state.handles == 0 ? settle(&state) : []
        }
        ended.end()
    }

    /// Lets go of what only an open file needs; returns what is to be ended, outside of the lock.
    ///
    /// What is recorded can be opened again; a detached file's bytes are gone with its last handle.
    func settle(_ state: inout Inode.State) -> [KeptVersion] {
        // It could not be completed: it counts as open until it is.
        guard !state.isWritable || state.isDetached else { return [] }
        var ended: [KeptVersion] = []
        if state.isDetached {
            ended = state.dropContent()
        } else if state.revision == state.recorded, state.content.generation != nil {
            state.content.staging = nil
            state.isLoaded = false
        } else if let uploaded = state.content.uploaded, state.revision == state.recorded {
            state.content = .remote(uploaded.key, uploaded.version)
        }
        noteClosed(&state)
        return ended
    }

    /// Opens the staging files of a file's content, down the chain.
    func load(_ inode: Inode) throws(FileError) {
        try reloadUploaded(inode)
        // A change of attributes may put another generation in its place meanwhile.
        for _ in 0..<8 {
            let wanted = inode.state.withLock { $0.isLoaded ? nil : $0.content.generation }
            guard let wanted else { return }
            guard let content = try content(of: wanted) else {
                // Uploaded since the kernel last asked for the name: the catalog knows it now.
                guard try reload(inode) else { throw .stale }
                return
            }
            inode.state.withLock { state in
                guard !state.isLoaded, state.content.generation == wanted else { return }
                state.content = content
                state.isLoaded = true
            }
        }
        throw .stale
    }

    /// Shows what was uploaded meanwhile where the catalog cannot tell that it is the same; stale: look up the name anew.
    private func reloadUploaded(_ inode: Inode) throws(FileError) {
        guard view.hasLostCatalog else { return }
        let (node, isIdle) = inode.state.withLock { ($0.node, $0.handles <= 1 && !$0.isDetached) }
        guard isIdle, let node, try translating({ try journal.node(node) }) == nil else { return }
        guard try reload(inode) else { throw .stale }
    }

    /// A generation with its files open; nil when it, or one below it, is gone.
    func content(of id: GenerationID) throws(FileError) -> FileContent? {
        guard let generation = try translating({ try journal.generation(id) }) else { return nil }
        var content = FileContent(generation: id, map: generation.content)
        if !generation.content.extents.isEmpty {
            guard let file = try? staging(of: id, creating: false) else { return nil }
            content.staging = file
        }
        switch generation.underlay {
        case .none: break
        case .remote(let key, let version): content.below = .remote(key, version)
        case .generation(let older):
            guard let below = try self.content(of: older) else { return nil }
            content.below = .content(below)
        }
        return content
    }

    /// A generation's staging file: the one that waits for the group sync, else opened anew.
    func staging(of id: GenerationID, creating: Bool) throws(FileError) -> StagingFile {
        if let held = committer.held(id) { return held }
        return try translating { try StagingFile(journal, id, creating: creating) }
    }

    /// Looks at journal and catalog anew for a file whose content is not where it was; false when there is nothing
    /// new to be had for this inode.
    func reload(_ inode: Inode) throws(FileError) -> Bool {
        if inode.state.withLock({ $0.isQuiet && !$0.isDetached }) {
            let isNew = try knowingName(of: inode) { () throws(FileError) in try reloadName(inode) }
            if let isNew { return isNew }
            _ = try reloadBelow(inode)
            return true
        }
        return try reloadBelow(inode)
    }

    /// Nil when the file was written to, opened for changes or completed meanwhile.
    private func reloadName(_ inode: Inode) throws(FileError) -> Bool? {
        try namespace.shared { () throws(FileError) -> Bool? in
            // Before the journal is read: it has all that was written until then.
            guard let look = inode.look else { return nil }
            guard let path = table.path(of: inode.number) else { return false }
            switch try presence(path) {
            case .absent, .link: return false
            case .row(let node):
                guard node.inodeKind == inode.kind, inode.follows(node), let generation = node.generation,
                    var content = try content(of: generation.id)
                else { return false }
                if !generation.isSealed, content.staging == nil {
                    content.staging = try staging(of: generation.id, creating: true)
                }
                return inode.replace(content, isOpen: !generation.isSealed, since: look)
            case .remote(let entry, let attributes):
                let attributes = attributes ?? inode.state.withLock { $0.attributes }
                let known = try recognized(entry, by: inode)
                guard let version = entry.version, inode.follows(known, attributes, path) else { return false }
                return inode.replace(.remote(path, version), isOpen: false, since: look)
            }
        }
    }

    /// Looks anew at what shows where a file that is being changed has no bytes of its own; false when that is not to
    /// be had.
    ///
    /// The upload of an older content replaces the remote version that was below it, while the file is written on.
    func reloadBelow(_ inode: Inode) throws(FileError) -> Bool {
        let top = inode.state.withLock { $0.isDetached ? nil : $0.content.generation }
        guard let top, let generation = try translating({ try journal.generation(top) }) else { return false }
        let below: FileContent.Below
        switch generation.underlay {
        case .none: return false
        case .remote(let key, let version): below = .remote(key, version)
        case .generation(let older):
            guard let content = try content(of: older) else { return false }
            below = .content(content)
        }
        return inode.state.withLock { state in
            guard state.content.generation == top else { return false }
            state.content.below = below
            return true
        }
    }
}

extension Inode {
    /// A moment in which the journal has all that was written to a file.
    struct Look: Hashable {
        fileprivate let revision: Int64
        fileprivate let isWritable: Bool
    }

    /// The present moment; nil while something is being written, or is not recorded.
    var look: Look? {
        state.withLock { $0.isQuiet ? $0.look : nil }
    }

    /// Puts the same bytes from another place under a file, by a row that is unsealed where `isOpen`.
    ///
    /// Nil when it was written to, opened for changes or completed since `look`, after which the journal was read.
    func replace(_ content: FileContent, isOpen: Bool, since look: Look) -> Bool? {
        state.withLock { state in
            guard state.isQuiet, state.look == look else { return nil }
            // The row of a copy says nothing of its bytes before the first of them are recorded.
            if state.copied == state.revision { return true }
            // Only who holds `commit` opens it for changes, or completes it: one or the other is under way.
            if state.isLoaded, state.isWritable != isOpen {
                if content.generation == state.content.generation { state.content.below = content.below }
                return true
            }
            if state.isWritable, content.generation != state.content.generation { return true }
            state.content = content
            state.isLoaded = true
            // Nobody knows what was synced of it.
            state.synced = -1
            state.syncedEnd = state.isWritable ? .max : 0
            return true
        }
    }
}

extension Inode.State {
    /// The journal has all that was written.
    var isQuiet: Bool { revision == recorded && activeWrites == 0 }

    fileprivate var look: Inode.Look { Inode.Look(revision: revision, isWritable: isWritable) }
}
