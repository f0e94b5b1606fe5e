// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database

/// What became of a row whose change reached the remote.
package enum Completion: Hashable, Sendable {
    /// Nothing is left to do for it.
    case settled
    /// It has a newer wish, now based on what was sent.
    case hasMore(NodeID)
    /// No row asked for this any more.
    case unclaimed
}

/// A generation that nothing needs any more; its row is gone, its staging file is the caller's.
package struct ReleasedGeneration: Hashable, Sendable {
    package let id: GenerationID
    /// The object whose bytes are exactly those of the staging file, when there is one.
    package let object: (key: ObjectKey, version: ObjectVersion)?
    /// What the bytes of that file have to be; nil where nobody knows.
    package var check: ContentCheck?

    package static func == (left: ReleasedGeneration, right: ReleasedGeneration) -> Bool { left.id == right.id }
    package func hash(into hasher: inout Hasher) { hasher.combine(id) }
}

extension Journal {
    /// Notes that a transfer's content is the object at its key, as `version`.
    ///
    /// Write the catalog first.
    ///
    /// Whatever the row did meanwhile (new attributes, newer content, another path, removed) goes on from here.
    /// Without `hasAttributes` the object has the content only: the row's attributes are still to be sent.
    package func completeTransfer(
        _ id: TransferID,
        version: ObjectVersion,
        hasAttributes: Bool = true
    ) throws(JournalError) -> Completion {
        try write { tables throws(JournalError) in
            guard let transfer = try tables.transfer(id) else {
                throw JournalError(.notFound, "journal: transfer \(id) is gone")
            }
            try tables.delete(transfer)
            try tables.noteReplaced(at: transfer.key)
            try tables.rebaseShowing(transfer, version)
            let owner = try tables.node(transfer.node)
            if let owner, owner.path != transfer.key {
                try tables.noteLinkSentBeforeMove(owner, transfer, version, hasAttributes)
                try tables.sentBeforeMove(owner, transfer, version, hasAttributes)
            }
            guard let row = try tables.node(at: transfer.key) else {
                try tables.noteUnclaimedLink(transfer, version)
                return .unclaimed
            }
            let completion = try tables.sent(row, transfer, version, hasAttributes)
            return try tables.noteSentLink(row, transfer, version, hasAttributes, completion)
        }
    }

    /// Notes that the object at a key is gone.
    ///
    /// Write the catalog first. The row, if any, goes on from there; `request` was what did it.
    @discardableResult
    package func completeObjectRemoval(
        at key: ObjectKey,
        request: DoubtID? = nil
    ) throws(JournalError) -> Completion {
        try observe(key, request, isRemoval: true) { node in node.base = .absent }
    }

    /// Ends a row that only watched over a path where nothing shall be, unless it has something to take away by now.
    package func endWatch(_ node: JournalNode) throws(JournalError) {
        try write { tables throws(JournalError) in
            guard let row = try tables.node(node.id), row.path == node.path else { return }
            try tables.removeIfNothingLeft(row)
        }
    }

    /// Notes that the folder at a path, that is its marker, is gone.
    ///
    /// Write the catalog first; `request` was what did it.
    @discardableResult
    package func completeDirectoryRemoval(
        at path: ObjectKey,
        request: DoubtID? = nil
    ) throws(JournalError) -> Completion {
        try observe(path, request) { node in node.hasRemoteDirectory = false }
    }

    /// Notes that a request in doubt was carried out: the object at its key is its, as `version`.
    ///
    /// The row, if any, goes on from there: what it wants instead replaces exactly that version.
    @discardableResult
    package func completeDoubt(_ doubt: Doubt, version: ObjectVersion) throws(JournalError) -> Completion {
        let path = doubt.key.withoutMarkerSlash
        return try observe(path, doubt.id) { node in
            if path == doubt.key {
                node.base = .version(version)
            } else {
                node.hasRemoteDirectory = true
            }
        }
    }

    /// Notes, before the request goes out, that a folder's marker may be at the remote from now on.
    ///
    /// Returns the row to send; nil when its path is no folder any more, or has an object that must go first.
    package func beginDirectory(_ node: JournalNode) throws(JournalError) -> JournalNode? {
        try write { tables throws(JournalError) in
            guard var row = try tables.node(node.id), row.kind == .directory, row.path == node.path,
                row.base == .absent
            else { return nil }
            row.hasRemoteDirectory = true
            try tables.update(row)
            try tables.noteFolders(above: row.path)
            return row
        }
    }

    /// Notes that a folder's marker has the attributes of `node`, as ``beginDirectory(_:)`` returned it.
    ///
    /// Write the catalog first.
    @discardableResult
    package func completeDirectory(_ node: JournalNode, request: DoubtID? = nil) throws(JournalError) -> Completion {
        try write { tables throws(JournalError) in
            if let request { try tables.removeDoubt(request) }
            guard let row = try tables.node(node.id) else { return .unclaimed }
            guard row.path == node.path, row.attributeSequence == node.attributeSequence, row.base == .absent else {
                return .hasMore(row.id)
            }
            try tables.delete(row)
            return .settled
        }
    }

    /// Takes away the generations that nothing needs.
    ///
    /// Durable, because the caller then deletes their staging files with ``removeStaging(_:)``, or gives those
    /// that are an `object` to the block cache.
    ///
    /// With `keepingAdoptable` those that are an object stay for another caller.
    package func releaseGenerations(
        keepingAdoptable: Bool = false,
        limit: Int = 1000
    ) throws(JournalError) -> [ReleasedGeneration] {
        let sql = "SELECT 1 FROM released WHERE generation > 0 AND (key IS NULL OR ?) LIMIT 1"
        let isNeeded = try read { tables throws(JournalError) in
            try tables.connection.exists(sql, [.integer(!keepingAdoptable)])
        }
        guard isNeeded else { return [] }
        return try write(durable: true) { tables throws(JournalError) in
            try tables.takeReleased(keepingAdoptable, limit)
        }
    }

    private func observe(
        _ path: ObjectKey,
        _ request: DoubtID?,
        isRemoval: Bool = false,
        _ note: (inout JournalNode) -> Void
    ) throws(JournalError) -> Completion {
        try write { tables throws(JournalError) in
            if isRemoval { try tables.noteRemoved(at: path) }
            if let request { try tables.removeDoubt(request) }
            guard var node = try tables.node(at: path) else { return .unclaimed }
            note(&node)
            try tables.update(node)
            try tables.removeIfNothingLeft(node)
            _ = try tables.removeIfClean(node)
            return try tables.node(node.id) == nil ? .settled : .hasMore(node.id)
        }
    }
}

extension Tables {
    /// Every generation that shows the sent one shows the object instead, which has the same bytes.
    fileprivate func rebaseShowing(_ transfer: Transfer, _ version: ObjectVersion) throws(JournalError) {
        guard let sent = transfer.generation else { return }
        let sql = "SELECT id FROM generation WHERE underlay_generation = ?"
        let showing = try connection.all(sql, [.integer(sent.value)]) { GenerationID($0.integer(0)) }
        for id in showing { try setUnderlay(id, .remote(transfer.key, version)) }
        let source = try generation(sent)?.wholeRemote
        // One whose bytes were fetched first is a copy as well.
        var copied = source
        if copied == nil { copied = try arrival(of: sent) }
        if let copied, try linkedName(at: transfer.key)?.isFirst ?? true {
            try moveArrivals(from: copied, to: (transfer.key, version))
        }
        if let source, source.key == transfer.key {
            // A copy onto itself: whoever shows the bytes by their old version finds them under the new one.
            try connection.run(
                """
                UPDATE generation SET underlay_tag = ?, underlay_size = ?, underlay_modified = ?
                WHERE underlay_key = ? AND underlay_tag IS ? AND underlay_size = ?
                """,
                Encoding.columns(version) + [.key(source.key)] + Encoding.columns(source.version).prefix(2)
            )
        }
        try release(sent, adoptable: (transfer.key, version))
    }

    /// The row at the key of a finished transfer, whoever's it is, is based on what was sent.
    fileprivate func sent(
        _ row: JournalNode,
        _ transfer: Transfer,
        _ version: ObjectVersion,
        _ hasAttributes: Bool
    ) throws(JournalError) -> Completion {
        var row = row
        row.base = .version(version)
        guard row.id == transfer.node else {
            try update(row)
            return .hasMore(row.id)
        }
        row.schedule.attempts = 0
        row.schedule.nextAttempt = nil
        row.schedule.lastError = nil
        if hasAttributes {
            row.firstSequence = transfer.startSequence + 1
        } else if row.attributeSequence == 0 {
            // Those that were not changed went with the content.
            row.attributeSequence = row.firstSequence
        }
        let isSameAttributes = hasAttributes && row.attributeSequence == transfer.attributeSequence
        if isSameAttributes { row.attributeSequence = 0 }
        if row.generation?.id == transfer.generation {
            if isSameAttributes, !row.hasRemoteDirectory {
                try delete(row)
                return .settled
            }
            try showObject(&row, transfer, version)
        } else {
            row.generation = try reloaded(row.generation)
        }
        try update(row)
        return try removeIfClean(row) ? .settled : .hasMore(row.id)
    }

    /// A row that moved away while its content was sent to its old path copies it from there.
    fileprivate func sentBeforeMove(
        _ node: JournalNode,
        _ transfer: Transfer,
        _ version: ObjectVersion,
        _ hasAttributes: Bool
    ) throws(JournalError) {
        guard let generation = node.generation else { return }
        var node = node
        if !hasAttributes, node.attributeSequence == 0 {
            // What the remote has by the old name is not what the row wants, should it get that name again.
            node.attributeSequence = node.firstSequence
            try update(node)
        }
        guard generation.id == transfer.generation else { return }
        // An upload of the same content to the new path that has begun is not thrown away.
        guard try !isInTransfer(generation.id) else { return }
        if hasAttributes, node.attributeSequence == transfer.attributeSequence { node.attributeSequence = 0 }
        try showObject(&node, transfer, version)
        try update(node)
    }

    /// Gives a row whose content was sent a generation that is the object's, instead of the staging file.
    private func showObject(
        _ node: inout JournalNode,
        _ transfer: Transfer,
        _ version: ObjectVersion
    ) throws(JournalError) {
        guard let sent = node.generation else { return }
        let content = ContentMap(size: sent.size, underlayLength: sent.size)
        node.generation = try insertGeneration(content, .remote(transfer.key, version), isSealed: true)
        try release(sent.id)
    }

    private func reloaded(_ generation: Generation?) throws(JournalError) -> Generation? {
        guard let generation else { return nil }
        return try self.generation(generation.id)
    }

    /// Removes the rows of released generations that are really unreferenced, and of those below them.
    fileprivate func takeReleased(
        _ keepingAdoptable: Bool,
        _ limit: Int
    ) throws(JournalError) -> [ReleasedGeneration] {
        var taken: [ReleasedGeneration] = []
        var queue = try candidates(keepingAdoptable, limit)
        while let candidate = queue.popLast() {
            try connection.run(
                candidate.object == nil
                    ? "DELETE FROM released WHERE generation = ?"
                    : "UPDATE OR REPLACE released SET generation = -generation WHERE generation = ?",
                [.integer(candidate.id.value)]
            )
            guard let generation = try generation(candidate.id), try !isReferenced(candidate.id) else { continue }
            var released = candidate.adoptable(generation)
            if released.object != nil { released.check = try check(of: generation) }
            try deleteGeneration(candidate.id)
            taken.append(released)
            if case .generation(let below) = generation.underlay {
                queue.append(ReleasedGeneration(id: below, object: nil))
            }
        }
        if let newest = taken.map(\.id.value).max() { try forgetArrivals(before: newest) }
        return taken
    }

    private func candidates(_ keepingAdoptable: Bool, _ limit: Int) throws(JournalError) -> [ReleasedGeneration] {
        try connection.all(
            "SELECT generation, key, tag, size, modified FROM released WHERE generation > 0 AND (key IS NULL OR ?) LIMIT ?",
            [.integer(!keepingAdoptable), .integer(Int64(limit))]
        ) { row in
            let object = row.optionalKey(1).map { ($0, Encoding.version(row, 2)) }
            return ReleasedGeneration(id: GenerationID(row.integer(0)), object: object)
        }
    }
}

extension ReleasedGeneration {
    /// Itself, without the object when the staging file lacks bytes of it.
    fileprivate func adoptable(_ generation: Generation) -> ReleasedGeneration {
        guard let object, object.version.size == generation.size, generation.content.underlayLength == 0,
            generation.doubt == .none
        else {
            return ReleasedGeneration(id: id, object: nil)
        }
        return self
    }
}
