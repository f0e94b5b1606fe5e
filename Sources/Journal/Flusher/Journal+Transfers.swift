// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform

extension Journal {
    /// Begins an upload of a row as it was read; nil when the row changed since, or an upload to its key runs.
    ///
    /// From here on writes go to a new generation, so the content and, if the flusher fills its
    /// gaps, the staging file are the transfer's alone. Call it before the first request.
    ///
    /// Nil also for content that is not synced yet: power loss must not take back what the remote may have got.
    package func beginTransfer(
        of node: JournalNode,
        method: TransferProtocol,
        partSize: Int64 = 0,
        now: Timestamp = .now()
    ) throws(JournalError) -> Transfer? {
        try write { tables throws(JournalError) in
            guard let row = try tables.node(node.id), row.isTransferable, row.hasSameWish(as: node) else { return nil }
            guard try !tables.isTransferRunning(at: row.path) else { return nil }
            try tables.noteFolders(above: row.path)
            return try tables.transfer(try tables.insertTransfer(row, method, partSize: partSize, now: now))
        }
    }

    /// Notes what the server calls the upload; durable, since only this name lets us finish or abort it.
    ///
    /// A creation of this transfer under way has ended well with that.
    package func setUpload(
        _ transfer: TransferID,
        method: TransferProtocol,
        upload: String?,
        interopVersion: Int64 = 0,
        partSize: Int64 = 0,
        composition: [UInt8]? = nil
    ) throws(JournalError) {
        try write(durable: true) { tables throws(JournalError) in
            let sql = """
                UPDATE transfer SET method = ?, upload = ?, interop_version = ?, part_size = ?, composition = ?
                WHERE id = ?
                """
            try tables.connection.run(
                sql,
                [
                    .integer(method.rawValue), .text(upload), .integer(interopVersion), .integer(partSize),
                    composition.map { .blob($0) } ?? .null, .integer(transfer.value),
                ]
            )
            try tables.connection.run("DELETE FROM leftover WHERE transfer = ?", [.integer(transfer.value)])
        }
    }

    /// Starts the same content over, without an upload at the server: parts and progress are forgotten.
    package func restartTransfer(_ transfer: TransferID, method: TransferProtocol) throws(JournalError) {
        try write { tables throws(JournalError) in
            try tables.connection.run("DELETE FROM part WHERE transfer = ?", [.integer(transfer.value)])
            let sql = """
                UPDATE transfer SET method = ?, upload = NULL, interop_version = 0, part_size = 0, acknowledged = 0,
                    phase = 0, expected_tag = NULL, composition = NULL WHERE id = ?
                """
            try tables.connection.run(sql, [.integer(method.rawValue), .integer(transfer.value)])
        }
    }

    /// Notes a part that the remote acknowledged; the transfer's acknowledged bytes follow, and are returned.
    @discardableResult
    package func recordPart(_ transfer: TransferID, _ part: TransferPart) throws(JournalError) -> Int64 {
        try write { tables throws(JournalError) in
            try tables.connection.run(
                "INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?)",
                [
                    .integer(transfer.value), .integer(part.number), .integer(part.size), .blob(part.digest),
                    .text(part.entityTag),
                ]
            )
            return try tables.sumParts(of: transfer)
        }
    }

    /// Replaces all parts by what the server says it has.
    package func replaceParts(of transfer: TransferID, by parts: [TransferPart]) throws(JournalError) {
        try write { tables throws(JournalError) in
            try tables.connection.run("DELETE FROM part WHERE transfer = ?", [.integer(transfer.value)])
            for part in parts {
                try tables.connection.run(
                    "INSERT OR REPLACE INTO part VALUES (?, ?, ?, ?, ?)",
                    [
                        .integer(transfer.value), .integer(part.number), .integer(part.size), .blob(part.digest),
                        .text(part.entityTag),
                    ]
                )
            }
            _ = try tables.sumParts(of: transfer)
        }
    }

    /// Notes how many bytes the remote acknowledged.
    package func recordProgress(_ transfer: TransferID, acknowledged: Int64) throws(JournalError) {
        try write { tables throws(JournalError) in
            try tables.connection.run(
                "UPDATE transfer SET acknowledged = ? WHERE id = ?",
                [.integer(acknowledged), .integer(transfer.value)]
            )
        }
    }

    /// Notes durably, before the request goes out, that the object may change from now on.
    package func markCommitting(_ transfer: TransferID, expectedTag: String?) throws(JournalError) {
        func note(_ tables: Tables) throws(JournalError) -> Void? {
            try tables.setPhase(transfer, .committing, expectedTag)
        }
        // Said of what did not go out, it costs a look.
        _ = try writeBeforeRequest(note) { _, _ in }
    }

    /// Notes that the commit is known not to have happened.
    package func markSending(_ transfer: TransferID) throws(JournalError) {
        try write { tables throws(JournalError) in try tables.setPhase(transfer, .sending, nil) }
    }

    /// Forgets a transfer that is aborted at the remote, or never came to be there.
    ///
    /// A row that stood only because of it goes too.
    package func removeTransfer(_ id: TransferID) throws(JournalError) {
        try write { tables throws(JournalError) in
            guard let transfer = try tables.transfer(id) else { return }
            try tables.delete(transfer)
            guard let row = try tables.node(at: transfer.key) else {
                // New attributes may have come to pass unseen.
                if transfer.phase == .committing { try tables.noteUnclaimedLink(transfer, nil) }
                return
            }
            try tables.removeIfNothingLeft(row)
            _ = try tables.removeIfClean(row)
        }
    }

    /// Notes that bytes of a generation in transfer were fetched into its staging file, which was synced since
    /// (fdatasync, and the staging directory if the file is new): all of it then survives power loss.
    ///
    /// Once no byte of the underlay shows, the generation lets go of it, and keeps its origin when bytes were fetched;
    /// no ranges at all are enough for an empty file. `.notFound` when no transfer has it. Durable where bytes were
    /// fetched: the upload may replace the object that they came from. `checksums` are of all that is in the file now.
    @discardableResult
    package func hydrated(
        _ id: GenerationID,
        _ ranges: [ByteRange],
        checksums: ChecksumList? = nil
    ) throws(JournalError) -> Generation {
        try write(durable: !ranges.isEmpty) { tables throws(JournalError) in
            guard let old = try tables.generation(id), old.isSealed, try tables.isInTransfer(id) else {
                throw JournalError(.notFound, "journal: generation \(id) is not in transfer")
            }
            if let whole = old.wholeRemote { try tables.noteArrival(of: id, whole) }
            var content = old.content
            for range in ranges { content.write(range) }
            precondition(content.size == old.size, "hydration never changes the size")
            let isSynced = old.isSynced || !ranges.isEmpty || content.extents.isEmpty
            _ = try tables.record(id, content, isSealed: true, isSynced: isSynced)
            if let checksums {
                try tables.store(checksums, of: id)
                try tables.set(.complete, of: old)
            } else if content.extents != old.content.extents, old.checksums == .complete {
                try tables.set(.pending, of: old)
            }
            if isSynced, content.underlayRanges.isEmpty {
                let isFetched = !old.content.underlayRanges.isEmpty
                try tables.releaseUnderlay(of: old, origin: isFetched ? tables.origin(of: old) : old.origin)
            }
            guard let new = try tables.generation(id) else { return old }
            return new
        }
    }
}

extension JournalNode {
    fileprivate var isTransferable: Bool {
        (kind == .file || kind == .symbolicLink) && !isOpen && generation?.isSendable ?? true
    }

    /// Whether an upload of the other, older reading of this row does what this row wants.
    fileprivate func hasSameWish(as other: JournalNode) -> Bool {
        path == other.path && generation?.id == other.generation?.id
            && attributeSequence == other.attributeSequence && base == other.base
            && generation?.revision == other.generation?.revision
    }
}

extension Tables {
    fileprivate func setPhase(
        _ transfer: TransferID,
        _ phase: TransferPhase,
        _ expectedTag: String?
    ) throws(JournalError) {
        try connection.run(
            "UPDATE transfer SET phase = ?, expected_tag = ? WHERE id = ?",
            [.integer(phase.rawValue), .text(expectedTag), .integer(transfer.value)]
        )
    }

    fileprivate func sumParts(of transfer: TransferID) throws(JournalError) -> Int64 {
        let sql = "SELECT coalesce(sum(size), 0) FROM part WHERE transfer = ?"
        let sum = try connection.first(sql, [.integer(transfer.value)]) { $0.integer(0) } ?? 0
        let update = "UPDATE transfer SET acknowledged = ? WHERE id = ?"
        try connection.run(update, [.integer(sum), .integer(transfer.value)])
        return sum
    }

    /// Notes in the rows of the folders above a path that the remote is about to have them, if only implied.
    func noteFolders(above path: ObjectKey) throws(JournalError) {
        var folder = path.parent
        while !folder.isRoot {
            try connection.run(
                """
                UPDATE node SET has_remote_directory = 1
                WHERE parent = ? AND name = ? AND kind = 1 AND has_remote_directory = 0
                """,
                [.key(folder.parent), .key(folder.name)]
            )
            folder = folder.parent
        }
    }

    /// Removes a tombstone when there is nothing, and can come nothing, that it must take away; those of the folders
    /// above it go with it when they stood only because of it.
    func removeIfNothingLeft(_ node: JournalNode) throws(JournalError) {
        guard node.isTombstone, !Observation(node).hasAnything else { return }
        guard try !mayAppear(at: node.path), try !hasTombstones(below: node.path) else { return }
        try delete(node)
        var folder = node.path.parent
        while !folder.isRoot {
            if let row = try self.node(at: folder) { return try removeIfNothingLeft(row) }
            folder = folder.parent
        }
    }
}
