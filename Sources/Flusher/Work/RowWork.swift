// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Database
internal import Journal
internal import ObjectStore
internal import Platform

/// One attempt to bring what a row wants to the remote, on a worker's thread.
///
/// Every step reads the row anew, changes the remote under the condition that it is what the row is based on,
/// writes the catalog, then the journal: after a crash at any instruction the next attempt finds out what happened.
struct RowWork {
    let session: VolumeSession
    let store: any ObjectStore
    let job: RunningJob
    let settings: WorkSettings

    /// Does what can be done for the row now.
    func run() -> WorkOutcome {
        do throws(WorkFailure) {
            guard let node = try journal({ (journal) throws(JournalError) in try journal.node(job.node) }) else {
                return .progress
            }
            job.wish = node.sequence
            guard !node.isOpen, !node.schedule.isPaused, node.schedule.attention == nil, settings.isAsPlanned(node)
            else {
                return .failed(.changed)
            }
            try settle(node)
            return .progress
        } catch {
            if case .changed = error { return .progress }
            return .failed(error)
        }
    }

    /// A refusal of a key for what is in its way counts only where nobody sees to that, as is done with what a request
    /// that came late has put there.
    private func lookingAround<Value>(
        _ path: ObjectKey,
        _ body: () throws(WorkFailure) -> Value
    ) throws(WorkFailure) -> Value {
        do throws(WorkFailure) {
            return try body()
        } catch {
            guard case .store(let cause) = error, cause.isPathConflict else { throw error }
            // In this order: what is done with between the two was seen to while this waited for its answer.
            let isSeenTo = (try? session.journal.isClearing(around: path)) ?? false
            guard isSeenTo || session.hasWayChanged(for: path) else { throw error }
            throw .later(1, "what is in its way at the remote is taken away first")
        }
    }

    private func settle(_ node: JournalNode) throws(WorkFailure) {
        job.path = node.path
        guard session.claim(path: node.path) else { throw .blocked(nil, "an earlier change of it ends first") }
        defer { session.release(path: node.path) }
        try lookingAround(node.path) { () throws(WorkFailure) in try settleClaimed(node) }
    }

    private func settleClaimed(_ node: JournalNode) throws(WorkFailure) {
        if let transfer = session.transfer(of: node), transfer.key != node.path {
            // Moved while it was being sent: what the remote has of it is not thrown away.
            return try finishElsewhere(transfer, node)
        }
        if node.generation != nil {
            try journal { (journal) throws(JournalError) in try journal.recallCopies(of: node.path) }
        }
        try clearBlockers(of: node)
        if node.base == .unknown { return try learnBase(of: node) }
        try awaitDoubts(node)
        switch node.kind {
        case .tombstone: try removeFromRemote(node)
        case .directory: try makeFolder(node)
        case .file, .symbolicLink: try makeObject(node)
        case .hardLink: try makeLink(node)
        }
    }

    /// Asks what the remote has where the row does not know it.
    private func learnBase(of node: JournalNode) throws(WorkFailure) {
        let found = try status(of: node.path)
        session.catalog.found(node.path, found)
        _ = try journal { (journal) throws(JournalError) in
            try journal.rebase(node, onto: found.map { .version($0.version) } ?? .absent)
        }
    }

    // MARK: helpers

    /// Works on the journal.
    func journal<Value>(_ body: (Journal) throws(JournalError) -> Value) throws(WorkFailure) -> Value {
        do throws(JournalError) {
            return try body(session.journal)
        } catch {
            if error.kind == .notFound { throw .changed }
            throw .journal(error)
        }
    }

    /// Sends a request when there is room for it.
    func remote<Value>(_ body: (any ObjectStore) throws(StoreError) -> Value) throws(WorkFailure) -> Value {
        do throws(StoreError) {
            return try settings.gate.run(job.cancellation) { () throws(StoreError) in try body(store) }
        } catch {
            throw .store(error)
        }
    }

    /// What the remote has at a key; nil when it has nothing.
    func status(of key: ObjectKey) throws(WorkFailure) -> ObjectStatus? {
        do throws(WorkFailure) {
            return try remote { (store) throws(StoreError) in
                try store.status(of: key, cancellation: job.cancellation)
            }
        } catch {
            if case .store(let cause) = error, cause.cause == .notFound { return nil }
            throw error
        }
    }

    func condition(_ base: RemoteBase) -> WriteCondition {
        switch base {
        case .absent: .absent
        case .version(let version): .version(version)
        // Never reached: an unknown base is asked for first. Absence is the condition that destroys nothing.
        case .unknown: .absent
        }
    }
}

/// What all work shares.
struct WorkSettings: Sendable {
    let gate: RequestGate
    /// Parts of one file in flight at once.
    let parallelism: Int
    /// Whether a row is still to go by the rules, and at the time, that it was chosen by.
    let isAsPlanned: @Sendable (JournalNode) -> Bool
    /// Whether another row is held by the rules, or by the time that was set for it.
    var isHeld: @Sendable (NodeID) -> Bool = { _ in false }
    /// Names this machine in the names of conflict copies.
    let host: String
    /// Tells clients what happened.
    let publish: @Sendable (WorkEvent) -> Void
}

extension WorkSettings {
    /// Those of work that sends nothing of a row and tells nobody.
    static func unattended(gate: RequestGate, host: String) -> WorkSettings {
        WorkSettings(gate: gate, parallelism: 1, isAsPlanned: { _ in true }, host: host, publish: { _ in })
    }
}

/// What a piece of work has to tell.
enum WorkEvent: Sendable {
    case committed(volume: String, path: ObjectKey)
    case conflict(volume: String, path: ObjectKey, copy: ObjectKey)
}

extension ObjectMetadata {
    /// The attributes as they travel with the object.
    init(_ attributes: FileAttributes) {
        self.init(
            mode: attributes.mode,
            uid: attributes.uid,
            gid: attributes.gid,
            modified: attributes.modified,
            device: attributes.isSpecial ? attributes.device : nil,
            extended: attributes.extended,
            contentType: attributes.isDirectory ? Self.folderType : nil
        )
    }

    /// Whether an object with this metadata shows these attributes, to the second where the remote keeps no more.
    func shows(_ attributes: FileAttributes) -> Bool {
        mode == attributes.mode && uid == attributes.uid && gid == attributes.gid
            && modified?.seconds == attributes.modified.seconds && device ?? 0 == attributes.device
            && extended == attributes.extended
    }
}
