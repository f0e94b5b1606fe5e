// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

extension Tables {
    private static let nodeColumns = """
        n.id, n.parent, n.name, n.kind, n.mode, n.uid, n.gid, n.modified, n.target, n.base, n.base_tag, n.base_size,
        n.base_modified, n.has_remote_directory, n.is_open, n.changed_at, n.attribute_sequence, n.sequence,
        n.first_sequence, n.is_paused, n.not_before, n.priority, n.attempts, n.next_attempt, n.last_error, n.attention,
        n.conflict_of, n.device, n.xattr, n.deadline, n.own
        """
    private static let nodeColumnCount: Int32 = 31

    private static let selectNode =
        "SELECT \(nodeColumns), \(generationColumns) FROM node n LEFT JOIN generation g ON g.id = n.generation "

    private static func node(_ row: Row) throws(JournalError) -> JournalNode {
        guard let kind = NodeKind(rawValue: row.integer(3)) else {
            throw JournalError(.corrupt, "journal: a row has the unknown kind \(row.integer(3))")
        }
        let hasGeneration = !row.isNull(nodeColumnCount)
        return JournalNode(
            id: NodeID(row.integer(0)),
            path: row.key(1).appending(row.key(2)),
            kind: kind,
            attributes: attributes(row),
            target: row.optionalKey(8),
            generation: hasGeneration ? try generation(row, nodeColumnCount) : nil,
            base: Encoding.base(row, 9),
            hasRemoteDirectory: row.bool(13),
            isOpen: row.bool(14),
            changedAt: row.time(15),
            attributeSequence: row.integer(16),
            sequence: row.integer(17),
            firstSequence: row.integer(18),
            schedule: schedule(row),
            conflictOf: row.optionalKey(26)
        )
    }

    private static func attributes(_ row: Row) -> FileAttributes {
        FileAttributes(
            mode: UInt32(truncatingIfNeeded: row.integer(4)),
            uid: UInt32(truncatingIfNeeded: row.integer(5)),
            gid: UInt32(truncatingIfNeeded: row.integer(6)),
            modified: row.time(7),
            device: UInt32(truncatingIfNeeded: row.integer(27)),
            extended: row.optionalText(28).flatMap { ExtendedAttributes(text: $0) } ?? .none
        )
    }

    private static func schedule(_ row: Row) -> JournalNode.Schedule {
        var schedule = JournalNode.Schedule()
        schedule.isPaused = row.bool(19)
        schedule.notBefore = row.optionalTime(20)
        schedule.priority = row.integer(21)
        schedule.attempts = row.integer(22)
        schedule.nextAttempt = row.optionalTime(23)
        schedule.lastError = row.optionalText(24)
        schedule.attention = row.optionalText(25)
        schedule.deadline = row.optionalTime(29)
        schedule.settings = row.optionalText(30)
        return schedule
    }

    func node(_ id: NodeID) throws(JournalError) -> JournalNode? {
        try connection.first(Self.selectNode + "WHERE n.id = ?", [.integer(id.value)]) { row throws(JournalError) in
            try Self.node(row)
        }
    }

    func node(at path: ObjectKey) throws(JournalError) -> JournalNode? {
        let sql = Self.selectNode + "WHERE n.parent = ? AND n.name = ?"
        return try connection.first(sql, [.key(path.parent), .key(path.name)]) { row throws(JournalError) in
            try Self.node(row)
        }
    }

    /// Rows that meet a condition on `n` and `g`, in the given order.
    func nodes(_ condition: String, _ values: [Value] = []) throws(JournalError) -> [JournalNode] {
        try connection.all(Self.selectNode + condition, values) { row throws(JournalError) in try Self.node(row) }
    }

    func children(of folder: ObjectKey) throws(JournalError) -> [JournalNode] {
        try nodes("WHERE n.parent = ?", [.key(folder)])
    }

    func children(of folder: ObjectKey, limit: Int) throws(JournalError) -> [JournalNode] {
        try nodes("WHERE n.parent = ? LIMIT ?", [.key(folder), .integer(Int64(limit))])
    }

    func names(in folder: ObjectKey, limit: Int) throws(JournalError) -> [ObjectKey: Bool]? {
        let rows = try connection.all(
            "SELECT name, kind = 1 FROM node WHERE parent = ? LIMIT ?",
            [.key(folder), .integer(Int64(limit) + 1)]
        ) { ($0.key(0), $0.bool(1)) }
        return rows.count > limit ? nil : Dictionary(rows) { first, _ in first }
    }

    /// Every row below a folder, the folder's own not included.
    func descendants(of folder: ObjectKey) throws(JournalError) -> [JournalNode] {
        guard !folder.isRoot else { return try nodes("") }
        let bounds = Self.bounds(below: folder)
        return try children(of: folder) + nodes("WHERE n.parent >= ? AND n.parent < ?", bounds)
    }

    func hasDescendants(_ folder: ObjectKey) throws(JournalError) -> Bool {
        if try connection.exists("SELECT 1 FROM node WHERE parent = ?", [.key(folder)]) { return true }
        return try connection.exists("SELECT 1 FROM node WHERE parent >= ? AND parent < ?", Self.bounds(below: folder))
    }

    /// Whether something below a folder is being taken away or watched for.
    func hasTombstones(below folder: ObjectKey, _ condition: String = "") throws(JournalError) -> Bool {
        let select = "SELECT 1 FROM node WHERE kind = 3 \(condition) AND"
        if try connection.exists("\(select) parent = ?", [.key(folder)]) { return true }
        return try connection.exists("\(select) parent >= ? AND parent < ?", Self.bounds(below: folder))
    }

    /// The half-open range of the paths that start with `folder/`; the byte behind the slash is the digit 0.
    static func bounds(below folder: ObjectKey) -> [Value] {
        [.blob(folder.bytes + [UInt8(ascii: "/")]), .blob(folder.bytes + [UInt8(ascii: "0")])]
    }

    /// Adds a row, by the name `id` where that was taken for it.
    func insert(_ node: JournalNode, as id: NodeID? = nil) throws(JournalError) -> NodeID {
        try connection.run(
            """
            INSERT INTO node (id, parent, name, kind, mode, uid, gid, modified, target, generation, base, base_tag,
                base_size, base_modified, has_remote_directory, is_open, changed_at, attribute_sequence, sequence,
                first_sequence, is_paused, not_before, priority, attempts, next_attempt, last_error, attention,
                conflict_of, device, xattr, deadline, own)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [.integer(id?.value)] + Self.columns(node)
        )
        return NodeID(connection.lastInsertedRow)
    }

    func update(_ node: JournalNode) throws(JournalError) {
        try connection.run(
            """
            UPDATE node SET parent = ?, name = ?, kind = ?, mode = ?, uid = ?, gid = ?, modified = ?, target = ?,
                generation = ?, base = ?, base_tag = ?, base_size = ?, base_modified = ?, has_remote_directory = ?,
                is_open = ?, changed_at = ?, attribute_sequence = ?, sequence = ?, first_sequence = ?, is_paused = ?,
                not_before = ?, priority = ?, attempts = ?, next_attempt = ?, last_error = ?, attention = ?,
                conflict_of = ?, device = ?, xattr = ?, deadline = ?, own = ?
            WHERE id = ?
            """,
            Self.columns(node) + [.integer(node.id.value)]
        )
    }

    /// Notes that a file was written to, or sealed: its path and generation are what they were.
    ///
    /// Apart from ``update(_:)`` because SQLite writes the indexes of all columns that a statement names, changed or not.
    func noteWritten(_ node: JournalNode) throws(JournalError) {
        try connection.run(
            """
            UPDATE node SET modified = ?, is_open = ?, changed_at = ?, attribute_sequence = ?, sequence = ?, attempts = ?,
                next_attempt = ?, last_error = ?, attention = ?
            WHERE id = ?
            """,
            [
                .time(node.attributes.modified), .integer(node.isOpen), .time(node.changedAt),
                .integer(node.attributeSequence), .integer(node.sequence), .integer(node.schedule.attempts),
                .time(node.schedule.nextAttempt), .text(node.schedule.lastError), .text(node.schedule.attention),
                .integer(node.id.value),
            ]
        )
    }

    /// Removes a row; its generation becomes a candidate for release.
    func delete(_ node: JournalNode) throws(JournalError) {
        try connection.run("DELETE FROM node WHERE id = ?", [.integer(node.id.value)])
        try release(node.generation?.id)
    }

    private static func columns(_ node: JournalNode) -> [Value] {
        let attributes = node.attributes
        let schedule = node.schedule
        var values: [Value] = [
            .key(node.path.parent), .key(node.path.name), .integer(node.kind.rawValue),
            .integer(Int64(attributes.mode)), .integer(Int64(attributes.uid)), .integer(Int64(attributes.gid)),
            .time(attributes.modified), .key(node.target), .integer(node.generation?.id.value),
        ]
        values += Encoding.columns(node.base)
        values += [
            .integer(node.hasRemoteDirectory), .integer(node.isOpen), .time(node.changedAt),
            .integer(node.attributeSequence), .integer(node.sequence), .integer(node.firstSequence),
            .integer(schedule.isPaused), .time(schedule.notBefore), .integer(schedule.priority),
            .integer(schedule.attempts), .time(schedule.nextAttempt), .text(schedule.lastError),
            .text(schedule.attention), .key(node.conflictOf), .integer(Int64(attributes.device)),
            .text(attributes.extended.isEmpty ? nil : attributes.extended.text), .time(schedule.deadline),
            .text(schedule.settings),
        ]
        return values
    }
}
