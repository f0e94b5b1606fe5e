// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

extension Tables {
    private static let selectTransfer = """
        SELECT t.id, t.node, t.generation, t.key, t.method, t.attribute_sequence, t.start_sequence, t.base, t.base_tag,
            t.base_size, t.base_modified, t.phase, t.upload, t.interop_version, t.part_size, t.size, t.acknowledged,
            t.expected_tag, t.started_at, t.composition FROM transfer t
        """ + " "

    private static func transfer(_ row: Row) throws(JournalError) -> Transfer {
        guard let method = TransferProtocol(rawValue: row.integer(4)),
            let phase = TransferPhase(rawValue: row.integer(11))
        else { throw JournalError(.corrupt, "journal: a transfer has an unknown protocol or phase") }
        return Transfer(
            id: TransferID(row.integer(0)),
            node: NodeID(row.integer(1)),
            generation: row.optionalInteger(2).map { GenerationID($0) },
            key: row.key(3),
            method: method,
            attributeSequence: row.integer(5),
            startSequence: row.integer(6),
            base: Encoding.base(row, 7),
            phase: phase,
            upload: row.optionalText(12),
            interopVersion: row.integer(13),
            partSize: row.integer(14),
            composition: row.optionalBlob(19),
            size: row.integer(15),
            acknowledged: row.integer(16),
            expectedTag: row.optionalText(17),
            startedAt: row.time(18)
        )
    }

    func transfers(_ condition: String, _ values: [Value] = []) throws(JournalError) -> [Transfer] {
        try connection.all(Self.selectTransfer + condition, values) { row throws(JournalError) in
            try Self.transfer(row)
        }
    }

    func transfer(_ id: TransferID) throws(JournalError) -> Transfer? {
        try transfers("WHERE t.id = ?", [.integer(id.value)]).first
    }

    /// Whether an upload to this key has begun and not ended.
    func isTransferRunning(at key: ObjectKey) throws(JournalError) -> Bool {
        try connection.exists("SELECT 1 FROM transfer WHERE key = ?", [.key(key)])
    }

    /// Whether the request that replaces the object at this key may have been sent, and its answer is not recorded.
    func isCommitting(_ key: ObjectKey) throws(JournalError) -> Bool {
        try connection.exists(
            "SELECT 1 FROM transfer WHERE key = ? AND phase = ?",
            [.key(key), .integer(TransferPhase.committing.rawValue)]
        )
    }

    func insertTransfer(
        _ node: JournalNode,
        _ method: TransferProtocol,
        partSize: Int64,
        now: Timestamp
    ) throws(JournalError) -> TransferID {
        try connection.run(
            """
            INSERT INTO transfer (node, generation, key, method, attribute_sequence, start_sequence, base, base_tag,
                base_size, base_modified, phase, interop_version, part_size, size, acknowledged, started_at)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?, 0, ?)
            """,
            [
                .integer(node.id.value), .integer(node.generation?.id.value), .key(node.path),
                .integer(method.rawValue), .integer(node.attributeSequence), .integer(node.sequence),
            ] + Encoding.columns(node.base) + [.integer(partSize), .integer(node.size), .time(now)]
        )
        return TransferID(connection.lastInsertedRow)
    }

    /// Removes a transfer and its parts; its generation becomes a candidate for release.
    func delete(_ transfer: Transfer) throws(JournalError) {
        try connection.run("DELETE FROM part WHERE transfer = ?", [.integer(transfer.id.value)])
        try connection.run("UPDATE leftover SET transfer = NULL WHERE transfer = ?", [.integer(transfer.id.value)])
        try connection.run("DELETE FROM transfer WHERE id = ?", [.integer(transfer.id.value)])
        try release(transfer.generation)
    }
}
