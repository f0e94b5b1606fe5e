// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

/// The names of files that have several.
extension Tables {
    private static let selectLink =
        "SELECT parent, name, file, first, content, base, tag, size, modified FROM link "

    private static func link(_ row: Row) -> LinkedName {
        LinkedName(
            path: row.key(0).appending(row.key(1)),
            file: row.integer(2),
            isFirst: row.bool(3),
            content: row.integer(4),
            base: Encoding.base(row, 5)
        )
    }

    func linkedName(at path: ObjectKey) throws(JournalError) -> LinkedName? {
        let sql = Self.selectLink + "WHERE parent = ? AND name = ?"
        return try connection.first(sql, [.key(path.parent), .key(path.name)]) { Self.link($0) }
    }

    func hasLinks() throws(JournalError) -> Bool { try connection.exists("SELECT 1 FROM link") }

    /// The names below a folder, its own not, that are names of files with several, or were.
    func linkedNames(below folder: ObjectKey) throws(JournalError) -> [LinkedName] {
        if folder.isRoot { return try connection.all(Self.selectLink) { Self.link($0) } }
        let sql = Self.selectLink + "WHERE parent = ? OR parent >= ? AND parent < ?"
        return try connection.all(sql, [.key(folder)] + Self.bounds(below: folder)) { Self.link($0) }
    }

    /// All names of a file, the first one first.
    func linkedNames(of file: Int64) throws(JournalError) -> [LinkedName] {
        let sql = Self.selectLink + "WHERE file = ? ORDER BY first DESC, parent, name"
        return try connection.all(sql, [.integer(file)]) { Self.link($0) }
    }

    func firstName(of file: Int64) throws(JournalError) -> LinkedName? {
        try connection.first(Self.selectLink + "WHERE file = ? AND first = 1", [.integer(file)]) { Self.link($0) }
    }

    /// Whether two paths are names of one file.
    func areOfOneFile(_ one: ObjectKey, _ two: ObjectKey) throws(JournalError) -> Bool {
        guard let link = try linkedName(at: one), let other = try linkedName(at: two) else { return false }
        return link.file == other.file
    }

    func linkCount(of file: Int64) throws(JournalError) -> Int {
        try connection.first("SELECT count(*) FROM link WHERE file = ?", [.integer(file)]) { Int($0.integer(0)) } ?? 0
    }

    /// A number that no file with several names has, or ever had: who has one open whose names are all gone, or are another
    /// file's by now, knows it by its own still.
    func unusedLinkedFile() throws(JournalError) -> Int64 {
        let highest = try connection.first("SELECT coalesce(max(file), 0) FROM link") { $0.integer(0) } ?? 0
        return max(try nextSequence(), highest + 1)
    }

    func store(_ link: LinkedName) throws(JournalError) {
        try connection.run(
            "INSERT OR REPLACE INTO link VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                .key(link.path.parent), .key(link.path.name), .integer(link.file), .integer(link.isFirst),
                .integer(link.content),
            ] + Encoding.columns(link.base)
        )
    }

    /// A name is none of its file's any more.
    ///
    /// What is left of a file that had several stays: by its number it is found by whom it is open.
    func separate(_ link: LinkedName) throws(JournalError) {
        let sql = "DELETE FROM link WHERE parent = ? AND name = ?"
        try connection.run(sql, [.key(link.path.parent), .key(link.path.name)])
    }

    /// All names of a file are those of files of their own.
    func forgetLinks(of file: Int64) throws(JournalError) {
        try connection.run("DELETE FROM link WHERE file = ?", [.integer(file)])
    }

    /// Gives the names of a file to another one.
    func renumberLinks(of file: Int64) throws(JournalError) {
        let sql = "UPDATE link SET file = ? WHERE file = ?"
        try connection.run(sql, [.integer(unusedLinkedFile()), .integer(file)])
    }

    /// Another name becomes the first one, which is none of the file's any more.
    func replaceFirst(_ first: LinkedName, by heir: LinkedName) throws(JournalError) {
        var heir = heir
        heir.isFirst = true
        heir.content = first.content
        try separate(first)
        try store(heir)
    }

    /// A name of a file has become another; `isUnsent`: what the remote has by that is for its row to say.
    func moveLink(from source: ObjectKey, to target: ObjectKey, isUnsent: Bool = false) throws(JournalError) {
        if isUnsent, var link = try linkedName(at: source), !link.isFirst {
            link.base = .unknown
            try store(link)
        }
        try connection.run(
            "UPDATE link SET parent = ?, name = ? WHERE parent = ? AND name = ?",
            [.key(target.parent), .key(target.name), .key(source.parent), .key(source.name)]
        )
    }

    /// Two names, of different files, are exchanged.
    func exchangeLinks(_ one: ObjectKey, _ two: ObjectKey) throws(JournalError) {
        // No path has a zero byte, and nobody sees what is within a transaction.
        let aside = ObjectKey(bytes: two.bytes + [0])
        try moveLink(from: one, to: aside, isUnsent: true)
        try moveLink(from: two, to: one, isUnsent: true)
        try moveLink(from: aside, to: two)
    }
}

/// What becomes of the other names when the object by one has changed.
extension Tables {
    /// Notes that the object at a name is what a transfer of its row sent; `completion` is what the row goes on with.
    ///
    /// `row` is the row as it was before.
    func noteSentLink(
        _ row: JournalNode,
        _ transfer: Transfer,
        _ version: ObjectVersion,
        _ hasAttributes: Bool,
        _ completion: Completion
    ) throws(JournalError) -> Completion {
        guard row.id == transfer.node, var link = try linkedName(at: row.path) else { return completion }
        let old = link.base
        link.base = .version(version)
        if link.isFirst {
            if try !isMove(transfer, of: row, from: old, hasAttributes) { link.content += 1 }
            try store(link)
            try copyAnew(link, after: row)
            return completion
        }
        try store(link)
        guard completion == .settled, let first = try firstName(of: link.file), first.content != link.content else {
            return completion
        }
        return .hasMore(try insertLink(link, after: row))
    }

    /// Notes that a file's first name was sent to a path that it has left meanwhile.
    ///
    /// From there it is brought to its name as it is, which is a mere move: so what is new with it is noted now. `row` is the row
    /// as it was before.
    func noteLinkSentBeforeMove(
        _ row: JournalNode,
        _ transfer: Transfer,
        _ version: ObjectVersion,
        _ hasAttributes: Bool
    ) throws(JournalError) {
        guard var link = try linkedName(at: row.path), link.isFirst else { return }
        if try !isMove(transfer, of: row, from: link.base, hasAttributes) { link.content += 1 }
        link.base = .version(version)
        try store(link)
        try copyAnew(link, after: row)
    }

    /// Notes that a transfer that no row wants any more has changed the object of a file by its first name, or may have.
    ///
    /// `version` is what it has become, nil where nobody saw it.
    func noteUnclaimedLink(_ transfer: Transfer, _ version: ObjectVersion?) throws(JournalError) {
        guard var link = try linkedName(at: transfer.key), link.isFirst else { return }
        if let version { link.base = .version(version) }
        link.content += 1
        try store(link)
        let change = try change(nil, transfer.startedAt)
        // A name without a row is shown as the first is, and becomes what that is found to be: its attributes do not matter.
        try copyAnew(link, after: JournalNode(at: link.path, .file, .none, Observation(link.base), change))
    }

    /// Notes that a name's row is gone as the remote has just what it wanted.
    func noteCleanLink(_ row: JournalNode) throws(JournalError) {
        guard var link = try linkedName(at: row.path) else { return }
        // Others may have changed the object before the row came to want just that.
        if link.isFirst, case .version(let version) = row.base, link.base.isOther(than: version) { link.content += 1 }
        link.base = row.base
        try store(link)
        if let first = link.isFirst ? link : try firstName(of: link.file) { try copyAnew(first, after: row) }
    }

    /// Whether a transfer only brought the object that a file was to another name: the copies of it are still that.
    ///
    /// A version does not tell: with many servers it is the same whatever the attributes are.
    private func isMove(
        _ transfer: Transfer,
        of row: JournalNode,
        from old: RemoteBase,
        _ hasAttributes: Bool
    ) throws(JournalError) -> Bool {
        guard hasAttributes, transfer.attributeSequence == 0, row.attributeSequence == 0, let id = transfer.generation,
            let source = try generation(id)?.wholeRemote, source.key != transfer.key, case .version(let version) = old
        else { return false }
        return source.version.isSame(as: version)
    }

    /// Has the names of a file that have older copies of its object, and no row, get it anew.
    ///
    /// They have their turn once more when what the file has changed since is at the remote.
    func copyAnew(_ first: LinkedName, after row: JournalNode) throws(JournalError) {
        for link in try linkedNames(of: first.file) where !link.isFirst && link.content != first.content {
            if try node(at: link.path) == nil { _ = try insertLink(link, after: row) }
        }
    }

    /// Adds the row of a name whose object is to be a copy of the first name's again.
    private func insertLink(_ link: LinkedName, after row: JournalNode) throws(JournalError) -> NodeID {
        let observation = Observation(link.base)
        var new = JournalNode(
            at: link.path,
            .hardLink,
            row.attributes,
            observation,
            Change(tables: self, sequence: try nextSequence(), now: row.changedAt, hasLinks: true)
        )
        // Who waits for the file to be remote waits for all of its names.
        new.firstSequence = row.firstSequence
        return try insert(new)
    }
}
