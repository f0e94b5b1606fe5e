// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Database
internal import Platform

extension Journal {
    /// Moves a file or link, in place of what the target path has; returns its row, nil when it is as at the remote again.
    @discardableResult
    package func rename(
        from source: ObjectKey,
        to target: ObjectKey,
        sourceRemote: @autoclosure () throws(JournalError) -> RemoteState,
        targetRemote: @autoclosure () throws(JournalError) -> RemoteState,
        now: Timestamp = .now()
    ) throws(JournalError) -> JournalNode? {
        try change(at: now) { change throws(JournalError) in
            let sourceRemote = try sourceRemote()
            let targetRemote = try targetRemote()
            // A copy that got another name, or made room for something, is none that has to be looked at.
            try change.tables.forgetConflict(source)
            try change.tables.forgetConflict(target)
            return try change.move(source, target, sourceRemote, targetRemote)
        }
    }

    /// Moves a folder with everything below it, in place of an empty or absent folder, in one transaction.
    ///
    /// `entries` is the complete recursive listing of what the remote has below `source`, without `source`
    /// itself, as the catalog knows it; entries whose path has a row are ignored in favour of the row.
    package func renameDirectory(
        from source: ObjectKey,
        to target: ObjectKey,
        sourceRemote: @autoclosure () throws(JournalError) -> RemoteState,
        targetRemote: @autoclosure () throws(JournalError) -> RemoteState,
        entries: @autoclosure () throws(JournalError) -> [RemoteEntry],
        now: Timestamp = .now()
    ) throws(JournalError) {
        try change(at: now) { change throws(JournalError) in
            let sourceRemote = try sourceRemote()
            let targetRemote = try targetRemote()
            try change.moveTree(source, target, sourceRemote, targetRemote, try entries())
        }
    }

    /// Exchanges two things of which one at least is a folder, each with everything below it, in one transaction
    /// (`RENAME_EXCHANGE`); neither is below the other.
    ///
    /// The entries are as for ``renameDirectory(from:to:sourceRemote:targetRemote:entries:now:)``; none for what is no
    /// folder.
    package func exchangeTrees(
        _ first: ObjectKey,
        _ second: ObjectKey,
        firstRemote: @autoclosure () throws(JournalError) -> RemoteState,
        secondRemote: @autoclosure () throws(JournalError) -> RemoteState,
        firstEntries: @autoclosure () throws(JournalError) -> [RemoteEntry],
        secondEntries: @autoclosure () throws(JournalError) -> [RemoteEntry],
        now: Timestamp = .now()
    ) throws(JournalError) {
        guard !first.isInside(second), !second.isInside(first) else {
            throw JournalError(.constraint, "journal: \(first) and \(second) are not beside each other")
        }
        try change(at: now) { change throws(JournalError) in
            let (firstRemote, secondRemote) = (try firstRemote(), try secondRemote())
            let (firstEntries, secondEntries) = (try firstEntries(), try secondEntries())
            try change.tables.forgetConflict(first)
            try change.tables.forgetConflict(second)
            // No path has a zero byte, and nobody sees what is within a transaction.
            let aside = ObjectKey(bytes: second.bytes + [0])
            try change.moveTree(first, aside, firstRemote, .absent, firstEntries)
            try change.moveTree(second, first, secondRemote, firstRemote, secondEntries)
            try change.moveTree(aside, second, .absent, secondRemote, [])
        }
    }

    /// Exchanges two files or links (`RENAME_EXCHANGE`).
    package func exchange(
        _ first: ObjectKey,
        _ second: ObjectKey,
        firstRemote: @autoclosure () throws(JournalError) -> RemoteState,
        secondRemote: @autoclosure () throws(JournalError) -> RemoteState,
        now: Timestamp = .now()
    ) throws(JournalError) {
        try change(at: now) { change throws(JournalError) in
            let firstRemote = try firstRemote()
            let secondRemote = try secondRemote()
            try change.tables.forgetConflict(first)
            try change.tables.forgetConflict(second)
            if change.hasLinks, try change.tables.areOfOneFile(first, second) { return }
            var one = try change.materializeName(first, firstRemote)
            var two = try change.materializeName(second, secondRemote)
            let observations = (Observation(one), Observation(two))
            // The unique index allows no moment with two rows at one path.
            one.path = ObjectKey(bytes: second.bytes + [0])
            try change.tables.update(one)
            two.settle(at: first, observations.0, change)
            try change.tables.update(two)
            one.settle(at: second, observations.1, change)
            try change.tables.update(one)
            if change.hasLinks { try change.tables.exchangeLinks(first, second) }
            _ = try change.tables.removeIfClean(one, secondRemote)
            _ = try change.tables.removeIfClean(two, firstRemote)
        }
    }
}

extension JournalNode {
    /// Puts the row at a path with what the remote has there.
    mutating func settle(at path: ObjectKey, _ observation: Observation, _ change: Change) {
        self.path = path
        base = observation.base
        hasRemoteDirectory = observation.hasRemoteDirectory
        touch(change)
    }
}

extension Change {
    /// Moves one row, made from the remote's state where there is none; leaves a tombstone where one is needed.
    func move(
        _ source: ObjectKey,
        _ target: ObjectKey,
        _ sourceRemote: RemoteState,
        _ targetRemote: RemoteState
    ) throws(JournalError) -> JournalNode? {
        guard !target.isRoot, !source.isRoot else {
            throw JournalError(.constraint, "journal: the root cannot be moved or replaced")
        }
        guard source != target else { return try tables.node(at: source) }
        if hasLinks, try tables.areOfOneFile(source, target) { return try tables.node(at: source) }
        var node = try materializeName(source, sourceRemote)
        let left = Observation(node)
        if case .file = targetRemote {} else { try leaveLostName(target) }
        node.settle(at: target, try vacate(target, targetRemote), self)
        try tables.update(node)
        if hasLinks { try tables.moveLink(from: source, to: target, isUnsent: true) }
        try bury(source, left)
        return try tables.removeIfClean(node, targetRemote) ? nil : node
    }

    /// Moves something with everything below it, in place of something that has nothing below it.
    ///
    /// `entries` are those of the remote below `source`.
    fileprivate func moveTree(
        _ source: ObjectKey,
        _ target: ObjectKey,
        _ sourceRemote: RemoteState,
        _ targetRemote: RemoteState,
        _ entries: [RemoteEntry]
    ) throws(JournalError) {
        let rows = try tables.descendants(of: source)
        var paths = Set(rows.map(\.path))
        _ = try move(source, target, sourceRemote, targetRemote)
        for row in rows where !row.isTombstone {
            try moveInside(row.path, source, target, .absent)
        }
        // An entry listed twice (a marker and an implied folder) moves once.
        for entry in entries where paths.insert(entry.path).inserted {
            try moveInside(entry.path, source, target, entry.state)
        }
        try leaveLinks(below: source)
        try tables.moveConflicts(below: source, to: target)
    }

    /// Moves one thing below a folder that moves.
    ///
    /// What the remote has at its new path, if anything, has a tombstone there, for the folder that is replaced is
    /// empty.
    fileprivate func moveInside(
        _ path: ObjectKey,
        _ source: ObjectKey,
        _ target: ObjectKey,
        _ remote: RemoteState
    ) throws(JournalError) {
        guard let moved = path.moved(from: source, to: target) else { return }
        _ = try move(path, moved, remote, .absent)
        try tables.moveConflict(path, to: moved)
    }
}
