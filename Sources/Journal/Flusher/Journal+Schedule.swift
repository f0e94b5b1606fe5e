// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database

extension Journal {
    /// Notes a failed attempt and when the next one may be; `attention` says why a person is needed instead.
    package func recordFailure(
        _ node: NodeID,
        attempts: Int64,
        nextAttempt: Timestamp?,
        error: String,
        attention: String? = nil
    ) throws(JournalError) {
        try write { tables throws(JournalError) in
            try tables.connection.run(
                "UPDATE node SET attempts = ?, next_attempt = ?, last_error = ?, attention = ? WHERE id = ?",
                [.integer(attempts), .time(nextAttempt), .text(error), .text(attention), .integer(node.value)]
            )
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

    /// Forgets earlier failures and pauses, and puts the rows at the head with `priority`.
    ///
    /// With `answeringAttention` a person wants also what needed attention to go on, and content that the disk failed
    /// to write or keep as it reads now; without, such rows stay as they are.
    package func retryNow(
        _ nodes: [NodeID],
        answeringAttention: Bool = false,
        priority: Int64 = 0
    ) throws(JournalError) {
        try write { tables throws(JournalError) in
            for node in nodes {
                if answeringAttention { try tables.acceptDoubt(of: node) }
                try tables.connection.run(
                    """
                    UPDATE node SET attempts = 0, next_attempt = NULL, not_before = NULL, last_error = NULL,
                        is_paused = 0, priority = ?1, attention = CASE WHEN EXISTS
                            (SELECT 1 FROM generation g WHERE g.id = node.generation AND g.doubt IN (1, 3))
                            THEN attention ELSE NULL END
                    WHERE id = ?2 AND (?3 OR attention IS NULL)
                    """,
                    [.integer(priority), .integer(node.value), .integer(answeringAttention)]
                )
            }
        }
    }

    /// Notes when and in which order a person wants the change at a path sent; false when there is none.
    ///
    /// It is forgotten with the change, once that is at the remote.
    package func reschedule(
        _ path: ObjectKey,
        _ body: (inout JournalNode.Schedule) -> Void
    ) throws(JournalError) -> Bool {
        try write { tables throws(JournalError) in
            guard let node = try tables.node(at: path), !node.isTombstone else { return false }
            var schedule = node.schedule
            body(&schedule)
            try tables.connection.run(
                "UPDATE node SET not_before = ?, deadline = ?, is_discretionary = ?, priority = ? WHERE id = ?",
                [
                    .time(schedule.notBefore), .time(schedule.deadline), .integer(schedule.isDiscretionary),
                    .integer(schedule.priority), .integer(node.id.value),
                ]
            )
            return true
        }
    }
}

extension Tables {
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
