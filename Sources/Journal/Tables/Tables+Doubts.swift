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
        let sql = "SELECT id, key, kind, tag, size, ends_at, base FROM doubt \(condition)"
        return try connection.all(sql, values) { row throws(JournalError) in
            guard let kind = DoubtKind(rawValue: row.integer(2)) else {
                throw JournalError(.corrupt, "journal: a request has the unknown kind \(row.integer(2))")
            }
            return Doubt(
                id: row.integer(0),
                key: row.key(1),
                kind: kind,
                tag: row.optionalText(3),
                size: row.integer(4) < 0 ? ~row.integer(4) : row.integer(4),
                endsAt: row.optionalTime(5),
                isReplaced: row.integer(4) < 0,
                base: row.optionalText(6)
            )
        }
    }

    /// Notes that something newer is at a key: what writes in doubt there have made is gone, if they were carried out.
    func noteReplaced(at key: ObjectKey) throws(JournalError) {
        try connection.run("UPDATE doubt SET size = ~size WHERE key = ? AND kind = 0 AND size >= 0", [.key(key)])
    }

    /// Notes that nothing is at a key any more: a write that was to make the first object there may do so now.
    func noteRemoved(at key: ObjectKey) throws(JournalError) {
        try connection.run("UPDATE doubt SET size = ~size WHERE key = ? AND kind = 0 AND size < 0", [.key(key)])
    }

    /// The writes that were in doubt until `now`, and the deletions, which nobody needs to know of any more.
    func doubtsToForget(endedBefore now: Timestamp) throws(JournalError) -> [DoubtID] {
        var kept: [ObjectKey: Int] = [:]
        var result: [DoubtID] = []
        for doubt in try doubts("WHERE ends_at <= ? ORDER BY id DESC", [.time(now)]) {
            let row = doubt.kind == .write ? try node(at: doubt.key.withoutMarkerSlash) : nil
            // A tombstone looks after all of them, until it ends by itself.
            if row?.isTombstone ?? false { continue }
            let isWanted = row != nil && row?.kind != .directory && !doubt.isReplaced
            guard isWanted, kept[doubt.key, default: 0] < Self.mostEndedDoubts else {
                result.append(doubt.id)
                continue
            }
            kept[doubt.key, default: 0] += 1
        }
        return result
    }

    /// How many writes to a path are known that are in doubt no more.
    private static let mostEndedDoubts = 16

    func insertDoubt(
        _ key: ObjectKey,
        _ kind: DoubtKind,
        tag: String?,
        size: Int64,
        endsAt: Timestamp?,
        base: String?
    ) throws(JournalError) -> DoubtID {
        try connection.run(
            "INSERT INTO doubt (key, kind, tag, size, ends_at, base) VALUES (?, ?, ?, ?, ?, ?)",
            [.key(key), .integer(kind.rawValue), .text(tag), .integer(size), .time(endsAt), .text(base)]
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
