// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform
internal import Synchronization

/// Files with several names: hard links.
///
/// What a name is a link to is known here alone: to others each object is a file of its own.
extension Journal {
    /// Whether any file has, or had since this was opened, several names.
    package var hasLinks: Bool { mayHaveLinks.load(ordering: .relaxed) }

    /// Gives a file one more name (link(2)) and returns its row.
    ///
    /// `source` is the file's first name, or its only one. `.constraint` when something is at `target`, or the file has
    /// ``LinkedName/limit`` names; `.notFound` when nothing, or a folder, is at `source`.
    package func link(
        _ source: ObjectKey,
        to target: ObjectKey,
        attributes: FileAttributes,
        sourceRemote: @autoclosure () throws(JournalError) -> RemoteState,
        targetRemote: @autoclosure () throws(JournalError) -> RemoteState,
        now: Timestamp = .now()
    ) throws(JournalError) -> JournalNode {
        mayHaveLinks.store(true, ordering: .relaxed)
        return try change(at: now) { change throws(JournalError) in
            let (sourceRemote, targetRemote) = (try sourceRemote(), try targetRemote())
            let file = try change.linkedFile(source, sourceRemote)
            let node = try change.newNode(at: target, .hardLink, attributes, targetRemote)
            let link = LinkedName(path: target, file: file, isFirst: false, content: -1, base: .absent)
            try change.tables.store(link)
            return try change.insert(node)
        }
    }

    /// What a path is as a name of a file that has several; nil: nothing of the kind.
    package func linkedName(at path: ObjectKey) throws(JournalError) -> LinkedName? {
        guard hasLinks else { return nil }
        return try read(.path(path)) { tables throws(JournalError) in try tables.linkedName(at: path) }
    }

    /// What a path is another name of, and its row, on one snapshot; nil where it is a first or an only name.
    package func linked(
        at path: ObjectKey
    ) throws(JournalError) -> (link: LinkedName, first: ObjectKey, row: JournalNode?)? {
        guard let link = try linkedName(at: path), !link.isFirst else { return nil }
        return try snapshot(.path(path)) { tables throws(JournalError) in
            guard let link = try tables.linkedName(at: path), !link.isFirst,
                let first = try tables.firstName(of: link.file)
            else { return nil }
            return (link, first.path, try tables.node(at: path))
        }
    }

    /// The first name of a file that has several, or had, by its number; nil where nothing is known of it.
    package func firstName(ofFile file: Int64) throws(JournalError) -> ObjectKey? {
        try read { tables throws(JournalError) in try tables.firstName(of: file)?.path }
    }

    /// The names in a folder that are names of files with several.
    package func linkedNames(in folder: ObjectKey) throws(JournalError) -> Set<ObjectKey> {
        guard hasLinks else { return [] }
        return try read { tables throws(JournalError) in
            let sql = "SELECT name FROM link WHERE parent = ?"
            return Set(try tables.connection.all(sql, [.key(folder)]) { $0.key(0) })
        }
    }

    /// How many names the file at a path has: 1 where it is like most.
    package func linkCount(at path: ObjectKey) throws(JournalError) -> Int {
        guard hasLinks else { return 1 }
        return try read(.path(path)) { tables throws(JournalError) in
            guard let link = try tables.linkedName(at: path) else { return 1 }
            return try tables.linkCount(of: link.file)
        }
    }

    /// The name that a file goes on by when the first of its names, at `path`, is removed or replaced; nil where it is
    /// not the first of several.
    package func heir(of path: ObjectKey) throws(JournalError) -> ObjectKey? {
        guard hasLinks else { return nil }
        return try read(.path(path)) { tables throws(JournalError) in
            guard let first = try tables.linkedName(at: path), first.isFirst else { return nil }
            return try tables.heir(of: first)?.path
        }
    }

    /// A name is none of its file's any more, as the remote has something of others there.
    ///
    /// Nothing happens where it has a row, or the remote has what `link` says by now.
    package func separate(_ link: LinkedName) throws(JournalError) {
        try write { tables throws(JournalError) in
            guard try tables.linkedName(at: link.path) == link, !link.isFirst, try tables.node(at: link.path) == nil
            else { return }
            try tables.separate(link)
        }
    }

    /// Others made another version of a file at its first name, or took it away (nil): its other names follow, or go on
    /// without it.
    ///
    /// Nothing happens where it has a row, or that was noted before.
    package func noteForeign(
        _ version: ObjectVersion?,
        atFirst path: ObjectKey,
        attributes: FileAttributes,
        now: Timestamp = .now()
    ) throws(JournalError) {
        try change(at: now) { change throws(JournalError) in
            guard var first = try change.tables.linkedName(at: path), first.isFirst,
                try change.tables.node(at: path) == nil
            else { return }
            guard let version else {
                _ = try change.leaveLink(path, .absent)
                return
            }
            if case .version(let known) = first.base, known.isSame(as: version) { return }
            first.base = .version(version)
            first.content += 1
            try change.tables.store(first)
            let row = JournalNode(at: path, .file, attributes, Observation(first.base), change)
            try change.tables.copyAnew(first, after: row)
        }
    }
}

extension Change {
    /// The number of the file at a path among those with several names, given to it now where it has only one.
    fileprivate func linkedFile(_ path: ObjectKey, _ remote: RemoteState) throws(JournalError) -> Int64 {
        let row = try tables.node(at: path)
        if var link = try tables.linkedName(at: path) {
            let count = try tables.linkCount(of: link.file)
            if row == nil, count == 1, case .file(let version, _, _) = remote {
                // Its only name by now: whatever others, or a cancelled change, have made of it is the file.
                link.base = .version(version)
                try tables.store(link)
            }
            guard link.isFirst, count < LinkedName.limit else {
                throw JournalError(.constraint, "journal: no more names for \(path)")
            }
            return link.file
        }
        let base: RemoteBase
        switch (row?.kind, remote) {
        // Only its attributes are new.
        case (.symbolicLink, .file(let version, _, let text?))
        where row?.target == text && row?.base.isOther(than: version) == false:
            base = .version(version)
        case (.file, _), (.symbolicLink, _): base = try tables.baseOfFile(row)
        case (nil, .file(let version, _, _)): base = .version(version)
        default: throw JournalError(.notFound, "journal: no file is at \(path)")
        }
        let file = try tables.unusedLinkedFile()
        try tables.store(LinkedName(path: path, file: file, isFirst: true, content: 0, base: base))
        return file
    }

    /// The row of a name that is moved, made from the remote's state where there is none: one more name of a file stands for its
    /// own copy of it.
    func materializeName(_ path: ObjectKey, _ remote: RemoteState) throws(JournalError) -> JournalNode {
        if hasLinks, let link = try tables.linkedName(at: path), !link.isFirst, try tables.node(at: path) == nil,
            case .file(let version, _, _) = remote, case .version(let known) = link.base, !known.isSame(as: version)
        {
            // Somebody else's.
            try tables.separate(link)
        }
        return try materialize(path, remote)
    }

    /// Takes a name off the file that has it beside others, and tells what the remote has there; nil: see to it as to any
    /// other name.
    ///
    /// Where it is the first one, another becomes it, which the file's row moves to.
    func leaveLink(_ path: ObjectKey, _ remote: RemoteState) throws(JournalError) -> Observation? {
        guard hasLinks, let link = try tables.linkedName(at: path) else { return nil }
        guard link.isFirst, let heir = try tables.heir(of: link) else {
            try tables.separate(link)
            return nil
        }
        // Nobody has it any more: who sees to the other names says so.
        guard try isAnythingLeft(of: link, remote, heir) else { return nil }
        let row = try tables.node(at: heir.path)
        let isCurrent = row == nil && heir.content == link.content
        let left = try inherit(link, remote, heir)
        // It may have been given another number.
        var next = try tables.linkedName(at: heir.path) ?? heir
        // The row is there now: it tells what the remote has by that name, which is an older copy, or none.
        if left != nil, !isCurrent { next.base = link.base }
        try tables.replaceFirst(link, by: next)
        return left
    }

    /// Takes the names at and below a folder off the files that have them.
    ///
    /// Nothing is there any more: what is left of them here others have taken away at the remote.
    func leaveLinks(below folder: ObjectKey) throws(JournalError) {
        guard hasLinks else { return }
        for link in try tables.linkedNames(below: folder) where try tables.node(at: link.path)?.isTombstone != false {
            _ = try leaveLink(link.path, .absent)
        }
    }

    /// Has what is made at a path be no name of the file that others took away there.
    ///
    /// Where nothing is left of that, its other names are of no file that is known: their rows stay for a person.
    func leaveLostName(_ path: ObjectKey) throws(JournalError) {
        guard hasLinks, let link = try tables.linkedName(at: path), try tables.node(at: path) == nil else { return }
        _ = try leaveLink(path, .absent)
        if try tables.linkedName(at: path) != nil { try tables.forgetLinks(of: link.file) }
    }

    /// Moves a file's row from its first name to another one; returns what the remote has at the first, nil where that is
    /// for others to say.
    private func inherit(
        _ first: LinkedName,
        _ remote: RemoteState,
        _ heir: LinkedName
    ) throws(JournalError) -> Observation? {
        let (own, row) = (try tables.node(at: first.path), try tables.node(at: heir.path))
        // Its object is the file's already.
        if own == nil, row == nil, heir.content == first.content { return nil }
        var found = own
        if found == nil { found = try whatIsLeft(of: first, remote, row) }
        guard var node = found else {
            // Nothing of the file is left but older copies of it: they are another file to those who have this one open.
            if let row, row.kind == .hardLink { try tables.delete(row) }
            try tables.renumberLinks(of: first.file)
            return nil
        }
        let left = Observation(node)
        if let row { try tables.delete(row) }
        let observation = if let row { Observation(row) } else { Observation(heir.base) }
        node.settle(at: heir.path, observation, self)
        try tables.update(node)
        return left
    }

    private func isAnythingLeft(
        of first: LinkedName,
        _ remote: RemoteState,
        _ heir: LinkedName
    ) throws(JournalError) -> Bool {
        if case .file = remote { return true }
        if try tables.node(at: first.path) != nil { return true }
        guard let row = try tables.node(at: heir.path), row.kind == .hardLink else { return true }
        // What its row is to replace need not be of the file.
        if case .version = heir.base { return true }
        return false
    }

    /// The row of what the remote has of a file without one; nil where that is gone.
    private func whatIsLeft(
        of first: LinkedName,
        _ remote: RemoteState,
        _ row: JournalNode?
    ) throws(JournalError) -> JournalNode? {
        guard case .file(let version, let attributes, let target) = remote else { return nil }
        let isKnown = attributes != nil && attributes != FileAttributes.none
        // A row that was made without a look at the file knows none either.
        let told = row.flatMap { $0.attributes.mode == 0 ? nil : $0.attributes }
        return try materialize(first.path, .file(version, isKnown ? attributes : told ?? attributes, target: target))
    }
}

extension Tables {
    /// How many names are looked at for one that is better than others.
    private static let candidates = 64

    /// The name that is to be the first once that one goes: one that has a copy of the content, if there is such, else one
    /// that has any.
    func heir(of first: LinkedName) throws(JournalError) -> LinkedName? {
        let others = """
            FROM (SELECT * FROM link WHERE file = ?1 AND first = 0 LIMIT \(Self.candidates)) l
            LEFT JOIN node n ON n.parent = l.parent AND n.name = l.name WHERE TRUE
            """
        // The rows with content of their own.
        let content = "\(NodeKind.file.rawValue), \(NodeKind.symbolicLink.rawValue)"
        let choices = [
            "\(others) AND l.content = ?2 AND n.id IS NULL", "\(others) AND n.kind IN (\(content))",
            "\(others) AND l.base = 1", others,
        ]
        for choice in choices {
            let sql = "SELECT l.parent, l.name \(choice) LIMIT 1"
            let values: [Value] = [.integer(first.file), .integer(first.content)]
            let path = try connection.first(sql, choice.contains("?2") ? values : [values[0]]) { row in
                row.key(0).appending(row.key(1))
            }
            if let path { return try linkedName(at: path) }
        }
        return nil
    }
}
