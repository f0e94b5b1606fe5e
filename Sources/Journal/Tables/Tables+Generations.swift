// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

extension Tables {
    static let generationColumns = """
        g.id, g.size, g.extents, g.underlay, g.underlay_key, g.underlay_tag, g.underlay_size, g.underlay_modified,
        g.underlay_generation, g.underlay_length, g.is_sealed, g.is_synced, g.revision, g.doubt,
        g.checksums
        """
    static let generationColumnCount: Int32 = 15

    static func generation(_ row: Row, _ first: Int32 = 0) throws(JournalError) -> Generation {
        let underlay: Underlay =
            switch row.integer(first + 3) {
            case 1: .remote(row.key(first + 4), Encoding.version(row, first + 5))
            case 2: .generation(GenerationID(row.integer(first + 8)))
            default: .none
            }
        let origin: ContentOrigin? =
            if underlay == .none, let key = row.optionalKey(first + 4) {
                ContentOrigin(key: key, version: Encoding.version(row, first + 5))
            } else {
                nil
            }
        return Generation(
            id: GenerationID(row.integer(first)),
            content: ContentMap(
                size: row.integer(first + 1),
                extents: try Encoding.extents(row.blob(first + 2)),
                underlayLength: row.integer(first + 9)
            ),
            underlay: underlay,
            origin: origin,
            isSealed: row.bool(first + 10),
            isSynced: row.bool(first + 11),
            revision: row.integer(first + 12),
            // A value that makes no sense is not taken for a good one.
            doubt: SyncDoubt(rawValue: row.integer(first + 13)) ?? .failed,
            checksums: ChecksumState(rawValue: row.integer(first + 14)) ?? .none
        )
    }

    func generation(_ id: GenerationID) throws(JournalError) -> Generation? {
        let sql = "SELECT \(Self.generationColumns) FROM generation g WHERE g.id = ?"
        return try connection.first(sql, [.integer(id.value)]) { row throws(JournalError) in try Self.generation(row) }
    }

    /// The last name that was given to a generation, or taken for one.
    func lastStagingName() throws(JournalError) -> Int64 {
        let sql = "SELECT seq FROM sqlite_sequence WHERE name = 'generation'"
        let given = try connection.first(sql) { $0.integer(0) } ?? 0
        return max(given, try namesOfNewFiles().upperBound - 1)
    }

    /// Adds a generation and returns it with its name, which is `id` where that was taken for it.
    ///
    /// `hasBytes`: it may have had bytes in staging though it has none now.
    func insertGeneration(
        _ content: ContentMap,
        _ underlay: Underlay,
        isSealed: Bool,
        as id: GenerationID? = nil,
        hasBytes: Bool = false
    ) throws(JournalError) -> Generation {
        // Without bytes in staging there is nothing to sync but this row itself. A new file that is still open has not
        // one yet: power loss is not to leave an empty one that nobody closed.
        let isSynced = content.extents.isEmpty && !hasBytes && (isSealed || underlay != .none)
        try connection.run(
            """
            INSERT INTO generation (id, size, extents, underlay, underlay_key, underlay_tag, underlay_size,
                underlay_modified, underlay_generation, underlay_length, is_sealed, is_synced, revision, is_recorded)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?)
            """,
            [.integer(id?.value), .integer(content.size), .blob(Encoding.encode(content.extents))]
                + Self.columns(underlay)
                + [.integer(content.underlayLength), .integer(isSealed), .integer(isSynced), .integer(isSealed)]
        )
        let id = GenerationID(connection.lastInsertedRow)
        // Power loss takes unsynced writes back to what shows through now; a new file has nothing to go back to.
        if underlay != .none { try noteSynced(id) }
        return Generation(
            id: id,
            content: content,
            underlay: underlay,
            isSealed: isSealed,
            isSynced: isSynced,
            revision: 0
        )
    }

    /// Records content; false when the generation is gone.
    ///
    /// `isSynced` says that the staging data was synced, and that this commit is durable; it does not count while
    /// the content is in doubt. A content without bytes of its own is in no doubt any more. With `wasSynced` false it
    /// is known that it is not synced now.
    func record(
        _ id: GenerationID,
        _ content: ContentMap,
        isSealed: Bool,
        isSynced: Bool,
        wasSynced: Bool = true
    ) throws(JournalError) -> Bool {
        let extents = Value.blob(Encoding.encode(content.extents))
        let values: [Value] = [
            .integer(content.size), extents, .integer(content.underlayLength), .integer(isSealed),
            .integer(content.extents.isEmpty), .integer(id.value),
        ]
        // Where nothing changes that has an index, none is written.
        let changed =
            isSynced || wasSynced
            ? try connection.run(Self.recordAll, values + [.integer(isSynced)])
            : try connection.run(Self.recordContent, values)
        if changed > 0, isSynced { try noteSynced(id) }
        return changed > 0
    }

    private static let recordContent = """
        UPDATE generation SET size = ?1, extents = ?2, underlay_length = ?3, is_sealed = ?4,
            doubt = CASE WHEN ?5 THEN 0 ELSE doubt END, revision = revision + 1, is_recorded = 1
        WHERE id = ?6
        """
    private static let recordAll = """
        UPDATE generation SET size = ?1, extents = ?2, underlay_length = ?3, is_sealed = ?4,
            doubt = CASE WHEN ?5 THEN 0 ELSE doubt END,
            is_synced = CASE WHEN ?5 OR doubt = 0 THEN ?7 ELSE 0 END,
            revision = revision + 1, is_recorded = 1
        WHERE id = ?6
        """

    /// Keeps what is recorded now as what power loss leaves.
    ///
    /// Not for a content in doubt. A sealed generation then lets go of an underlay that nothing shows; before, power
    /// loss could uncover it. An open one that was cut to nothing lets go of an older content here: it can never show
    /// again, and who cuts and syncs a file time and again would keep all of them.
    func noteSynced(_ id: GenerationID) throws(JournalError) {
        let changed = try connection.run(
            """
            UPDATE generation SET is_synced = 1, synced_size = size, synced_extents = extents,
                synced_underlay_length = underlay_length WHERE id = ? AND doubt = 0
            """,
            [.integer(id.value)]
        )
        guard changed > 0 else { return }
        guard let generation = try generation(id), generation.isSealed || generation.isCutFromContent,
            try isUncovered(generation) == false
        else { return }
        try releaseUnderlay(of: generation)
    }

    /// Whether a generation needs what is below it: some of its bytes, or all of it though that be none.
    private func isUncovered(_ generation: Generation) throws(JournalError) -> Bool {
        if !generation.content.underlayRanges.isEmpty { return true }
        switch generation.underlay {
        case .none: return true
        case .remote: return generation.wholeRemote != nil
        case .generation(let below): return try generation.content.isPure(length: self.generation(below)?.size ?? 0)
        }
    }

    /// Lets a generation whose bytes are all in its staging file forget what they are over, but for its `origin`.
    func releaseUnderlay(of generation: Generation, origin: ContentOrigin? = nil) throws(JournalError) {
        try setUnderlay(generation.id, .none)
        if let origin {
            try connection.run(
                "UPDATE generation SET underlay_key = ?, underlay_tag = ?, underlay_size = ?, underlay_modified = ? WHERE id = ?",
                [.key(origin.key)] + Encoding.columns(origin.version) + [.integer(generation.id.value)]
            )
        }
        try connection.run(
            "UPDATE generation SET underlay_length = 0, synced_underlay_length = 0 WHERE id = ?",
            [.integer(generation.id.value)]
        )
        if case .generation(let below) = generation.underlay { try release(below) }
    }

    /// The remote object that shows in a content, or was fetched into it.
    ///
    /// None where all of it was written anew, whether or not it was synced since, and has let go of what it was over.
    func origin(of generation: Generation?) throws(JournalError) -> ContentOrigin? {
        var generation = generation
        while let current = generation {
            guard try isUncovered(current) else { return nil }
            switch current.underlay {
            case .none: return current.origin
            case .remote(let key, let version): return ContentOrigin(key: key, version: version)
            case .generation(let below): generation = try self.generation(below)
            }
        }
        return nil
    }

    func setUnderlay(_ id: GenerationID, _ underlay: Underlay) throws(JournalError) {
        try connection.run(
            """
            UPDATE generation SET underlay = ?, underlay_key = ?, underlay_tag = ?, underlay_size = ?,
                underlay_modified = ?, underlay_generation = ? WHERE id = ?
            """,
            Self.columns(underlay) + [.integer(id.value)]
        )
    }

    /// Notes that one reference less names the generation; `adoptable` says what object its content is now.
    func release(
        _ id: GenerationID?,
        adoptable: (key: ObjectKey, version: ObjectVersion)? = nil
    ) throws(JournalError) {
        guard let id else { return }
        if let adoptable {
            try connection.run(
                "INSERT OR REPLACE INTO released VALUES (?, ?, ?, ?, ?)",
                [.integer(id.value), .key(adoptable.key)] + Encoding.columns(adoptable.version)
            )
        } else {
            try connection.run("INSERT OR IGNORE INTO released (generation) VALUES (?)", [.integer(id.value)])
        }
    }

    /// Whether a row, a transfer or another generation needs the generation.
    func isReferenced(_ id: GenerationID) throws(JournalError) -> Bool {
        let value: [Value] = [.integer(id.value)]
        if try connection.exists("SELECT 1 FROM node WHERE generation = ?", value) { return true }
        if try connection.exists("SELECT 1 FROM transfer WHERE generation = ?", value) { return true }
        return try connection.exists("SELECT 1 FROM generation WHERE underlay_generation = ?", value)
    }

    /// Whether an upload of the generation has begun.
    func isInTransfer(_ id: GenerationID) throws(JournalError) -> Bool {
        try connection.exists("SELECT 1 FROM transfer WHERE generation = ?", [.integer(id.value)])
    }

    private static func columns(_ underlay: Underlay) -> [Value] {
        switch underlay {
        case .none: [0, .null] + Encoding.columns(nil as ObjectVersion?) + [.null]
        case .remote(let key, let version): [1, .key(key)] + Encoding.columns(version) + [.null]
        case .generation(let id): [2, .null] + Encoding.columns(nil as ObjectVersion?) + [.integer(id.value)]
        }
    }
}
