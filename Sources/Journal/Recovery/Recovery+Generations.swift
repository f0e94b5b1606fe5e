// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Platform

/// A generation as its row and its staging file have it.
private struct Evidence {
    let generation: Generation
    /// Content was recorded since the generation was made.
    let isRecorded: Bool
    /// What power loss leaves for sure; nil when nothing ever was.
    let synced: ContentMap?
    let file: StagingFile?
    /// It is open, and nothing shows but what was written to it: a new file, or one that was cut to nothing.
    let isNew: Bool
    /// Of such a one: what was written to it since it was recorded.
    let written: [ByteRange]
    /// The size that the content below it was recovered with; nil when it is over no other.
    let sizeBelow: Int64?
    /// The row that has it, if any.
    let node: JournalNode?
}

/// What becomes of a generation.
private enum Verdict {
    case keep
    /// Sealed with this content.
    case restore(ContentMap, isSynced: Bool)
    /// Its bytes cannot be trusted or are not there: its row goes back to what the remote has.
    case lose
    /// Acknowledged content that should be there is not: its row waits for a person.
    case damaged
}

extension Recovery {
    private func removeStaging(_ id: GenerationID) throws(JournalError) {
        do throws(SystemError) {
            try journal.removeStaging(id)
        } catch {
            throw JournalError(system: error)
        }
    }

    /// Takes dropped writes out of a staging file: what lies outside the extents is to read as zeros.
    private func clearStaging(_ id: GenerationID, _ content: ContentMap) throws(JournalError) {
        let path = journal.stagingPath(id)
        do throws(SystemError) {
            try StagingFile(path)?.clear(path, outside: content)
        } catch {
            throw JournalError(system: error)
        }
    }

    /// Decides for each generation, older ones first, and makes it so.
    mutating func recoverGenerations() throws(JournalError) {
        var lost: Set<GenerationID> = []
        let sql = "SELECT id FROM generation ORDER BY id"
        for id in try tables.connection.all(sql, [], { GenerationID($0.integer(0)) }) {
            guard let evidence = try evidence(id) else { continue }
            var verdict = Self.judge(evidence, isNewBoot: isNewBoot)
            if case .generation(let below) = evidence.generation.underlay, try isGone(below, lost) { verdict = .lose }
            if case .lose = verdict { lost.insert(id) }
            try carryOut(verdict, evidence)
        }
    }

    private func isGone(_ id: GenerationID, _ lost: Set<GenerationID>) throws(JournalError) -> Bool {
        if lost.contains(id) { return true }
        return try tables.generation(id) == nil
    }

    private func evidence(_ id: GenerationID) throws(JournalError) -> Evidence? {
        guard let generation = try tables.generation(id) else { return nil }
        let sql = """
            SELECT is_recorded, synced_size, synced_extents, synced_underlay_length FROM generation WHERE id = ?
            """
        let facts = try tables.connection.first(sql, [.integer(id.value)]) { row throws(JournalError) in
            (row.bool(0), row.isNull(1) ? nil : Self.content(row))
        }
        let isRecorded = facts?.0 ?? false
        let isNew = !generation.isSealed && (generation.underlay == .none || isRecorded && generation.isCutFromContent)
        let path = journal.stagingPath(id)
        // Rows that cannot be understood are gone by now; of one that cannot be read nothing may be concluded.
        let sizeBelow = try sizeBelow(generation)
        let node = try tables.nodes("WHERE n.generation = ?", [.integer(id.value)]).first
        do throws(SystemError) {
            let file = try StagingFile(path)
            return Evidence(
                generation: generation,
                isRecorded: isRecorded,
                synced: facts?.1,
                file: file,
                isNew: isNew,
                written: isNew ? try file?.written(path, besides: generation.content.extents) ?? [] : [],
                sizeBelow: sizeBelow,
                node: node
            )
        } catch {
            throw JournalError(system: error)
        }
    }

    private func sizeBelow(_ generation: Generation) throws(JournalError) -> Int64? {
        guard case .generation(let below) = generation.underlay else { return nil }
        return try tables.generation(below)?.size
    }

    /// What was synced; what makes no sense says nothing of it.
    private static func content(_ row: Row) -> ContentMap? {
        guard let extents = try? Encoding.extents(row.blob(2)) else { return nil }
        return ContentMap(size: row.integer(1), extents: extents, underlayLength: row.integer(3))
    }

    /// The pure decision.
    private static func judge(_ evidence: Evidence, isNewBoot: Bool) -> Verdict {
        let generation = evidence.generation
        if isNewBoot, !generation.isSynced {
            guard let synced = evidence.synced else { return .lose }
            return .restore(shown(clipped(synced, evidence.file), evidence), isSynced: true)
        }
        let length = evidence.file?.length ?? 0
        if generation.isSealed {
            guard length < generation.content.extents.upperBound else { return .keep }
            // A cut may have reached the disk whose commit, that the file was open again, did not; but a file with
            // checksums is not opened again before that is safe.
            guard isNewBoot, evidence.file != nil, generation.checksums == .none else { return .damaged }
            return .restore(clipped(generation.content, evidence.file), isSynced: true)
        }
        if !evidence.isRecorded, generation.underlay != .none {
            return .restore(shown(generation.content, evidence), isSynced: true)
        }
        if evidence.file == nil, !generation.content.extents.isEmpty { return .damaged }
        if evidence.isNew, !isNewBoot { return .restore(whole(evidence), isSynced: false) }
        let content = clipped(generation.content, evidence.file)
        return .restore(content, isSynced: generation.isSynced && content == generation.content)
    }

    /// Recorded content, cut where the staging file was cut since.
    private static func clipped(_ content: ContentMap, _ file: StagingFile?) -> ContentMap {
        var content = content
        let length = file?.length ?? 0
        if length < content.extents.upperBound { content.truncate(to: length) }
        return content
    }

    /// Content, cut where it shows all of a content below that has lost its end: that had not been synced when this was
    /// put over it.
    private static func shown(_ content: ContentMap, _ evidence: Evidence) -> ContentMap {
        guard let end = evidence.sizeBelow, end < content.size, content.isPure(length: content.size) else {
            return content
        }
        return ContentMap(size: end, underlayLength: end)
    }

    /// All that a file of which nothing else shows has in staging, also what was written since it was recorded.
    private static func whole(_ evidence: Evidence) -> ContentMap {
        guard let file = evidence.file else { return evidence.generation.content }
        var content = clipped(evidence.generation.content, file)
        for range in evidence.written { content.write(range) }
        if file.length > content.size { content.truncate(to: file.length) }
        return content
    }

    private mutating func carryOut(_ verdict: Verdict, _ evidence: Evidence) throws(JournalError) {
        let id = evidence.generation.id
        switch verdict {
        case .keep:
            guard isNewBoot else { break }
            // Writes may have reached the disk whose commit, that the file was open again, did not; and what was set
            // aside while it was written to has no checksums.
            try clearStaging(id, evidence.generation.content)
            if evidence.generation.checksums == .none { try tables.restartChecksums(of: id) }
        case .restore(let content, let isSynced): try restore(evidence, content, isSynced)
        case .lose:
            try quarantine(id, evidence.node?.path)
            if let node = evidence.node { try lose(node) }
            try tables.deleteGeneration(id)
        case .damaged:
            try tables.connection.run("UPDATE generation SET is_sealed = 1 WHERE id = ?", [.integer(id.value)])
            if !evidence.generation.isSealed { try tables.removeChecksums(of: id) }
            guard var node = evidence.node else { break }
            node.schedule.attention =
                "its local data is missing or cut short: cancel this change and save the file again"
            try tables.update(node)
            report.items.append(RecoveryReport.Item(path: node.path, outcome: .damaged))
        }
    }

    /// Takes away a row whose content is lost, so that its path shows what the remote has.
    ///
    /// But a folder that was removed before stays so: the file had only taken its name.
    private func lose(_ node: JournalNode) throws(JournalError) {
        if node.conflictOf != nil { try tables.forgetConflict(node.path) }
        guard node.base == .absent, node.hasRemoteDirectory else { return try tables.delete(node) }
        var grave = node
        grave.kind = .tombstone
        grave.generation = nil
        grave.target = nil
        grave.isOpen = false
        try tables.update(grave)
    }

    private mutating func restore(
        _ evidence: Evidence,
        _ content: ContentMap,
        _ isSynced: Bool
    ) throws(JournalError) {
        let old = evidence.generation
        // Where power loss takes it back to what is below, it is not.
        let isNewFile = evidence.isNew && content.underlayLength == 0
        let isFileUnused = content.extents.isEmpty && evidence.file != nil && !isNewFile
        let hasDroppedWrites = isFileUnused && evidence.file?.data.isEmpty == false
        if isNewBoot, !old.isSynced, hasDroppedWrites {
            try quarantine(old.id, evidence.node?.path)
        } else if isFileUnused {
            // Now and not after the commit, when a flusher could already fill the file for an upload.
            try removeStaging(old.id)
            guard hasDroppedWrites else { return try seal(evidence, content, isSynced) }
            report.items.append(RecoveryReport.Item(path: evidence.node?.path, outcome: .reverted))
        } else if content != old.content {
            let outcome: RecoveryReport.Item.Outcome = isNewFile ? .kept(content.size) : .reverted
            report.items.append(RecoveryReport.Item(path: evidence.node?.path, outcome: outcome))
        }
        try seal(evidence, content, isSynced)
    }

    private func seal(_ evidence: Evidence, _ content: ContentMap, _ isSynced: Bool) throws(JournalError) {
        let old = evidence.generation
        try clearStaging(old.id, content)
        _ = try tables.record(old.id, content, isSealed: true, isSynced: isSynced)
        // They are of other bytes, or nobody knows of which.
        try tables.restartChecksums(of: old.id)
        if isNewBoot, !old.isSynced {
            // What was sent of it before the power loss may be other bytes than these: begin anew. No upload begins
            // like that; an older version of this program may have left one.
            try holdBack(evidence)
            try tables.connection.run(
                "UPDATE transfer SET generation = NULL WHERE generation = ?",
                [.integer(old.id.value)]
            )
        }
        try touch(evidence, content)
    }

    /// Holds back a row whose newer content may be at the remote already: it would be overwritten by the older one.
    private func holdBack(_ evidence: Evidence) throws(JournalError) {
        let sql = "SELECT 1 FROM transfer WHERE generation = ? AND phase = ?"
        let isDoubtful = try tables.connection.exists(
            sql,
            [.integer(evidence.generation.id.value), .integer(TransferPhase.committing.rawValue)]
        )
        guard isDoubtful, var node = evidence.node else { return }
        node.schedule.attention = """
            power loss took back what was being uploaded, and the remote may have it: retry sends what is here, cancel \
            keeps what the remote has
            """
        try tables.update(node)
    }

    /// What was written since the row was last changed gives it its time; until then the row knows better.
    private func touch(_ evidence: Evidence, _ content: ContentMap) throws(JournalError) {
        let old = evidence.generation
        guard evidence.isNew, content.underlayLength == 0, let file = evidence.file, var node = evidence.node,
            content != old.content || file.modified > node.changedAt
        else { return }
        node.attributes.modified = file.modified
        node.attributeSequence = try tables.nextSequence()
        try tables.update(node)
    }
}
