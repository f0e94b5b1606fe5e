// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import BlockCache
internal import Catalog
internal import Journal
internal import ObjectStore
internal import Platform

/// Names to inodes.
extension FileSystem {
    /// Finds a name in a folder; the kernel knows the inode once more afterwards.
    package func lookup(_ parent: InodeNumber, _ name: ObjectKey) throws(FileError) -> InodeStatus {
        // Between being found and being counted it may be forgotten, which takes it out of the table.
        for _ in 0..<16 {
            let inode = try find(parent, name)
            if table.retain(inode) { return statusWithSubfolders(of: inode) }
        }
        throw .stale
    }

    package func forget(_ number: InodeNumber, count: UInt64) {
        table.forget(number, count: count)
    }

    /// The inode under a name, asking the remote where that is needed.
    func find(_ parent: InodeNumber, _ name: ObjectKey) throws(FileError) -> Inode {
        if name.bytes.count > 255 { throw .nameTooLong }
        let folder = try folder(parent)
        let path = try path(of: parent).appending(name)
        // A name with a row needs no listing of its folder.
        if try !isFresh(folder) {
            let row = try translating { try journal.node(at: path) }
            if row == nil { try freshen(name, in: folder) }
        }
        // A HEAD may find a version newer than the listing's, which may change again: not for ever.
        for attempt in 0..<4 {
            if let first = try translating({ try firstName(of: path) }) {
                if let inode = try findLinked(first, parent, name) { return inode }
                continue
            }
            let isFirst = attempt == 0
            let inode = try knowing(folder, name) { () throws(FileError) in
                try known(parent, name, validated: isFirst)
            }
            if let inode { return inode }
            try isFirst ? view.validate(path) : view.describe(path)
        }
        throw .stale
    }

    /// The inode under a name; nil when a HEAD is needed first, which with `validated` it also is for attributes that
    /// may have changed.
    private func known(
        _ parent: InodeNumber,
        _ name: ObjectKey,
        validated: Bool
    ) throws(FileError) -> Inode? {
        try namespace.shared { () throws(FileError) -> Inode? in
            let path = try self.path(of: parent).appending(name)
            // Taken before the look: what changes during it is not known.
            let circumstances = vacancy(of: path)
            var isBuried = false
            let presence = try presence(path, &isBuried)
            if case .absent = presence {
                if !isBuried { vacancy.withLock { $0 = circumstances } }
                throw .noEntry
            }
            if validated, case .remote(let entry, _) = presence, entry.needsValidation { return nil }
            let inode = present(presence, parent, name, path)
            if let inode { try noteLinks(inode, at: path) }
            return inode
        }
    }

    /// What stat(2) tells.
    package func status(_ number: InodeNumber) throws(FileError) -> InodeStatus {
        statusWithSubfolders(of: try inode(number))
    }

    /// The text of a symbolic link.
    package func readLink(_ number: InodeNumber) throws(FileError) -> ObjectKey {
        let inode = try inode(number)
        guard inode.kind == .symbolicLink else { throw .invalidArgument }
        // Its object may move on while it is read, to the name that the link was given meanwhile: not for ever.
        for _ in 0..<4 {
            if let target = inode.state.withLock({ $0.target }) { return target }
            do throws(FileError) {
                let text = try linkText(inode)
                inode.state.withLock { $0.target = text }
            } catch {
                guard case .stale = error else { throw error }
            }
        }
        throw .stale
    }

    /// A link's text is its content, as s3fs and rclone keep it: at the remote, or here where its object was to go.
    private func linkText(_ inode: Inode) throws(FileError) -> ObjectKey {
        let handle = addHandle(inode, OpenMode(isReadable: true, isWritable: false))
        defer { release(handle) }
        try load(inode)
        let size = inode.state.withLock { $0.content.map.size }
        guard size <= 4095 else { throw .stale }
        var text: [UInt8] = []
        try read(handle, ByteRange(0, size)) { text = $0.copied() }
        guard text.count == size, !text.contains(0) else { throw .stale }
        return ObjectKey(bytes: text)
    }

    package func statistics() -> FileSystemStatistics {
        view.statistics(directory: journal.directory)
    }
}

extension ReadBytes {
    /// The bytes themselves, fewer when the file ends before.
    fileprivate func copied() -> [UInt8] {
        switch self {
        case .memory(let bytes): Array(bytes)
        case .pieces(let pieces): pieces.flatMap { Array($0) }
        case .file(let descriptor, let range):
            [UInt8](unsafeUninitializedCapacity: Int(range.count)) { buffer, count in
                count = (try? readAll(descriptor, into: UnsafeMutableRawBufferPointer(buffer), at: range.lower)) ?? 0
            }
        }
    }
}
