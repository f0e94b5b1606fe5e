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

    /// Forgets earlier failures, pauses and what needed attention, and puts the rows at the head with `priority`.
    package func retryNow(_ nodes: [NodeID], priority: Int64 = 0) throws(JournalError) {
        try write { tables throws(JournalError) in
            for node in nodes {
                try tables.connection.run(
                    """
                    UPDATE node SET attempts = 0, next_attempt = NULL, not_before = NULL, last_error = NULL,
                        attention = NULL, is_paused = 0, priority = ? WHERE id = ?
                    """,
                    [.integer(priority), .integer(node.value)]
                )
            }
        }
    }

    /// Holds rows back until a time; nil lifts that.
    package func setNotBefore(_ nodes: [NodeID], _ time: Timestamp?) throws(JournalError) {
        try write { tables throws(JournalError) in
            for node in nodes {
                try tables.connection.run(
                    "UPDATE node SET not_before = ? WHERE id = ?",
                    [.time(time), .integer(node.value)]
                )
            }
        }
    }
}
