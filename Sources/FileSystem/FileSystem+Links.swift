// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Catalog
internal import Database
internal import Journal
internal import Platform
internal import Synchronization

/// Files with several names: hard links.
///
/// Such a file has one inode, whose path in the table is its first name; what is done with it is done there.
extension FileSystem {
    /// Gives a file one more name (link(2)); the kernel knows the inode once more afterwards.
    package func link(_ number: InodeNumber, _ parent: InodeNumber, _ name: ObjectKey) throws(FileError) -> InodeStatus
    {
        try ensureWritable()
        let inode = try inode(number)
        guard inode.kind != .directory else { throw .notPermitted }
        let folder = try folder(parent)
        try freshen(folder)
        try learnAttributes(of: inode)
        let above = table.path(of: number).flatMap { table.inode(at: $0.parent)?.number }.map { [$0] } ?? []
        try withRoom { () throws(FileError) in
            try knowing([parent] + above, and: table.path(of: number)) { knowledge throws(FileError) in
                try namespace.alone { () throws(FileError) in try link(inode, folder, name, knowledge) }
            }
        }
        onChange()
        return status(of: inode)
    }

    private func link(
        _ inode: Inode,
        _ folder: Inode,
        _ name: ObjectKey,
        _ knowledge: Knowledge
    ) throws(FileError) {
        let path = try checkedNew(name, in: self.path(of: folder.number), isFolder: false)
        guard case .absent = try presence(path) else { throw .exists }
        let first = try self.path(of: inode.number)
        guard try follow(inode, at: first) else { throw .stale }
        guard try translating({ try journal.linkCount(at: first) }) < LinkedName.limit else { throw .tooManyLinks }
        let attributes = inode.state.withLock { $0.attributes }
        try translating {
            _ = try journal.link(
                first,
                to: path,
                attributes: attributes,
                sourceRemote: try view.state(of: first, as: knowledge),
                targetRemote: try view.state(of: path, as: knowledge)
            )
        }
        try noteLinks(inode, at: path)
        guard table.addName(inode, folder.number, name), table.retain(inode) else { throw .stale }
        inode.state.withLock { $0.noteStatusChange() }
        touchFolder(folder)
    }

    /// The first name of the file that a path is another name of; nil where it is none.
    ///
    /// It is none any more where the remote has something of others there, or they took it away.
    func firstName(of path: ObjectKey) throws -> ObjectKey? {
        guard let (link, first, row) = try journal.linked(at: path) else { return nil }
        if row != nil || view.catalog.isInMemory { return first }
        let (entry, isMissing) = try view.look(at: path)
        if let entry, entry.isOf(link) { return first }
        if entry == nil, !isMissing || link.base == .absent { return first }
        // Its copy may have come to be there since the row was looked at.
        if let now = try journal.linked(at: path), now.link != link || now.row != nil { return now.first }
        if !options.isReadOnly { try journal.separate(link) }
        return nil
    }

    /// Notes what others have made of a file with several names at its first one, which has no row; without an entry
    /// nothing is there any more.
    func followFirstName(at path: ObjectKey, _ entry: CatalogEntry?) throws {
        guard !options.isReadOnly, !view.catalog.isInMemory, let link = try journal.linkedName(at: path), link.isFirst,
            try journal.linkCount(at: path) > 1, entry?.isOf(link) != true,
            // Of two looks at what changes the first may be the older one.
            try view.entry(path)?.version == entry?.version
        else { return }
        let known = entry.flatMap { view.attributes(of: $0) }
        let attributes = known ?? FileAttributes(mode: 0, uid: 0, gid: 0, modified: .now())
        let version = entry?.kind == .file ? entry?.version : nil
        try journal.noteForeign(version, atFirst: path, attributes: attributes)
    }

    /// Has the inode of a file with several names stand for the first one that it has now: the flusher, or what others did,
    /// may have made that another one since.
    ///
    /// What is written next is not to go to a name that it had before, so a journal that cannot be read is an error.
    func followNames(of inode: Inode) throws(FileError) {
        let file = inode.linkedFile.load(ordering: .relaxed)
        guard file != 0 else { return }
        let old = table.path(of: inode.number)
        // Where that is not known now, whoever uses the name says why.
        if let old, try translating({ try journal.firstName(ofFile: file) }) == old { _ = try? presence(old) }
        guard let first = try translating({ try journal.firstName(ofFile: file) }), old != first,
            let folder = table.inode(at: first.parent)
        else { return }
        // Something else may have been made by the first name that it had; it is still found by the one that it has.
        guard old != nil || table.child(folder.number, first.name) === inode else { return }
        let link = try translating { try journal.linkedName(at: first) }
        table.place(inode, folder.number, first.name)
        try show(inode, at: first, link)
    }

    /// Whether another inode has taken over the names of a file by which the kernel may still know this one: it was looked up by
    /// one of them, and not taken for the same, as when the cache is gone.
    func hasLostNames(_ inode: Inode) -> Bool {
        guard inode.linkedFile.load(ordering: .relaxed) != 0, table.path(of: inode.number) == nil else { return false }
        return inode.state.withLock { !$0.isDetached && $0.handles == 0 }
    }

    /// Has a file's inode show what is by the name that has become the first one.
    private func show(_ inode: Inode, at path: ObjectKey, _ link: LinkedName?) throws(FileError) {
        if let node = try translating({ try journal.node(at: path) }) {
            _ = try adoptUpload(inode, node)
            inode.wasMoved(node, to: path)
        } else if case .version(let version)? = link?.base {
            inode.showCopy(at: path, version)
        }
    }

    /// The inode of a file by one more name of it; nil when the names have changed meanwhile.
    func findLinked(_ first: ObjectKey, _ parent: InodeNumber, _ name: ObjectKey) throws(FileError) -> Inode? {
        let inode: Inode
        do throws(FileError) {
            inode = try find(at: first)
        } catch {
            // Others may have taken away the first name just now: then another one is it.
            let path = try path(of: parent).appending(name)
            guard case .noEntry = error, try translating({ try firstName(of: path) }) != first else { throw error }
            return nil
        }
        return try namespace.shared { () throws(FileError) -> Inode? in
            let path = try path(of: parent).appending(name)
            guard try translating({ try firstName(of: path) }) == first, table.inode(at: first) === inode,
                table.addName(inode, parent, name)
            else { return nil }
            try noteLinks(inode, at: path)
            return inode
        }
    }

    /// The inode at a path, asking the remote where that is needed.
    private func find(at path: ObjectKey) throws(FileError) -> Inode {
        var inode = try inode(InodeTable.rootNumber)
        for part in path.bytes.split(separator: UInt8(ascii: "/")) {
            inode = try find(inode.number, ObjectKey(bytes: Array(part)))
        }
        return inode
    }

    /// Notes that a file has several names, where it has.
    func noteLinks(_ inode: Inode, at path: ObjectKey) throws(FileError) {
        guard journal.hasLinks, inode.kind != .directory, inode.linkedFile.load(ordering: .relaxed) == 0,
            let link = try translating({ try journal.linkedName(at: path) })
        else { return }
        inode.linkedFile.store(link.file, ordering: .relaxed)
    }

    /// How many names a file has, as stat(2) tells.
    func linkCount(of inode: Inode) -> Int {
        guard inode.linkedFile.load(ordering: .relaxed) != 0, let path = table.path(of: inode.number) else { return 1 }
        return (try? journal.linkCount(at: path)) ?? 1
    }
}

/// What a file goes on by when its first name goes.
struct Heir: Hashable {
    let path: ObjectKey
    /// nil where that is not known here, and the remote does not tell.
    let folder: InodeNumber?
}

extension FileSystem {
    /// How often to look who is the heir when others change that at the same moment.
    static let looksAtHeir = 16

    /// The name that the file with the first name `path` goes on by without it; nil where it has no other.
    func heir(of path: ObjectKey) throws(FileError) -> Heir? {
        for _ in 0..<LinkedName.limit {
            guard let heir = try translating({ try journal.heir(of: path) }) else { return nil }
            do throws(FileError) {
                return Heir(path: heir, folder: try find(at: heir.parent).number)
            } catch {
                switch error {
                case .unreachable: return Heir(path: heir, folder: nil)
                // Others took its folder away: the name is gone with that, unless it is still to be sent.
                case .noEntry, .notDirectory:
                    if try translating({ try firstName(of: heir) }) == path { return Heir(path: heir, folder: nil) }
                default: throw error
                }
            }
        }
        throw .stale
    }

    /// Whether what was found out before the names were locked still holds.
    func isHeir(_ heir: Heir?, of path: ObjectKey) throws(FileError) -> Bool {
        guard try translating({ try journal.heir(of: path) }) == heir?.path else { return false }
        guard let heir, let folder = heir.folder else { return true }
        return table.path(of: folder) == heir.path.parent
    }

    /// Runs a change of the journal by which a file with several names loses the first, and has its inode stand for the
    /// heir; the names are locked.
    ///
    /// What stands by the first name in the table is the caller's.
    func handingOver<Value>(
        _ inode: Inode?,
        to heir: Heir,
        _ change: () throws(FileError) -> Value
    ) throws(FileError) -> Value {
        // Who has it open writes on by a name, which needs a folder.
        if heir.folder == nil, inode?.state.withLock({ $0.handles > 0 }) == true { throw .unreachable }
        let link = try translating { try journal.linkedName(at: heir.path) }
        let value = try change()
        guard let inode, let folder = heir.folder else { return value }
        table.place(inode, folder, heir.path.name)
        try show(inode, at: heir.path, link)
        return value
    }

    /// Whether two paths are names of one file: nothing is to be done to make one of them the other (rename(2)).
    func areOfOneFile(_ one: ObjectKey, _ two: ObjectKey) throws(FileError) -> Bool {
        guard let link = try translating({ try journal.linkedName(at: one) }) else { return false }
        return try translating { try journal.linkedName(at: two) }?.file == link.file
    }
}

extension Inode {
    /// Shows the copy of a file's object that is by another of its names.
    func showCopy(at path: ObjectKey, _ version: ObjectVersion) {
        state.withLock { state in
            state.noteStatusChange()
            // What is written now has a row, made since.
            guard !state.isWritable, state.activeWrites == 0 else { return }
            state.node = nil
            guard kind == .file else { return }
            state.content = .remote(path, version)
            state.isLoaded = true
            state.isWritable = false
        }
    }
}

extension CatalogEntry? {
    /// Whether it says nothing of another object than the one that a name of a file has.
    fileprivate func isOf(_ link: LinkedName) -> Bool { self?.isOf(link) ?? true }
}

extension CatalogEntry {
    /// Whether it says nothing of another object than the one that a name of a file has.
    fileprivate func isOf(_ link: LinkedName) -> Bool {
        guard case .version(let known) = link.base else { return true }
        guard kind == .file else { return false }
        return version.map { known.isSame(as: $0) } ?? true
    }
}
