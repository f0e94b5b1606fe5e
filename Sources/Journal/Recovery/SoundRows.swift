// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Platform

/// Copies the rows of a damaged database that can be read.
///
/// What is damaged is left out; where it is the disk that fails, nothing can be said, and that is an error.
struct SoundRows {
    /// Nil where nothing can be read.
    let old: Connection?
    /// In a transaction of the caller's.
    let new: Tables

    /// Copies what is not there yet, and marks the new database as one that is to be recovered; `place` is where the old
    /// one is set aside.
    func copy(_ place: String) throws(JournalError) {
        if let old { try copyTables(old) }
        try new.restoreCounters()
        // Some may be missing.
        try new.restartAllChecksums()
        // Behind the old one's, which may have such a mark.
        try new.setText(Salvage.underWay, place)
    }

    private func copyTables(_ old: Connection) throws(JournalError) {
        for (table, key) in [
            ("generation", "id"), ("node", "id"), ("transfer", "id"), ("part", "transfer, number"),
            ("leftover", "id"), ("doubt", "id"), ("conflict", "id"), ("checksum", "generation, row"),
            ("link", "parent, name"),
            ("meta", "key"),
        ] {
            let count = try copy(table, key, old)
            Log.notice("journal", "saved \(count) rows of table \(table)")
        }
    }

    /// Copies a table from both ends up to the damage, then by name what can be reached between.
    private func copy(_ table: String, _ key: String, _ old: Connection) throws(JournalError) -> Int {
        var count = 0
        let ascending = "SELECT * FROM \(table) ORDER BY \(key)"
        let descending =
            "SELECT * FROM \(table) ORDER BY " + key.split(separator: ",").map { "\($0) DESC" }.joined(separator: ",")
        let low = try copy(ascending, [], table, old, &count)
        guard !low.isComplete else { return count }
        let high = try copy(descending, [], table, old, &count)
        guard key == "id", let from = low.last, let to = high.last, to > from, to - from < 1_000_000 else {
            return count
        }
        for id in from...to {
            _ = try copy("SELECT * FROM \(table) WHERE id = ?", [.integer(id)], table, old, &count)
        }
        return count
    }

    /// Copies a query's rows until it ends or meets damage; tells how far it came.
    private func copy(
        _ query: String,
        _ values: [Value],
        _ table: String,
        _ old: Connection,
        _ count: inout Int
    ) throws(JournalError) -> (isComplete: Bool, last: Int64?) {
        var rows: [[Value]] = []
        var isComplete = true
        var columns: [String] = []
        do throws(JournalError) {
            // The damaged file may be of an older version, with fewer columns.
            let names = "SELECT name FROM pragma_table_info('\(table)') ORDER BY cid"
            columns = try old.all(names) { $0.text(0) }
            try old.each(query, values) { row in rows.append((0..<row.count).map { row.value($0) }) }
        } catch {
            guard !error.isOfMachine else { throw error }
            isComplete = false
        }
        count += try insert(rows, columns, table)
        guard case .integer(let last)? = rows.last?.first else { return (isComplete, nil) }
        return (isComplete, last)
    }

    /// Inserts rows that are not there yet; one that breaks a rule is left out.
    private func insert(_ rows: [[Value]], _ columns: [String], _ table: String) throws(JournalError) -> Int {
        guard let width = rows.first?.count, width == columns.count else { return 0 }
        let verb = table == "meta" ? "INSERT OR REPLACE" : "INSERT OR IGNORE"
        let places = [String](repeating: "?", count: width).joined(separator: ", ")
        let sql = "\(verb) INTO \(table) (\(columns.joined(separator: ", "))) VALUES (\(places))"
        var inserted = 0
        for row in rows {
            do throws(JournalError) {
                inserted += try new.connection.run(sql, row)
            } catch {
                // Damage of the new one is not the row's.
                guard !error.isOfMachine, error.kind != .corrupt else { throw error }
            }
        }
        return inserted
    }
}

extension Tables {
    /// Puts the counters behind everything that is named in rows, so that no name is given twice.
    fileprivate func restoreCounters() throws(JournalError) {
        try connection.run(
            """
            UPDATE meta SET value = max(CAST(value AS INTEGER), (SELECT coalesce(max(sequence), 0) + 1 FROM node))
            WHERE key = 'sequence'
            """
        )
    }

    /// Leaves a gap in the names of rows: names given by commits that power loss undid are not given again.
    func skipNames(beyond generation: Int64 = 0) throws(JournalError) {
        for table in ["node", "generation", "transfer"] {
            let sql = "SELECT seq FROM sqlite_sequence WHERE name = ?"
            let last = try connection.first(sql, [.text(table)]) { $0.integer(0) }
            let next = max((last ?? 0) + 1000, table == "generation" ? generation : 0)
            if last == nil {
                try connection.run("INSERT INTO sqlite_sequence VALUES (?, ?)", [.text(table), .integer(next)])
            } else {
                try connection.run("UPDATE sqlite_sequence SET seq = ? WHERE name = ?", [.integer(next), .text(table)])
            }
        }
    }
}
