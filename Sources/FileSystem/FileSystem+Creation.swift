// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Catalog
internal import Database
internal import Glibc
internal import Journal
internal import Platform

/// Making files, folders, links and special files.
extension FileSystem {
    /// Makes and opens a file, or opens the one that is there.
    package func create(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        mode: UInt32,
        open: OpenMode,
        caller: Caller
    ) throws(FileError) -> (InodeStatus, FileHandle) {
        do throws(FileError) {
            let inode = try makeFile(parent, name, mode, caller)
            // Nobody will close it who could have written to it.
            if !open.isWritable { try recordContent(of: inode, sealing: true) }
            let handle = addHandle(inode, open)
            return (status(of: inode), handle)
        } catch {
            guard case .exists = error, !open.isExclusive else { throw error }
        }
        let status = try lookup(parent, name)
        do throws(FileError) {
            return (status, try self.open(status.number, open))
        } catch {
            forget(status.number, count: 1)
            throw error
        }
    }

    /// Makes an empty file without opening it (mknod(2)).
    package func makeFile(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        mode: UInt32,
        caller: Caller
    ) throws(FileError) -> InodeStatus {
        let inode = try makeFile(parent, name, mode, caller)
        try recordContent(of: inode, sealing: true)
        return status(of: inode)
    }

    private func makeFile(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        _ mode: UInt32,
        _ caller: Caller
    ) throws(FileError) -> Inode {
        let attributes = try attributes(in: parent, FileAttributes.regularType, mode, caller)
        return try make(parent, name, .file, attributes) { path, knowledge, isVacant in
            guard isVacant else {
                return try journal.createFile(
                    at: path,
                    attributes: attributes,
                    remote: try view.state(of: path, as: knowledge)
                )
            }
            let node = try journal.createFileLater(at: path, attributes: attributes)
            newFiles.noteNew()
            return node
        }
    }

    /// Makes a FIFO, a socket or a device (mknod(2)): a name with attributes, which `mode` with its type is part of.
    package func makeSpecialFile(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        mode: UInt32,
        device: UInt32,
        caller: Caller
    ) throws(FileError) -> InodeStatus {
        var attributes = try attributes(in: parent, mode & FileAttributes.typeMask, mode, caller)
        guard attributes.isSpecial else { throw .invalidArgument }
        if attributes.isDevice { attributes.device = device }
        let inode = try make(parent, name, .special, attributes) { path, knowledge, _ in
            try journal.createFile(
                at: path,
                attributes: attributes,
                isComplete: true,
                remote: try view.state(of: path, as: knowledge)
            )
        }
        onChange()
        return status(of: inode)
    }

    package func makeDirectory(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        mode: UInt32,
        caller: Caller
    ) throws(FileError) -> InodeStatus {
        let attributes = try attributes(in: parent, FileAttributes.directoryType, mode, caller)
        let inode = try make(parent, name, .directory, attributes) { path, knowledge, _ in
            try journal.createDirectory(
                at: path,
                attributes: attributes,
                remote: try view.state(of: path, as: knowledge)
            )
        }
        onChange()
        return statusWithSubfolders(of: inode)
    }

    package func makeSymbolicLink(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        target: ObjectKey,
        caller: Caller
    ) throws(FileError) -> InodeStatus {
        if target.bytes.isEmpty { throw .noEntry }
        if target.bytes.count > 4095 { throw .nameTooLong }
        var attributes = try attributes(in: parent, FileAttributes.symbolicLinkType, 0, caller)
        attributes.mode |= 0o777
        let inode = try make(parent, name, .symbolicLink, attributes) { path, knowledge, _ in
            try journal.createSymbolicLink(
                at: path,
                target: target,
                attributes: attributes,
                remote: try view.state(of: path, as: knowledge)
            )
        }
        onChange()
        return status(of: inode)
    }

    /// The attributes of something that a process makes in a folder: one with the set-group-ID bit gives its group to
    /// all that is made in it, and the bit to folders (inode(7)).
    private func attributes(
        in parent: InodeNumber,
        _ type: UInt32,
        _ mode: UInt32,
        _ caller: Caller
    ) throws(FileError) -> FileAttributes {
        var attributes = caller.attributes(type: type, mode: mode, now: .now())
        let above = try folder(parent).state.withLock { $0.attributes }
        guard above.mode & UInt32(S_ISGID) != 0 else { return attributes }
        attributes.gid = above.gid
        if attributes.isDirectory { attributes.mode |= UInt32(S_ISGID) }
        return attributes
    }

    /// Makes the row and the inode of something new; the kernel knows the inode once afterwards.
    ///
    /// `insert` also gets whether neither the journal nor the remote has anything at the path.
    private func make(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        _ kind: Inode.Kind,
        _ attributes: FileAttributes,
        _ insert: (ObjectKey, Knowledge, Bool) throws -> JournalNode
    ) throws(FileError) -> Inode {
        try ensureWritable()
        let folder = try folder(parent)
        // What is overwritten unseen would be a conflict later: know the folder first.
        try freshen(folder)
        return try withRoom { () throws(FileError) in
            try knowing([parent]) { knowledge throws(FileError) in
                try namespace.alone { () throws(FileError) in
                    let path = try checkedNew(name, in: self.path(of: parent), isFolder: kind == .directory)
                    var isBuried = false
                    if !isVacant(path) {
                        guard case .absent = try presence(path, &isBuried) else { throw .exists }
                    }
                    let node = try insertRow {
                        try view.confirm(knowledge)
                        return try insert(path, knowledge, !isBuried && !view.catalog.isInMemory)
                    }
                    return add(node, folder, name, kind, attributes)
                }
            }
        }
    }

    private func insertRow(_ insert: () throws -> JournalNode) throws(FileError) -> JournalNode {
        do throws(FileError) {
            return try translating(insert)
        } catch {
            // Listed just now: it is opened instead where that was asked for.
            if case .journal(let cause) = error, cause.kind == .constraint { throw .exists }
            throw error
        }
    }

    /// The inode of a new row; the namespace is locked.
    private func add(
        _ node: JournalNode,
        _ folder: Inode,
        _ name: ObjectKey,
        _ kind: Inode.Kind,
        _ attributes: FileAttributes
    ) -> Inode {
        if node.isLocalOnly { view.noteNew(node.path, isParentLocal: folder.state.withLock { $0.isLocalOnly }) }
        let inode = table.make(kind, attributes)
        let known = table.child(folder.number, name)
        noteSuperseded(known, folder.number, name)
        _ = table.insert(inode, folder.number, name, replacing: known)
        _ = table.retain(inode)
        inode.state.withLock { state in
            state.node = node.id
            state.target = node.target
            state.isLocalOnly = node.isLocalOnly
            guard let generation = node.generation else { return }
            state.content = FileContent(generation: generation.id, map: generation.content)
            guard node.isOpen else { return }
            state.isWritable = true
            // Not sealed: the close that follows has something to record even if nothing is written.
            state.revision = 1
        }
        if kind == .directory { folder.noteSubfolders(1) }
        touchFolder(folder)
        return inode
    }

    /// Notes a change of names in a folder; the time is not stored, as it would cost a request a change.
    func touchFolder(_ folder: Inode) {
        folder.state.withLock { state in
            state.keepAccessTime()
            state.times.noteNames(at: .now())
        }
    }
}
