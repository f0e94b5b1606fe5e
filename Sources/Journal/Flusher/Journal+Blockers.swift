// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database

/// Why a row cannot be taken up before something else has happened.
package enum Blocker: Hashable, Sendable {
    /// It is being written.
    case open
    /// An upload to its key, or to that of a folder above it, has begun that is not wanted there, or one to the key
    /// of the object that it copies may just change that: to be finished or aborted first.
    case transfer(TransferID)
    /// Its content shows a generation whose upload runs.
    case generation(GenerationID)
    /// Another row's content is still to be copied from the object at its key.
    case source(NodeID)
    /// Another row's content was fetched from the object at its key, and is not at the remote again yet.
    case arrival(NodeID)
    /// A row below it, of what was in a folder by its name, must go first: not every store holds both at once.
    case descendant(NodeID)
    /// A folder above it still has, at the remote, an object by the folder's own name.
    case ancestor(NodeID)
    /// It is one more name of a file whose first name's row is to be at the remote first.
    case link(NodeID)
    /// A folder above it is to get its marker first: with what is to be deleted an implied folder would vanish.
    case folder(NodeID)
}

extension Blocker {
    /// The row that must go first, if it is one.
    package var row: NodeID? {
        switch self {
        case .source(let id), .arrival(let id), .descendant(let id), .ancestor(let id), .folder(let id), .link(let id):
            id
        case .open, .transfer, .generation: nil
        }
    }
}

extension Journal {
    /// What must happen before the object at a row's key may be changed, at most a few of each kind; empty: nothing.
    ///
    /// A file whose own transfer runs is not blocked by it. Rows may wait for each other in a circle (a swap of two
    /// names; a file moved into a new folder of its old name, or to the name of the folder it was in): one that is
    /// blocked by nothing but `source`, `arrival`, `ancestor` and `descendant` may begin its transfer and be hydrated,
    /// after which it needs no source any more. A row in such a circle does not wait for the `arrival` of another one.
    ///
    /// `.notFound` when the row is not what `node` says any more: what was in its way may have left that behind.
    package func blockers(of node: JournalNode) throws(JournalError) -> [Blocker] {
        try snapshot { tables throws(JournalError) in
            guard let row = try tables.node(node.id), row.isAt(placeOf: node) else {
                throw JournalError(.notFound, "journal: the row was changed meanwhile")
            }
            var result: [Blocker] = node.isOpen ? [.open] : []
            result += try tables.transfersInTheWay(of: node).map { .transfer($0) }
            if case .generation(let id) = node.generation?.underlay, try tables.isInTransfer(id) {
                result.append(.generation(id))
            }
            for blocker in try tables.rowsInTheWay(of: node) {
                if case .arrival(let other) = blocker, try tables.waits(other, for: node.id) { continue }
                result.append(blocker)
            }
            return result
        }
    }

    /// Whether a row waits, through others perhaps, for another one.
    package func waits(_ id: NodeID, for other: NodeID) throws(JournalError) -> Bool {
        try snapshot { tables throws(JournalError) in try tables.waits(id, for: other) }
    }

    /// Whether this volume is about to take away what the remote has below a path, or may have above it: a removal that
    /// needs nobody's decision, or a request in doubt for an object by a folder's name, which is seen to or ends.
    package func isClearing(around path: ObjectKey) throws(JournalError) -> Bool {
        try snapshot { tables throws(JournalError) in
            if try tables.hasTombstones(below: path, "AND attention IS NULL") { return true }
            var folder = path.parent
            while !folder.isRoot {
                if try tables.isObjectInDoubt(at: folder) { return true }
                folder = folder.parent
            }
            return false
        }
    }
}

extension JournalNode {
    /// Whether both say the same of what is to be done at which key, from what, and what is there.
    fileprivate func isAt(placeOf other: JournalNode) -> Bool {
        // That a folder is there in name is noted with everything that is sent from below it.
        path == other.path && kind == other.kind && base == other.base && generation?.id == other.generation?.id
            && generation?.underlay == other.generation?.underlay
            && (kind == .directory || hasRemoteDirectory == other.hasRemoteDirectory)
    }
}

extension Tables {
    /// The rows that must do something first.
    fileprivate func rowsInTheWay(of node: JournalNode) throws(JournalError) -> [Blocker] {
        var result = try readers(of: node)
        if node.kind == .hardLink, let first = try firstRow(ofLink: node.path) { result.append(.link(first)) }
        if node.kind != .directory {
            result += try someDescendants(of: node.path).map { .descendant($0) }
        }
        // A folder that an object by its name gives way to begins with a deletion, too.
        if node.isTombstone || node.kind == .directory && node.base != .absent {
            if let folder = try ancestor(of: node.path, "kind = 1") { result.append(.folder(folder)) }
        }
        if !node.isTombstone, let ancestor = try ancestor(of: node.path, "base <> 0") {
            result.append(.ancestor(ancestor))
        }
        return result
    }

    /// The row of the first name of a file that has another one at `path`.
    private func firstRow(ofLink path: ObjectKey) throws(JournalError) -> NodeID? {
        guard let link = try linkedName(at: path), let first = try firstName(of: link.file) else { return nil }
        return try node(at: first.path)?.id
    }

    /// Whether a row waits, through others perhaps, for another one.
    fileprivate func waits(_ id: NodeID, for other: NodeID) throws(JournalError) -> Bool {
        var seen: Set<NodeID> = [id]
        var queue = [id]
        while let id = queue.popLast() {
            guard let row = try node(id) else { continue }
            for next in try rowsInTheWay(of: row).compactMap(\.row) {
                if next == other { return true }
                if seen.insert(next).inserted { queue.append(next) }
            }
        }
        return false
    }

    /// Other rows whose content, or the content of a transfer of theirs, shows the object at this row's key, or was
    /// fetched from the very version that is there.
    fileprivate func readers(of node: JournalNode) throws(JournalError) -> [Blocker] {
        guard node.kind != .directory || node.base != .absent else { return [] }
        // From the generations that show the object, up through those that show them.
        let sql = """
            WITH RECURSIVE shows (id, base) AS (
                SELECT id, id FROM generation WHERE underlay_key = ?1
                UNION SELECT g.id, s.base FROM generation g JOIN shows s ON g.underlay_generation = s.id)
            SELECT n.id, g.underlay, g.underlay_tag, g.underlay_size, g.underlay_modified
            FROM node n JOIN shows s ON n.generation = s.id JOIN generation g ON g.id = s.base WHERE n.id <> ?2
            """
        var result: [Blocker] = []
        try connection.each(sql, [.key(node.path), .integer(node.id.value)]) { row in
            guard result.count < 4 else { return }
            let id = NodeID(row.integer(0))
            if row.integer(1) != 0 { return result.append(.source(id)) }
            switch node.base {
            case .absent: return
            case .version(let version) where !version.isSame(as: Encoding.version(row, 2)): return
            case .version, .unknown: result.append(.arrival(id))
            }
        }
        return result
    }

    fileprivate func transfersInTheWay(of node: JournalNode) throws(JournalError) -> [TransferID] {
        var result: [TransferID] = []
        for transfer in try transfers("WHERE t.key = ?", [.key(node.path)])
        where transfer.node != node.id || transfer.generation != node.generation?.id {
            result.append(transfer.id)
        }
        guard !node.isTombstone else { return result }
        if case .remote(let source, _) = node.generation?.underlay, source != node.path {
            result += try transfers("WHERE t.key = ? AND t.phase = 1", [.key(source)]).map(\.id)
        }
        var folder = node.path.parent
        while !folder.isRoot {
            result += try transfers("WHERE t.key = ?", [.key(folder)]).map(\.id)
            folder = folder.parent
        }
        return result
    }

    fileprivate func someDescendants(of folder: ObjectKey) throws(JournalError) -> [NodeID] {
        let select = "SELECT n.id FROM node n WHERE NOT \(Self.isOnlyWatching) AND"
        let own = try connection.all("\(select) n.parent = ? LIMIT 4", [.key(folder)]) { $0.integer(0) }
        let sql = "\(select) n.parent >= ? AND n.parent < ? LIMIT 4"
        let deeper = try connection.all(sql, Self.bounds(below: folder)) { $0.integer(0) }
        return (own + deeper).map { NodeID($0) }
    }

    /// The nearest row above a path that meets a condition.
    fileprivate func ancestor(of path: ObjectKey, _ condition: String) throws(JournalError) -> NodeID? {
        var folder = path.parent
        while !folder.isRoot {
            let sql = "SELECT id FROM node WHERE parent = ? AND name = ? AND \(condition)"
            if let id = try connection.first(sql, [.key(folder.parent), .key(folder.name)], { NodeID($0.integer(0)) }) {
                return id
            }
            folder = folder.parent
        }
        return nil
    }
}
