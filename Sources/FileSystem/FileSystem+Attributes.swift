// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Journal
internal import Platform

/// Changing attributes.
extension FileSystem {
    /// Changes attributes, and the size and the time of access when given; returns what stat(2) tells afterwards.
    ///
    /// Also without any change it is one of status, as chown(2) to the same owner is. `isByHandle`: the size is set by an open
    /// file (ftruncate(2)), whatever its name stands for by now.
    package func setAttributes(
        _ number: InodeNumber,
        _ changes: AttributeChanges,
        size: Int64?,
        isByHandle: Bool = false,
        accessed: Timestamp? = nil
    ) throws(FileError) -> InodeStatus {
        try ensureWritable()
        let inode = try inode(number)
        var changes = changes
        if let size {
            guard inode.kind == .file else { throw inode.kind == .directory ? .isDirectory : .invalidArgument }
            // To nothing it may be the rest of an open(2) with O_TRUNC, which counts as a change in any case.
            let isChange = size == 0 || inode.state.withLock { $0.content.map.size } != size
            // Cutting a file to the length it has counts as a change of content (POSIX), though nothing is sent for it.
            if isChange {
                try truncate(inode, to: size, isByName: !isByHandle)
            } else {
                changes.modified = changes.modified ?? .now()
            }
        }
        if changes != AttributeChanges() { try change(inode, to: changes) }
        inode.state.withLock { state in
            if let accessed { state.times.setAccessed(accessed) }
            state.noteStatusChange(isTimeSet: changes.modified != nil)
        }
        return statusWithSubfolders(of: inode)
    }

    private func change(_ inode: Inode, to changes: AttributeChanges) throws(FileError) {
        guard changes.modified != nil else { return try change(inode) { _ in changes } }
        inode.state.withLock { $0.beginTime() }
        defer { inode.state.withLock { $0.timesBeingSet -= 1 } }
        try change(inode) { _ in changes }
    }

    /// Makes the changes that follow from the present attributes.
    func change(
        _ inode: Inode,
        _ changes: (FileAttributes) throws(FileError) -> AttributeChanges
    ) throws(FileError) {
        if try changeNewFile(inode, changes) { return }
        // The row keeps all attributes, so those that do not change must be known.
        let hasRow = try knowingName(of: inode) { () throws(FileError) -> Bool in
            guard let path = table.path(of: inode.number) else { return false }
            let presence = try presence(path)
            switch presence {
            case .row: return true
            case .absent, .link: return false
            case .remote(_, nil): try view.describe(path)
            case .remote(let entry, _): try view.validateForChange(entry)
            }
            return false
        }
        try learnAttributes(of: inode)
        if hasRow, try changeRow(inode, changes) { return }
        let folders = table.path(of: inode.number).flatMap { table.inode(at: $0.parent)?.number }.map { [$0] } ?? []
        try change(inode, changes, knowing: folders)
    }

    /// Changes what was made a moment ago, is still open and has no row, as archives and cp(1) do before they close a file;
    /// false where it is anything else.
    private func changeNewFile(
        _ inode: Inode,
        _ changes: (FileAttributes) throws(FileError) -> AttributeChanges
    ) throws(FileError) -> Bool {
        guard let node = inode.state.withLock({ $0.node }), journal.isNewFile(node) else { return false }
        return try namespace.shared { () throws(FileError) in
            let (attributes, isDetached) = inode.state.withLock { ($0.attributes, $0.isDetached) }
            guard !isDetached, let path = table.path(of: inode.number) else { return false }
            let changes = try changes(attributes)
            guard journal.setAttributesOfNewFile(node, at: path, changes) else { return false }
            inode.state.withLock { $0.attributes = $0.attributes.applying(changes) }
            return true
        }
    }

    /// Changes what has a row, which needs no knowledge of its folder; false when that is gone by now.
    private func changeRow(
        _ inode: Inode,
        _ changes: (FileAttributes) throws(FileError) -> AttributeChanges
    ) throws(FileError) -> Bool {
        do throws(FileError) {
            try change(inode, changes, knowing: [])
            return true
        } catch {
            if case .unknown = error { return false }
            if case .journal(let cause) = error, cause.kind == .notFound { return false }
            throw error
        }
    }

    private func change(
        _ inode: Inode,
        _ changes: (FileAttributes) throws(FileError) -> AttributeChanges,
        knowing folders: [InodeNumber]
    ) throws(FileError) {
        let hasRow = try knowing(folders, and: table.path(of: inode.number)) { knowledge throws(FileError) in
            try namespace.shared { () throws(FileError) in try change(inode, changes, knowledge) }
        }
        if hasRow { onChange() }
    }

    /// Has the remote tell what a file shows default attributes for, before a row is made of it, which keeps them all.
    func learnAttributes(of inode: Inode) throws(FileError) {
        guard options.usesServerModificationTime, let path = table.path(of: inode.number) else { return }
        guard try learnAttributes(at: path) else { return }
        let isSame = try namespace.shared { () throws(FileError) in
            guard case .remote(_, let attributes?) = try presence(path) else { return true }
            guard attributes.inodeKind == inode.kind else { return false }
            return try follow(inode, at: path)
        }
        if !isSame { throw .stale }
    }

    /// Whether the remote had to be asked.
    func learnAttributes(at path: ObjectKey) throws(FileError) -> Bool {
        guard options.usesServerModificationTime, case .remote(let entry, _) = try presence(path),
            !view.isDescribed(entry)
        else { return false }
        try view.describe(path)
        return true
    }

    /// True when the journal has a row for it.
    private func change(
        _ inode: Inode,
        _ changes: (FileAttributes) throws(FileError) -> AttributeChanges,
        _ knowledge: Knowledge
    ) throws(FileError) -> Bool {
        let isDetached = inode.state.withLock { $0.isDetached }
        // The root has no object of its own; what is removed has none any more.
        guard inode.number != InodeTable.rootNumber, !isDetached, let path = table.path(of: inode.number) else {
            let attributes = inode.state.withLock { $0.attributes }
            let changes = try changes(attributes)
            inode.state.withLock { $0.attributes = $0.attributes.applying(changes) }
            return false
        }
        guard try follow(inode, at: path) else { throw .stale }
        let changes = try changes(inode.state.withLock { $0.attributes })
        let node = try translating {
            try journal.setAttributes(at: path, remote: try view.state(of: path, as: knowledge), changes)
        }
        if let node { _ = try adoptUpload(inode, node) }
        inode.state.withLock { state in
            state.attributes = state.attributes.applying(changes)
            state.noteRow(node)
        }
        return node != nil
    }
}

extension Inode.State {
    /// A time of modification is set, which the record of an earlier write must not take back.
    fileprivate mutating func beginTime() {
        timesSet += 1
        timesBeingSet += 1
        keepAccessTime()
    }

    /// A change of attributes left the file with this row, or with none: the content it shows is the same.
    mutating func noteRow(_ row: JournalNode?) {
        // What is written now has a row, made since.
        if row == nil, isWritable || activeWrites > 0 { return }
        node = row?.id
        if let row {
            guard content.generation == nil else { return }
            content.generation = row.generation?.id
        } else if content.wholeRemote != nil {
            content.generation = nil
        }
    }
}
