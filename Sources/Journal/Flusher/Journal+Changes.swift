// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

extension Journal {
    /// The rows that changed after `sequence`, oldest change first; those that went away meanwhile are not told.
    package func nodes(
        changedAfter sequence: ChangeSequence,
        limit: Int = 10_000
    ) throws(JournalError) -> [JournalNode] {
        try read { tables throws(JournalError) in
            let condition = "WHERE n.sequence > ? ORDER BY n.sequence LIMIT ?"
            return try tables.nodes(condition, [.integer(sequence), .integer(Int64(limit))])
        }
    }
}
