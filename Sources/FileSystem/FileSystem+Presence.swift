// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Journal
internal import ObjectStore
internal import Platform

/// What is at a path, as far as is known locally.
///
/// Indirect: listings hand many thousands of them on, and have only a reference to copy.
indirect enum Presence: Sendable {
    case absent
    /// A row of the journal says so.
    case row(JournalNode)
    /// The remote's state is what shall be.
    ///
    /// Without attributes while only a listing is known.
    case remote(CatalogEntry, FileAttributes?)
    /// One more name of a file, whose first name is `to`: no folder.
    case link(to: ObjectKey)

    var kind: Inode.Kind? {
        switch self {
        case .absent: nil
        case .row(let node): node.inodeKind
        case .remote(_, let attributes?): attributes.inodeKind
        case .link: .file
        case .remote(let entry, nil): entry.kind == .directory ? .directory : .file
        }
    }
}

extension Presence {
    /// One more name of a file that has several.
    var isLink: Bool {
        if case .link = self { return true }
        return false
    }
}

extension JournalNode {
    var inodeKind: Inode.Kind? {
        switch kind {
        case .file: attributes.isSpecial ? .special : .file
        case .directory: .directory
        case .symbolicLink: .symbolicLink
        // Its file's inode is the one of the first name.
        case .tombstone, .hardLink: nil
        }
    }

    /// Nothing of this folder is at the remote, so nobody needs to be asked what it holds.
    var isLocalOnly: Bool { kind == .directory && base == .absent && !hasRemoteDirectory }
}

extension FileAttributes {
    var inodeKind: Inode.Kind {
        isDirectory ? .directory : isSymbolicLink ? .symbolicLink : isSpecial ? .special : .file
    }
}

/// A path at which there was nothing: who makes a file asks for its name first.
struct Vacancy: Sendable {
    let path: ObjectKey
    let transactions: Int
    let changes: Int
    let epoch: Int
    /// Monotonic seconds.
    let time: Double

    /// Whether it was seen under the same circumstances as `other`, and within a second before.
    func holds(as other: Vacancy) -> Bool {
        transactions == other.transactions && changes == other.changes && epoch == other.epoch
            && other.time - time < 1 && path == other.path
    }
}

extension FileSystem {
    /// What is at a path: the journal first, then the catalog.
    func presence(_ path: ObjectKey) throws(FileError) -> Presence {
        var isBuried = false
        return try presence(path, &isBuried)
    }

    /// The same; `isBuried` becomes true where nothing is there because of a row.
    func presence(_ path: ObjectKey, _ isBuried: inout Bool) throws(FileError) -> Presence {
        try translating {
            let link = try journal.linkedName(at: path)
            if link?.isFirst == false, let first = try firstName(of: path) { return .link(to: first) }
            if let node = try journal.node(at: path) {
                isBuried = node.isTombstone
                return isBuried ? .absent : .row(node)
            }
            let (entry, isMissing) = try view.look(at: path)
            if link != nil, entry != nil || isMissing { try followFirstName(at: path, entry) }
            if let entry, entry.kind != .absent { return .remote(entry, view.attributes(of: entry)) }
            // Not to know of a name is no reason to deny it.
            guard try entry != nil || isMissing || isLocalOnly(path.parent) else { throw FileError.unknown }
            return .absent
        }
    }

    /// What was known before a look at a path; see ``Vacancy``.
    func vacancy(of path: ObjectKey) -> Vacancy {
        Vacancy(
            path: path,
            transactions: journal.begunTransactions,
            changes: view.catalog.changes,
            epoch: view.catalog.epoch,
            time: monotonicSeconds()
        )
    }

    /// Whether a path was looked at a moment ago, had neither a row nor anything at the remote, and nothing was learned
    /// or changed since.
    func isVacant(_ path: ObjectKey) -> Bool {
        vacancy.withLock { $0?.holds(as: vacancy(of: path)) } ?? false
    }

    /// Whether a row says that the remote has nothing of a folder.
    func isLocalOnly(_ path: ObjectKey) throws(JournalError) -> Bool {
        path.isRoot ? false : try journal.node(at: path)?.isLocalOnly ?? false
    }

    /// Whether what is known of a folder's names is young enough.
    func isFresh(_ folder: Inode) throws(FileError) -> Bool {
        if try isLocalOnly(folder) { return true }
        return try view.isFresh(path(of: folder.number))
    }

    /// Brings what is known of a folder's names up to date, where the remote has a say.
    func freshen(_ folder: Inode) throws(FileError) {
        if try isLocalOnly(folder) { return }
        let path = try path(of: folder.number)
        try orAsMadeHere(path) { () throws(FileError) in try view.freshen(path) }
    }

    /// Brings what is known of one name in a folder up to date.
    func freshen(_ name: ObjectKey, in folder: Inode) throws(FileError) {
        if try isLocalOnly(folder) { return }
        let path = try path(of: folder.number)
        try orAsMadeHere(path) { () throws(FileError) in try view.freshen(name, in: path) }
    }

    /// Runs what looks for names in a folder, and once more after a listing when too little is known of it: the
    /// catalog was begun anew in between, or the folder has just been uploaded.
    ///
    /// With a `name` that name alone will do, where the remote does not list the folder.
    func knowing<Value>(
        _ folder: Inode,
        _ name: ObjectKey? = nil,
        _ body: () throws(FileError) -> Value
    ) throws(FileError) -> Value {
        for _ in 0..<3 {
            do throws(FileError) {
                return try body()
            } catch {
                guard case .unknown = error else { throw error }
                try distrust(folder)
                guard let name else {
                    try freshen(folder)
                    continue
                }
                try freshen(name, in: folder)
                try view.describe(path(of: folder.number).appending(name))
            }
        }
        return try body()
    }

    /// Runs what looks at the name of an inode, and once more after a listing when the catalog was begun anew.
    func knowingName<Value>(
        of inode: Inode,
        _ body: () throws(FileError) -> Value
    ) throws(FileError) -> Value {
        guard let path = table.path(of: inode.number), let folder = table.inode(at: path.parent) else {
            return try body()
        }
        return try knowing(folder, path.name, body)
    }

    /// The inode for what is under a name, with its attributes known; nil when a HEAD is needed first.
    func present(_ presence: Presence, _ parent: InodeNumber, _ name: ObjectKey, _ path: ObjectKey) -> Inode? {
        switch presence {
        case .absent, .link: nil
        case .row(let node): inode(for: node, parent, name)
        case .remote(_, nil): nil
        case .remote(let entry, let attributes?): inode(for: entry, attributes, path, parent, name)
        }
    }

    /// The inode of a row: the one that made it, or that shows the remote version under it, or a new one.
    func inode(
        for node: JournalNode,
        _ parent: InodeNumber,
        _ name: ObjectKey,
        isNewest: Bool = false
    ) -> Inode? {
        guard let kind = node.inodeKind else { return nil }
        for _ in 0..<Self.attempts {
            if let open = openNodes.withLock({ $0[node.id] }) {
                table.place(open, parent, name)
                return open
            }
            let known = table.child(parent, name)
            if let known, known.kind == kind, known.follows(node) {
                table.place(known, parent, name)
                return known
            }
            // The file may have got another row since, or have been sent: it is not to lose its name to what it was.
            if !isNewest, let now = try? presence(node.path) {
                switch now {
                case .row(let now) where now.sequence != node.sequence:
                    return inode(for: now, parent, name, isNewest: true)
                case .remote(let entry, let attributes?):
                    return inode(for: entry, attributes, node.path, parent, name, isNewest: true)
                case .absent: return nil
                default: break
                }
            }
            let inode = table.make(kind, node.attributes)
            inode.show(node)
            if replace(known, by: inode, parent, name, node.path) { return inode }
        }
        return nil
    }

    /// The inode of a remote version: the one that shows it, or whose upload made it, or a new one.
    private func inode(
        for entry: CatalogEntry,
        _ attributes: FileAttributes,
        _ path: ObjectKey,
        _ parent: InodeNumber,
        _ name: ObjectKey,
        isNewest: Bool = false
    ) -> Inode? {
        let kind = attributes.inodeKind
        for _ in 0..<Self.attempts {
            let known = table.child(parent, name)
            if let known, known.kind == kind {
                let entry = (try? recognized(entry, by: known)) ?? entry
                if known.follows(entry, attributes, path) {
                    table.place(known, parent, name)
                    return known
                }
            }
            // A write may have begun since this was read, and have been sent: the file is not to lose its name to what it was.
            if let row = try? journal.node(at: path) { return inode(for: row, parent, name) }
            if known != nil, !isNewest, case .remote(let now, let attributes)? = try? presence(path),
                now.version != entry.version
            {
                return attributes.flatMap { self.inode(for: now, $0, path, parent, name, isNewest: true) }
            }
            let inode = table.make(kind, attributes)
            inode.show(entry, attributes, path)
            if replace(known, by: inode, parent, name, path) { return inode }
        }
        return nil
    }

    /// How often to look again when others put inodes under the same name at the same moment.
    private static let attempts = 8

    /// Gives a name to a new inode, unless another thread did so since `known` was found there: all that look at a
    /// name have to get the same one.
    private func replace(
        _ known: Inode?,
        by inode: Inode,
        _ parent: InodeNumber,
        _ name: ObjectKey,
        _ path: ObjectKey
    ) -> Bool {
        if let known, table.path(of: known.number) == path { noteSuperseded(known, parent, name) }
        return table.insert(inode, parent, name, replacing: known)
    }

    /// The remote changed: another one takes the name of a file, and who has that open may still write to it.
    func noteSuperseded(_ known: Inode?, _ parent: InodeNumber, _ name: ObjectKey) {
        guard let known, known.kind == .file else { return }
        known.state.withLock { state in
            if !state.isDetached { state.supersededAt = Inode.SupersededPlace(folder: parent, name: name) }
        }
    }

    func status(of inode: Inode) -> InodeStatus {
        let links = linkCount(of: inode)
        return inode.state.withLock { state in
            let size =
                switch inode.kind {
                case .file: state.content.map.size
                case .symbolicLink: state.target.map { Int64($0.bytes.count) } ?? state.content.map.size
                case .directory, .special: Int64(0)
                }
            let (times, modified) = (state.times, state.attributes.modified)
            var attributes = state.attributes
            attributes.modified = times.modified(modified)
            return InodeStatus(
                number: inode.number,
                attributes: attributes,
                changed: times.changed(modified),
                accessed: times.accessed(modified),
                size: size,
                isRemoved: state.isDetached,
                links: links
            )
        }
    }
}

/// Keeping an inode in step with what the journal and the catalog say of its name.
extension FileSystem {
    /// Looks at what is under an inode's name before something is done with it; the namespace is locked.
    ///
    /// False when it is not the inode's content any more, because the remote changed.
    func follow(_ inode: Inode, at path: ObjectKey) throws(FileError) -> Bool {
        switch try presence(path) {
        case .absent, .link: return false
        case .row(let node):
            guard inode.kind == node.inodeKind else { return false }
            if try adoptUpload(inode, node) { return true }
            return inode.follows(node)
        case .remote(let entry, let attributes):
            let entry = try recognized(entry, by: inode)
            return inode.follows(entry, attributes ?? inode.state.withLock { $0.attributes }, path)
        }
    }

    /// An entry with the generation of ours that made it, where the catalog has forgotten that: it may be lost at any
    /// moment, and who has the file open knows its content by that generation alone.
    func recognized(_ entry: CatalogEntry, by inode: Inode) throws(FileError) -> CatalogEntry {
        guard entry.kind == .file, let version = entry.version else { return entry }
        for own in inode.state.withLock({ $0.content.sameGenerations }) where !entry.isMade(by: own.value) {
            guard let arrival = try translating({ try journal.arrival(of: own) }), arrival.key == entry.path,
                arrival.version.isSame(as: version)
            else { continue }
            var entry = entry
            entry.earlierGenerations.append(own.value)
            return entry
        }
        return entry
    }

    /// Takes over a row whose content is the remote object that an upload of this inode's own content became.
    ///
    /// That happens when the flusher finishes just before a change of name or attributes makes the row; false when
    /// the row is anything else.
    func adoptUpload(_ inode: Inode, _ node: JournalNode) throws(FileError) -> Bool {
        guard let generation = node.generation, case .remote(let key, let version) = generation.underlay,
            let own = inode.state.withLock({ $0.content.generation }), own != generation.id,
            let known = try translating({ try view.entry(key) }),
            case let entry = try recognized(known, by: inode), entry.isMade(by: own.value),
            entry.version?.isSame(as: version) == true
        else { return false }
        inode.state.withLock { state in
            guard state.content.generation == own else { return }
            state.node = node.id
            state.content.generation = generation.id
            // By this it is known when the row goes again that came to want nothing but what the remote has.
            state.content.uploaded = UploadedVersion(key: key, version: version)
            state.isWritable = false
        }
        return true
    }
}

extension Inode {
    /// Takes over a row's state when it is this inode's own; false when it is something else.
    func follows(_ node: JournalNode) -> Bool {
        state.withLock { state in
            guard !state.isDetached, kind == .directory || state.isLineage(of: node) else { return false }
            // Read before what is written now was begun.
            if state.isBeingWritten, node.generation?.id != state.content.generation { return true }
            state.isLocalOnly = node.isLocalOnly
            let isOwn = state.node == node.id
            state.node = node.id
            if !state.isBusy {
                if !isOwn || !state.isAsNew(as: node) { state.show(node) }
            } else if !isOwn {
                // A row over the remote version that this shows: by a move, or a change of attributes.
                state.attributes = node.attributes
                state.content.generation = node.generation?.id ?? state.content.generation
            }
            return true
        }
    }

    /// Takes over a remote version when this inode shows it or made it; false when it came from elsewhere.
    func follows(_ entry: CatalogEntry, _ attributes: FileAttributes, _ path: ObjectKey) -> Bool {
        state.withLock { state in
            guard !state.isDetached, kind == .directory || state.isLineage(of: entry) else { return false }
            // What is written now has a row: the entry was looked for before that was made.
            if state.isBeingWritten { return true }
            state.isLocalOnly = false
            state.node = nil
            // The root's own attributes live in memory only.
            if number != InodeTable.rootNumber { state.attributes = attributes }
            if !state.isBusy {
                state.show(entry, attributes, path)
            } else if let version = entry.version, kind == .file, state.content.generation != nil {
                // Who has it open reads on from the local bytes, which are the same.
                state.content.generation = nil
                state.content.uploaded = UploadedVersion(key: path, version: version)
                state.isWritable = false
            }
            return true
        }
    }

    func show(_ node: JournalNode) {
        state.withLock { state in
            state.node = node.id
            state.show(node)
        }
    }

    func show(_ entry: CatalogEntry, _ attributes: FileAttributes, _ path: ObjectKey) {
        state.withLock { $0.show(entry, attributes, path) }
    }
}

extension Inode.State {
    /// While the file is open or being cut, or has changes not recorded, this side knows its content best.
    fileprivate var isBusy: Bool { handles > 0 || isWritable || activeWrites > 0 || revision != recorded }

    /// The journal has an unsealed generation of it, which nobody takes away but its close.
    fileprivate var isBeingWritten: Bool { isWritable || activeWrites > 0 }

    /// Whether this side has closed the content of this reading of the row, or a later one: it knows more than the
    /// reading, which may be of before.
    fileprivate func isAsNew(as node: JournalNode) -> Bool {
        guard let known = content.generation, let read = node.generation?.id else { return false }
        return read <= known
    }

    fileprivate mutating func show(_ node: JournalNode) {
        attributes = node.attributes
        target = node.target
        isLocalOnly = node.isLocalOnly
        guard let generation = node.generation else { return }
        isWritable = false
        isLoaded = false
        content = FileContent(generation: generation.id, map: generation.content)
        if case .remote(let key, let version) = generation.underlay { content.below = .remote(key, version) }
    }

    fileprivate mutating func show(_ entry: CatalogEntry, _ attributes: FileAttributes, _ path: ObjectKey) {
        self.attributes = attributes
        // A link's text belongs to its version, which the catalog may have without.
        let isSame = isLineage(of: entry)
        target = entry.target ?? (isSame ? target : nil)
        guard entry.kind == .file, let version = entry.version else { return }
        isWritable = false
        isLoaded = true
        content = .remote(path, version)
    }

    fileprivate func isLineage(of node: JournalNode) -> Bool {
        if self.node == node.id { return true }
        if let target, node.kind == .symbolicLink { return node.target == target }
        guard let generation = node.generation else { return false }
        if content.generation == generation.id { return true }
        guard case .remote(_, let version) = generation.underlay, let whole = content.wholeRemote else { return false }
        return whole.version.isSame(as: version)
    }

    fileprivate func isLineage(of entry: CatalogEntry) -> Bool {
        guard let version = entry.version else { return false }
        if content.sameGenerations.contains(where: { entry.isMade(by: $0.value) }) { return true }
        if let target, let known = entry.target { return content.generation == nil && target == known }
        // Also where a row has gone again that came to want nothing but what the remote has.
        return content.wholeRemote?.version.isSame(as: version) ?? false
    }
}
