// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CShims
internal import Database
internal import Glibc
internal import Journal
internal import Platform

/// Changing a file that the remote has replaced since it was opened.
extension FileSystem {
    /// The most local bytes that a change of such a file takes along, as they are copied before it begins.
    private static let mostToKeep: Int64 = 256 << 20

    /// A change of a version that the remote has replaced since it was opened: its row keeps the old version as its
    /// base, so the upload will find the conflict and keep both.
    func beginConflict(_ inode: Inode, _ old: Inode.State) throws(FileError) -> JournalNode {
        guard let path = table.path(of: inode.number) ?? old.supersededAt else { throw .stale }
        guard let version = try versionToReplace(inode, old) else { throw .stale }
        // Something else was made here since: there is no name for this content.
        if try translating({ try journal.node(at: path) }) != nil { throw .stale }
        let local = localBytes(of: inode.state.withLock { $0.content })
        guard local <= Self.mostToKeep else { throw .stale }
        try reserve.claim(local)
        let remote = RemoteState.file(version, old.attributes)
        let node = try translating { try journal.beginWriting(at: path, remote: remote) }
        if old.supersededAt != nil, let parent = table.inode(at: path.parent) {
            table.place(inode, parent.number, path.name)
            inode.state.withLock { $0.supersededAt = nil }
        }
        return node
    }

    /// The remote version that a file without a row shows, nil when that is not known: what an upload made of its own
    /// content, too, where nobody has looked at the name since it had got there.
    private func versionToReplace(_ inode: Inode, _ old: Inode.State) throws(FileError) -> ObjectVersion? {
        guard let own = old.content.generation else { return old.content.wholeRemote?.version }
        guard let arrival = try translating({ try journal.arrival(of: own) }) else { return nil }
        inode.state.withLock { state in
            guard state.content.generation == own else { return }
            state.content.generation = nil
            state.content.uploaded = UploadedVersion(key: arrival.key, version: arrival.version)
        }
        return arrival.version
    }

    private func localBytes(of content: FileContent) -> Int64 {
        guard content.uploaded != nil else { return 0 }
        return localParts(of: content).reduce(0) { $0 + $1.range.count }
    }

    private func localParts(of content: FileContent) -> [(range: ByteRange, file: StagingFile)] {
        content.segments(in: ByteRange(0, content.map.size)).compactMap { segment in
            guard case .staging(let file) = segment.source else { return nil }
            return (segment.range, file)
        }
    }

    /// Puts what this mount still has of the replaced version under the change: the remote has it no more, and the cache may
    /// not have it either.
    func keepLocalBytes(of inode: Inode) throws(FileError) {
        let content = inode.state.withLock { $0.content }
        guard let staging = content.staging, case .content(let old) = content.below else { return }
        staging.checksums.begin()
        for part in localParts(of: old) {
            let range = part.range.intersection(ByteRange(0, content.map.underlayLength))
            guard let range, !range.isEmpty else { continue }
            do throws(SystemError) {
                try copy(range, from: part.file, to: staging)
            } catch {
                throw .system(error)
            }
            inode.state.withLock { state in
                staging.checksums.forget(range)
                state.content.map.write(range)
                state.revision += 1
            }
        }
    }

    private func copy(_ range: ByteRange, from source: StagingFile, to target: StagingFile) throws(SystemError) {
        var (position, place) = (range.lower, range.lower)
        while position < range.upper {
            let wanted = Int(range.upper - position)
            let count = withExtendedLifetime((source, target)) {
                moorage_copy_file_range(source.descriptor.raw, &position, target.descriptor.raw, &place, wanted, 0)
            }
            if count > 0 || (count < 0 && errno == EINTR) { continue }
            throw count < 0 ? SystemError.last("copy_file_range") : SystemError.make(EIO, "copy_file_range")
        }
    }
}
