// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Catalog
internal import Journal
internal import Platform

/// One name of a folder, as readdir(3) gives it.
package struct DirectoryEntry: Sendable {
    package var name: ObjectKey
    /// S_IFMT bits, 0 while unknown.
    package var type: UInt32
    /// Known attributes, when they were asked for: the kernel then knows the inode once more.
    package var status: InodeStatus?
    /// The inode, where the kernel was told of it before.
    package var number: InodeNumber?
    /// Where to go on behind this entry.
    package var next: Int
}

extension FileSystem {
    package func openDirectory(_ number: InodeNumber) throws(FileError) -> DirectoryHandle {
        let folder = try folder(number)
        folder.state.withLock { $0.noteRead() }
        return DirectoryHandle(folder)
    }

    /// Calls `body` with the entries from an offset until it returns false: the entry then did not fit.
    ///
    /// The names are those since the last read from offset 0; each name appears exactly once. Names come while the
    /// folder is still being listed: a read ends early where the next one would have to wait.
    package func readDirectory(
        _ handle: DirectoryHandle,
        from offset: Int,
        withStatus: Bool,
        _ body: (DirectoryEntry) -> Bool
    ) throws(FileError) {
        let stream = try stream(of: handle, rewinding: offset == 0)
        var position = offset
        while position < 2 {
            guard body(Self.dots(position)) else { return }
            position += 1
        }
        let start = position
        while true {
            let begun = journal.begunTransactions
            // A name that is gone meanwhile is given no more.
            let looks = withStatus ? true : try ground() != stream.ground
            guard let ground = try prepare(stream, position - 2, handle.inode, looks) else { return }
            let hasRoom = namespace.shared {
                give(stream, from: &position, handle.inode, looks ? (ground, begun) : nil, withStatus, body)
            }
            if !hasRoom || (position > start && stream.mayHaveToWait(position - 2)) { return }
        }
    }

    private static func dots(_ position: Int) -> DirectoryEntry {
        let name = ObjectKey(position == 0 ? "." : "..")
        return DirectoryEntry(name: name, type: FileAttributes.directoryType, status: nil, next: position + 1)
    }

    /// How many names are taken from a stream at once.
    private static let batch = 64

    /// Gives entries, on a ground those that are there still, while that is at hand; false when one did not fit.
    ///
    /// The ground comes with how many transactions had begun before it was looked at. `withStatus`: with what the kernel may know
    /// of them.
    private func give(
        _ stream: DirectoryStream,
        from position: inout Int,
        _ folder: Inode,
        _ ground: (listing: ListingGround, begun: Int)?,
        _ withStatus: Bool,
        _ body: (DirectoryEntry) -> Bool
    ) -> Bool {
        let path = table.path(of: folder.number)
        let links = path.flatMap { try? journal.linkedNames(in: $0) } ?? []
        while true {
            let items = stream.items(from: position - 2, count: Self.batch, on: ground?.listing)
            if items.isEmpty { return true }
            for (name, type, presence) in items {
                var entry = DirectoryEntry(name: name, type: type, status: nil, next: position + 1)
                if let ground, let path {
                    guard let presence else { return true }
                    if isGone(presence, path.appending(name)) {
                        position += 1
                        continue
                    }
                    if withStatus {
                        entry.status =
                            links.contains(name)
                            ? status(ofLinked: name, folder.number, path.appending(name))
                            : status(of: presence, folder.number, name, path.appending(name), ground.begun)
                    }
                }
                entry.number = entry.status?.number ?? table.child(folder.number, name)?.number
                guard body(entry) else {
                    if let status = entry.status { forget(status.number, count: 1) }
                    return false
                }
                position += 1
            }
        }
    }

    /// Whether nothing is under a name for sure: what could not be looked at counts as there.
    private func isGone(_ presence: Presence, _ path: ObjectKey) -> Bool {
        guard case .absent = presence, case .absent? = try? self.presence(path) else { return false }
        return true
    }

    /// What the kernel may know of a name, which it then knows once more; nil where a request would be needed first: a
    /// listing must not wait for one a name.
    private func status(
        of presence: Presence,
        _ folder: InodeNumber,
        _ name: ObjectKey,
        _ path: ObjectKey,
        _ begun: Int
    ) -> InodeStatus? {
        var (presence, seen) = (presence, begun)
        // What was looked at before somebody changed attributes here is not to take these back.
        let now = journal.begunTransactions
        if now != begun { (presence, seen) = ((try? self.presence(path)) ?? .absent, now) }
        if case .remote(let entry, let attributes?) = presence {
            if let known = table.child(folder, name) {
                if known.kind == attributes.inodeKind, known.follows(entry, attributes, path),
                    journal.begunTransactions == seen
                {
                    return table.retain(known) ? status(of: known, at: path) : nil
                }
                // Of two observations this may be the older one.
                presence = (try? self.presence(path)) ?? .absent
            } else if let status = statusOfNew(entry, attributes, folder, name, path, begun) {
                return status
            }
        }
        guard let inode = present(presence, folder, name, path), table.retain(inode) else { return nil }
        return status(of: inode, at: path)
    }

    /// The same for a name of a file with several; of one that is not the first only where its inode is known by it.
    private func status(
        ofLinked name: ObjectKey,
        _ folder: InodeNumber,
        _ path: ObjectKey
    ) -> InodeStatus? {
        if let first = (try? firstName(of: path)) ?? nil {
            guard let known = table.child(folder, name), table.path(of: known.number) == first, table.retain(known)
            else { return nil }
            return status(of: known, at: path)
        }
        guard let presence = try? self.presence(path), let inode = present(presence, folder, name, path) else {
            return nil
        }
        guard (try? noteLinks(inode, at: path)) != nil, table.retain(inode) else { return nil }
        return status(of: inode, at: path)
    }

    private func status(of inode: Inode, at path: ObjectKey) -> InodeStatus {
        var status = status(of: inode)
        status.subfolders = rememberedSubfolders(of: inode, at: path)
        return status
    }

    /// What the kernel is told of a name that it does not know; nil where somebody may have changed the name since it
    /// was looked at.
    ///
    /// The journal need not be asked once more for each of many thousand names: no transaction has begun since.
    private func statusOfNew(
        _ entry: CatalogEntry,
        _ attributes: FileAttributes,
        _ folder: InodeNumber,
        _ name: ObjectKey,
        _ path: ObjectKey,
        _ begun: Int
    ) -> InodeStatus? {
        guard journal.begunTransactions == begun else { return nil }
        let inode = table.make(attributes.inodeKind, attributes)
        inode.show(entry, attributes, path)
        guard table.insert(inode, folder, name, replacing: nil, lookups: 1) else { return nil }
        return status(of: inode)
    }

    /// Whether anything is in a folder, as far as is known; `freshen` comes first.
    func hasLiveChildren(_ path: ObjectKey) throws(FileError) -> Bool {
        let rows = try translating { try journal.children(of: path) }
        if rows.contains(where: { !$0.isTombstone }) { return true }
        // Of so many names one at least is not among those that the rows hide.
        let (entries, areAll) = try translating { try view.contents(of: path, after: nil, limit: rows.count + 1) }
        // What was forgotten is not gone.
        guard try translating({ try areAll || isLocalOnly(path) }) else { throw .unknown }
        let own = Set(rows.map { $0.path })
        if entries.contains(where: { !own.contains($0.path) }) { return true }
        // An object that is not shown keeps the folder at the remote.
        return try translating { try view.hasHiddenObjects(path) }
    }
}
