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
        var position = offset
        let names = try names(of: handle, rewinding: offset == 0)
        while position < names.count + 2 {
            if position < 2 {
                let name = ObjectKey(position == 0 ? "." : "..")
                let dots = DirectoryEntry(
                    name: name,
                    type: FileAttributes.directoryType,
                    status: nil,
                    next: position + 1
                )
                guard body(dots) else { return }
            } else {
                let entry = entry(names[position - 2], in: handle.inode, next: position + 1, withStatus: withStatus)
                guard body(entry) else {
                    if let status = entry.status { forget(status.number, count: 1) }
                    return
                }
            }
            position += 1
        }
    }

    private func names(of handle: DirectoryHandle, rewinding: Bool) throws(FileError) -> [DirectoryHandle.Name] {
        if !rewinding, let names = handle.names.withLock({ $0 }) { return names }
        let names = try liveNames(in: handle.inode)
        handle.names.withLock { $0 = names }
        return names
    }

    /// The names in a folder: those of the catalog that no row hides, and those of rows.
    func liveNames(in folder: Inode) throws(FileError) -> [DirectoryHandle.Name] {
        try freshen(folder)
        return try namespace.shared { () throws(FileError) in
            let path = try path(of: folder.number)
            let (rows, entries) = try contents(of: path)
            var names: [DirectoryHandle.Name] = []
            let hidden = Set(rows.map { $0.path.name })
            for row in rows where !row.isTombstone {
                names.append(
                    DirectoryHandle.Name(name: row.path.name, type: row.attributes.mode & FileAttributes.typeMask)
                )
            }
            var unknown: [ObjectKey] = []
            for entry in entries where entry.kind != .absent && !hidden.contains(entry.path.name) {
                let attributes = view.attributes(of: entry)
                if attributes == nil { unknown.append(entry.path.name) }
                let isFolder = entry.kind == .directory
                // An object of which only a listing is known may be a symbolic link.
                let mode = isFolder ? FileAttributes.directoryType : attributes?.mode ?? 0
                names.append(DirectoryHandle.Name(name: entry.path.name, type: mode & FileAttributes.typeMask))
            }
            view.expectLookups(of: unknown, in: path)
            return names
        }
    }

    /// The rows in a folder and what the catalog has there; the journal is read first.
    private func contents(of path: ObjectKey) throws(FileError) -> ([JournalNode], [CatalogEntry]) {
        try translating {
            let rows = try journal.children(of: path)
            return (rows, try view.children(of: path))
        }
    }

    /// Whether anything is in a folder, as far as is known; `freshen` comes first.
    func hasLiveChildren(_ path: ObjectKey) throws(FileError) -> Bool {
        let (rows, entries) = try contents(of: path)
        if rows.contains(where: { !$0.isTombstone }) { return true }
        let hidden = Set(rows.map { $0.path })
        return entries.contains { $0.kind != .absent && !hidden.contains($0.path) }
    }

    private func entry(
        _ name: DirectoryHandle.Name,
        in folder: Inode,
        next: Int,
        withStatus: Bool
    ) -> DirectoryEntry {
        var entry = DirectoryEntry(name: name.name, type: name.type, status: nil, next: next)
        guard withStatus else { return entry }
        // Only what is known locally: a listing must not wait for a request a name.
        entry.status = namespace.shared { () -> InodeStatus? in
            guard let path = table.path(of: folder.number)?.appending(name.name) else { return nil }
            guard let presence = try? presence(path) else { return nil }
            guard let inode = present(presence, folder.number, name.name, path) else { return nil }
            table.retain(inode.number)
            return status(of: inode)
        }
        return entry
    }
}
