// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

extension Tables {
    /// A condition on rows `n`: a tombstone with nothing to take away, which only waits for a request in doubt.
    static let isOnlyWatching = """
        (n.kind = 3 AND n.base = 0 AND n.has_remote_directory = 0 AND NOT EXISTS (SELECT 1 FROM transfer t
            WHERE t.key = CAST(CASE WHEN length(n.parent) = 0 THEN n.name ELSE n.parent || '/' || n.name END AS BLOB)))
        """

    func doubts(_ condition: String, _ values: [Value]) throws(JournalError) -> [Doubt] {
        let sql = "SELECT id, key, kind, tag, size, ends_at FROM doubt \(condition)"
        return try connection.all(sql, values) { row throws(JournalError) in
            guard let kind = DoubtKind(rawValue: row.integer(2)) else {
                throw JournalError(.corrupt, "journal: a request has the unknown kind \(row.integer(2))")
            }
            return Doubt(
                id: row.integer(0),
                key: row.key(1),
                kind: kind,
                tag: row.optionalText(3),
                size: row.integer(4),
                endsAt: row.optionalTime(5)
            )
        }
    }

    func insertDoubt(
        _ key: ObjectKey,
        _ kind: DoubtKind,
        tag: String?,
        size: Int64,
        endsAt: Timestamp?
    ) throws(JournalError) -> DoubtID {
        try connection.run(
            "INSERT INTO doubt (key, kind, tag, size, ends_at) VALUES (?, ?, ?, ?, ?)",
            [.key(key), .integer(kind.rawValue), .text(tag), .integer(size), .time(endsAt)]
        )
        return connection.lastInsertedRow
    }

    func removeDoubt(_ id: DoubtID) throws(JournalError) {
        try connection.run("DELETE FROM doubt WHERE id = ?", [.integer(id)])
    }

    /// Whether an object or a folder's marker may yet appear at a path by a request that was sent already.
    func mayAppear(at path: ObjectKey) throws(JournalError) -> Bool {
        if try isTransferRunning(at: path) { return true }
        return try connection.exists(
            "SELECT 1 FROM doubt WHERE kind = 0 AND key IN (?, ?)",
            [.key(path), .key(path.marker)]
        )
    }

    /// Whether an object was to be made at a path by a request that was not answered.
    func isObjectInDoubt(at path: ObjectKey) throws(JournalError) -> Bool {
        try connection.exists("SELECT 1 FROM doubt WHERE kind = 0 AND key = ?", [.key(path)])
    }

    /// Whether a deletion of the object at a path was sent and not answered yet.
    func isDeletionSent(at path: ObjectKey) throws(JournalError) -> Bool {
        try connection.exists("SELECT 1 FROM doubt WHERE kind = 1 AND key = ?", [.key(path)])
    }
}
