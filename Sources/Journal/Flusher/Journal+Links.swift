// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database

/// The first name of the file that a row stands for a further name of.
package enum KnownFirstName: Hashable, Sendable {
    /// It is remote with all that the file has.
    case remote(ObjectKey)
    /// The row, or the file, is something else by now.
    case changed
    /// There is no such file.
    case unknown
}

extension Journal {
    /// The first name of the file that a path is another name of; nil where it is none.
    package func firstName(of path: ObjectKey) throws(JournalError) -> ObjectKey? {
        try read { tables throws(JournalError) in
            guard let link = try tables.linkedName(at: path), !link.isFirst else { return nil }
            return try tables.firstName(of: link.file)?.path
        }
    }

    /// What is known of the file that a row is a further name of, by one look at both.
    package func firstName(of node: JournalNode) throws(JournalError) -> KnownFirstName {
        try snapshot { tables throws(JournalError) in
            guard let row = try tables.node(node.id), row.path == node.path, row.kind == .hardLink else {
                return .changed
            }
            guard let link = try tables.linkedName(at: row.path), !link.isFirst,
                let first = try tables.firstName(of: link.file)
            else { return .unknown }
            return try tables.node(at: first.path) == nil ? .remote(first.path) : .changed
        }
    }

    /// Has a further name of a file become a copy of the object by its first one, which is `version`, with `attributes`.
    ///
    /// Returns the row; nil when it changed meanwhile, or the file has changes that are to be sent first.
    package func copyLink(
        _ node: JournalNode,
        from first: ObjectKey,
        _ version: ObjectVersion,
        _ attributes: FileAttributes
    ) throws(JournalError) -> JournalNode? {
        try write { tables throws(JournalError) in
            guard var row = try tables.node(node.id), row.path == node.path, row.kind == .hardLink,
                var link = try tables.linkedName(at: row.path), var main = try tables.firstName(of: link.file),
                main.path == first, try tables.node(at: first) == nil
            else { return nil }
            if main.base.isOther(than: version) {
                // Somebody else's change of the file, which no reader has seen yet.
                main.content += 1
                main.base = .version(version)
                try tables.store(main)
                try tables.copyAnew(main, after: row)
            }
            link.content = main.content
            try tables.store(link)
            let content = ContentMap(size: version.size, underlayLength: version.size)
            row.kind = attributes.isSymbolicLink ? .symbolicLink : .file
            row.attributes = attributes
            row.attributeSequence = 0
            row.generation = try tables.insertGeneration(content, .remote(first, version), isSealed: true)
            try tables.update(row)
            return row
        }
    }
}

extension Journal {
    /// Takes back the copies that other names of a file are to become, before its newer content is sent: they get that then.
    ///
    /// Copies under way go on, conditional on the object that they are of, and end as what nobody wants. Without this one that
    /// waits for a person, or is paused, would hold up the file.
    package func recallCopies(of path: ObjectKey) throws(JournalError) {
        let isFirst = try read { tables throws(JournalError) in
            guard try tables.hasLinks() else { return false }
            return try tables.linkedName(at: path)?.isFirst == true
        }
        guard isFirst else { return }
        try write { tables throws(JournalError) in
            guard let first = try tables.linkedName(at: path), first.isFirst, try tables.node(at: path) != nil else {
                return
            }
            for link in try tables.linkedNames(of: first.file) where !link.isFirst {
                guard let row = try tables.node(at: link.path), row.generation?.wholeRemote?.key == path else {
                    continue
                }
                try tables.recall(link, row)
            }
        }
    }

    /// All names of the files that have several, one of them at or below a path of these.
    package func namesOfFiles(atOrBelow paths: [ObjectKey]) throws(JournalError) -> Set<ObjectKey> {
        try snapshot { tables throws(JournalError) in
            guard try tables.hasLinks() else { return [] }
            var files = Set<Int64>()
            for path in paths {
                if let link = try tables.linkedName(at: path) { files.insert(link.file) }
                for link in try tables.linkedNames(below: path) { files.insert(link.file) }
            }
            var names = Set<ObjectKey>()
            for file in files { names.formUnion(try tables.linkedNames(of: file).map(\.path)) }
            return names
        }
    }
}

extension Tables {
    /// Has a further name of a file look at its first one once more before it becomes a copy of that: also its attributes
    /// are the file's.
    ///
    /// False when the row is not that of a name whose first one is `first`.
    func recallCopy(_ row: JournalNode, of first: ObjectKey) throws(JournalError) -> Bool {
        guard try hasLinks(), let link = try linkedName(at: row.path), !link.isFirst,
            try firstName(of: link.file)?.path == first, try node(at: first) == nil
        else { return false }
        try recall(link, row)
        return true
    }

    /// Has a name's row wait for the first name again.
    fileprivate func recall(_ link: LinkedName, _ row: JournalNode) throws(JournalError) {
        var (link, row) = (link, row)
        let generation = row.generation
        row.kind = .hardLink
        row.generation = nil
        row.target = nil
        row.sequence = try nextSequence()
        try update(row)
        try release(generation?.id)
        link.content = -1
        try store(link)
    }

    /// Gives up the row of a name of a file that has several; false: it is to be given up as any other row.
    func cancelLink(_ row: JournalNode) throws(JournalError) -> Bool {
        guard var link = try linkedName(at: row.path) else { return false }
        let origin = try origin(of: row.generation)
        // What another name is a copy of is no name that it had.
        let isMoved = link.isFirst || link.base == .unknown
        if isMoved, let origin, let buried = try node(at: origin.key), buried.isTombstone {
            // Renamed: the name that it had is back, as what the remote has there.
            try delete(buried)
            try delete(row)
            try separate(link)
            link.path = origin.key
            link.base = .version(origin.version)
            try store(link)
            return true
        }
        if !link.isFirst {
            try separate(link)
            try delete(row)
            return true
        }
        let isOver = try isOverAnother(row, link)
        if row.base == .absent || isOver, let heir = try heir(of: link) {
            try cancelFirst(row, link, heir)
            return true
        }
        guard case .version = row.base else { return false }
        // An edit is undone: what the remote has by the name is the file, also after a kill.
        try delete(row)
        var undone = row
        // What was given up is nothing for the other names.
        undone.attributes = .none
        try noteCleanLink(undone)
        return true
    }

    /// Whether what the remote has by a first name is another file's object, which the row is to replace.
    ///
    /// Without the row the object would be taken for what others made of the file, and be copied over its other names.
    private func isOverAnother(_ row: JournalNode, _ link: LinkedName) throws(JournalError) -> Bool {
        guard case .version(let version) = row.base, link.base.isOther(than: version) else { return false }
        // Others changed the file itself while only a part of it, or its attributes, are new here.
        return try !isOfOwnObject(row)
    }

    /// The object that a file is at a name with a row, which may be to replace another file's; that is not known of new content.
    func baseOfFile(_ row: JournalNode?) throws(JournalError) -> RemoteBase {
        guard let row, case .version = row.base else { return row?.base ?? .unknown }
        // A symbolic link has none.
        guard row.generation != nil || row.kind == .symbolicLink else { return row.base }
        return try isOfOwnObject(row) ? row.base : .unknown
    }

    /// Whether a row's content began with the object that it is to replace.
    func isOfOwnObject(_ row: JournalNode) throws(JournalError) -> Bool {
        guard case .version(let version) = row.base, let origin = try origin(of: row.generation) else { return false }
        return origin.key == row.path && origin.version.isSame(as: version)
    }

    /// Gives up the row of a first name by which the remote has nothing of the file, which goes on by another of its names.
    ///
    /// What the remote has by that is what the file was. Where it has nothing, what was to be sent is all that there is of the
    /// file, and goes on there; what is on its way to the name that is given up is taken away, or ended where that has another
    /// file's object, which stays.
    private func cancelFirst(_ row: JournalNode, _ link: LinkedName, _ heir: LinkedName) throws(JournalError) {
        let change = try change(nil, row.changedAt)
        // What the heir's row is to replace need not be of the file; and an older copy is not what it was.
        if case .version = heir.base, heir.content == link.content { try delete(row) }
        guard let left = try change.leaveLink(row.path, .absent) else { return }
        if left.base == .absent { return try change.bury(row.path, left) }
        // By another name of its own the row does not bring an upload to its end where that would replace the object.
        if var moved = try node(row.id), try isTransferRunning(at: row.path) { try makeAnother(&moved) }
    }
}

extension RemoteBase {
    /// Whether an object is not the version that is known; also where none is.
    func isOther(than version: ObjectVersion) -> Bool {
        guard case .version(let known) = self else { return true }
        return !known.isSame(as: version)
    }
}
