// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
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
    /// A row below it, of what was in a folder by its name, must go first: not every store holds both at once.
    case descendant(NodeID)
    /// A folder above it still has, at the remote, an object by the folder's own name.
    case ancestor(NodeID)
    /// A folder above it is to get its marker first: with what is to be deleted an implied folder would vanish.
    case folder(NodeID)
}

extension Journal {
    /// What must happen before the object at a row's key may be changed, at most a few of each kind; empty: nothing.
    ///
    /// A file whose own transfer runs is not blocked by it. Rows may wait for each other in a circle (a swap of two
    /// names; a file moved into a new folder of its old name, or to the name of the folder it was in): one that is
    /// blocked by nothing but `source`, `ancestor` and `descendant` may begin its transfer and be hydrated, after
    /// which it needs no source any more.
    package func blockers(of node: JournalNode) throws(JournalError) -> [Blocker] {
        try snapshot { tables throws(JournalError) in
            var result: [Blocker] = node.isOpen ? [.open] : []
            result += try tables.transfersInTheWay(of: node).map { .transfer($0) }
            if case .generation(let id) = node.generation?.underlay, try tables.isInTransfer(id) {
                result.append(.generation(id))
            }
            result += try tables.readers(of: node).map { .source($0) }
            if node.kind != .directory {
                result += try tables.someDescendants(of: node.path).map { .descendant($0) }
            }
            if node.isTombstone {
                if let folder = try tables.ancestor(of: node.path, "kind = 1") { result.append(.folder(folder)) }
            } else if let ancestor = try tables.ancestor(of: node.path, "base <> 0") {
                result.append(.ancestor(ancestor))
            }
            return result
        }
    }
}

extension Tables {
    /// Other rows whose content, or the content of a transfer of theirs, shows the object at this row's key.
    fileprivate func readers(of node: JournalNode) throws(JournalError) -> [NodeID] {
        guard node.kind != .directory || node.base != .absent else { return [] }
        // From the generations that show the object, up through those that show them.
        let sql = """
            WITH RECURSIVE shows (id) AS (
                SELECT id FROM generation WHERE underlay_key = ?1
                UNION SELECT g.id FROM generation g JOIN shows s ON g.underlay_generation = s.id)
            SELECT n.id FROM node n JOIN shows s ON n.generation = s.id WHERE n.id <> ?2 LIMIT 4
            """
        return try connection.all(sql, [.key(node.path), .integer(node.id.value)]) { NodeID($0.integer(0)) }
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
