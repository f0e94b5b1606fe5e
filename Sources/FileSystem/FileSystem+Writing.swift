// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Catalog
internal import Database
internal import Glibc
internal import Journal
internal import Platform

/// Changing bytes.
extension FileSystem {
    /// The most that any object may hold: 5 TiB, S3's bound.
    static let maximumSize: Int64 = 5 << 40

    /// Writes at an offset: `copy` puts the bytes of `range` into the file whose descriptor it gets and returns how
    /// many it wrote, or a negative errno.
    ///
    /// `isWriteback`: the kernel took the bytes from a mapping's program long ago, so they do not wait for room: nobody could
    /// end that, and the program's own end would wait for it.
    package func write(
        _ handle: FileHandle,
        _ range: ByteRange,
        isWriteback: Bool = false,
        _ copy: (Int32) -> Int
    ) throws(FileError) -> Int {
        guard handle.isWritable else { throw .badHandle }
        guard range.upper <= Self.maximumSize else { throw .tooLarge }
        if !isWriteback { try stagingBound?.claim(range.count) }
        try reserve.claim(range.count, mayWait: !isWriteback)
        let inode = handle.inode
        let staging = try beginWrite(inode, mayWait: !isWriteback)
        // The number must stay this file's while it is written to, whatever happens to the inode meanwhile.
        var count = withExtendedLifetime(staging) { copy(staging.descriptor.raw) }
        if count == -Int(ENOSPC) || count == -Int(EDQUOT) {
            reserve.makeRoom()
            count = withExtendedLifetime(staging) { copy(staging.descriptor.raw) }
        }
        let filled = inode.state.withLock { state -> StagedChecksums.Filled? in
            state.activeWrites -= 1
            guard count > 0 else {
                staging.checksums.forget(range)
                return nil
            }
            state.content.map.write(ByteRange(offset: range.lower, count: Int64(count)))
            state.revision += 1
            state.noteContentChange()
            let filled = staging.checksums.noteWrite(range, in: state.content.map)
            return state.activeWrites == 0 ? filled : nil
        }
        if let filled {
            staging.checksums.take(filled, from: staging.descriptor) { note in inode.state.withLock { _ in note() } }
        }
        if count < 0 { throw .system(SystemError.make(Int32(-count), "write")) }
        return count
    }

    /// Counts off a change that came to nothing, and completes the file when no writer is left who would.
    func endChange(_ inode: Inode) throws(FileError) {
        let isOpen = inode.state.withLock { state in
            state.activeWrites -= 1
            return state.writers > 0
        }
        if !isOpen { try recordContent(of: inode, sealing: true) }
    }

    /// Makes a file's content writable and counts a write; the caller counts it off.
    ///
    /// `replacing`: nothing of what it holds is to stay. `mayWait`: for room, where a copy of all of it has to be made first.
    /// `isByName`: it is to be changed for its name, and not for a handle: where others have that, `.stale` has the kernel
    /// look the name up anew.
    func beginWrite(
        _ inode: Inode,
        replacing: Bool = false,
        mayWait: Bool = true,
        isByName: Bool = false
    ) throws(FileError) -> StagingFile {
        var whole: WholeCopy?
        defer { if whole != nil { endSeparating(inode) } }
        for attempt in 0..<8 {
            let ready = inode.state.withLock { state -> StagingFile? in
                guard state.isWritable, let staging = state.content.staging else { return nil }
                state.activeWrites += 1
                staging.checksums.begin()
                return staging
            }
            if let ready { return ready }
            do throws(FileError) {
                if whole == nil {
                    try load(inode)
                    try learnAttributes(of: inode)
                }
                try knowingOldName(of: inode) { () throws(FileError) in
                    try withRoom { () throws(FileError) in try makeWritable(inode, replacing, whole) }
                }
            } catch {
                guard case .stale = error, attempt < Self.maximumLooks else { throw error }
                if let made = whole {
                    // It was made of what the file has become something else than meanwhile.
                    guard made.isOutdated else { throw error }
                    whole = nil
                    endSeparating(inode)
                }
                // As for reads: what it showed may have been uploaded, or have got another row, just now.
                if try lookAnew(at: inode) { continue }
                guard !isByName else { throw error }
                // Others have its name.
                whole = try copyWhole(inode, replacing, mayWait: mayWait)
            }
        }
        throw .stale
    }

    /// Does something that needs local space once more when there was none, after deleting what is not needed.
    func withRoom<Value>(_ body: () throws(FileError) -> Value) throws(FileError) -> Value {
        do throws(FileError) {
            return try body()
        } catch {
            guard error.isOutOfSpace else { throw error }
            reserve.makeRoom()
            return try body()
        }
    }

    private func makeWritable(_ inode: Inode, _ replacing: Bool, _ whole: WholeCopy?) throws(FileError) {
        // Nobody may look the name up of a copy before its inode stands there.
        try whole == nil
            ? namespace.shared { () throws(FileError) in try makeWritableLocked(inode, replacing, nil) }
            : namespace.alone { () throws(FileError) in try makeWritableLocked(inode, replacing, whole) }
    }

    private func makeWritableLocked(_ inode: Inode, _ replacing: Bool, _ whole: WholeCopy?) throws(FileError) {
        try inode.commit.withLock { _ throws(FileError) in
            let state = inode.state.withLock { $0 }
            if state.isWritable, state.content.staging != nil { return }
            if state.isDetached { return try makeAnonymous(inode) }
            if state.isWritable, let id = state.content.generation { return try openStaging(inode, id) }
            if let node = try beginGeneration(inode, replacing) {
                guard let generation = node.generation else { throw .stale }
                do throws(FileError) {
                    return try adopt(generation, of: node, for: inode, replacing: inode.state.withLock { $0.content })
                } catch {
                    giveUp(generation, of: node)
                    throw error
                }
            }
            // Others have its name.
            guard let whole else { throw .stale }
            let (node, oldPlace) = try beginCopy(inode, whole)
            guard let generation = node.generation else { throw .stale }
            adopt(whole, generation, of: node, for: inode, replacing)
            inode.state.withLock { state in
                state.copiedFrom = oldPlace
                state.copiedTo = node.path
            }
        }
    }

    /// The row of a file that is to be changed, with an unsealed generation; nil when others have its name.
    private func beginGeneration(_ inode: Inode, _ replacing: Bool) throws(FileError) -> JournalNode? {
        // The row may have moved to the name of a conflict copy.
        if let id = inode.state.withLock({ $0.node }), let node = try reopen(id, replacing) { return node }
        try followNames(of: inode)
        guard let path = table.path(of: inode.number), try follow(inode, at: path) else { return nil }
        return try translating {
            try journal.beginWriting(at: path, remote: try remoteState(of: inode, at: path), replacing: replacing)
        }
    }

    /// Opens the content of a row for changes; nil when there is no such row, or it was completed just now.
    private func reopen(_ id: NodeID, _ replacing: Bool) throws(FileError) -> JournalNode? {
        guard let row = try translating({ try journal.node(id) }) else { return nil }
        do throws(FileError) {
            return try translating {
                try journal.beginWriting(
                    at: row.path,
                    remote: try view.state(of: row.path),
                    expecting: id,
                    replacing: replacing
                )
            }
        } catch {
            guard case .journal(let cause) = error, cause.kind == .notFound else { throw error }
            return nil
        }
    }

    /// The remote version that a file shows, as the journal must know it.
    private func remoteState(of inode: Inode, at path: ObjectKey) throws(DatabaseError) -> RemoteState {
        let (whole, attributes, node) = inode.state.withLock { ($0.content.wholeRemote, $0.attributes, $0.node) }
        if node == nil, let whole { return .file(whole.version, attributes) }
        return try view.state(of: path)
    }

    /// Puts an unsealed generation on top of what the file showed.
    private func adopt(
        _ generation: Generation,
        of node: JournalNode,
        for inode: Inode,
        replacing old: FileContent
    ) throws(FileError) {
        var content = FileContent(generation: generation.id, map: generation.content)
        switch generation.underlay {
        case .none: break
        case .remote(let key, let version):
            // The local bytes of an upload are as good as the remote's, and nearer.
            let isSame = old.uploaded?.version.isSame(as: version) ?? false
            content.below = isSame ? .content(old) : .remote(key, version)
        case .generation(let id):
            if id == old.generation {
                content.below = .content(old)
            } else if let below = try self.content(of: id) {
                content.below = .content(below)
            } else {
                throw .stale
            }
        }
        let staging = try staging(of: generation.id, creating: true)
        let checksums = generation.isReopened ? try translating { try journal.checksums(of: generation.id) } : nil
        staging.checksums.replace(by: checksums ?? ChecksumList())
        content.staging = staging
        inode.state.withLock { state in show(content, generation, of: node, for: inode, &state) }
    }

    /// Goes on with a copy of all that the file showed.
    private func adopt(
        _ whole: WholeCopy,
        _ generation: Generation,
        of node: JournalNode,
        for inode: Inode,
        _ replacing: Bool
    ) {
        var map = ContentMap(size: 0)
        if !replacing, whole.content.map.size > 0 { map.write(ByteRange(0, whole.content.map.size)) }
        let content = FileContent(
            generation: generation.id,
            map: map,
            staging: whole.staging,
            below: .content(whole.content)
        )
        inode.state.withLock { state in
            show(content, generation, of: node, for: inode, &state)
            state.supersededAt = nil
            state.copied = state.revision
        }
    }

    private func show(
        _ content: FileContent,
        _ generation: Generation,
        of node: JournalNode,
        for inode: Inode,
        _ state: inout Inode.State
    ) {
        state.node = node.id
        state.content = content
        state.isLoaded = true
        state.isWritable = true
        state.copied = nil
        state.synced = state.revision
        state.syncedEnd = generation.syncedEnd
        state.isOverSynced = generation.isOverContent
        if generation.doubt != .none {
            state.failure = Inode.SyncFailure(generation: generation.id, isOfData: true)
        }
        if state.handles > 0 { noteOpen(inode, node.id, &state) }
    }

    /// Completes what was opened for changes as it was, as it cannot be opened here and no close would complete it.
    private func giveUp(_ generation: Generation, of node: JournalNode) {
        do throws(JournalError) {
            let checksums = generation.isReopened ? try journal.checksums(of: generation.id) : ChecksumList()
            try journal.seal(
                node.id,
                generation.id,
                content: generation.content,
                modified: nil,
                isUnchanged: true,
                checksums: checksums
            )
            onChange()
        } catch {
            Log.error("mount", "\(node.path) counts as open until the next mount: \(error)")
        }
    }

    private func openStaging(_ inode: Inode, _ id: GenerationID) throws(FileError) {
        let file = try staging(of: id, creating: true)
        inode.state.withLock { state in
            if state.content.generation == id { state.content.staging = file }
        }
    }

    /// A removed file goes on for those who have it open, in a file without a name.
    private func makeAnonymous(_ inode: Inode) throws(FileError) {
        let staging = try translating { try StagingFile(withoutName: journal) }
        inode.state.withLock { state in
            if state.isWritable, state.content.map.extents.isEmpty, state.content.staging == nil {
                state.content.staging = staging
                return
            }
            let size = state.content.map.size
            state.content = FileContent(
                generation: nil,
                map: ContentMap(size: size, underlayLength: size),
                staging: staging,
                below: .content(state.content)
            )
            state.isLoaded = true
            state.isWritable = true
        }
    }
}
