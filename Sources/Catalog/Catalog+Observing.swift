// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import Database
package import ObjectStore

extension Catalog {
    /// Takes in what a HEAD told, unless we committed something there since `token`.
    ///
    /// Returns whether it was taken.
    @discardableResult
    package func store(_ entry: CatalogEntry, since token: CatalogToken) throws(DatabaseError) -> Bool {
        try write { entries throws(DatabaseError) in try entries.observe(entry, token) }
    }

    /// Takes in many answers at once, each as ``store(_:since:)`` does.
    package func store(_ answers: [(entry: CatalogEntry, token: CatalogToken)]) throws(DatabaseError) {
        try write { entries throws(DatabaseError) in
            for answer in answers { _ = try entries.observe(answer.entry, answer.token) }
        }
    }

    /// Takes in that the remote has nothing at a path, unless we committed something there since `token`.
    @discardableResult
    package func markAbsent(
        _ path: ObjectKey,
        since token: CatalogToken,
        at time: Timestamp
    ) throws(DatabaseError) -> Bool {
        try store(CatalogEntry(path: path, kind: .absent, checkedAt: time), since: token)
    }

    /// How many generations of the same bytes an entry remembers.
    private static let earlierLimit = 8

    /// Our upload of `generation` made `version` the object at a path; the folders above it exist now.
    ///
    /// With `source` it is a copy of that version at that path, with other attributes or another name: what made the
    /// source made this too.
    package func committed(
        _ path: ObjectKey,
        version: ObjectVersion,
        metadata: ObjectMetadata?,
        others: OtherMetadata = .unknown,
        target: ObjectKey? = nil,
        generation: Int64?,
        source: (path: ObjectKey, version: ObjectVersion)? = nil,
        at time: Timestamp
    ) throws(DatabaseError) {
        try write { entries throws(DatabaseError) in
            var entry = CatalogEntry(
                path: path,
                kind: .file,
                version: version,
                metadata: metadata,
                target: target,
                checkedAt: time,
                committedGeneration: generation
            )
            entry.others = others
            if let source, let old = try entries.entry(source.path)?.entry,
                old.version?.isSame(as: source.version) == true
            {
                let earlier = [old.committedGeneration].compactMap { $0 } + old.earlierGenerations
                entry.earlierGenerations = Array(earlier.prefix(Self.earlierLimit))
            }
            try entries.commit(entry)
        }
    }

    /// We put a folder's marker.
    package func committedDirectory(
        _ path: ObjectKey,
        version: ObjectVersion?,
        metadata: ObjectMetadata?,
        others: OtherMetadata = .unknown,
        at time: Timestamp
    ) throws(DatabaseError) {
        try write { entries throws(DatabaseError) in
            var entry = CatalogEntry(
                path: path,
                kind: .directory,
                version: version,
                metadata: metadata,
                hasMarker: true,
                checkedAt: time
            )
            entry.others = others
            try entries.commit(entry)
        }
    }

    /// We deleted the object at a path.
    ///
    /// A folder by the same name stays.
    package func removed(_ path: ObjectKey, at time: Timestamp) throws(DatabaseError) {
        try write { entries throws(DatabaseError) in
            if let old = try entries.entry(path), old.entry.kind == .directory { return }
            let gone = CatalogEntry(path: path, kind: .absent, checkedAt: time)
            let stamp = try entries.nextStamp()
            try entries.put(gone, stamp: stamp)
            try entries.forgetImpliedFolders(above: path, stamp, time)
        }
    }

    /// We deleted a folder's marker: the folder is gone unless something is known below it.
    package func removedDirectory(_ path: ObjectKey, at time: Timestamp) throws(DatabaseError) {
        try write { entries throws(DatabaseError) in
            var entry = CatalogEntry(path: path, kind: .absent, checkedAt: time)
            if try entries.hasChildren(path) {
                entry = CatalogEntry(path: path, kind: .directory, hasMarker: false, checkedAt: time)
            }
            let stamp = try entries.nextStamp()
            try entries.put(entry, stamp: stamp)
            try entries.forgetImpliedFolders(above: path, stamp, time)
        }
    }

    /// Has a folder asked whether its attributes are still what is known of them; until there is an answer these count.
    package func requireValidation(of path: ObjectKey) throws(DatabaseError) {
        try write { entries throws(DatabaseError) in
            guard let old = try entries.entry(path), old.entry.kind == .directory else { return }
            var entry = old.entry
            entry.needsValidation = true
            try entries.put(entry, stamp: old.stamp)
        }
    }

    /// Forgets what a listing does not tell of an object: it is to be asked for again.
    package func forgetAttributes(of path: ObjectKey) throws(DatabaseError) {
        try write { entries throws(DatabaseError) in
            guard let old = try entries.entry(path) else { return }
            var entry = old.entry
            entry.metadata = nil
            entry.target = nil
            entry.hasMarker = nil
            entry.needsValidation = false
            try entries.put(entry, stamp: old.stamp)
        }
    }

    /// Forgets everything.
    package func clear() throws(DatabaseError) {
        try write { entries throws(DatabaseError) in try entries.clear() }
    }
}

extension Entries {
    func clear() throws(DatabaseError) {
        try connection.run("DELETE FROM entry")
        try connection.run("DELETE FROM folder")
    }

    fileprivate func commit(_ entry: CatalogEntry) throws(DatabaseError) {
        let stamp = try nextStamp()
        try put(entry, stamp: stamp)
        var folder = entry.path.parent
        while !folder.isRoot {
            if let known = try self.entry(folder)?.entry, known.kind == .directory { return }
            try put(CatalogEntry(path: folder, kind: .directory, checkedAt: entry.checkedAt), stamp: stamp)
            folder = folder.parent
        }
    }

    /// Folders that nothing but the names in them implied are gone with the last of these.
    ///
    /// One that was to stay has a row in the journal, which counts more than this.
    fileprivate func forgetImpliedFolders(
        above path: ObjectKey,
        _ stamp: Int64,
        _ time: Timestamp
    ) throws(DatabaseError) {
        var folder = path.parent
        while !folder.isRoot {
            guard let known = try entry(folder)?.entry, known.kind == .directory else { return }
            // Of a folder that was never listed there may be more than is known.
            guard known.hasMarker != true else { return }
            let isKnown = try isListed(folder)
            let hasMore = try hasChildren(folder)
            guard isKnown, !hasMore else { return }
            try put(CatalogEntry(path: folder, kind: .absent, checkedAt: time), stamp: stamp)
            folder = folder.parent
        }
    }

    fileprivate func hasChildren(_ path: ObjectKey) throws(DatabaseError) -> Bool {
        try connection.exists(
            "SELECT 1 FROM folder f JOIN entry e ON e.folder = f.id WHERE f.path = ? AND e.kind <> 2",
            [.key(path)]
        )
    }
}

extension Entries {
    /// Takes in what a HEAD told, unless something newer is known; whether it was taken.
    ///
    /// What was asked for before the file was begun anew is not: what was committed since then may be lost.
    fileprivate func observe(_ answer: CatalogEntry, _ token: CatalogToken) throws(DatabaseError) -> Bool {
        guard token.epoch == epoch else { return false }
        let old = try entry(answer.path)
        if let old, old.stamp > token.stamp { return false }
        var answer = answer
        if let known = old?.entry, known.kind == answer.kind, let version = answer.version,
            known.version?.isSame(as: version) == true
        {
            // Our own commit stays known as ours, and a link's text belongs to the version.
            if answer.committedGeneration == nil {
                answer.committedGeneration = known.committedGeneration
                answer.earlierGenerations = known.earlierGenerations
            }
            answer.target = answer.target ?? known.target
            if answer.metadata == nil {
                answer.metadata = known.metadata
                answer.others = known.others
            }
        }
        try put(answer, stamp: token.stamp)
        return true
    }
}
