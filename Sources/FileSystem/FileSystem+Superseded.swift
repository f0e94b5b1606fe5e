// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Catalog
internal import Database
internal import Glibc
internal import Journal
internal import ObjectStore
internal import Platform
internal import Synchronization

/// Changing a file whose name others have taken since it was opened: it goes on as a file of its own, beside what they
/// made.
extension FileSystem {
    /// All bytes of such a file, in a staging file that has no name yet: the remote has them no more, and the cache may
    /// lose them any time.
    final class WholeCopy: Sendable {
        let staging: StagingFile
        /// What was copied, and a watch of it.
        let content: FileContent
        let watch: Inode.ContentWatch
        /// Counts what is copied for ``StagingBound`` until it has a name.
        let share: StagingBound.Unnamed?
        /// It had a name that was taken back: it cannot get another one.
        let isSpent = Atomic(false)

        init(
            staging: StagingFile,
            content: FileContent,
            watch: Inode.ContentWatch,
            share: StagingBound.Unnamed?
        ) {
            self.staging = staging
            self.content = content
            self.watch = watch
            self.share = share
        }

        /// Whether the file shows something else by now than what was copied.
        var isOutdated: Bool { watch.hasChanged.load(ordering: .acquiring) }
    }

    /// How many bytes are copied between two looks whether anybody still waits for it.
    private static let copyStep: Int64 = 8 << 20
    /// How many names are tried.
    private static let mostNames = 100

    /// Copies all that a file holds, for a change of it, or with `replacing` nothing; `.stale` where not all of it is here.
    ///
    /// One thread copies, others wait for it and get the error that it had; nil when it had none. No lock is held
    /// meanwhile: it is for whoever takes the copy to see that nothing has changed.
    func copyWhole(_ inode: Inode, _ replacing: Bool, mayWait: Bool) throws(FileError) -> WholeCopy? {
        let separation = Separation(mayWait: mayWait)
        let other = separating.withLock { under in
            defer { if under[inode.number] == nil { under[inode.number] = separation } }
            return under[inode.number]
        }
        if let other {
            try other.awaitEnd(mayWait: mayWait)
            return nil
        }
        // Another one may have just done it.
        if inode.state.withLock({ $0.isWritable }) {
            endSeparating(inode)
            return nil
        }
        do throws(FileError) {
            return try makeCopy(inode, replacing, mayWait)
        } catch {
            endSeparating(inode, error)
            throw error
        }
    }

    /// Lets those go on who wait for the copy that this thread has made.
    func endSeparating(_ inode: Inode, _ error: FileError? = nil) {
        separating.withLock { $0.removeValue(forKey: inode.number) }?.end(error)
    }

    private func makeCopy(_ inode: Inode, _ replacing: Bool, _ mayWait: Bool) throws(FileError) -> WholeCopy {
        let (content, watch, isDetached) = inode.state.withLock { ($0.content, $0.watchContent(), $0.isDetached) }
        let segments = replacing ? [] : content.segments(in: ByteRange(0, content.map.size))
        // A file with several names goes on as the others of it do. A catalog in memory does not hear of our own uploads.
        guard !isDetached, inode.linkedFile.load(ordering: .relaxed) == 0, oldPlace(of: inode) != nil,
            !view.catalog.isInMemory, segments.allSatisfy(isHere)
        else { throw .stale }
        let share = stagingBound?.countUnnamed()
        let staging = try translating { try StagingFile(withoutName: journal) }
        for segment in segments { try copy(segment, to: staging, mayWait, share) }
        if !replacing { try translating { try staging.descriptor.extend(to: content.map.size) } }
        return WholeCopy(staging: staging, content: content, watch: watch, share: share)
    }

    /// The folder and the path of the name that a file has, or had before others took it.
    private func oldPlace(of inode: Inode) -> (folder: Inode, path: ObjectKey)? {
        var path = table.path(of: inode.number)
        // A name that it has got since counts for more than the one that it has lost.
        if path == nil, let place = inode.state.withLock({ $0.supersededAt }) {
            path = table.path(of: place.folder)?.appending(place.name)
        }
        guard let path, let folder = table.inode(at: path.parent), folder.kind == .directory else { return nil }
        return (folder, path)
    }

    /// Runs what looks at the name that a file has or had, and once more after a listing when too little is known of it.
    func knowingOldName<Value>(
        of inode: Inode,
        _ body: () throws(FileError) -> Value
    ) throws(FileError) -> Value {
        guard let place = oldPlace(of: inode) else { return try body() }
        return try knowing(place.folder, place.path.name, body)
    }

    /// Whether a file's row has become a conflict copy, and nobody has looked its old name up since.
    func isMovedAside(_ inode: Inode) throws(FileError) -> Bool {
        guard inode.linkedFile.load(ordering: .relaxed) == 0 else { return false }
        return try namespace.shared { () throws(FileError) in
            guard let id = inode.state.withLock({ $0.node }), let row = try translating({ try journal.node(id) }),
                row.conflictOf != nil
            else { return false }
            return row.path != table.path(of: inode.number)
        }
    }

    private func isHere(_ segment: FileContent.Segment) -> Bool {
        switch segment.source {
        case .staging, .zeros: true
        case .unopened: false
        case .remote(let key, let version): cache.reader(of: key, version: version).isResident(segment.range)
        }
    }

    private func copy(
        _ segment: FileContent.Segment,
        to target: StagingFile,
        _ mayWait: Bool,
        _ share: StagingBound.Unnamed?
    ) throws(FileError) {
        var left = segment.range
        switch segment.source {
        case .zeros: break
        case .unopened: throw .stale
        case .staging(let file):
            try translating {
                // A file that is too short is damaged, and no hole.
                guard try file.descriptor.status().size >= left.upper else { throw FileError.writeFailed }
                while let data = try file.descriptor.firstData(in: left) {
                    let piece = data.prefix(Self.copyStep)
                    try awaitRoom(piece.count, mayWait, share)
                    try target.descriptor.copy(piece, of: file.descriptor, to: piece.lower)
                    left = ByteRange(piece.upper, left.upper)
                }
            }
        case .remote(let key, let version):
            let reader = cache.reader(of: key, version: version)
            while !left.isEmpty {
                let piece = left.prefix(Self.copyStep)
                try awaitRoom(piece.count, mayWait, share)
                try copy(piece, from: reader, to: target)
                left = ByteRange(piece.upper, left.upper)
            }
        }
    }

    private func copy(_ range: ByteRange, from reader: CacheReader, to target: StagingFile) throws(FileError) {
        let buffer = UnsafeMutableRawBufferPointer.allocate(byteCount: Int(range.count), alignment: 4096)
        defer { buffer.deallocate() }
        do throws(StoreError) {
            try reader.read(range) { $0.copy(to: buffer) }
        } catch {
            throw FileError(reading: error)
        }
        try translating { try target.descriptor.write(UnsafeRawBufferPointer(buffer), at: range.lower) }
    }

    private func awaitRoom(
        _ count: Int64,
        _ mayWait: Bool,
        _ share: StagingBound.Unnamed?
    ) throws(FileError) {
        if Interruption.isGivenUp { throw .interrupted }
        if mayWait { try stagingBound?.claim(count) }
        try reserve.claim(count, mayWait: mayWait)
        share?.add(count)
    }

    /// Begins the file that a copy goes on as: under the name of a conflict copy, or its own where nothing is any more.
    ///
    /// The namespace is locked alone; `.stale` when the file is another than was copied. Returns where it was, too.
    func beginCopy(
        _ inode: Inode,
        _ whole: WholeCopy
    ) throws(FileError) -> (node: JournalNode, oldPlace: Inode.SupersededPlace) {
        guard !whole.isOutdated, let (folder, path) = oldPlace(of: inode) else { throw .stale }
        let attributes = inode.state.withLock { $0.attributes }
        let now = Timestamp.now()
        let (isFree, met) = try others(at: path)
        for attempt in 1...Self.mostNames {
            let host = HostName.current
            let name = isFree ? path : ConflictName.path(for: path, at: now, host: host, attempt: attempt)
            if !isFree, try translating({ try view.entry(name) }) != nil { continue }
            let original = isFree ? nil : path
            do throws(JournalError) {
                let node = try beginRow(of: whole, at: name, original, attributes, met, now)
                let other = table.child(folder.number, name.name)
                if other !== inode { noteSuperseded(other, folder.number, name.name) }
                table.place(inode, folder.number, name.name)
                touchFolder(folder)
                return (node, Inode.SupersededPlace(folder: folder.number, name: path.name))
            } catch {
                guard !isFree, error.kind == .constraint else { throw .journal(error) }
            }
        }
        throw .exists
    }

    /// Begins the row of a copy; where that fails the bytes have no name any more, as the generation's is given again.
    private func beginRow(
        of whole: WholeCopy,
        at name: ObjectKey,
        _ original: ObjectKey?,
        _ attributes: FileAttributes,
        _ met: ObjectVersion?,
        _ now: Timestamp
    ) throws(JournalError) -> JournalNode {
        guard !whole.isSpent.load(ordering: .relaxed) else { throw JournalError(.full, "journal: no room for a copy") }
        var placed: GenerationID?
        do throws(JournalError) {
            return try journal.beginCopy(at: name, of: original, attributes, met: met, now: now) {
                id throws(JournalError) in
                do throws(SystemError) {
                    try journal.placeStaging(whole.staging.descriptor, as: id)
                } catch {
                    throw JournalError(system: error)
                }
                placed = id
            }
        } catch {
            if let placed {
                whole.isSpent.store(true, ordering: .relaxed)
                do throws(SystemError) {
                    try journal.removeStaging(placed)
                } catch {
                    Log.error("mount", "the file of a copy that came to nothing stays: \(error)")
                }
            }
            throw error
        }
    }

    /// Whether nothing is under a name any more, nor to be removed there, else the version that others put there, where that is
    /// known.
    private func others(at path: ObjectKey) throws(FileError) -> (isFree: Bool, version: ObjectVersion?) {
        switch try presence(path) {
        case .absent: return (try translating { try journal.node(at: path) } == nil, nil)
        case .link: return (false, nil)
        case .remote(let entry, _): return (false, entry.version)
        case .row(let node):
            guard case .version(let version) = node.base else { return (false, nil) }
            return (false, version)
        }
    }

    /// Gives up a copy to which nothing was written after all: the file is what it was.
    ///
    /// False when something else was done with it.
    func giveUpCopy(_ inode: Inode, _ node: NodeID, _ generation: GenerationID) throws(JournalError) -> Bool {
        // Nobody is to find the inode by a row that is gone.
        let place = inode.state.withLock { state in
            state.openRows.removeAll { $0 == node }
            openNodes.withLock { $0[node] = nil }
            return state.copiedFrom
        }
        var isGone = false
        defer {
            inode.state.withLock { state in
                if !isGone, state.handles > 0 { noteOpen(inode, node, &state) }
            }
        }
        if let name = inode.state.withLock({ $0.copiedTo }) {
            isGone = try journal.giveUpCopy(node, generation, at: name)
        }
        inode.state.withLock { state in
            // Otherwise it is one until it is completed: its row says nothing of its bytes yet.
            guard isGone else { return }
            state.copied = nil
            state.supersededAt = place
            guard state.content.generation == generation, case .content(let older) = state.content.below else { return }
            state.node = nil
            state.content = older
        }
        if isGone { table.removeName(of: inode) }
        return isGone
    }
}

/// A copy that is being made, for those who wait for it.
final class Separation: Sendable {
    private let end = Monitor<FileError??>(nil)
    /// Whoever makes it may wait for room.
    private let mayWait: Bool

    init(mayWait: Bool) {
        self.mayWait = mayWait
    }

    func end(_ error: FileError?) { end.update { $0 = .some(error) } }

    /// Waits for its end; throws what went wrong, unless it was only given up by who made it, or there was no room for one
    /// who waits for that otherwise.
    func awaitEnd(mayWait: Bool) throws(FileError) {
        guard let ended = end.waitUnlessInterrupted(until: { $0 }) else { throw .interrupted }
        guard let error = ended else { return }
        if case .interrupted = error { return }
        if error.isOutOfSpace, mayWait != self.mayWait { return }
        throw error
    }
}

extension ByteRange {
    /// Its beginning, `count` bytes at the most.
    fileprivate func prefix(_ count: Int64) -> ByteRange { ByteRange(lower, Swift.min(upper, lower + count)) }
}
