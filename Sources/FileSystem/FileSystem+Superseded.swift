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
    struct WholeCopy {
        let staging: StagingFile
        /// What was copied, and a watch of it.
        let content: FileContent
        let watch: Inode.ContentWatch
        /// Counts what is copied for ``StagingBound`` until it has a name.
        let share: StagingBound.Unnamed?
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
        let separation = Separation()
        let other = separating.withLock { under in
            defer { if under[inode.number] == nil { under[inode.number] = separation } }
            return under[inode.number]
        }
        if let other {
            try other.awaitEnd()
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
        // A file with several names goes on as the others of it do.
        guard !isDetached, inode.linkedFile.load(ordering: .relaxed) == 0, oldName(of: inode) != nil,
            segments.allSatisfy(isHere)
        else { throw .stale }
        let share = stagingBound?.countUnnamed()
        let staging = try translating { try StagingFile(withoutName: journal) }
        for segment in segments { try copy(segment, to: staging, mayWait, share) }
        if !replacing { try translating { try staging.descriptor.extend(to: content.map.size) } }
        return WholeCopy(staging: staging, content: content, watch: watch, share: share)
    }

    private func oldName(of inode: Inode) -> ObjectKey? {
        table.path(of: inode.number) ?? inode.state.withLock { $0.supersededAt }
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
    /// The namespace is locked alone; `.stale` when the file is another than was copied.
    func beginCopy(_ inode: Inode, _ whole: WholeCopy) throws(FileError) -> JournalNode {
        guard !whole.watch.hasChanged.load(ordering: .acquiring), let path = oldName(of: inode),
            let folder = table.inode(at: path.parent)
        else { throw .stale }
        let attributes = inode.state.withLock { $0.attributes }
        let now = Timestamp.now()
        let (isFree, met) = try others(at: path)
        for attempt in 1...Self.mostNames {
            let host = HostName.current
            let name = isFree ? path : ConflictName.path(for: path, at: now, host: host, attempt: attempt)
            if !isFree, try translating({ try view.entry(name) }) != nil { continue }
            let original = isFree ? nil : path
            do throws(JournalError) {
                let node = try journal.beginCopy(at: name, of: original, attributes, met: met, now: now) {
                    id throws(JournalError) in
                    try place(whole, as: id)
                }
                table.place(inode, folder.number, name.name)
                touchFolder(folder)
                return node
            } catch {
                guard !isFree, error.kind == .constraint else { throw .journal(error) }
            }
        }
        throw .exists
    }

    private func place(_ whole: WholeCopy, as generation: GenerationID) throws(JournalError) {
        do throws(SystemError) {
            try journal.placeStaging(whole.staging.descriptor, as: generation)
        } catch {
            throw JournalError(system: error)
        }
    }

    /// Whether nothing is under a name any more, else the version that others put there, where that is known.
    private func others(at path: ObjectKey) throws(FileError) -> (isFree: Bool, version: ObjectVersion?) {
        switch try presence(path) {
        case .absent: return (true, nil)
        case .link: return (false, nil)
        case .remote(let entry, _): return (false, entry.version)
        case .row(let node):
            guard case .version(let version) = node.base else { return (false, nil) }
            return (false, version)
        }
    }

    /// Gives up a copy to which nothing was written after all: the file is what it was.
    func giveUpCopy(_ inode: Inode, _ node: NodeID, _ generation: GenerationID) throws(JournalError) {
        let path = try journal.giveUpCopy(node, generation)
        if path != nil, let name = table.path(of: inode.number), let folder = table.inode(at: name.parent) {
            _ = table.remove(folder.number, name.name)
        }
        inode.state.withLock { state in
            guard state.content.generation == generation, case .content(let older) = state.content.below else { return }
            state.node = nil
            state.content = older
            state.copied = nil
            if let path { state.supersededAt = path }
        }
    }
}

/// A copy that is being made, for those who wait for it.
final class Separation: Sendable {
    private let end = Monitor<FileError??>(nil)

    func end(_ error: FileError?) { end.update { $0 = .some(error) } }

    /// Waits for its end; throws what went wrong, unless it was only given up by who made it.
    func awaitEnd() throws(FileError) {
        guard let ended = end.waitUnlessInterrupted(until: { $0 }) else { throw .interrupted }
        guard let error = ended else { return }
        if case .interrupted = error { return }
        throw error
    }
}

extension ByteRange {
    /// Its beginning, `count` bytes at the most.
    fileprivate func prefix(_ count: Int64) -> ByteRange { ByteRange(lower, Swift.min(upper, lower + count)) }
}
