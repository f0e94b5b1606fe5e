// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Configuration
internal import Control
internal import Journal
internal import ObjectStore
internal import Platform
internal import Synchronization

/// An open volume: its journal, its caches, the way to its remote.
final class VolumeSession: Sendable {
    private struct State {
        var store: (any ObjectStore)?
        /// Every transfer in the journal: only the flusher writes them, so this mirror is exact.
        var transfers: [TransferID: Transfer] = [:]
        /// Those that a thread works on.
        var claimed: Set<TransferID> = []
        /// The names that a thread changes at the remote, and whether since then the work on a folder that one of them
        /// is in, or on something in it, has ended.
        var claimedPaths: [ObjectKey: Bool] = [:]
        /// When uploads that may be left at a key were last looked for, by the server's clock.
        var looks: [ObjectKey: Timestamp] = [:]
        /// Those whose last commit was answered, so that it cannot be carried out later, or is noted as a doubt already.
        var answered: Set<TransferID> = []
    }

    let description: VolumeDescription
    let places: VolumePlaces
    let journal: Journal
    let catalog: any CatalogSink
    let cache: BlockCache
    /// What of contents was sent to the remote.
    let sent = SentBytes()
    /// The folders that a person holds back.
    let pauses: PauseStore
    let costly = Lock(CostlyReports())
    /// What open files keep from being deleted or replaced.
    let readers: OpenReaders
    /// Held while finished content is given to the cache.
    let adopting = Lock(())
    /// A file of finished content that should have gone stays.
    let hasLeftFiles = Atomic(false)
    private let state: Lock<State>

    init(
        description: VolumeDescription,
        places: VolumePlaces,
        journal: Journal,
        catalog: any CatalogSink,
        cache: BlockCache,
        readerPatience: ReaderWait.Patience
    ) throws(JournalError) {
        self.description = description
        self.places = places
        self.journal = journal
        self.catalog = catalog
        self.cache = cache
        pauses = PauseStore(directory: places.state)
        readers = OpenReaders(directory: places.state, patience: readerPatience)
        // Whoever waited for an answer before us waits no more.
        try journal.doubtAllCreations()
        var initial = State()
        // Only one flusher works on a volume: whatever has no answer was sent by one that is gone.
        if try journal.doubtCount() > 0 {
            try journal.doubtUnanswered(until: .now().advanced(bySeconds: description.lateness))
        }
        for entry in try journal.transfers() { initial.transfers[entry.transfer.id] = entry.transfer }
        state = Lock(initial)
    }

    var id: String { description.id }

    /// The remote; nil until one could be made.
    var store: (any ObjectStore)? {
        get { state.withLock { $0.store } }
        set { state.withLock { $0.store = newValue } }
    }

    // MARK: transfers

    /// The transfers known, oldest first.
    var transfers: [Transfer] { state.withLock { $0.transfers.values.sorted { $0.id < $1.id } } }

    func transfer(_ id: TransferID) -> Transfer? { state.withLock { $0.transfers[id] } }

    /// The transfer of a row's present content, at its path or at one it had before.
    func transfer(of node: JournalNode) -> Transfer? {
        let mine = state.withLock { state in
            state.transfers.values.filter { $0.node == node.id && $0.generation == node.generation?.id }
        }
        return mine.max { ($0.key == node.path ? 1 : 0, $0.id) < ($1.key == node.path ? 1 : 0, $1.id) }
    }

    func transfer(showing generation: GenerationID) -> Transfer? {
        state.withLock { $0.transfers.values.first { $0.generation == generation } }
    }

    func remember(_ transfer: Transfer) {
        state.withLock { $0.transfers[transfer.id] = transfer }
    }

    func change(_ id: TransferID, _ body: (inout Transfer) -> Void) {
        state.withLock { state in
            guard var transfer = state.transfers[id] else { return }
            body(&transfer)
            state.transfers[id] = transfer
        }
    }

    func forget(_ id: TransferID) {
        state.withLock { state in
            state.transfers[id] = nil
            state.answered.remove(id)
            state.claimed.remove(id)
        }
    }

    /// Takes a transfer for the calling thread; false when another thread has it.
    func claim(_ id: TransferID) -> Bool { state.withLock { $0.claimed.insert(id).inserted } }
    func release(_ id: TransferID) { state.withLock { _ = $0.claimed.remove(id) } }
    func isClaimed(_ id: TransferID) -> Bool { state.withLock { $0.claimed.contains(id) } }

    // MARK: doubt

    /// When a request sent until now can be alive no more.
    var endOfDoubt: Timestamp { .now().advanced(bySeconds: description.lateness) }

    /// Whether the commit of a transfer may be carried out although nobody waits for it.
    ///
    /// What is ended at the remote with its upload cannot: only requests that stand for themselves are meant.
    func isDoubtful(_ transfer: Transfer) -> Bool {
        guard transfer.phase == .committing, !state.withLock({ $0.answered.contains(transfer.id) }) else {
            return false
        }
        switch transfer.method {
        case .put, .copy: return true
        case .resumable: return transfer.upload == nil
        case .multipart: return false
        }
    }

    /// Notes whether the last commit of a transfer was answered.
    func setAnswered(_ id: TransferID, _ isAnswered: Bool) {
        state.withLock { state in
            if isAnswered { state.answered.insert(id) } else { state.answered.remove(id) }
        }
    }

    // MARK: claims

    /// Takes a name for the calling thread; false when another thread changes it.
    ///
    /// Its row may be replaced by another while a request is under way, above all a deletion, which must not meet
    /// the object that the new row makes.
    func claim(path: ObjectKey) -> Bool {
        state.withLock { state in
            guard state.claimedPaths[path] == nil else { return false }
            state.claimedPaths[path] = false
            return true
        }
    }

    /// Whether work above or below a name has ended since it was claimed, which may have changed what is in its way.
    func hasWayChanged(for path: ObjectKey) -> Bool { state.withLock { $0.claimedPaths[path] ?? false } }

    func release(path: ObjectKey) {
        state.withLock { state in
            state.claimedPaths[path] = nil
            for other in state.claimedPaths.keys where other.isInside(path) || path.isInside(other) {
                state.claimedPaths[other] = true
            }
        }
    }

    func lastLook(at key: ObjectKey) -> Timestamp? { state.withLock { $0.looks[key] } }
    func looked(at key: ObjectKey, _ time: Timestamp?) { state.withLock { $0.looks[key] = time } }

    /// The transfers that no thread works on.
    var idleTransfers: [Transfer] {
        state.withLock { state in state.transfers.values.filter { !state.claimed.contains($0.id) } }
    }
}

extension VolumeDescription {
    /// How long a request whose answer was lost may still be carried out, in seconds.
    ///
    /// The kernel drops what a dead process left in a socket when nothing is acknowledged for a minute, as the transport
    /// asks it to; servers and the proxies before them give up a request that stands still after about another.
    var lateness: Double { lateRequests ?? 120 }
}
