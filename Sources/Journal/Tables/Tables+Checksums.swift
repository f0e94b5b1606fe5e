// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

extension Tables {
    /// The checksums of a generation's bytes as they were sealed; rows that are damaged count as none.
    func checksums(of id: GenerationID) throws(JournalError) -> (list: ChecksumList, isSound: Bool) {
        var list = ChecksumList()
        var isSound = true
        let sql = "SELECT row, covered, sums FROM checksum WHERE generation = ? ORDER BY row"
        try connection.each(sql, [.integer(id.value)]) { row throws(JournalError) in
            if !list.decode(row: row.integer(0), row.blob(1), row.blob(2)) { isSound = false }
        }
        list.noteStored()
        return (list, isSound)
    }

    /// Stores what of a list the journal does not have.
    func store(_ list: ChecksumList, of id: GenerationID) throws(JournalError) {
        if list.replacesRows { try removeChecksums(of: id) }
        for row in list.changedRows.sorted() {
            if let (covered, sums) = list.encoded(row: row) {
                try connection.run(
                    "INSERT OR REPLACE INTO checksum VALUES (?, ?, ?, ?)",
                    [.integer(id.value), .integer(row), .blob(covered), .blob(sums)]
                )
            } else if !list.replacesRows {
                try connection.run(
                    "DELETE FROM checksum WHERE generation = ? AND row = ?",
                    [.integer(id.value), .integer(row)]
                )
            }
        }
    }

    func removeChecksums(of id: GenerationID) throws(JournalError) {
        try connection.run("DELETE FROM checksum WHERE generation = ?", [.integer(id.value)])
    }

    func set(_ state: ChecksumState, of generation: Generation) throws(JournalError) {
        guard state != generation.checksums else { return }
        let id = generation.id.value
        try connection.run(
            "UPDATE generation SET checksums = ? WHERE id = ?",
            [.integer(state.rawValue), .integer(id)]
        )
        if generation.checksums == .pending {
            try connection.run("DELETE FROM checksum WHERE generation = ?", [.integer(-id)])
        } else if state == .pending {
            try connection.run("INSERT OR IGNORE INTO checksum VALUES (?, 0, '', '')", [.integer(-id)])
        }
    }

    /// Generations whose checksums are to be taken, oldest last.
    func uncheckedGenerations(limit: Int) throws(JournalError) -> [Generation] {
        try connection.all(
            """
            SELECT \(Self.generationColumns) FROM checksum c CROSS JOIN generation g ON g.id = -c.generation
            WHERE c.generation < 0 AND g.checksums = 2 AND g.is_sealed = 1 AND g.doubt = 0 LIMIT ?
            """,
            [.integer(Int64(limit))]
        ) { row throws(JournalError) in try Self.generation(row) }
    }

    /// Nothing is known of a content's bytes any more: they are looked at anew, when they are safe.
    func restartChecksums(of id: GenerationID) throws(JournalError) {
        try removeChecksums(of: id)
        guard let generation = try generation(id) else { return }
        try set(generation.isSynced && !generation.content.extents.isEmpty ? .pending : .none, of: generation)
    }

    /// What a salvage left may not be all.
    func restartAllChecksums() throws(JournalError) {
        try connection.run("UPDATE generation SET checksums = 2 WHERE checksums = 1")
        try connection.run("INSERT OR IGNORE INTO checksum SELECT -id, 0, '', '' FROM generation WHERE checksums = 2")
    }

    /// Removes a generation with what belongs to it.
    func deleteGeneration(_ id: GenerationID) throws(JournalError) {
        try connection.run("DELETE FROM checksum WHERE generation = ?1 OR generation = -?1", [.integer(id.value)])
        try connection.run("DELETE FROM generation WHERE id = ?", [.integer(id.value)])
    }
}
