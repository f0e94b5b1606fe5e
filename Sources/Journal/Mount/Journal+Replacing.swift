// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform

extension Journal {
    /// Cuts an open file to nothing without touching the bytes that power loss would bring back.
    ///
    /// They stay in a sealed generation, as they were synced, below a new one, which is returned: open, recorded as
    /// empty, and not synced. Once it is, it lets go of the one below. After a kill the new one is the file. Nil when
    /// power loss would bring back no bytes of `generation`, or the disk failed to write them, or the row has another one by now: nothing is changed then.
    ///
    /// `prepare` is called with the name of the new generation before the commit, to make its staging file; when it
    /// throws nothing is changed. The caller sees to it that nobody writes to the old one any more.
    package func setAsideSynced(
        _ node: NodeID,
        _ generation: GenerationID,
        now: Timestamp = .now(),
        prepare: (GenerationID) throws(JournalError) -> Void = { _ in }
    ) throws(JournalError) -> Generation? {
        try change(at: now) { change throws(JournalError) in
            guard var row = try change.tables.node(node), let open = row.generation, open.id == generation else {
                return nil
            }
            guard !open.isSealed, let synced = try change.tables.sealAsSynced(open) else { return nil }
            let new = try change.tables.insertEmpty(over: open.id, synced)
            try prepare(new.id)
            row.touch(change)
            row.generation = new
            try change.tables.update(row)
            return new
        }
    }

    /// Has power loss bring back no more than `size` bytes of what was synced of an open file, durably: it is to be cut
    /// there next.
    ///
    /// Cutting zeroes the rest of the last page, which may be on the disk before the new length is: by then what lies
    /// behind must not count. Nothing changes where no more was synced.
    package func cutSynced(_ id: GenerationID, to size: Int64) throws(JournalError) {
        try write(durable: true) { tables throws(JournalError) in try tables.cutSynced(id, to: size) }
    }
}

extension Tables {
    fileprivate func cutSynced(_ id: GenerationID, to size: Int64) throws(JournalError) {
        let sql =
            "SELECT synced_size, synced_extents, synced_underlay_length FROM generation WHERE id = ? AND synced_size > ?"
        let synced = try connection.first(sql, [.integer(id.value), .integer(size)]) { row throws(JournalError) in
            let extents = try Encoding.extents(row.blob(1))
            return ContentMap(size: row.integer(0), extents: extents, underlayLength: row.integer(2))
        }
        guard var synced else { return }
        synced.truncate(to: size)
        // What is recorded now is more than that.
        try connection.run(
            """
            UPDATE generation SET is_synced = 0, synced_size = ?, synced_extents = ?, synced_underlay_length = ?,
                revision = revision + 1
            WHERE id = ?
            """,
            [
                .integer(synced.size), .blob(Encoding.encode(synced.extents)), .integer(synced.underlayLength),
                .integer(id.value),
            ]
        )
    }

    /// The end of the bytes in a generation's staging file that power loss goes back to, in bytes; 0: there are none.
    func syncedEnd(of id: GenerationID) throws(JournalError) -> Int64 {
        let sql = "SELECT synced_extents FROM generation WHERE id = ? AND length(synced_extents) > 0"
        let extents = try connection.first(sql, [.integer(id.value)]) { row throws(JournalError) in
            try Encoding.extents(row.blob(0))
        }
        return extents?.upperBound ?? 0
    }

    /// Seals an open generation as what was synced of it last, and returns the size it has then; nil, and nothing
    /// changes, when that has no bytes of its own, or the disk failed to write it.
    fileprivate func sealAsSynced(_ generation: Generation) throws(JournalError) -> Int64? {
        let changed = try connection.run(
            """
            UPDATE generation SET size = synced_size, extents = synced_extents, underlay_length = synced_underlay_length,
                is_sealed = 1, is_synced = 1, revision = revision + 1
            WHERE id = ? AND doubt = 0 AND length(synced_extents) > 0
            """,
            [.integer(generation.id.value)]
        )
        guard changed > 0 else { return nil }
        // Some of its bytes may have been written over since they were taken.
        try removeChecksums(of: generation.id)
        return try self.generation(generation.id)?.size
    }

    /// A new open generation without a byte, which power loss takes back to all of the one below, of `size` bytes.
    fileprivate func insertEmpty(over below: GenerationID, _ size: Int64) throws(JournalError) -> Generation {
        let whole = ContentMap(size: size, underlayLength: size)
        var new = try insertGeneration(whole, .generation(below), isSealed: false)
        new.content = ContentMap(size: 0)
        _ = try record(new.id, new.content, isSealed: false, isSynced: false)
        new.isSynced = false
        new.revision += 1
        return new
    }
}
