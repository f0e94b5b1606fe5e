// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database

extension Journal {
    /// Notes a failed attempt and when the next one may be; `attention` says why a person is needed instead.
    ///
    /// Nothing is noted, and false returned, where the row wants something else by now than it did with the change `wish`.
    @discardableResult
    package func recordFailure(
        _ node: NodeID,
        of wish: ChangeSequence,
        attempts: Int64,
        nextAttempt: Timestamp?,
        error: String,
        attention: String? = nil
    ) throws(JournalError) -> Bool {
        try write { tables throws(JournalError) in
            let count = try tables.connection.run(
                """
                UPDATE node SET attempts = ?, next_attempt = ?, last_error = ?, attention = ?
                WHERE id = ? AND sequence = ?
                """,
                [
                    .integer(attempts), .time(nextAttempt), .text(error), .text(attention), .integer(node.value),
                    .integer(wish),
                ]
            )
            return count > 0
        }
    }

    /// Holds rows back, or lets them go on.
    package func setPaused(_ nodes: [NodeID], _ isPaused: Bool) throws(JournalError) {
        try write { tables throws(JournalError) in
            for node in nodes {
                try tables.connection.run(
                    "UPDATE node SET is_paused = ? WHERE id = ?",
                    [.integer(isPaused), .integer(node.value)]
                )
            }
        }
    }

    /// Forgets earlier failures, pauses and moments to wait for; `priority` puts the rows at the head, nil leaves them their own.
    ///
    /// With `answeringAttention` a person wants also what needed attention to go on, and content that the disk failed
    /// to write or keep as it reads now; without, such rows stay as they are.
    package func retryNow(
        _ nodes: [NodeID],
        answeringAttention: Bool = false,
        priority: Int64? = nil
    ) throws(JournalError) {
        try write { tables throws(JournalError) in
            for node in nodes {
                if answeringAttention { try tables.acceptDoubt(of: node) }
                try tables.connection.run(
                    """
                    UPDATE node SET attempts = 0, next_attempt = NULL, not_before = NULL, last_error = NULL,
                        is_paused = 0, priority = coalesce(?1, priority), attention = CASE WHEN EXISTS
                            (SELECT 1 FROM generation g WHERE g.id = node.generation AND g.doubt IN (1, 3))
                            THEN attention ELSE NULL END
                    WHERE id = ?2 AND (?3 OR attention IS NULL)
                    """,
                    [.integer(priority), .integer(node.value), .integer(answeringAttention)]
                )
            }
        }
    }

    /// Notes when, how and in which order a person wants the change at a path sent.
    ///
    /// It is forgotten with the change, once that is at the remote.
    package func reschedule(
        _ path: ObjectKey,
        _ body: (inout JournalNode.Schedule) -> Void
    ) throws(JournalError) -> Rescheduling {
        try write { tables throws(JournalError) in try tables.reschedule(try tables.node(at: path), body) }
    }

    /// The same for a row, at whichever path it is by now.
    package func reschedule(
        _ id: NodeID,
        _ body: (inout JournalNode.Schedule) -> Void
    ) throws(JournalError) -> Rescheduling {
        try write { tables throws(JournalError) in try tables.reschedule(try tables.node(id), body) }
    }
}

/// What came of a wish for an upload.
package enum Rescheduling: Hashable, Sendable {
    case noted
    /// There is no change at the path that could wait.
    case nothingPending
    /// Files have too many different settings already.
    case tooManySettings
}

extension Tables {
    /// How many different settings of files there may be: each makes rules of its own.
    private static let settingsLimit: Int64 = 200

    fileprivate func reschedule(
        _ node: JournalNode?,
        _ body: (inout JournalNode.Schedule) -> Void
    ) throws(JournalError) -> Rescheduling {
        guard let node, !node.isTombstone else { return .nothingPending }
        var schedule = node.schedule
        body(&schedule)
        if let settings = schedule.settings, settings != node.schedule.settings,
            try !hasRoom(for: settings, of: node.id)
        {
            return .tooManySettings
        }
        try connection.run(
            "UPDATE node SET not_before = ?, deadline = ?, own = ?, priority = ? WHERE id = ?",
            [
                .time(schedule.notBefore), .time(schedule.deadline), .text(schedule.settings),
                .integer(schedule.priority), .integer(node.id.value),
            ]
        )
        return .noted
    }

    /// Whether some files have these settings, or few enough others than `node` have others.
    private func hasRoom(for settings: String, of node: NodeID) throws(JournalError) -> Bool {
        if try connection.exists("SELECT 1 FROM node WHERE own = ? AND own > ''", [.text(settings)]) { return true }
        let sql = "SELECT count(DISTINCT own) FROM node WHERE own > '' AND id <> ?"
        return try connection.first(sql, [.integer(node.value)]) { $0.integer(0) } ?? 0 < Self.settingsLimit
    }

    /// Notes that a person wants what the disk failed to write or keep, if it is closed, as it reads now.
    fileprivate func acceptDoubt(of node: NodeID) throws(JournalError) {
        try connection.run(
            """
            UPDATE generation SET doubt = 2 WHERE doubt IN (1, 3) AND is_sealed = 1
                AND id = (SELECT generation FROM node WHERE id = ?)
            """,
            [.integer(node.value)]
        )
    }
}
