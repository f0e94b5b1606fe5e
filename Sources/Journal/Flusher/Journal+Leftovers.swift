// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform

extension Journal {
    /// Notes that an upload is asked for next, whose name only the answer will tell; durable.
    ///
    /// `time` is the server's. ``setUpload(_:method:upload:interopVersion:partSize:)`` ends it well.
    package func beginCreation(of transfer: TransferID, at time: Timestamp) throws(JournalError) {
        try write(durable: true) { tables throws(JournalError) in
            try tables.disown(transfer, at: time)
            let sql = """
                INSERT INTO leftover (key, method, interop_version, transfer, began_at)
                SELECT key, ?, 0, id, ? FROM transfer WHERE id = ?
                """
            try tables.connection.run(
                sql,
                [.integer(TransferProtocol.multipart.rawValue), .time(time), .integer(transfer.value)]
            )
        }
    }

    /// Notes that no upload came of the creation under way.
    package func refuseCreation(of transfer: TransferID) throws(JournalError) {
        try write { tables throws(JournalError) in
            try tables.connection.run("DELETE FROM leftover WHERE transfer = ?", [.integer(transfer.value)])
        }
    }

    /// Notes that no answer came to the creation under way: there may be an upload that nobody knows.
    package func doubtCreation(of transfer: TransferID, at time: Timestamp) throws(JournalError) {
        try write { tables throws(JournalError) in try tables.disown(transfer, at: time) }
    }

    /// Notes that whoever waited for creations is gone: for the flusher that has just taken over.
    package func doubtAllCreations() throws(JournalError) {
        try write { tables throws(JournalError) in
            try tables.connection.run("UPDATE leftover SET transfer = NULL WHERE transfer IS NOT NULL")
        }
    }

    /// Notes an upload that is wanted no more and could not be ended.
    package func leave(
        _ upload: String,
        at key: ObjectKey,
        method: TransferProtocol,
        interopVersion: Int64,
        now: Timestamp = .now()
    ) throws(JournalError) {
        try write(durable: true) { tables throws(JournalError) in
            try tables.connection.run(
                "INSERT INTO leftover (key, method, upload, interop_version, began_at) VALUES (?, ?, ?, ?, ?)",
                [
                    .key(key), .integer(method.rawValue), .text(upload), .integer(interopVersion), .time(now),
                ]
            )
        }
    }

    /// What may be left at the remote, oldest first.
    package func leftovers() throws(JournalError) -> [Leftover] {
        try read { tables throws(JournalError) in
            let sql = """
                SELECT id, key, method, upload, interop_version, transfer, began_at, doubted_at FROM leftover
                ORDER BY id
                """
            return try tables.connection.all(sql) { row throws(JournalError) in
                guard let method = TransferProtocol(rawValue: row.integer(2)) else {
                    throw JournalError(.corrupt, "journal: a leftover has an unknown protocol")
                }
                return Leftover(
                    id: row.integer(0),
                    key: row.key(1),
                    method: method,
                    upload: row.optionalText(3),
                    interopVersion: row.integer(4),
                    transfer: row.optionalInteger(5).map { TransferID($0) },
                    beganAt: row.time(6),
                    doubtedAt: row.optionalTime(7)
                )
            }
        }
    }

    package func removeLeftover(_ id: Int64) throws(JournalError) {
        try write { tables throws(JournalError) in
            try tables.connection.run("DELETE FROM leftover WHERE id = ?", [.integer(id)])
        }
    }

    /// The names of all uploads that the journal knows, and the keys whose creation is under way, at one moment.
    package func uploadNames() throws(JournalError) -> (known: Set<String>, underWay: Set<ObjectKey>) {
        try snapshot { tables throws(JournalError) in
            let names = try tables.connection.all(
                """
                SELECT upload FROM transfer WHERE upload IS NOT NULL
                UNION ALL SELECT upload FROM leftover WHERE upload IS NOT NULL
                """
            ) { $0.text(0) }
            let keys = try tables.connection.all("SELECT key FROM leftover WHERE transfer IS NOT NULL") { $0.key(0) }
            return (Set(names), Set(keys))
        }
    }
}

extension Tables {
    fileprivate func disown(_ transfer: TransferID, at time: Timestamp) throws(JournalError) {
        let sql = "UPDATE leftover SET transfer = NULL, doubted_at = coalesce(doubted_at, ?) WHERE transfer = ?"
        try connection.run(sql, [.time(time), .integer(transfer.value)])
    }
}
