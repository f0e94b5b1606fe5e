// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Catalog
internal import Journal
internal import Platform
internal import Synchronization

/// One name of a folder, as readdir(3) gives it.
package struct DirectoryEntry: Sendable {
    package var name: ObjectKey
    /// S_IFMT bits, 0 while unknown.
    package var type: UInt32
    /// Known attributes, when they were asked for: the kernel then knows the inode once more.
    package var status: InodeStatus?
    /// Where to go on behind this entry.
    package var next: Int
}

extension FileSystem {
    package func openDirectory(_ number: InodeNumber) throws(FileError) -> DirectoryHandle {
        DirectoryHandle(try folder(number))
    }

    /// Calls `body` with the entries from an offset until it returns false: the entry then did not fit.
    ///
    /// The names are those of the moment of the last read from offset 0; each name appears exactly once.
    package func readDirectory(
        _ handle: DirectoryHandle,
        from offset: Int,
        withStatus: Bool,
        _ body: (DirectoryEntry) -> Bool
    ) throws(FileError) {
        let snapshot = try snapshot(of: handle, rewinding: offset == 0)
        try namespace.shared { () throws(FileError) in
            // As long as nothing changed anywhere, what was read with the names still holds.
            let now = withStatus ? try moment() : nil
            let isCurrent = now == snapshot.moment
            var position = offset
            while position < snapshot.names.count + 2 {
                let entry =
                    position < 2
                    ? Self.dots(position)
                    : entry(snapshot.names[position - 2], handle.inode, position + 1, withStatus, isCurrent)
                guard body(entry) else {
                    if let status = entry.status { forget(status.number, count: 1) }
                    return
                }
                position += 1
            }
        }
    }

    private static func dots(_ position: Int) -> DirectoryEntry {
        let name = ObjectKey(position == 0 ? "." : "..")
        return DirectoryEntry(name: name, type: FileAttributes.directoryType, status: nil, next: position + 1)
    }

    private func snapshot(
        of handle: DirectoryHandle,
        rewinding: Bool
    ) throws(FileError) -> DirectoryHandle.Snapshot {
        if !rewinding, let known = handle.snapshot.withLock({ $0 }) { return known }
        let snapshot = try liveNames(in: handle.inode)
        handle.snapshot.withLock { $0 = snapshot }
        return snapshot
    }

    /// The names in a folder: those of the catalog that no row hides, and those of rows.
    private func liveNames(in folder: Inode) throws(FileError) -> DirectoryHandle.Snapshot {
        do throws(FileError) {
            try freshen(folder)
        } catch {
            throw error.isRefusalToList ? .notListed : error
        }
        return try knowing(folder) { () throws(FileError) in try knownNames(in: folder) }
    }

    private func knownNames(in folder: Inode) throws(FileError) -> DirectoryHandle.Snapshot {
        try namespace.shared { () throws(FileError) in
            let path = try path(of: folder.number)
            // Taken first: what changes while the names are read makes the moment an earlier one.
            let moment = try moment()
            let (rows, entries) = try contents(of: path)
            var names = rows.filter { !$0.isTombstone }.map { row in
                DirectoryHandle.Name(
                    name: row.path.name,
                    type: row.attributes.mode & FileAttributes.typeMask,
                    presence: .row(row)
                )
            }
            let hidden = Set(rows.map { $0.path })
            var unknown: [ObjectKey] = []
            for entry in entries where entry.kind != .absent && !hidden.contains(entry.path) {
                let name = name(entry)
                if case .remote(_, nil) = name.presence { unknown.append(name.name) }
                names.append(name)
            }
            view.expectLookups(of: unknown, in: path)
            return DirectoryHandle.Snapshot(names: names, moment: moment)
        }
    }

    private func name(_ entry: CatalogEntry) -> DirectoryHandle.Name {
        let attributes = view.attributes(of: entry)
        // An object of which only a listing is known may be a symbolic link.
        let mode = entry.kind == .directory ? FileAttributes.directoryType : attributes?.mode ?? 0
        return DirectoryHandle.Name(
            name: entry.path.name,
            type: mode & FileAttributes.typeMask,
            presence: .remote(entry, attributes)
        )
    }

    private func moment() throws(FileError) -> Moment {
        try translating { Moment(journal: try journal.changeCounter(), catalog: try view.change()) }
    }

    /// The rows in a folder and what the catalog has there; the journal is read first.
    private func contents(of path: ObjectKey) throws(FileError) -> ([JournalNode], [CatalogEntry]) {
        try translating {
            let rows = try journal.children(of: path)
            let (entries, areAll) = try view.contents(of: path)
            // What was forgotten is not gone.
            guard try areAll || isLocalOnly(path) else { throw FileError.unknown }
            return (rows, entries)
        }
    }

    /// Whether anything is in a folder, as far as is known; `freshen` comes first.
    func hasLiveChildren(_ path: ObjectKey) throws(FileError) -> Bool {
        let (rows, entries) = try contents(of: path)
        if rows.contains(where: { !$0.isTombstone }) { return true }
        let hidden = Set(rows.map { $0.path })
        return entries.contains { $0.kind != .absent && !hidden.contains($0.path) }
    }

    /// The entry of a name, with its inode when it is known locally: a listing must not wait for a request a name.
    private func entry(
        _ name: DirectoryHandle.Name,
        _ folder: Inode,
        _ next: Int,
        _ withStatus: Bool,
        _ isCurrent: Bool
    ) -> DirectoryEntry {
        var entry = DirectoryEntry(name: name.name, type: name.type, status: nil, next: next)
        guard withStatus, let path = table.path(of: folder.number)?.appending(name.name) else { return entry }
        guard let presence = isCurrent ? name.presence : try? presence(path) else { return entry }
        guard let inode = present(presence, folder.number, name.name, path), table.retain(inode) else { return entry }
        entry.status = status(of: inode)
        return entry
    }
}

/// A state of the journal and the catalog, to be compared with another.
struct Moment: Equatable, Sendable {
    let journal: Int64
    let catalog: CatalogChange
}
