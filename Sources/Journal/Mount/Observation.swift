// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database

/// What is known of the remote at a path, which a row there must carry on.
struct Observation {
    var base: RemoteBase
    var hasRemoteDirectory: Bool

    init(_ node: JournalNode) {
        base = node.base
        hasRemoteDirectory = node.hasRemoteDirectory
    }

    init(_ remote: RemoteState) {
        switch remote {
        case .absent: self.init(base: .absent, hasRemoteDirectory: false)
        case .file(let version, _, _): self.init(base: .version(version), hasRemoteDirectory: false)
        case .directory: self.init(base: .absent, hasRemoteDirectory: true)
        }
    }

    /// What is known of a name for which no row and no listing is asked.
    init(_ base: RemoteBase) {
        self.init(base: base, hasRemoteDirectory: false)
    }

    private init(base: RemoteBase, hasRemoteDirectory: Bool) {
        self.base = base
        self.hasRemoteDirectory = hasRemoteDirectory
    }

    /// Whether the remote has something that a tombstone must take away.
    var hasAnything: Bool { base != .absent || hasRemoteDirectory }
}

extension JournalNode {
    /// A row to be inserted at `path`, with nothing observed but `observation`.
    init(
        at path: ObjectKey,
        _ kind: NodeKind,
        _ attributes: FileAttributes,
        _ observation: Observation,
        _ change: Change
    ) {
        self.init(
            id: NodeID(0),
            path: path,
            kind: kind,
            attributes: attributes,
            base: observation.base,
            hasRemoteDirectory: observation.hasRemoteDirectory,
            isOpen: false,
            changedAt: change.now,
            attributeSequence: change.sequence,
            sequence: change.sequence,
            firstSequence: change.sequence,
            schedule: Schedule()
        )
    }

    /// Stamps a change by the user: the quiet period starts anew, earlier failures no longer count.
    mutating func touch(_ change: Change) {
        sequence = change.sequence
        changedAt = change.now
        schedule.attempts = 0
        schedule.nextAttempt = nil
        schedule.lastError = nil
        // A new name makes bytes no better that the disk refused.
        schedule.attention = generation?.doubt.attention
    }
}

extension FileAttributes {
    /// Attributes where none matter.
    static let none = FileAttributes(mode: 0, uid: 0, gid: 0, modified: Timestamp(nanoseconds: 0))
}

extension Change {
    /// Takes away the row at a path that something else shall have, and tells what the remote has there.
    ///
    /// Of a file with several names the others stay.
    func vacate(_ path: ObjectKey, _ remote: RemoteState) throws(JournalError) -> Observation {
        if let left = try leaveLink(path, remote) { return left }
        return try vacate(tables.node(at: path), remote)
    }

    /// The same for a row that was looked at in this transaction.
    func vacate(_ old: JournalNode?, _ remote: RemoteState) throws(JournalError) -> Observation {
        guard let old else { return Observation(remote) }
        try tables.delete(old)
        return Observation(old)
    }

    /// Leaves a tombstone where the remote has, or may yet get, something, be it a folder by what is in it.
    ///
    /// The path must have no row.
    func bury(_ path: ObjectKey, _ observation: Observation) throws(JournalError) {
        var isWanted = observation.hasAnything
        if !isWanted { isWanted = try tables.mayAppear(at: path) }
        if !isWanted { isWanted = try tables.hasTombstones(below: path) }
        guard isWanted else { return }
        _ = try tables.insert(JournalNode(at: path, .tombstone, .none, observation, self))
    }

    /// Inserts a row and returns it with its name.
    func insert(_ node: JournalNode) throws(JournalError) -> JournalNode {
        var node = node
        node.id = try tables.insert(node)
        return node
    }

    /// The row of a live path; made from the remote's state when there is none yet.
    ///
    /// Directories and files alike.
    func materialize(_ path: ObjectKey, _ remote: RemoteState) throws(JournalError) -> JournalNode {
        if let node = try tables.node(at: path) {
            guard !node.isTombstone else { throw JournalError(.notFound, "journal: the path was removed") }
            return node
        }
        return try insert(try derive(path, remote))
    }

    /// The row that stands for what the remote has, not inserted; its generation is.
    func derive(_ path: ObjectKey, _ remote: RemoteState) throws(JournalError) -> JournalNode {
        switch remote {
        case .absent:
            throw JournalError(.notFound, "journal: nothing is at the path")
        case .directory(_, nil), .file(_, nil, _):
            throw JournalError(.incomplete, "journal: the attributes of \(path) are not known")
        case .directory(_, let attributes?):
            var node = JournalNode(at: path, .directory, attributes, Observation(remote), self)
            node.attributeSequence = 0
            return node
        case .file(let version, let attributes?, let target):
            let kind: NodeKind = attributes.isSymbolicLink ? .symbolicLink : .file
            var node = JournalNode(at: path, kind, attributes, Observation(remote), self)
            node.attributeSequence = 0
            if kind == .symbolicLink, let target {
                node.target = target
            } else {
                let content = ContentMap(size: version.size, underlayLength: version.size)
                node.generation = try tables.insertGeneration(content, .remote(path, version), isSealed: true)
            }
            return node
        }
    }
}

extension Tables {
    /// Removes a row that wants nothing but what the remote has; true when it did.
    ///
    /// `remote` is what the catalog says of the path, nil where the caller does not know.
    func removeIfClean(_ node: JournalNode, _ remote: RemoteState? = nil) throws(JournalError) -> Bool {
        guard node.kind == .file || node.kind == .symbolicLink else { return false }
        guard !node.isOpen, !node.hasRemoteDirectory, node.conflictOf == nil else { return false }
        guard case .version(let base) = node.base, Self.hasContent(of: base, node, remote) else { return false }
        guard Self.hasAttributes(of: base, node, remote) else { return false }
        if try isTransferRunning(at: node.path) { return false }
        // What the remote has may be on its way out: a deletion that was sent cannot be called back.
        if try isDeletionSent(at: node.path) { return false }
        try delete(node)
        try noteCleanLink(node)
        return true
    }

    private static func hasContent(of base: ObjectVersion, _ node: JournalNode, _ remote: RemoteState?) -> Bool {
        if let generation = node.generation {
            guard let source = generation.wholeRemote, generation.isSealed else { return false }
            return source.key == node.path && source.version.isSame(as: base)
        }
        guard case .file(let version, _, let target?) = remote else { return false }
        return version.isSame(as: base) && node.target == target
    }

    private static func hasAttributes(of base: ObjectVersion, _ node: JournalNode, _ remote: RemoteState?) -> Bool {
        if node.attributeSequence == 0 { return true }
        guard case .file(let version, let attributes, _) = remote else { return false }
        return version.isSame(as: base) && attributes == node.attributes
    }
}
