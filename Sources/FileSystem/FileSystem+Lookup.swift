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
        for _ in 0..<4 {
            let inode = try knowing(folder, name) { () throws(FileError) in try known(parent, name) }
            if let inode { return inode }
            try view.describe(path)
        }
        throw .stale
    }

    /// The inode under a name; nil when a HEAD is needed first.
    private func known(_ parent: InodeNumber, _ name: ObjectKey) throws(FileError) -> Inode? {
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
            return present(presence, parent, name, path)
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
            let (target, content) = inode.state.withLock { ($0.target, $0.content) }
            if let target { return target }
            do throws(FileError) {
                guard let (key, version) = content.wholeRemote, version.size <= 4095 else { throw .stale }
                let text = try linkText(key, version)
                inode.state.withLock { $0.target = text }
                return text
            } catch {
                guard case .stale = error, try reload(inode) else { throw error }
            }
        }
        throw .stale
    }

    /// A link's text is its object's content, as s3fs and rclone keep it.
    private func linkText(_ key: ObjectKey, _ version: ObjectVersion) throws(FileError) -> ObjectKey {
        var text: [UInt8] = []
        do throws(StoreError) {
            text = try cache.reader(of: key, version: version).bytes(ByteRange(0, version.size))
        } catch {
            throw FileError(reading: error)
        }
        if text.contains(0) { throw .stale }
        return ObjectKey(bytes: text)
    }

    package func statistics() -> FileSystemStatistics {
        view.statistics(directory: journal.directory)
    }
}
