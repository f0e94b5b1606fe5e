// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform

extension Journal {
    /// Gives way to a foreign version: the row moves to `copy`, where nothing is, and keeps its content.
    ///
    /// Write the remote's version into the catalog, and remove the row's transfer, first. `.constraint`: `copy` is
    /// taken, choose another name. Nil when the row is gone, moved or has become a tombstone.
    package func moveToConflict(
        _ node: JournalNode,
        copy: ObjectKey,
        remote: ObjectVersion,
        now: Timestamp = .now()
    ) throws(JournalError) -> JournalNode? {
        try write { tables throws(JournalError) in
            guard var row = try tables.node(node.id), row.path == node.path else { return nil }
            guard row.kind == .file || row.kind == .symbolicLink else { return nil }
            if let link = try tables.linkedName(at: row.path), !link.isFirst {
                // The file is there by its other names; this one is of somebody else's from now on.
                try tables.separate(link)
                try tables.delete(row)
                return nil
            }
            // A copy that is uploaded has no row any more.
            if try tables.connection.exists("SELECT 1 FROM conflict WHERE copy = ?", [.key(copy)]) {
                throw JournalError(.constraint, "journal: the name of the copy is taken")
            }
            row.path = copy
            row.base = .absent
            row.hasRemoteDirectory = false
            row.conflictOf = node.path
            row.schedule = row.schedule.wishes
            try tables.update(row)
            try tables.moveLink(from: node.path, to: copy)
            try tables.noteConflict(of: node.path, copy: copy, remote, at: now)
            return row
        }
    }

    /// Gives up what the user does not want any more: the path is as at the remote again.
    ///
    /// False when it is gone or open.
    ///
    /// What it was moved from comes back too. Its transfer, if any, is then unwanted; its content is released.
    @discardableResult
    package func cancel(_ id: NodeID) throws(JournalError) -> Bool {
        try write { tables throws(JournalError) in
            guard let row = try tables.node(id), !row.isOpen else { return false }
            if try tables.hasLinks(), try tables.cancelLink(row) { return true }
            if let source = try tables.origin(of: row.generation), let buried = try tables.node(at: source.key),
                buried.isTombstone
            {
                try tables.delete(buried)
            }
            try tables.delete(row)
            return true
        }
    }

    /// Gives up a row as it was read, above all a tombstone whose object changed: the remote stays as it is there.
    ///
    /// False when the row changed since, or was opened for writing: what is written then is a new wish.
    @discardableResult
    package func drop(_ node: JournalNode) throws(JournalError) -> Bool {
        try write { tables throws(JournalError) in
            guard let row = try tables.node(node.id), row.sequence == node.sequence, row.path == node.path,
                !row.isOpen, row.generation?.id == node.generation?.id, row.base == node.base
            else { return false }
            try tables.delete(row)
            return true
        }
    }

    /// Corrects what a row believes the remote has at its key.
    ///
    /// For a row that is elsewhere by now, or has another belief, nothing happens, and nor does it for one with other content,
    /// or one that is being written, where there is a version: what it wants now may be to take the place of the version that it
    /// was made from, and of no other.
    ///
    /// A row that wants only other attributes on the remote's content takes the new version's content.
    @discardableResult
    package func rebase(_ node: JournalNode, onto base: RemoteBase) throws(JournalError) -> JournalNode? {
        try write { tables throws(JournalError) in
            guard var row = try tables.node(node.id), row.path == node.path, row.base == node.base else { return nil }
            if base != .absent, row.isOpen || !row.hasContent(of: node) { return nil }
            if case .version(let version) = base, let old = row.generation, old.isSealed,
                old.wholeRemote?.key == row.path, try !tables.isInTransfer(old.id)
            {
                row.generation = try tables.replace(old, .remote(row.path, version), size: version.size)
                if old.wholeRemote?.version.isSame(as: version) != true { try tables.makeAnother(&row) }
            }
            row.base = base
            try tables.update(row)
            if try tables.removeIfClean(row) { return nil }
            try tables.removeIfNothingLeft(row)
            return try tables.node(row.id)
        }
    }

    /// Follows the object that a row is to be a copy of to its new version.
    ///
    /// False when the row has bytes of its own, which would then mix with it: that needs a person. `.notFound` when it
    /// changed since, or is being written.
    package func followSource(_ node: JournalNode, version: ObjectVersion) throws(JournalError) -> Bool {
        try write { tables throws(JournalError) in
            guard var row = try tables.node(node.id), !row.isOpen, row.hasContent(of: node) else {
                throw JournalError(.notFound, "journal: the row was changed meanwhile")
            }
            guard let old = row.generation, let source = old.wholeRemote, try !tables.isInTransfer(old.id) else {
                return false
            }
            if try tables.recallCopy(row, of: source.key) { return true }
            row.generation = try tables.replace(old, .remote(source.key, version), size: version.size)
            if !source.version.isSame(as: version) { try tables.makeAnother(&row) }
            try tables.update(row)
            return true
        }
    }
}

extension JournalNode {
    /// Whether both have the same content: a generation that is written on keeps its name, and has another revision then.
    fileprivate func hasContent(of other: JournalNode) -> Bool {
        generation?.id == other.generation?.id && generation?.revision == other.generation?.revision
    }
}

extension Tables {
    /// Notes that others have put `version` at a path, where that is known, and that ours is kept as `copy`.
    func noteConflict(
        of path: ObjectKey,
        copy: ObjectKey,
        _ version: ObjectVersion?,
        at now: Timestamp
    ) throws(JournalError) {
        try connection.run(
            """
            INSERT INTO conflict (path, copy, detected_at, remote, tag, size, modified)
            VALUES (?, ?, ?, ?, ?, ?, ?)
            """,
            [.key(path), .key(copy), .time(now), .text(version?.description ?? "unknown")] + Encoding.columns(version)
        )
    }

    /// Forgets the conflict whose copy is at a path: a person has dealt with it.
    func forgetConflict(_ copy: ObjectKey) throws(JournalError) {
        try connection.run("DELETE FROM conflict WHERE copy = ?", [.key(copy)])
    }

    /// Follows a conflict's copy to another folder.
    func moveConflict(_ copy: ObjectKey, to target: ObjectKey) throws(JournalError) {
        try connection.run("UPDATE conflict SET copy = ? WHERE copy = ?", [.key(target), .key(copy)])
    }

    /// Follows what conflicts are about when their folder moves.
    func moveConflicts(below folder: ObjectKey, to target: ObjectKey) throws(JournalError) {
        let conflicts = try connection.all(
            "SELECT id, path FROM conflict WHERE path >= ? AND path < ?",
            Self.bounds(below: folder)
        ) { ($0.integer(0), $0.key(1)) }
        for (id, path) in conflicts {
            guard let moved = path.moved(from: folder, to: target) else { continue }
            try connection.run("UPDATE conflict SET path = ? WHERE id = ?", [.key(moved), .integer(id)])
        }
    }

    /// Gives a row a new name, because its content is now one that nobody here has seen.
    ///
    /// By a row's name a mount knows that what it shows is still the same: with the old one it would mix the pages
    /// of the old content with those of the new.
    func makeAnother(_ row: inout JournalNode) throws(JournalError) {
        try connection.run("DELETE FROM node WHERE id = ?", [.integer(row.id.value)])
        row.sequence = try nextSequence()
        row.id = try insert(row)
    }

    /// A new generation that is wholly another one's underlay, in place of a pure one.
    fileprivate func replace(
        _ old: Generation,
        _ underlay: Underlay,
        size: Int64
    ) throws(JournalError) -> Generation {
        try release(old.id)
        return try insertGeneration(ContentMap(size: size, underlayLength: size), underlay, isSealed: true)
    }
}
