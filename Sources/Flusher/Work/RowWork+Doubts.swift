// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import ObjectStore
internal import Platform

/// What is done about requests that were sent and not answered: the server may carry them out after the process that
/// sent them is gone, and after a look that showed nothing of them.
///
/// Most are harmless, because every write is conditional on what it was to replace. What is not protected: a key that
/// shall hold nothing (a tombstone watches over it), a deletion (what is made again waits for its end), markers of
/// folders, and servers that ignore conditions.
extension RowWork {
    // MARK: requests of which only their note tells

    func note(
        _ node: JournalNode,
        _ key: ObjectKey,
        _ kind: DoubtKind,
        tag: String? = nil
    ) throws(WorkFailure) -> DoubtID {
        let request = try journal { (journal) throws(JournalError) in
            try journal.noteRequest(for: node, key, kind, tag: tag)
        }
        guard let request else { throw .changed }
        return request
    }

    /// Sends a request that was noted; its success is the caller's to note, with what it brought about.
    func noted<Value>(
        _ request: DoubtID,
        _ body: (any ObjectStore) throws(StoreError) -> Value
    ) throws(WorkFailure) -> Value {
        do throws(WorkFailure) {
            return try remote(body)
        } catch {
            guard case .store(let cause) = error else { throw error }
            try journal { (journal) throws(JournalError) in
                guard cause.mayStillArrive else { return try journal.endDoubt(request) }
                try journal.doubt(request, until: session.endOfDoubt)
            }
            throw error
        }
    }

    // MARK: outcomes

    /// Takes in that an object is what a request in doubt was to make; false when it is not.
    func seeDoubt(_ key: ObjectKey, _ found: ObjectStatus) throws(WorkFailure) -> Bool {
        let doubts = try doubts(at: key).filter { $0.key == key && $0.kind == .write && !($0.isReplaced && $0.isOver) }
        guard let doubt = doubts.first(where: { $0.isShown(by: found) }) else { return false }
        _ = try journal { (journal) throws(JournalError) in
            try journal.completeDoubt(doubt, version: found.version)
        }
        return true
    }

    /// The request of a kind that is in doubt at a key; nil when there are several, of which one may be to come yet.
    func onlyDoubt(_ key: ObjectKey, _ kind: DoubtKind) throws(WorkFailure) -> DoubtID? {
        let doubts = try doubts(at: key).filter { $0.key == key && $0.kind == kind }
        return doubts.count == 1 ? doubts.first?.id : nil
    }

    func doubts(at path: ObjectKey) throws(WorkFailure) -> [Doubt] {
        try journal { (journal) throws(JournalError) in try journal.doubts(at: path) }
    }

    // MARK: watching

    /// Looks after a path that shall hold nothing, and at present does not.
    func watch(_ node: JournalNode) throws(WorkFailure) {
        var left = 0.0
        for doubt in try doubts(at: node.path) where doubt.kind == .write {
            if let found = try status(of: doubt.key) {
                if doubt.key == node.path { session.catalog.found(doubt.key, found) }
                if try seeDoubt(doubt.key, found) { throw .changed }
                if doubt.key == node.path { return try giveWay(node) }
            }
            left = max(left, try end(doubt))
        }
        let path = node.path
        let isFolder = try journal { (journal) throws(JournalError) in try journal.hasTombstones(below: path) }
        if isFolder, try isTakenByOthers(path) { return try giveWay(node) }
        if left > 0 || isFolder {
            let seconds = left > 0 ? pause(left) : Self.longestPause
            throw .later(seconds, "a request whose answer was lost may be carried out yet")
        }
        try journal { (journal) throws(JournalError) in try journal.endWatch(node) }
    }

    /// Whether a folder that was removed has anything in it that was not in it before.
    ///
    /// An object that is taken away during the look has no tombstone any more: so it is looked twice.
    private func isTakenByOthers(_ folder: ObjectKey) throws(WorkFailure) -> Bool {
        for _ in 0..<2 {
            let keys = try firstKeys(below: folder)
            if try journal({ (journal) throws(JournalError) in try journal.areBuried(keys) }) { return false }
        }
        return true
    }

    /// The first page of what the remote has below a folder; nothing where it does not tell.
    private func firstKeys(below folder: ObjectKey) throws(WorkFailure) -> [ObjectKey] {
        do throws(WorkFailure) {
            return try remote { (store) throws(StoreError) in
                try store.list(folder, recursive: true, continuation: nil).entries.map(\.key)
            }
        } catch {
            guard case .store(let cause) = error, [.notFound, .unsupported].contains(cause.cause) else { throw error }
            return []
        }
    }

    /// Seconds between two looks, at most.
    private static var longestPause: Double { 5 }

    /// Seconds until the next look at what a request in doubt has come to, when it may come for so many more.
    private func pause(_ left: Double) -> Double { max(0.1, min(left, Self.longestPause, left / 8)) }

    /// Somebody else made an object where nothing of ours shall be.
    private func giveWay(_ node: JournalNode) throws(WorkFailure) {
        _ = try journal { (journal) throws(JournalError) in try journal.drop(node) }
    }

    /// Forgets a doubt whose time is over; otherwise tells how many seconds are left.
    private func end(_ doubt: Doubt) throws(WorkFailure) -> Double {
        let left = try journal { (_) throws(JournalError) in try session.left(of: doubt) }
        guard left <= 0 else { return left }
        try journal { (journal) throws(JournalError) in try journal.endDoubt(doubt.id) }
        return 0
    }

    // MARK: waiting

    /// Waits while a write may come late whose condition a copy would make true again; see
    /// ``VolumeSession/pauseForWrites(at:over:)``.
    func awaitWrites(at key: ObjectKey, over version: ObjectVersion) throws(WorkFailure) {
        let tag = version.entityTag?.opaque
        let pause = try journal { (_) throws(JournalError) in try session.pauseForWrites(at: key, over: tag) }
        if let pause { throw .later(pause, VolumeSession.isTooEarly) }
    }

    /// Waits for the end of requests in doubt that could undo what the row is about to do.
    func awaitDoubts(_ node: JournalNode) throws(WorkFailure) {
        guard !node.isTombstone else { return }
        let doubts = try doubts(at: node.path)
        for doubt in doubts where isInTheWay(doubt, of: node) {
            let isOnly = doubts.count { $0.key == doubt.key } == 1
            // Of several one may be to come yet, and what is over is not forgotten without a look.
            if isOnly || doubt.isOver, try isCarriedOut(doubt, node) { throw .changed }
            let left = try end(doubt)
            if left > 0 { throw .later(min(pause(left), 1), "a request whose answer was lost may undo it yet") }
        }
    }

    private func isInTheWay(_ doubt: Doubt, of node: JournalNode) -> Bool {
        let isFolder = node.kind == .directory
        switch (doubt.kind, doubt.key == node.path) {
        // It may mean the very version that is made again.
        case (.deletion, true): return !isFolder
        case (.deletion, false): return isFolder
        // New attributes leave the version as it is, so that the condition of a request for older ones still holds.
        case (.write, true) where node.generation?.wholeRemote?.key == node.path:
            let source = node.generation?.wholeRemote?.version
            return doubt.tag != CopyMark(node.attributes, size: node.size, of: source).text
        case (.write, true):
            // The condition of one of the two keeps the other from being overwritten.
            if !isFolder, store.capabilities.conditionalWrites != false { return false }
            return isFolder || session.transfer(of: node)?.expectedTag != doubt.tag
        // A marker hides a file of its name, and older attributes replace newer ones.
        case (.write, false): return !isFolder || doubt.tag != CopyMark(node.attributes, size: 0).text
        }
    }

    /// Whether the outcome of a request in doubt shows at the remote; the journal then knows it.
    ///
    /// What was known before proves nothing: a repetition of the request that was answered may have done it.
    private func isCarriedOut(_ doubt: Doubt, _ node: JournalNode) throws(WorkFailure) -> Bool {
        let found = try status(of: doubt.key)
        if doubt.kind == .write {
            let isKnown = doubt.key == node.path ? matches(node.base, found?.version) : node.hasRemoteDirectory
            guard let found, !isKnown else { return false }
            if doubt.key == node.path { session.catalog.found(doubt.key, found) }
            return try seeDoubt(doubt.key, found)
        }
        guard found == nil else { return false }
        guard doubt.key == node.path ? node.base != .absent : node.hasRemoteDirectory else { return false }
        // As after every deletion: when the row goes elsewhere, nobody is to see in the catalog what was here.
        doubt.key == job.path ? session.catalog.removed(job.path) : session.catalog.removedDirectory(job.path)
        _ = try journal { (journal) throws(JournalError) in
            guard doubt.key == job.path else {
                return try journal.completeDirectoryRemoval(at: job.path, request: doubt.id)
            }
            return try journal.completeObjectRemoval(at: job.path, request: doubt.id)
        }
        return true
    }
}

extension VolumeSession {
    /// How many seconds a request may still be carried out; 0: it can be no more.
    func left(of doubt: Doubt) throws(JournalError) -> Double {
        guard let end = doubt.endsAt else {
            // Nobody else changes this key now, so whoever sent it has no answer.
            try journal.doubt(doubt.id, until: endOfDoubt)
            return 1
        }
        let left = Double(end.nanoseconds - Timestamp.now().nanoseconds) / 1e9
        guard left > description.lateness else { return max(0, left) }
        // Written before the clock was set back.
        try journal.doubt(doubt.id, until: endOfDoubt)
        return description.lateness
    }

    /// In how many seconds to look again whether the object at a key may get content with this tag; nil: it may now.
    ///
    /// A write that may come late and was conditional on the very same tag would take the place of what is made now, as its
    /// condition held again.
    func pauseForWrites(at key: ObjectKey, over tag: String?) throws(JournalError) -> Double? {
        guard let tag = tag?.lowercased() else { return nil }
        var longest = 0.0
        for doubt in try journal.doubts(at: key)
        where doubt.key == key && doubt.kind == .write && doubt.base?.lowercased() == tag {
            longest = max(longest, try left(of: doubt))
        }
        // Each look may cost a digest of the content.
        return longest > 0 ? min(longest, 5) : nil
    }

    /// What is told of a change that waits for that.
    static let isTooEarly = "a request whose answer was lost may replace it yet"
}

extension Doubt {
    /// Whether the request can be carried out no more.
    fileprivate var isOver: Bool { endsAt.map { $0 <= .now() } ?? false }

    /// Whether an object is what the request was to make.
    fileprivate func isShown(by found: ObjectStatus) -> Bool {
        guard let tag, found.version.size == size else { return false }
        if let mark = CopyMark(tag) { return mark.matches(found) }
        return found.version.entityTag?.opaque.lowercased() == tag.lowercased()
    }
}
