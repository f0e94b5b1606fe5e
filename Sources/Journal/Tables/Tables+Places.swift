// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

extension Tables {
    /// The places of all rows behind one, in order.
    func places(after last: QueuePlace?, limit: Int) throws(JournalError) -> [QueuePlace] {
        let order = " ORDER BY priority DESC, first_sequence, id LIMIT ?"
        let count = Value.integer(Int64(max(0, limit)))
        guard let last else { return try places("TRUE" + order, [count]) }
        return try places(
            "(-priority, first_sequence, id) > (?, ?, ?)" + order,
            [.integer(-last.priority), .integer(last.sequence), .integer(last.id.value), count]
        )
    }

    /// The places of the rows at or below one of `paths` and of those of `ids`, in order; of paused ones where only
    /// those are wanted.
    func places(
        atOrBelow paths: [ObjectKey],
        ids: [NodeID],
        isPaused: Bool = false
    ) throws(JournalError) -> [QueuePlace] {
        let kind = isPaused ? " AND is_paused <> 0" : ""
        if paths.contains(where: \.isRoot) { return try places("TRUE" + kind, []).sorted() }
        var found = Set<QueuePlace>()
        for id in ids { found.formUnion(try places("id = ?" + kind, [.integer(id.value)])) }
        for path in paths {
            found.formUnion(try places("parent = ? AND name = ?" + kind, [.key(path.parent), .key(path.name)]))
            found.formUnion(try places("parent = ?" + kind, [.key(path)]))
            found.formUnion(try places("parent >= ? AND parent < ?" + kind, Self.bounds(below: path)))
        }
        return found.sorted()
    }

    private func places(_ condition: String, _ values: [Value]) throws(JournalError) -> [QueuePlace] {
        try connection.all("SELECT priority, first_sequence, id FROM node WHERE " + condition, values) { row in
            QueuePlace(priority: row.integer(0), sequence: row.integer(1), id: NodeID(row.integer(2)))
        }
    }
}
