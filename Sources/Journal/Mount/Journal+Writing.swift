// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform

extension Journal {
    /// Opens a file's content for changes and returns its row, whose generation is not sealed.
    ///
    /// With `expecting`, `.notFound` when another row, or none, is at the path: its content would be another's.
    ///
    /// A clean file gets a row whose content shows the remote's; a sealed generation is opened again; one
    /// whose upload runs stays as it is under a new one, and so does one that is safe from power loss when the caller is
    /// `replacing` all of it: until the new content is safe, it is what power loss leaves. Already open: returned as it
    /// is. The caller then changes
    /// a copy of `generation.content`, writes to the staging file, and calls ``record(_:_:content:modified:durable:now:)``
    /// and ``seal(_:_:content:modified:now:)``.
    package func beginWriting(
        at path: ObjectKey,
        remote: @autoclosure () throws(JournalError) -> RemoteState,
        expecting row: NodeID? = nil,
        replacing: Bool = false,
        now: Timestamp = .now()
    ) throws(JournalError) -> JournalNode {
        let remote = remote
        for isDurable in [false, true] {
            let node = try beginWriting(at: path, remote, row, now, replacing: replacing, isDurable: isDurable)
            if let node { return node }
        }
        throw JournalError(.constraint, "journal: the file could not be opened for changes")
    }

    /// Nil when it would open content whose checksums power loss would keep, and the commit is not durable: what is
    /// written next must not be measured by them.
    private func beginWriting(
        at path: ObjectKey,
        _ remote: () throws(JournalError) -> RemoteState,
        _ row: NodeID?,
        _ now: Timestamp,
        replacing: Bool,
        isDurable: Bool
    ) throws(JournalError) -> JournalNode? {
        try change(at: now, durable: isDurable) { change throws(JournalError) in
            if let row, try change.tables.node(at: path)?.id != row {
                throw JournalError(.notFound, "journal: the row was replaced meanwhile")
            }
            let remote = try remote()
            var node = try change.materialize(path, remote)
            guard node.kind == .file, let generation = node.generation else {
                throw JournalError(.constraint, "journal: the path is no file")
            }
            if generation.isSealed {
                let opened = try change.tables.reopen(generation, replacing: replacing, isDurable: isDurable)
                guard let opened else { return nil }
                node.generation = opened
                node.isOpen = true
                try change.tables.update(node)
            }
            if let id = node.generation?.id { node.generation?.syncedEnd = try change.tables.syncedEnd(of: id) }
            return node
        }
    }

    /// Records what of a file is in its staging file; the file stays open.
    ///
    /// False when it was removed meanwhile.
    ///
    /// With `durable` (fsync) the caller has synced the staging data, and on the first time the staging
    /// directory; when this returns the record survives power loss too. It fails for what a sync before failed for.
    /// `modified`, which is asked within the transaction, is the new modification time, if any.
    @discardableResult
    package func record(
        _ node: NodeID,
        _ generation: GenerationID,
        content: ContentMap,
        modified: @autoclosure () -> Timestamp?,
        durable: Bool,
        now: Timestamp = .now()
    ) throws(JournalError) -> Bool {
        try change(at: now, durable: durable) { change throws(JournalError) in
            guard try change.tables.record(generation, content, isSealed: false, isSynced: durable) else {
                return false
            }
            if durable { try change.tables.refuseDoubt(generation) }
            guard let row = try change.written(node, generation, modified()) else { return false }
            try change.tables.noteWritten(row)
            return true
        }
    }

    /// Records a file's content as complete, at the close of its last writer: it may be uploaded now.
    ///
    /// Nothing is synced: see ``synchronizeSealed(always:_:)``. `isUnchanged`: not one byte was written since the last
    /// durable record, or since it was opened. `isDoubtful`: a sync of it failed. `checksums`: of bytes of it. False when
    /// the file was removed meanwhile. A row that turns out to want nothing but what was there before goes away, or back to the older
    /// generation.
    @discardableResult
    package func seal(
        _ node: NodeID,
        _ generation: GenerationID,
        content: ContentMap,
        modified: @autoclosure () -> Timestamp?,
        isUnchanged: Bool = false,
        isDoubtful: Bool = false,
        checksums: ChecksumList = ChecksumList(),
        now: Timestamp = .now()
    ) throws(JournalError) -> Bool {
        func new() -> NewFile.Seal {
            NewFile.Seal(node: node, content: content, modified: modified(), checksums: checksums, now: now)
        }
        if !isDoubtful, closeLater(node, new) { return true }
        return try writeAll(false, sealing: isDoubtful ? nil : new()) {
            tables,
            sequence,
            hasSealed throws(JournalError) in
            if hasSealed { return true }
            let change = try tables.change(sequence, now)
            guard let old = try change.tables.generation(generation) else { return false }
            // The same ranges may hold other bytes.
            let isSynced = old.isSynced && old.content == content && isUnchanged && !isDoubtful
            _ = try change.tables.record(
                generation,
                content,
                isSealed: true,
                isSynced: isSynced,
                wasSynced: old.isSynced
            )
            if isDoubtful { _ = try change.tables.noteDoubt([generation]) }
            try change.tables.noteSealed(old, content, checksums, isSynced: isSynced)
            guard var row = try change.written(node, generation, modified()) else { return false }
            row.isOpen = false
            try change.tables.dropEmptyGeneration(&row)
            if row.generation?.id == generation {
                try change.tables.noteWritten(row)
            } else {
                try change.tables.update(row)
            }
            _ = try change.tables.removeIfClean(row)
            return true
        }
    }
}

extension Change {
    /// The row of a generation that was written to, stamped; nil when the row or its generation changed meanwhile.
    fileprivate func written(
        _ id: NodeID,
        _ generation: GenerationID,
        _ modified: Timestamp?
    ) throws(JournalError) -> JournalNode? {
        guard var row = try tables.node(id), row.generation?.id == generation else { return nil }
        row.touch(self)
        if let modified, modified != row.attributes.modified {
            row.attributes.modified = modified
            row.attributeSequence = sequence
        }
        return row
    }
}

extension Tables {
    /// A generation to write to in place of a sealed one: itself, or one on top of it while its upload runs, or while
    /// power loss is to bring back its content.
    ///
    /// Nil when that has to be durable.
    fileprivate func reopen(
        _ generation: Generation,
        replacing: Bool,
        isDurable: Bool
    ) throws(JournalError) -> Generation? {
        let isInUse = try connection.exists(
            "SELECT 1 FROM transfer WHERE generation = ?1 UNION SELECT 1 FROM generation WHERE underlay_generation = ?1",
            [.integer(generation.id.value)]
        )
        let holdsSyncedBytes = replacing ? try syncedEnd(of: generation.id) > 0 : false
        if isInUse || holdsSyncedBytes {
            let content = ContentMap(size: generation.size, underlayLength: generation.size)
            return try insertGeneration(content, .generation(generation.id), isSealed: false)
        }
        guard isDurable || generation.checksums == .none else { return nil }
        try connection.run("UPDATE generation SET is_sealed = 0 WHERE id = ?", [.integer(generation.id.value)])
        try forgetArrival(of: generation.id)
        try set(.none, of: generation)
        var opened = generation
        opened.isSealed = false
        opened.checksums = .none
        opened.isReopened = true
        return opened
    }

    /// Puts a row whose newest generation shows nothing but the one below back onto that.
    func dropEmptyGeneration(_ node: inout JournalNode) throws(JournalError) {
        guard let top = node.generation, case .generation(let id) = top.underlay, let below = try generation(id) else {
            return
        }
        guard top.content.isPure(length: below.size) else { return }
        node.generation = below
        try release(top.id)
    }
}
