// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database

/// How much is to be done at the remote.
package struct JournalCounts: Hashable, Sendable {
    /// Files and links to write, open ones included.
    package var files = 0
    /// The sizes of those files, in bytes.
    package var bytes: Int64 = 0
    package var directories = 0
    package var deletions = 0
    /// Files being written now.
    package var open = 0
    package var paused = 0
    /// Rows that need a person.
    package var attention = 0
    package var conflicts = 0
    /// The last change of the row that was left alone longest, of those that are not being written.
    package var oldest: Timestamp?

    package init() {}

    /// All rows.
    package var total: Int { files + directories + deletions }
}

extension Journal {
    /// The rows of the volume, highest priority first, then in the order of their oldest change.
    package func pendingNodes(limit: Int = 10_000) throws(JournalError) -> [JournalNode] {
        try read { tables throws(JournalError) in
            try tables.nodes("ORDER BY n.priority DESC, n.first_sequence, n.id LIMIT ?", [.integer(Int64(limit))])
        }
    }

    /// The rows of some numbers, in their order, as far as there are such.
    package func nodes(_ ids: some Sequence<NodeID>) throws(JournalError) -> [JournalNode] {
        try read { tables throws(JournalError) in
            var nodes: [JournalNode] = []
            for id in ids { if let node = try tables.node(id) { nodes.append(node) } }
            return nodes
        }
    }

    /// The places of the rows at or below one of `paths` and of those of `ids`, of all rows where neither names any;
    /// in order, those behind `last`, `limit` at most.
    ///
    /// Of a long queue the rows themselves take much memory at once. Takes as long as there are such rows, however long
    /// the queue is.
    package func pendingPlaces(
        atOrBelow paths: [ObjectKey] = [],
        ids: [NodeID] = [],
        after last: QueuePlace? = nil,
        limit: Int
    ) throws(JournalError) -> [QueuePlace] {
        let places = try snapshot { tables throws(JournalError) in
            guard paths.isEmpty, ids.isEmpty else { return try tables.places(atOrBelow: paths, ids: ids) }
            return try tables.places(after: last, limit: limit)
        }
        return Array(places.drop { place in last.map { place <= $0 } ?? false }.prefix(max(0, limit)))
    }

    /// The rows at or below a path that a person holds, each by itself.
    package func pausedRows(atOrBelow path: ObjectKey) throws(JournalError) -> [NodeID] {
        try read { tables throws(JournalError) in try tables.places(atOrBelow: [path], ids: [], isPaused: true) }
            .map(\.id)
    }

    /// Whether a row is being written.
    package func hasOpenNodes() throws(JournalError) -> Bool {
        try read { tables throws(JournalError) in
            try tables.connection.exists("SELECT 1 FROM node WHERE is_open <> 0", [])
        }
    }

    package func counts() throws(JournalError) -> JournalCounts {
        try snapshot { tables throws(JournalError) in
            var counts = JournalCounts()
            try tables.connection.each(
                """
                SELECT n.kind, count(*), sum(coalesce(g.size, length(n.target), 0)), sum(n.is_open), sum(n.is_paused),
                    count(n.attention), min(CASE n.is_open WHEN 0 THEN n.changed_at END) FROM node n LEFT JOIN generation g ON g.id = n.generation GROUP BY n.kind
                """
            ) { row in counts.add(row) }
            let sql = "SELECT count(*) FROM conflict"
            counts.conflicts = try tables.connection.first(sql) { Int($0.integer(0)) } ?? 0
            return counts
        }
    }

    /// What staging holds of the files that are complete and not at the remote yet, together in bytes: what uploads will
    /// give back.
    ///
    /// Looks at no more rows than it takes to come to `limit` bytes.
    package func completeBytes(upTo limit: Int64) throws(JournalError) -> Int64 {
        try snapshot { tables throws(JournalError) in
            var sum: Int64 = 0
            var last: Int64 = 0
            while sum < limit {
                let page = try tables.completeContents(after: last)
                guard let end = page.last?.node else { break }
                for (_, bytes) in page where sum < limit { sum += bytes }
                last = end
            }
            return sum
        }
    }

    /// The newest change: what `flush` waits for.
    package func currentSequence() throws(JournalError) -> ChangeSequence {
        try read { tables throws(JournalError) in try tables.currentSequence() }
    }

    /// The rows at or below `path` with a change up to `sequence` that the remote lacks; empty: all is remote.
    ///
    /// What only watches for a request in doubt is not among them.
    package func unsettledNodes(
        through sequence: ChangeSequence,
        below path: ObjectKey = .root
    ) throws(JournalError) -> [JournalNode] {
        let rows = try read { tables throws(JournalError) in
            let condition = "WHERE n.first_sequence <= ? AND NOT \(Tables.isOnlyWatching) ORDER BY n.first_sequence"
            return try tables.nodes(condition, [.integer(sequence)])
        }
        return rows.filter { $0.path.isInside(path) }
    }

    /// Every transfer that has begun, oldest first, with whether its row still wants it.
    package func transfers() throws(JournalError) -> [(transfer: Transfer, fate: TransferFate)] {
        try snapshot { tables throws(JournalError) in
            var result: [(transfer: Transfer, fate: TransferFate)] = []
            for transfer in try tables.transfers("ORDER BY t.id") {
                result.append((transfer, try tables.fate(of: transfer)))
            }
            return result
        }
    }

    /// The transfers that no row wants in this form: to be aborted at the remote, then ``removeTransfer(_:)``.
    ///
    /// One in phase `committing` may have changed the remote: find out first, then complete or remove it.
    package func transfersToAbort() throws(JournalError) -> [Transfer] {
        try transfers().filter { $0.fate != .wanted }.map(\.transfer)
    }

    package func transfer(_ id: TransferID) throws(JournalError) -> Transfer? {
        try read { tables throws(JournalError) in try tables.transfer(id) }
    }

    /// The parts that the remote acknowledged, by number.
    package func parts(of transfer: TransferID) throws(JournalError) -> [TransferPart] {
        try read { tables throws(JournalError) in
            try tables.connection.all(
                "SELECT number, size, digest, tag FROM part WHERE transfer = ? ORDER BY number",
                [.integer(transfer.value)]
            ) { row in
                TransferPart(
                    number: row.integer(0),
                    size: row.integer(1),
                    digest: row.blob(2),
                    entityTag: row.text(3)
                )
            }
        }
    }

    /// The conflicts so far, oldest first.
    package func conflicts() throws(JournalError) -> [ConflictRecord] {
        try read { tables throws(JournalError) in
            let columns = "id, path, copy, detected_at, remote, tag, size, modified"
            return try tables.connection.all("SELECT \(columns) FROM conflict ORDER BY id") { row in
                ConflictRecord(
                    id: row.integer(0),
                    path: row.key(1),
                    copy: row.key(2),
                    detectedAt: row.time(3),
                    remote: row.text(4),
                    version: row.isNull(6) ? nil : Encoding.version(row, 5)
                )
            }
        }
    }
}

extension JournalCounts {
    fileprivate mutating func add(_ row: Row) {
        let count = Int(row.integer(1))
        switch NodeKind(rawValue: row.integer(0)) {
        case .file, .symbolicLink, .hardLink:
            files += count
            bytes += row.integer(2)
        case .directory: directories += count
        case .tombstone, nil: deletions += count
        }
        open += Int(row.integer(3))
        paused += Int(row.integer(4))
        attention += Int(row.integer(5))
        if let changed = row.optionalTime(6) { oldest = min(oldest ?? changed, changed) }
    }
}

extension Tables {
    /// Some complete files behind a row's number with what their staging files hold, in bytes.
    fileprivate func completeContents(after last: Int64) throws(JournalError) -> [(node: Int64, bytes: Int64)] {
        let sql = """
            SELECT n.id, g.extents FROM node n JOIN generation g ON g.id = n.generation
            WHERE n.id > ? AND n.is_open = 0 AND length(g.extents) > 0 ORDER BY n.id LIMIT 64
            """
        return try connection.all(sql, [.integer(last)]) { row throws(JournalError) in
            (row.integer(0), try Encoding.extents(row.blob(1)).byteCount)
        }
    }

    func fate(of transfer: Transfer) throws(JournalError) -> TransferFate {
        guard let node = try node(transfer.node) else { return .gone }
        guard node.path == transfer.key else { return .moved(node.path) }
        return node.generation?.id == transfer.generation ? .wanted : .superseded
    }
}
