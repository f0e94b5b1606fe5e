// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Catalog
internal import Database
internal import Journal
internal import ObjectStore
internal import Platform

extension RowWork {
    /// Makes the remote object of a file or symbolic link what the row wants.
    func makeObject(_ node: JournalNode) throws(WorkFailure) {
        if node.hasRemoteDirectory { return try removeMarker(node) }
        try awaitKnownReaders(of: node.path, node.base)
        try checkSafe(node)
        guard let transfer = try transfer(for: node, method: firstMethod(of: node)) else { throw .changed }
        let claimed = try claim(transfer.id, or: "its upload is being looked after")
        defer { session.release(claimed.id) }
        job.generation = claimed.generation
        try carryOut(claimed, node)
    }

    /// Takes a transfer for this thread, and reads it anew: who had it before may have changed or ended it.
    func claim(_ id: TransferID, or reason: String) throws(WorkFailure) -> Transfer {
        guard session.claim(id) else { throw .blocked(nil, reason) }
        guard let transfer = session.transfer(id) else {
            session.release(id)
            throw .changed
        }
        return transfer
    }

    /// Throws `later` while power loss could take back what would be sent: the row would then go back to older
    /// content, and that over the newer one at the remote.
    ///
    /// The mount, or maintenance where there is none, is about to see to their sync. Most often that is a matter of
    /// moments, and what is behind in the queue waits for the same sync: so it is waited for here, for a while.
    func checkSafe(_ node: JournalNode) throws(WorkFailure) {
        guard var generation = node.generation else { return }
        for _ in 0..<25 where !generation.isSendable {
            if let reason = generation.doubt.attention { throw .attention(reason) }
            guard job.cancellation.sleep(0.01) else { break }
            let id = generation.id
            guard let now = try journal({ (journal) throws(JournalError) in try journal.generation(id) }) else {
                throw .changed
            }
            generation = now
        }
        if !generation.isSendable { throw .later(0.1, "its bytes are not safe from power loss yet") }
    }

    /// Goes on with an upload to a path that its row has left.
    func finishElsewhere(_ transfer: Transfer, _ node: JournalNode) throws(WorkFailure) {
        try checkSafe(node)
        let transfer = try claim(transfer.id, or: "its upload is being looked after")
        defer { session.release(transfer.id) }
        job.generation = transfer.generation
        guard goesOnElsewhere(transfer, node) else {
            return try TransferCleanup(work: self).settle(transfer)
        }
        try awaitKnownReaders(of: transfer.key, transfer.base)
        do throws(WorkFailure) {
            try carryOut(transfer, node)
        } catch {
            guard try isOfLeftKey(error, transfer) else { throw error }
            try TransferCleanup(work: self).settle(session.transfer(transfer.id) ?? transfer)
        }
    }

    /// Whether what keeps an upload from its end is of the key that its row has left, so that it is to begin at the new one.
    private func isOfLeftKey(_ failure: WorkFailure, _ transfer: Transfer) throws(WorkFailure) -> Bool {
        guard case .store(let cause) = failure else { return false }
        guard cause.cause == .noSpace else { return cause.isOfKey }
        // The deletion of what is there may make the room that is missing; and for what is to come there may be enough.
        if transfer.base != .absent { return true }
        let next = try journal { (journal) throws(JournalError) in try journal.node(at: transfer.key) }
        guard let next, !next.isTombstone else { return false }
        let isHeld = isHeldByPerson(next) || settings.isHeld(next.id)
        return next.kind != .hardLink && next.size < transfer.size && !isHeld
    }

    /// Whether an upload to a key that its row has left is brought to its end there.
    ///
    /// The object is then copied to the row's path. Where the server cannot copy all would be sent once more; and an object
    /// in whose place there is to be a folder, or that is in one which is to be a file, would be fetched and sent again. Of
    /// what was not begun at the remote, or is only a copy, nothing is lost by beginning at the new path.
    func goesOnElsewhere(_ transfer: Transfer, _ node: JournalNode) -> Bool {
        // What has become of it is found out in any case; but the last request of a resumable upload may have all the bytes.
        let mayBeHalfSent = transfer.method == .resumable && transfer.upload != nil
        if transfer.phase == .committing, !mayBeHalfSent || transfer.acknowledged == transfer.size { return true }
        return transfer.upload != nil && store.capabilities.copy != false && !transfer.key.isInside(node.path)
            && !node.path.isInside(transfer.key)
    }

    /// The row's transfer, begun now if there is none; nil when the row changed meanwhile.
    func transfer(for node: JournalNode, method: TransferProtocol) throws(WorkFailure) -> Transfer? {
        if let transfer = session.transfer(of: node) { return transfer }
        let begun = try journal { (journal) throws(JournalError) in
            try journal.beginTransfer(of: node, method: method)
        }
        if let begun { session.remember(begun) }
        return begun
    }

    private func firstMethod(of node: JournalNode) -> TransferProtocol {
        node.generation?.wholeRemote != nil && store.capabilities.copy != false ? .copy : .put
    }

    private func carryOut(_ transfer: Transfer, _ node: JournalNode) throws(WorkFailure) {
        if transfer.method == .copy, let source = node.generation?.wholeRemote {
            if try copy(transfer, node, source: source) { return }
            try restart(transfer, method: .put)
        }
        guard let current = session.transfer(transfer.id) else { throw .changed }
        var metadata = try metadata(of: current, node)
        var result = try upload(current, node, metadata)
        if case .failed(let error) = result, error.code == Self.tooMuch, !metadata.isOfAttributes {
            guard let state = session.transfer(transfer.id) else { throw .changed }
            if state.upload != nil || state.phase == .committing { try restart(state, method: state.method) }
            metadata = withoutOthers(node)
            result = try upload(session.transfer(transfer.id) ?? state, node, metadata)
        }
        switch result {
        case .committed(let version): try finishSent(current, node, version, metadata)
        case .conflict(let found): try conflict(current, node, found)
        case .unsupported:
            throw .attention("the remote takes this content by none of the known ways of upload")
        case .failed(let error) where error.code == JournalRecorder.inUse:
            throw .inUse(error.retryAfter ?? 1, error.message)
        case .failed(let error) where error.code == JournalRecorder.tooEarly:
            throw .later(error.retryAfter ?? 1, error.message)
        case .failed(let error): throw .store(error)
        }
    }

    /// Begins the same content anew by another way, once what was begun at the remote is ended.
    func restart(_ transfer: Transfer, method: TransferProtocol) throws(WorkFailure) {
        try TransferCleanup(work: self).doubt(session.transfer(transfer.id) ?? transfer)
        try TransferCleanup(work: self).endAtRemote(transfer)
        try journal { (journal) throws(JournalError) in try journal.restartTransfer(transfer.id, method: method) }
        session.change(transfer.id) {
            $0.method = method
            $0.upload = nil
            $0.interopVersion = 0
            $0.partSize = 0
            $0.composition = nil
            $0.acknowledged = 0
            $0.phase = .sending
            $0.expectedTag = nil
        }
    }

    /// Finishes an upload of content.
    ///
    /// Where it is the same as before, byte for byte, or as what a request in doubt was to make, a look at the remote
    /// cannot tell which request has come to pass: then the object's attributes say whether they are to be sent too.
    private func finishSent(
        _ transfer: Transfer,
        _ node: JournalNode,
        _ version: ObjectVersion,
        _ metadata: ObjectMetadata
    ) throws(WorkFailure) {
        var hasAttributes = true
        var isOneOfSeveral = try !doubts(at: transfer.key).isEmpty
        if case .version(let base) = transfer.base, base.isSame(as: version) {
            isOneOfSeveral = true
            // A request without an answer finds its condition true for as long as the bytes are these: attributes that are
            // sent later wait until it can come no more.
            try TransferCleanup(work: self).doubt(session.transfer(transfer.id) ?? transfer)
            session.setAnswered(transfer.id, true)
        }
        if isOneOfSeveral {
            hasAttributes = try status(of: transfer.key)?.metadata.shows(node.attributes) ?? true
        }
        // What another request has come to pass of, or was begun with, was sent with what was known then.
        let isCertain =
            hasAttributes && !isOneOfSeveral && transfer.phase != .committing && transfer.upload == nil
        let others = isCertain ? others(of: metadata, transfer) : .unknown
        try finish(transfer, node, version, hasAttributes: hasAttributes, others: others)
    }

    /// What an object has beside attributes once it was sent with this metadata.
    func others(of metadata: ObjectMetadata, _ transfer: Transfer) -> OtherMetadata {
        metadata.others(typeOfName: MediaTypes.system.type(of: transfer.key))
    }

    /// Notes that the content is at the remote: the catalog first, then the journal.
    func finish(
        _ transfer: Transfer,
        _ node: JournalNode,
        _ version: ObjectVersion,
        hasAttributes: Bool = true,
        others: OtherMetadata = .unknown
    ) throws(WorkFailure) {
        carryCache(transfer, node, version)
        // What an earlier attempt made may have others than the row has by now: a change back to these would be taken for none.
        let isSent = hasAttributes && node.attributeSequence == transfer.attributeSequence
        session.catalog.committed(
            transfer.key,
            version: version,
            attributes: isSent ? node.attributes : nil,
            others: others,
            target: node.target,
            generation: transfer.generation,
            source: node.generation?.id == transfer.generation ? source(of: node) : nil
        )
        let completion = try journal { (journal) throws(JournalError) in
            try journal.completeTransfer(transfer.id, version: version, hasAttributes: hasAttributes)
        }
        session.forget(transfer.id)
        session.readers.forget(transfer.key, transfer.base)
        if case .settled = completion { settings.publish(.committed(volume: session.id, path: transfer.key)) }
    }

    /// Lets the cache keep for the new version what it has of the one that the server made it from.
    ///
    /// Before anybody can look for the new one in it.
    private func carryCache(_ transfer: Transfer, _ node: JournalNode, _ version: ObjectVersion) {
        guard let transfer = session.transfer(transfer.id), transfer.composition != nil || transfer.method == .copy,
            let generation = node.generation, generation.id == transfer.generation,
            case .remote(let key, let old) = generation.underlay,
            // By its other names a file is read as what is cached of the first.
            (try? session.journal.firstName(of: transfer.key)) ?? nil == nil
        else { return }
        let extents = generation.content.extents
        var changed = extents
        let shown = min(generation.content.underlayLength, old.size)
        if shown < version.size { changed.insert(ByteRange(shown, version.size)) }
        session.cache.carry(
            from: (key, old),
            to: (transfer.key, version),
            changed: changed,
            local: isSound(generation) ? session.journal.stagingPath(generation.id) : nil,
            extents: extents
        )
    }

    /// Whether a generation has bytes here, and those that were written.
    private func isSound(_ generation: Generation) -> Bool {
        let extents = generation.content.extents.ranges
        guard !extents.isEmpty, let check = try? session.journal.check(of: generation),
            let file = try? session.journal.openStaging(generation.id, creating: false)
        else { return false }
        let content = UploadContent(file, size: generation.size, check: check)
        return extents.allSatisfy { (try? content.md5($0)) != nil }
    }

    /// The remote object that a row is a copy of, with another name or other attributes.
    private func source(of node: JournalNode) -> (path: ObjectKey, version: ObjectVersion)? {
        node.generation?.wholeRemote.map { ($0.key, $0.version) }
    }

    /// Ours met another version at the remote, which stays; ours goes beside it.
    func conflict(_ transfer: Transfer, _ node: JournalNode, _ found: ObjectVersion?) throws(WorkFailure) {
        let status = try status(of: transfer.key)
        session.catalog.found(transfer.key, status)
        try abandon(transfer)
        guard let status else {
            // What is at the key that it has left says nothing of its own.
            guard node.path == transfer.key else { return }
            // Deleted at the remote: there is nothing to overwrite, ours is made anew.
            _ = try journal { (journal) throws(JournalError) in try journal.rebase(node, onto: .absent) }
            return
        }
        // An older version of ours, which came late, is no conflict.
        if try seeDoubt(transfer.key, status) { return }
        if node.path != transfer.key { return }
        try moveAside(node, remote: status.version)
    }

    private func moveAside(_ node: JournalNode, remote version: ObjectVersion) throws(WorkFailure) {
        let now = Timestamp.now()
        for attempt in 1...100 {
            let copy = ConflictName.path(for: node.path, at: now, host: settings.host, attempt: attempt)
            if session.catalog.known(copy)?.kind == .file { continue }
            do throws(JournalError) {
                guard try session.journal.moveToConflict(node, copy: copy, remote: version) != nil else {
                    return
                }
                settings.publish(.conflict(volume: session.id, path: node.path, copy: copy))
                return
            } catch {
                guard error.kind == .constraint else { throw .journal(error) }
            }
        }
        throw .attention("changed here and at the remote, and no free name was found to keep both")
    }

    /// Ends a transfer at the remote and in the journal.
    func abandon(_ transfer: Transfer) throws(WorkFailure) {
        try TransferCleanup(work: self).abort(session.transfer(transfer.id) ?? transfer)
    }
}
