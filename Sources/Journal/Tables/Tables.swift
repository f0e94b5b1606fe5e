// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

/// The journal's tables seen through one connection, within the caller's transaction.
struct Tables {
    let connection: Connection

    /// The sequence of the newest change.
    func currentSequence() throws(JournalError) -> ChangeSequence {
        try connection.first("SELECT value FROM meta WHERE key = 'sequence'") { $0.integer(0) } ?? 0
    }

    func nextSequence() throws(JournalError) -> ChangeSequence {
        // Not RETURNING, for which SQLite makes a table in memory each time.
        let sql = "UPDATE meta SET value = value + 1 WHERE key = 'sequence'"
        guard try connection.run(sql) > 0 else {
            throw JournalError(.corrupt, "journal: the sequence counter is missing")
        }
        return try currentSequence()
    }

    /// Notes in a durable transaction that it was one, which also has it change something: else nothing is forced out.
    ///
    /// Others see it only once it is on the disk.
    func noteDurable() throws(JournalError) {
        try connection.run("UPDATE meta SET value = value + 1 WHERE key = 'durable'")
    }

    /// How many durable transactions there were: more than there were in another one have come after that.
    func durableCommits() throws(JournalError) -> Int64 {
        try connection.first("SELECT value FROM meta WHERE key = 'durable'") { $0.integer(0) } ?? 0
    }

    func text(_ key: String) throws(JournalError) -> String? {
        try connection.first("SELECT value FROM meta WHERE key = ?", [.text(key)]) { $0.text(0) }
    }

    func setText(_ key: String, _ value: String) throws(JournalError) {
        try connection.run("INSERT OR REPLACE INTO meta VALUES (?, ?)", [.text(key), .text(value)])
    }
}

/// One change by the mount or a user: a write transaction with its place in the order of changes.
struct Change {
    let tables: Tables
    let sequence: ChangeSequence
    let now: Timestamp
    /// Some files have several names: else none has to be looked for.
    let hasLinks: Bool
}

extension Tables {
    /// A change within this transaction; it takes the next sequence, unless the transaction has one.
    func change(_ sequence: ChangeSequence?, _ now: Timestamp) throws(JournalError) -> Change {
        let hasLinks = try hasLinks()
        if let sequence { return Change(tables: self, sequence: sequence, now: now, hasLinks: hasLinks) }
        return Change(tables: self, sequence: try nextSequence(), now: now, hasLinks: hasLinks)
    }
}
