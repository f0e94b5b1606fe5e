// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import ObjectStore

/// The catalog's tables seen through one connection, within the caller's transaction.
struct Entries {
    let connection: Connection
    /// See ``Catalog/epoch``.
    let epoch: Int

    /// The bits of the column `has_metadata`.
    private static let isDescribed: Int64 = 1
    private static let needsValidation: Int64 = 2
    private static let hasNoOthers: Int64 = 4
    private static let hasTypeOfName: Int64 = 8

    private static let select = """
        SELECT f.path, e.name, e.kind, e.tag, e.size, e.changed, e.has_metadata, e.mode, e.uid, e.gid, e.modified,
            e.target, e.has_marker, e.checked_at, e.generation, e.stamp, e.earlier, e.device, e.xattr
        FROM folder f JOIN entry e ON e.folder = f.id
        """ + " "

    private static let selectOne = select + "WHERE f.path = ? AND e.name = ?"

    /// An entry and the moment of its observation.
    typealias Stamped = (entry: CatalogEntry, stamp: Int64)

    func entry(_ path: ObjectKey) throws(DatabaseError) -> Stamped? {
        try connection.first(Self.selectOne, [.key(path.parent), .key(path.name)]) { Self.decode($0) }
    }

    /// The entry of a name in a folder whose number is known.
    func entry(_ name: ObjectKey, in folder: ObjectKey, _ id: Int64) throws(DatabaseError) -> Stamped? {
        let sql = """
            SELECT ?, e.name, e.kind, e.tag, e.size, e.changed, e.has_metadata, e.mode, e.uid, e.gid, e.modified,
                e.target, e.has_marker, e.checked_at, e.generation, e.stamp, e.earlier, e.device, e.xattr
            FROM entry e WHERE e.folder = ? AND e.name = ?
            """
        return try connection.first(sql, [.key(folder), .integer(id), .key(name)]) { Self.decode($0) }
    }

    func entries(_ condition: String, _ values: [Value]) throws(DatabaseError) -> [CatalogEntry] {
        try connection.all(Self.select + condition, values) { Self.decode($0).entry }
    }

    /// Whether a folder was listed completely.
    func isListed(_ path: ObjectKey) throws(DatabaseError) -> Bool {
        try connection.exists("SELECT 1 FROM folder WHERE path = ? AND listed_at IS NOT NULL", [.key(path)])
    }

    func put(_ entry: CatalogEntry, stamp: Int64) throws(DatabaseError) {
        try put(entry, entry.path.name, stamp: stamp, in: try folder(entry.path.parent), try putting())
    }

    /// The statement that ``put(_:_:stamp:in:_:)`` runs.
    func putting() throws(DatabaseError) -> Statement {
        try connection.statement(
            "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
        )
    }

    /// Puts an entry, whose name in its folder this is, for a folder whose number is known.
    func put(
        _ entry: CatalogEntry,
        _ name: ObjectKey,
        stamp: Int64,
        in folder: Int64,
        _ statement: Statement
    ) throws(DatabaseError) {
        let (version, metadata) = (entry.version, entry.metadata)
        try statement.run { row in
            row.add(folder)
            row.add(name.bytes)
            row.add(entry.kind.rawValue)
            row.add(Self.tag(version?.entityTag))
            row.add(version?.size)
            row.add(version?.lastModified?.nanoseconds)
            row.add(Self.knowledge(entry))
            row.add(metadata?.mode.map { Int64($0) })
            row.add(metadata?.uid.map { Int64($0) })
            row.add(metadata?.gid.map { Int64($0) })
            row.add(metadata?.modified?.nanoseconds)
            row.add(entry.target?.bytes)
            row.add(entry.hasMarker.map { $0 ? 1 : 0 })
            row.add(entry.checkedAt.nanoseconds)
            row.add(entry.committedGeneration)
            row.add(stamp)
            row.add(Self.list(entry.earlierGenerations))
            row.add(metadata?.device.map { Int64($0) })
            row.add(metadata.flatMap { $0.extended.isEmpty ? nil : $0.extended.text })
        }
    }

    func delete(_ path: ObjectKey) throws(DatabaseError) {
        try connection.run(
            "DELETE FROM entry WHERE folder = ? AND name = ?",
            [.integer(try folder(path.parent)), .key(path.name)]
        )
    }

    /// The number of a folder, which is added when new.
    func folder(_ path: ObjectKey) throws(DatabaseError) -> Int64 {
        let sql = "SELECT id FROM folder WHERE path = ?"
        if let id = try connection.first(sql, [.key(path)], { $0.integer(0) }) { return id }
        try connection.run("INSERT INTO folder (path) VALUES (?)", [.key(path)])
        return connection.lastInsertedRow
    }

    /// Refuses what was begun on a file that is gone since: half of it would be taken for the whole.
    func check(_ token: CatalogToken) throws(DatabaseError) {
        guard token.epoch == epoch else { throw DatabaseError(.notFound, "catalog: the file was deleted meanwhile") }
    }

    func currentStamp() throws(DatabaseError) -> Int64 {
        try connection.first("SELECT value FROM stamp") { $0.integer(0) } ?? 0
    }

    func nextStamp() throws(DatabaseError) -> Int64 {
        try connection.first("UPDATE stamp SET value = value + 1 RETURNING value") { $0.integer(0) } ?? 0
    }

    /// The half-open range of the paths that start with `folder/`; the byte behind the slash is the digit 0.
    static func bounds(below folder: ObjectKey) -> [Value] {
        guard !folder.isRoot else { return [.blob([]), .blob([0xFF])] }
        return [.blob(folder.bytes + [UInt8(ascii: "/")]), .blob(folder.bytes + [UInt8(ascii: "0")])]
    }

    private static func decode(_ row: Row) -> Stamped {
        let kind = CatalogEntry.Kind(rawValue: row.integer(2)) ?? .absent
        var metadata: ObjectMetadata?
        if row.integer(6) & isDescribed != 0 {
            metadata = ObjectMetadata(
                mode: row.optionalInteger(7).map { UInt32(truncatingIfNeeded: $0) },
                uid: row.optionalInteger(8).map { UInt32(truncatingIfNeeded: $0) },
                gid: row.optionalInteger(9).map { UInt32(truncatingIfNeeded: $0) },
                modified: row.optionalTime(10),
                device: row.optionalInteger(17).map { UInt32(truncatingIfNeeded: $0) },
                extended: row.optionalText(18).flatMap { ExtendedAttributes(text: $0) } ?? .none
            )
        }
        let version = row.optionalInteger(4).map { size in
            ObjectVersion(entityTag: tag(row.optionalText(3)), size: size, lastModified: row.optionalTime(5))
        }
        var entry = CatalogEntry(
            path: row.key(0).appending(row.key(1)),
            kind: kind,
            version: version,
            metadata: metadata,
            target: row.optionalKey(11),
            hasMarker: row.optionalInteger(12).map { $0 != 0 },
            checkedAt: row.time(13),
            committedGeneration: row.optionalInteger(14)
        )
        entry.needsValidation = row.integer(6) & needsValidation != 0
        entry.others = others(row.integer(6))
        entry.earlierGenerations = row.optionalText(16)?.split(separator: ",").compactMap { Int64($0) } ?? []
        return (entry, row.integer(15))
    }

    private static func knowledge(_ entry: CatalogEntry) -> Int64 {
        guard entry.metadata != nil else { return entry.needsValidation ? needsValidation : 0 }
        let others: Int64 =
            switch entry.others {
            case .unknown: 0
            case .none: hasNoOthers
            case .typeOfName: hasTypeOfName
            }
        return isDescribed | others | (entry.needsValidation ? needsValidation : 0)
    }

    private static func others(_ knowledge: Int64) -> OtherMetadata {
        if knowledge & hasNoOthers != 0 { return .none }
        return knowledge & hasTypeOfName != 0 ? .typeOfName : .unknown
    }

    private static func list(_ generations: [Int64]) -> String? {
        generations.isEmpty ? nil : generations.map(String.init).joined(separator: ",")
    }

    private static func tag(_ tag: EntityTag?) -> String? {
        tag.map { ($0.isWeak ? "W" : "S") + $0.opaque }
    }

    private static func tag(_ text: String?) -> EntityTag? {
        guard let text, let first = text.utf8.first else { return nil }
        return EntityTag(opaque: String(text.dropFirst()), isWeak: first == UInt8(ascii: "W"))
    }
}
