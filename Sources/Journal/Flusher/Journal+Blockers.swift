// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

/// Why a row cannot be taken up before something else has happened.
package enum Blocker: Hashable, Sendable {
    /// It is being written.
    case open
    /// An upload to its key that it does not want has begun: to be finished or aborted first.
    case transfer(TransferID)
    /// Its content shows a generation whose upload runs.
    case generation(GenerationID)
    /// Another row's content is still to be copied from the object at its key.
    case source(NodeID)
    /// A row below it must go before the folder at its path can.
    case descendant(NodeID)
    /// A folder above it still has, at the remote, an object by the folder's own name.
    case ancestor(NodeID)
}

extension Journal {
    /// What must happen before the object at a row's key may be changed, at most a few of each kind; empty: nothing.
    ///
    /// A file whose own transfer runs is not blocked by it.
    package func blockers(of node: JournalNode) throws(JournalError) -> [Blocker] {
        try snapshot { tables throws(JournalError) in
            var result: [Blocker] = node.isOpen ? [.open] : []
            for transfer in try tables.transfers("WHERE t.key = ?", [.key(node.path)])
            where transfer.node != node.id || transfer.generation != node.generation?.id {
                result.append(.transfer(transfer.id))
            }
            if case .generation(let id) = node.generation?.underlay, try tables.isInTransfer(id) {
                result.append(.generation(id))
            }
            result += try tables.readers(of: node).map { .source($0) }
            if node.hasRemoteDirectory, node.kind != .directory {
                result += try tables.descendants(of: node.path).prefix(4).map { .descendant($0.id) }
            }
            if !node.isTombstone, let ancestor = try tables.ancestorWithObject(node.path) {
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

    /// The nearest folder row above a path at whose own key the remote has an object.
    fileprivate func ancestorWithObject(_ path: ObjectKey) throws(JournalError) -> NodeID? {
        var folder = path.parent
        while !folder.isRoot {
            let sql = "SELECT id FROM node WHERE parent = ? AND name = ? AND base <> 0"
            if let id = try connection.first(sql, [.key(folder.parent), .key(folder.name)], { NodeID($0.integer(0)) }) {
                return id
            }
            folder = folder.parent
        }
        return nil
    }
}
