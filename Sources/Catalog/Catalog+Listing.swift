// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import Database
package import ObjectStore

/// What the pages of a listing held besides the entries.
package struct ListingSummary: Hashable, Sendable {
    /// Objects that are not shown: those with names that a file system cannot have, files that have the name of a
    /// folder, and the content of a marker.
    package var hidden = 0
    /// The listed folder has a marker object.
    package var hasMarker = false

    package init() {}
}

extension Catalog {
    /// Starts a listing of a folder, before the first page is asked for.
    package func beginListing() throws(DatabaseError) -> CatalogToken {
        try write { entries throws(DatabaseError) in
            CatalogToken(stamp: try entries.nextStamp(), epoch: entries.epoch)
        }
    }

    /// Takes in one page of a folder's listing (not recursive) and adds to its summary.
    ///
    /// Returns what is under its names now, a name that is on two pages once. What was committed or looked at since the
    /// listing began stays. A name that is both file and folder is a folder. The attributes of folders whose
    /// marker has a mode need validation then, those of others where they were last looked at before the time that
    /// `refreshed` has for them.
    @discardableResult
    package func apply(
        _ page: ListingPage,
        of folder: ObjectKey,
        _ token: CatalogToken,
        at time: Timestamp,
        refreshed: @escaping (ObjectKey) -> Timestamp? = { _ in nil },
        summary: inout ListingSummary
    ) throws(DatabaseError) -> [CatalogEntry] {
        let (taken, added) = try write { entries throws(DatabaseError) -> ([CatalogEntry], ListingSummary) in
            try entries.check(token)
            var intake = try PageIntake(entries, folder, page, token, time, refreshed)
            var summary = summary
            var taken: [CatalogEntry] = []
            taken.reserveCapacity(page.entries.count + page.folders.count)
            for listed in page.entries {
                if listed.key.isMarker(of: folder) {
                    summary.hasMarker = true
                    if listed.version.size > 0 { summary.hidden += 1 }
                    try intake.noteMarker(listed)
                } else if let name = listed.key.showableName(in: folder) {
                    if let entry = try intake.noteFile(listed, name) { taken.append(entry) }
                } else {
                    summary.hidden += 1
                }
            }
            for path in page.folders {
                if let name = path.showableName(in: folder) {
                    if let entry = try intake.noteFolder(path, name) { taken.append(entry) }
                } else {
                    summary.hidden += 1
                }
            }
            summary.hidden += intake.shadowed
            return (taken, summary)
        }
        summary = added
        return taken
    }

    /// Ends a listing whose every page was applied: names that it did not have are gone.
    ///
    /// `time` is when it began. Not called for a listing that failed half-way.
    package func finishListing(
        of folder: ObjectKey,
        _ token: CatalogToken,
        _ summary: ListingSummary,
        at time: Timestamp
    ) throws(DatabaseError) {
        try write { entries throws(DatabaseError) in
            try entries.check(token)
            let id = Value.integer(try entries.folder(folder))
            let vanished = [id, .integer(token.stamp)]
            if try entries.connection.exists("SELECT 1 FROM entry WHERE folder = ? AND stamp < ?", vanished) {
                try entries.forgetVanishedFolders(of: folder, token)
                try entries.connection.run("DELETE FROM entry WHERE folder = ? AND stamp < ?", vanished)
            }
            try entries.connection.run(
                "UPDATE folder SET listed_at = ?, hidden = ? WHERE id = ?",
                [.time(time), .integer(Int64(summary.hidden)), id]
            )
            guard !summary.hasMarker, let own = try entries.entry(folder) else { return }
            guard own.entry.kind == .directory, own.stamp <= token.stamp else { return }
            var entry = own.entry
            entry.hasMarker = false
            entry.version = nil
            entry.metadata = nil
            entry.needsValidation = false
            try entries.put(entry, stamp: own.stamp)
        }
    }
}

extension Catalog {
    /// Takes in that a folder just made has nothing in it at the remote: what was known below it is of another time.
    package func noteEmpty(_ folder: ObjectKey, at time: Timestamp) throws(DatabaseError) {
        try write { entries throws(DatabaseError) in
            let id = Value.integer(try entries.folder(folder))
            try entries.connection.run("DELETE FROM entry WHERE folder = ?", [id])
            try entries.connection.run("UPDATE folder SET listed_at = ?, hidden = 0 WHERE id = ?", [.time(time), id])
        }
    }
}

extension ObjectKey {
    /// Whether this listed key is the marker object of the folder that was listed.
    fileprivate func isMarker(of folder: ObjectKey) -> Bool {
        !folder.isRoot && bytes.count == folder.bytes.count + 1 && bytes.last == UInt8(ascii: "/")
            && bytes.starts(with: folder.bytes)
    }

    /// This key's name in the folder; nil where a file system cannot show it as one: it is empty, `.` or `..`, has a
    /// slash or NUL, or more than 255 bytes.
    fileprivate func showableName(in folder: ObjectKey) -> ObjectKey? {
        let start = folder.isRoot ? 0 : folder.bytes.count + 1
        guard bytes.count > start, bytes.count - start <= 255, isInside(folder) else { return nil }
        let name = ObjectKey(bytes: Array(bytes[start...]))
        guard !name.bytes.contains(where: { $0 == 0 || $0 == UInt8(ascii: "/") }) else { return nil }
        let dot = UInt8(ascii: ".")
        return name.bytes == [dot] || name.bytes == [dot, dot] ? nil : name
    }
}

extension ObjectVersion {
    /// Whether it was stored later than another, as far as both tell when.
    fileprivate func isLater(than other: ObjectVersion?) -> Bool {
        guard let mine = lastModified, let theirs = other?.lastModified else { return false }
        return mine.seconds > theirs.seconds
    }
}

extension Entries {
    /// Forgets what is below folders that a listing no longer had: a new folder by the same name is another one.
    fileprivate func forgetVanishedFolders(of folder: ObjectKey, _ token: CatalogToken) throws(DatabaseError) {
        let stamp = Value.integer(token.stamp)
        let vanished = try connection.all(
            "SELECT e.name FROM folder f JOIN entry e ON e.folder = f.id WHERE f.path = ? AND e.kind = 1 AND e.stamp < ?",
            [.key(folder), stamp]
        ) { $0.key(0) }
        for name in vanished {
            let path = folder.appending(name)
            let below = "SELECT id FROM folder WHERE path = ? OR (path >= ? AND path < ?)"
            let bounds = [.key(path)] + Self.bounds(below: path)
            try connection.run("DELETE FROM entry WHERE folder IN (\(below)) AND stamp < ?", bounds + [stamp])
            try connection.run("UPDATE folder SET listed_at = NULL WHERE id IN (\(below))", bounds)
        }
    }

    /// Whether anything is known of names from the first to the last of a page's files in a folder.
    fileprivate func knowsNames(
        around page: ListingPage,
        in folder: ObjectKey,
        _ id: Int64
    ) throws(DatabaseError) -> Bool {
        let start = folder.isRoot ? 0 : folder.bytes.count + 1
        var bounds: (first: ObjectKey, last: ObjectKey)?
        for entry in page.entries where entry.key.bytes.count > start && entry.key.isInside(folder) {
            let known = bounds ?? (entry.key, entry.key)
            bounds = (min(known.first, entry.key), max(known.last, entry.key))
        }
        guard let bounds else { return false }
        return try connection.exists(
            "SELECT 1 FROM entry WHERE folder = ? AND name BETWEEN ? AND ?",
            [.integer(id), .blob(Array(bounds.first.bytes[start...])), .blob(Array(bounds.last.bytes[start...]))]
        )
    }
}

/// Takes one page of a folder's listing into the catalog, within a transaction.
private struct PageIntake {
    private let entries: Entries
    private let folder: ObjectKey
    private let id: Int64
    private let token: CatalogToken
    private let time: Timestamp
    private let refreshed: (ObjectKey) -> Timestamp?
    /// Something is known already of names like those of the page: of a folder's first listing nothing is, and no file
    /// of it has to be looked for.
    private let isKnown: Bool
    private let putting: Statement
    /// Files that a folder has the name of.
    private(set) var shadowed = 0

    init(
        _ entries: Entries,
        _ folder: ObjectKey,
        _ page: ListingPage,
        _ token: CatalogToken,
        _ time: Timestamp,
        _ refreshed: @escaping (ObjectKey) -> Timestamp?
    ) throws(DatabaseError) {
        self.entries = entries
        self.folder = folder
        self.token = token
        self.time = time
        self.refreshed = refreshed
        id = try entries.folder(folder)
        isKnown = try entries.knowsNames(around: page, in: folder, id)
        putting = try entries.putting()
    }

    /// Returns what is there now; nil when that is nothing, or was on an earlier page.
    mutating func noteFile(_ listed: ListingPage.Entry, _ name: ObjectKey) throws(DatabaseError) -> CatalogEntry? {
        let version = listed.version
        let old = isKnown ? try entries.entry(name, in: folder, id) : nil
        if let old, old.stamp > token.stamp { return old.entry.kind == .absent ? nil : old.entry }
        if let old, old.stamp == token.stamp, old.entry.kind == .directory {
            shadowed += 1
            return nil
        }
        var entry = CatalogEntry(
            path: listed.key,
            kind: .file,
            version: version,
            metadata: listed.metadata,
            checkedAt: time
        )
        if let old, old.entry.kind == .file, old.entry.version?.isSame(as: version) == true {
            entry = old.entry
            // The same bytes may have got other attributes by a copy onto themselves.
            let isLater = version.isLater(than: old.entry.version)
            entry.metadata = listed.metadata ?? (isLater ? nil : entry.metadata)
            // Not every listing with metadata tells all of it.
            if isLater || tellsOthers(listed, of: entry) { entry.others = .unknown }
            // A listing may know the time of an object that its upload's answer did not tell.
            entry.version = version
            entry.checkedAt = time
        }
        try entries.put(entry, name, stamp: token.stamp, in: id, putting)
        return entry
    }

    /// Returns what is there now; nil when that is nothing, or was on an earlier page.
    mutating func noteFolder(_ path: ObjectKey, _ name: ObjectKey) throws(DatabaseError) -> CatalogEntry? {
        let old = try entries.entry(name, in: folder, id)
        if let old, old.stamp > token.stamp { return old.entry.kind == .absent ? nil : old.entry }
        var entry = CatalogEntry(path: path, kind: .directory, checkedAt: time)
        if let old, old.entry.kind == .directory {
            entry = old.entry
            if old.stamp < token.stamp, tellsNothing(of: entry) { entry.needsValidation = true }
            entry.checkedAt = time
        }
        try entries.put(entry, name, stamp: token.stamp, in: id, putting)
        let wasListedAsFile = old.map { $0.stamp == token.stamp && $0.entry.kind == .file } ?? false
        if wasListedAsFile { shadowed += 1 }
        return wasListedAsFile ? nil : entry
    }

    /// Whether a listing tells of other metadata than is known.
    private func tellsOthers(_ listed: ListingPage.Entry, of entry: CatalogEntry) -> Bool {
        guard let metadata = listed.metadata, !metadata.isOfAttributes else { return false }
        return entry.others != .typeOfName
            || metadata.others(typeOfName: entry.typeOfName) != .typeOfName
    }

    /// Whether a folder's name, which was seen, leaves open what its attributes are by now.
    ///
    /// Where nobody has put a marker with a mode nobody is likely to, and folders of which only the names in them tell may
    /// be many.
    private func tellsNothing(of entry: CatalogEntry) -> Bool {
        if entry.metadata?.mode != nil { return true }
        let isDescribed = entry.hasMarker == false || entry.metadata != nil
        return isDescribed && refreshed(entry.path).map { entry.checkedAt <= $0 } ?? false
    }

    /// The folder's own marker was listed in it; metadata of another version of the marker no longer counts.
    func noteMarker(_ marker: ListingPage.Entry) throws(DatabaseError) {
        let old = try entries.entry(folder)
        if let old, old.stamp > token.stamp || old.entry.kind != .directory { return }
        var entry = old?.entry ?? CatalogEntry(path: folder, kind: .directory, checkedAt: time)
        // One of the same bytes, which are none, was put with other attributes.
        let isSame = entry.version?.isSame(as: marker.version) == true && !marker.version.isLater(than: entry.version)
        if !isSame { entry.metadata = nil }
        entry.metadata = marker.metadata ?? entry.metadata
        // Of our own marker the version is not known before.
        let isAnother = entry.version != nil && !isSame
        if isAnother || tellsOthers(marker, of: entry) { entry.others = .unknown }
        if marker.metadata != nil || marker.version.lastModified != nil { entry.needsValidation = false }
        entry.version = marker.version
        entry.hasMarker = true
        // The stamp stays: being in its own listing says nothing of its place in its parent's.
        try entries.put(entry, stamp: old?.stamp ?? token.stamp)
    }
}
