// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database

extension Journal {
    /// Notes durably, before it goes out, a request of which nothing else in the journal tells: a deletion, a folder's
    /// marker.
    ///
    /// nil when `node`, the row that asks for it, was replaced since it was read.
    package func noteRequest(
        for node: JournalNode,
        _ key: ObjectKey,
        _ kind: DoubtKind,
        tag: String? = nil,
        size: Int64 = 0
    ) throws(JournalError) -> DoubtID? {
        func note(_ tables: Tables) throws(JournalError) -> DoubtID? {
            guard let row = try tables.node(node.id), row.path == node.path, row.kind == node.kind else { return nil }
            return try tables.insertDoubt(key, kind, tag: tag, size: size, endsAt: nil, base: nil)
        }
        return try writeBeforeRequest(note) { tables, id throws(JournalError) in try tables.removeDoubt(id) }
    }

    /// Notes that the answer of a request will not come; until `endsAt` it may be carried out.
    package func doubt(_ request: DoubtID, until endsAt: Timestamp) throws(JournalError) {
        try write { tables throws(JournalError) in
            try tables.connection.run(
                "UPDATE doubt SET ends_at = ? WHERE id = ?",
                [.time(endsAt), .integer(request)]
            )
        }
    }

    /// Notes that the commit of a transfer may be carried out until `endsAt`, although nothing of it was seen.
    ///
    /// `tag`: how its object is recognised.
    package func doubt(_ transfer: Transfer, tag: String?, until endsAt: Timestamp) throws(JournalError) {
        var base: String?
        if case .version(let version) = transfer.base { base = version.entityTag?.opaque }
        let replaced = base
        try write { tables throws(JournalError) in
            let size = transfer.size
            _ = try tables.insertDoubt(transfer.key, .write, tag: tag, size: size, endsAt: endsAt, base: replaced)
        }
    }

    /// Puts the requests of a process that died in doubt.
    package func doubtUnanswered(until endsAt: Timestamp) throws(JournalError) {
        try write { tables throws(JournalError) in
            // A time further ahead was written before the clock was set back.
            try tables.connection.run(
                "UPDATE doubt SET ends_at = ?1 WHERE ends_at IS NULL OR ends_at > ?1",
                [.time(endsAt)]
            )
        }
    }

    /// The requests in doubt that may change what is at a path, or its folder's marker.
    package func doubts(at path: ObjectKey) throws(JournalError) -> [Doubt] {
        try read { tables throws(JournalError) in
            try tables.doubts("WHERE key IN (?, ?) ORDER BY id", [.key(path), .key(path.marker)])
        }
    }

    /// How many requests are in doubt.
    package func doubtCount() throws(JournalError) -> Int {
        try read { tables throws(JournalError) in
            try tables.connection.first("SELECT count(*) FROM doubt") { Int($0.integer(0)) } ?? 0
        }
    }

    /// Notes that a request was answered, or that its outcome was seen; a tombstone that stood only because of it goes.
    package func endDoubt(_ id: DoubtID) throws(JournalError) {
        try write { tables throws(JournalError) in
            guard let doubt = try tables.doubts("WHERE id = ?", [.integer(id)]).first else { return }
            try tables.removeDoubt(id)
            guard let row = try tables.node(at: doubt.key.withoutMarkerSlash) else { return }
            try tables.removeIfNothingLeft(row)
        }
    }

    /// Whether the tombstone of a folder stays because of others below it, of what was in the folder.
    package func hasTombstones(below folder: ObjectKey) throws(JournalError) -> Bool {
        try read { tables throws(JournalError) in try tables.hasTombstones(below: folder) }
    }

    /// Whether each of these objects and markers is one that a tombstone takes away, or watches for.
    package func areBuried(_ keys: [ObjectKey]) throws(JournalError) -> Bool {
        try snapshot { tables throws(JournalError) in
            for key in keys {
                guard try tables.node(at: key.withoutMarkerSlash)?.isTombstone ?? false else { return false }
            }
            return true
        }
    }

    /// Forgets what was in doubt until `now`, but for the writes to a path that has a row and is no folder, and where nothing was
    /// made since: a tombstone still has to look after them, and what is sent there later may find their object, which is then
    /// no other writer's.
    package func forgetDoubts(endedBefore now: Timestamp) throws(JournalError) {
        let ended = try read { tables throws(JournalError) in try tables.doubtsToForget(endedBefore: now) }
        guard !ended.isEmpty else { return }
        try write { tables throws(JournalError) in
            for id in try tables.doubtsToForget(endedBefore: now) { try tables.removeDoubt(id) }
        }
    }
}

extension ObjectKey {
    /// The key of the marker object of the folder at this path.
    package var marker: ObjectKey { ObjectKey(bytes: bytes + [UInt8(ascii: "/")]) }

    /// The path whose object or marker this key is.
    var withoutMarkerSlash: ObjectKey {
        bytes.last == UInt8(ascii: "/") ? ObjectKey(bytes: Array(bytes.dropLast())) : self
    }
}
