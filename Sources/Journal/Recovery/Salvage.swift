// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Glibc
internal import Platform

/// Saves what can be read of a damaged database.
enum Salvage {
    /// The key in `meta` that a journal has from the beginning of a salvage to the end of the recovery after it.
    static let underWay = "salvaging"

    /// Moves the database's files into a new directory below `quarantine/`.
    static func setAside(_ directory: String, in target: String) throws(JournalError) {
        do throws(SystemError) {
            try Files.makeDirectories(target)
            // The log first: without it the old file would be taken for complete after a crash here.
            for name in ["journal.sqlite-shm", "journal.sqlite-wal", "journal.sqlite"]
            where try FileStatus.of("\(directory)/\(name)") != nil {
                try Files.rename("\(directory)/\(name)", to: "\(target)/\(name)")
            }
            try Files.synchronizeDirectory(target)
            try Files.synchronizeDirectory(directory)
        } catch {
            throw JournalError(system: error)
        }
    }

    /// Copies every row that can be read; what cannot be read is left out.
    static func copy(from path: String, into journal: Journal) {
        guard let old = try? Database(path: path) else {
            Log.error("journal", "\(path) cannot be opened; no rows were saved")
            return
        }
        do throws(JournalError) {
            try journal.write { tables throws(JournalError) in try tables.setText(underWay, "1") }
        } catch {
            Log.error("journal", "\(error)")
        }
        for (table, key) in [
            ("generation", "id"), ("node", "id"), ("transfer", "id"), ("part", "transfer, number"),
            ("leftover", "id"), ("doubt", "id"), ("conflict", "id"), ("checksum", "generation, row"),
            ("link", "parent, name"),
            ("meta", "key"),
        ] {
            let count = copy(table, key, old, journal)
            Log.notice("journal", "saved \(count) rows of table \(table)")
        }
        do throws(JournalError) {
            try journal.write { tables throws(JournalError) in
                try tables.restoreCounters()
                // Some may be missing.
                try tables.restartAllChecksums()
            }
        } catch {
            Log.error("journal", "\(error)")
        }
    }

    /// Copies a table from both ends up to the damage, then by name what can be reached between.
    private static func copy(_ table: String, _ key: String, _ old: Database, _ journal: Journal) -> Int {
        var count = 0
        let ascending = "SELECT * FROM \(table) ORDER BY \(key)"
        let descending =
            "SELECT * FROM \(table) ORDER BY " + key.split(separator: ",").map { "\($0) DESC" }.joined(separator: ",")
        let low = copy(ascending, [], table, old, journal, &count)
        guard !low.isComplete else { return count }
        let high = copy(descending, [], table, old, journal, &count)
        guard key == "id", let from = low.last, let to = high.last, to > from, to - from < 1_000_000 else {
            return count
        }
        for id in from...to {
            _ = copy("SELECT * FROM \(table) WHERE id = ?", [.integer(id)], table, old, journal, &count)
        }
        return count
    }

    /// Copies a query's rows until it ends or fails; tells how far it came.
    private static func copy(
        _ query: String,
        _ values: [Value],
        _ table: String,
        _ old: Database,
        _ journal: Journal,
        _ count: inout Int
    ) -> (isComplete: Bool, last: Int64?) {
        var rows: [[Value]] = []
        let isComplete: Bool
        var columns: [String] = []
        do throws(DatabaseError) {
            try old.read { connection throws(DatabaseError) in
                // The damaged file may be of an older version, with fewer columns.
                let names = "SELECT name FROM pragma_table_info('\(table)') ORDER BY cid"
                columns = try connection.all(names) { $0.text(0) }
                try connection.each(query, values) { row in rows.append((0..<row.count).map { row.value($0) }) }
            }
            isComplete = true
        } catch {
            isComplete = false
        }
        count += insert(rows, columns, table, journal)
        guard case .integer(let last)? = rows.last?.first else { return (isComplete, nil) }
        return (isComplete, last)
    }

    /// Inserts rows that are not there yet; one that breaks a rule is left out.
    private static func insert(_ rows: [[Value]], _ columns: [String], _ table: String, _ journal: Journal) -> Int {
        guard let width = rows.first?.count, width == columns.count else { return 0 }
        let verb = table == "meta" ? "INSERT OR REPLACE" : "INSERT OR IGNORE"
        let places = [String](repeating: "?", count: width).joined(separator: ", ")
        let sql = "\(verb) INTO \(table) (\(columns.joined(separator: ", "))) VALUES (\(places))"
        let inserted = try? journal.write { tables throws(JournalError) in
            var inserted = 0
            for row in rows { inserted += (try? tables.connection.run(sql, row)) ?? 0 }
            return inserted
        }
        return inserted ?? 0
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
