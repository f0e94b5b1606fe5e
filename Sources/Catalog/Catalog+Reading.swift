// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import Database

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

    /// The files and folders known in a folder, by name, and whether they are all, as this very file has its listing.
    package func contents(
        of folder: ObjectKey
    ) throws(DatabaseError) -> (entries: [CatalogEntry], areAll: Bool) {
        try read { entries throws(DatabaseError) in
            let areAll = try entries.isListed(folder)
            return (try entries.entries("WHERE f.path = ? AND e.kind <> 2 ORDER BY e.name", [.key(folder)]), areAll)
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

    /// What is known of a folder's listing; nil: it was never listed completely.
    package func folderState(_ path: ObjectKey) throws(DatabaseError) -> FolderState? {
        try read { entries throws(DatabaseError) in
            let sql = "SELECT listed_at, hidden FROM folder WHERE path = ? AND listed_at IS NOT NULL"
            return try entries.connection.first(sql, [.key(path)]) { row in
                FolderState(listedAt: row.time(0), hidden: Int(row.integer(1)))
            }
        }
    }

    /// The moment now, to be taken before a HEAD whose answer goes to ``store(_:since:)``.
    package func token() throws(DatabaseError) -> CatalogToken {
        try read { entries throws(DatabaseError) in
            CatalogToken(stamp: try entries.currentStamp(), epoch: entries.epoch)
        }
    }
}
