// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import Database
internal import Platform

extension Catalog {
    /// What is known of a path; nil: nothing, which in a listed folder means that it is not there.
    package func entry(_ path: ObjectKey) throws(DatabaseError) -> CatalogEntry? {
        try read { entries throws(DatabaseError) in try entries.entry(path)?.entry }
    }

    /// What is known of a path; nil with `isMissing` when the listing of its folder in this very file did not have it.
    ///
    /// Nil without: nothing is known, as the file may have been begun anew since the folder was listed.
    package func look(
        at path: ObjectKey
    ) throws(DatabaseError) -> (entry: CatalogEntry?, isMissing: Bool) {
        try read { entries throws(DatabaseError) in
            if let entry = try entries.entry(path)?.entry { return (entry, false) }
            return (nil, try entries.isListed(path.parent))
        }
    }

    /// Files and folders known in a folder, by name, from behind `name` (nil: from the first) on, and whether all that
    /// there are are known, as this very file has its listing.
    package func contents(
        of folder: ObjectKey,
        after name: ObjectKey?,
        limit: Int
    ) throws(DatabaseError) -> (entries: [CatalogEntry], areAll: Bool) {
        try read { entries throws(DatabaseError) in
            let areAll = try entries.isListed(folder)
            let found = try entries.entries(
                "WHERE f.path = ? AND e.name > ? AND e.kind <> 2 ORDER BY e.name LIMIT ?",
                [.key(folder), .key(name ?? .root), .integer(Int64(limit))]
            )
            return (found, areAll)
        }
    }

    /// The folders known in a folder; nil when more than `limit` names are known in it, or not all that there are.
    package func subfolders(of folder: ObjectKey, limit: Int) throws(DatabaseError) -> [ObjectKey]? {
        try read { entries throws(DatabaseError) in
            guard try entries.isListed(folder) else { return nil }
            let names = try entries.connection.all(
                """
                SELECT e.name, e.kind = 1 FROM folder f JOIN entry e ON e.folder = f.id
                WHERE f.path = ? AND e.kind <> 2 LIMIT ?
                """,
                [.key(folder), .integer(Int64(limit) + 1)]
            ) { (name: $0.key(0), isFolder: $0.bool(1)) }
            return names.count > limit ? nil : names.filter(\.isFolder).map(\.name)
        }
    }

    /// What is known of some names of a folder, in their order.
    package func entries(_ names: [ObjectKey], in folder: ObjectKey) throws(DatabaseError) -> [CatalogEntry?] {
        try read { entries throws(DatabaseError) in
            var found: [CatalogEntry?] = []
            for name in names { found.append(try entries.entry(folder.appending(name))?.entry) }
            return found
        }
    }

    /// How many names ``namesToDescribe(in:after:limit:)`` looks at.
    private static let descriptionRange: Int64 = 8192

    /// Names of a folder behind another whose attributes a HEAD has to tell, by name: the next of them, not all.
    package func namesToDescribe(
        in folder: ObjectKey,
        after name: ObjectKey,
        limit: Int
    ) throws(DatabaseError) -> [ObjectKey] {
        try read { entries throws(DatabaseError) in
            try entries.connection.all(
                """
                SELECT name FROM (
                    SELECT e.name, e.kind, e.has_metadata, e.has_marker FROM folder f JOIN entry e ON e.folder = f.id
                    WHERE f.path = ? AND e.name > ? ORDER BY e.name LIMIT ?
                ) WHERE has_metadata & 2 OR (has_metadata = 0 AND (kind = 0 OR (kind = 1 AND has_marker IS NOT 0))) LIMIT ?
                """,
                [.key(folder), .key(name), .integer(Self.descriptionRange), .integer(Int64(limit))]
            ) { $0.key(0) }
        }
    }

    /// The files and folders known in a folder, by name.
    package func children(of folder: ObjectKey) throws(DatabaseError) -> [CatalogEntry] {
        try read { entries throws(DatabaseError) in
            try entries.entries("WHERE f.path = ? AND e.kind <> 2 ORDER BY e.name", [.key(folder)])
        }
    }

    /// The files and folders known anywhere below a folder, itself not included.
    package func descendants(of folder: ObjectKey) throws(DatabaseError) -> [CatalogEntry] {
        try read { entries throws(DatabaseError) in
            let bounds = Entries.bounds(below: folder)
            let own: [CatalogEntry] =
                folder.isRoot ? [] : try entries.entries("WHERE f.path = ? AND e.kind <> 2", [.key(folder)])
            return try own + entries.entries("WHERE f.path >= ? AND f.path < ? AND e.kind <> 2", bounds)
        }
    }

    /// Whether a folder was listed completely, and has no more names than a limit.
    package func isListed(_ path: ObjectKey, atMost limit: Int) throws(DatabaseError) -> Bool {
        try read { entries throws(DatabaseError) in
            guard try entries.isListed(path) else { return false }
            let sql = "SELECT 1 FROM folder f JOIN entry e ON e.folder = f.id WHERE f.path = ? LIMIT 1 OFFSET ?"
            return try !entries.connection.exists(sql, [.key(path), .integer(Int64(limit))])
        }
    }

    /// What is known of a folder's listing; nil: it was never listed completely.
    package func folderState(_ path: ObjectKey) throws(DatabaseError) -> FolderState? {
        try read { entries throws(DatabaseError) in
            let sql = "SELECT listed_at, hidden FROM folder WHERE path = ? AND listed_at IS NOT NULL"
            return try entries.connection.first(sql, [.key(path)]) { row in
                FolderState(listedAt: row.time(0), hidden: Int(row.integer(1)))
            }
        }
    }

    /// How many objects listings had that are not shown, and the folders with most of them; nil: there is no catalog, or
    /// none to be believed.
    ///
    /// For a program beside the mount: nothing is changed, also when the file is damaged.
    package static func hidden(
        inDirectory directory: String,
        marks: String? = nil,
        folders limit: Int
    ) throws(DatabaseError) -> (count: Int, folders: [ObjectKey])? {
        let files = CatalogFiles(directory: directory, marks: marks)
        let path = files.path
        guard !files.areDistrusted else { return nil }
        guard let status = try? FileStatus.of(path), status.isRegularFile else { return nil }
        return try Database(path: path, options: .init(isReadOnly: true)).snapshot { connection throws(DatabaseError) in
            let count = try connection.first("SELECT COALESCE(SUM(hidden), 0) FROM folder") { Int($0.integer(0)) }
            let folders = try connection.all(
                "SELECT path FROM folder WHERE hidden > 0 ORDER BY hidden DESC, path LIMIT ?",
                [.integer(Int64(limit))]
            ) { $0.key(0) }
            return (count ?? 0, folders)
        }
    }

    /// The moment now, to be taken before a HEAD whose answer goes to ``store(_:since:)``.
    package func token() throws(DatabaseError) -> CatalogToken {
        try read { entries throws(DatabaseError) in
            CatalogToken(stamp: try entries.currentStamp(), epoch: entries.epoch)
        }
    }
}
