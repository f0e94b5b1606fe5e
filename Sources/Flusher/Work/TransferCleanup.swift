// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Journal
internal import ObjectStore
internal import Platform
internal import ResumableUpload

/// Ends transfers that no row wants any more, so that nothing is left behind at the remote.
///
/// The caller has claimed the transfer.
struct TransferCleanup {
    let work: RowWork

    /// Ends a transfer, then finds out what came of it: in this order nothing can be committed after the look.
    func settle(_ transfer: Transfer) throws(WorkFailure) {
        try endAtRemote(transfer)
        if transfer.phase == .committing, let found = try seen(transfer) {
            work.session.catalog.found(transfer.key, found)
            _ = try work.journal { (journal) throws(JournalError) in
                try journal.completeTransfer(transfer.id, version: found.version)
            }
            work.session.forget(transfer.id)
            work.session.readers.forget(transfer.key, transfer.base)
            return
        }
        try remove(transfer)
    }

    /// What was committed, as far as the remote lets us look: what it does not tell may come to be known later.
    private func seen(_ transfer: Transfer) throws(WorkFailure) -> ObjectStatus? {
        do throws(WorkFailure) {
            return try committed(transfer)
        } catch {
            guard case .store(let cause) = error, cause.isOfKey else { throw error }
            Log.notice("flusher", "\(transfer.key): the remote does not tell what came of an upload: \(cause)")
            return nil
        }
    }

    /// The version that a completion made whose answer was lost, also one that came to pass while it was looked for: what
    /// is put together from parts of an object takes that object's place, and looks like a change of it by somebody else.
    ///
    /// The upload is over in any case.
    func arrival(of transfer: Transfer) throws(WorkFailure) -> ObjectVersion? {
        guard transfer.phase == .committing else { return nil }
        try endAtRemote(transfer)
        return try committed(transfer)?.version
    }

    /// Gives up an upload at the remote, then in the journal.
    func abort(_ transfer: Transfer) throws(WorkFailure) {
        try endAtRemote(transfer)
        try remove(transfer)
    }

    private func remove(_ transfer: Transfer) throws(WorkFailure) {
        try doubt(transfer)
        try work.journal { (journal) throws(JournalError) in try journal.removeTransfer(transfer.id) }
        work.session.forget(transfer.id)
    }

    /// Notes that a commit of which nothing was seen may come to pass yet.
    func doubt(_ transfer: Transfer) throws(WorkFailure) {
        if work.session.isDoubtful(transfer) { try noteDoubt(of: transfer) }
    }

    private func noteDoubt(of transfer: Transfer) throws(WorkFailure) {
        var tag = transfer.expectedTag
        if tag == nil { tag = try localTag(transfer) }
        try work.journal { (journal) throws(JournalError) in
            try journal.doubt(transfer, tag: tag, until: work.session.endOfDoubt)
        }
    }

    /// Ends what a transfer has begun at the remote; what is not there any more is as good as ended.
    ///
    /// Where the remote does not let us end it nothing waits for that: it is tried again for a while.
    func endAtRemote(_ transfer: Transfer) throws(WorkFailure) {
        guard let upload = transfer.upload else { return }
        do throws(WorkFailure) {
            switch transfer.method {
            case .multipart: try abortMultipart(transfer.key, upload)
            case .resumable: try abortResumable(upload, transfer.interopVersion)
            case .put, .copy: break
            }
        } catch {
            guard case .store(let cause) = error, cause.isRefusal else { throw error }
            Log.notice("flusher", "\(transfer.key): the remote does not end an upload that is wanted no more: \(cause)")
            try leave(transfer, upload)
        }
    }

    /// Leaves an upload to the sweep; that its completion may be on its way is not to be forgotten with it.
    private func leave(_ transfer: Transfer, _ upload: String) throws(WorkFailure) {
        try work.journal { (journal) throws(JournalError) in
            try journal.leave(
                upload,
                at: transfer.key,
                method: transfer.method,
                interopVersion: transfer.interopVersion
            )
        }
        if transfer.phase == .committing { try noteDoubt(of: transfer) }
    }

    /// Ends an upload that was left at the remote.
    func end(_ leftover: Leftover) throws(WorkFailure) {
        guard let upload = leftover.upload else { return }
        switch leftover.method {
        case .multipart: try abortMultipart(leftover.key, upload)
        case .resumable: try abortResumable(upload, leftover.interopVersion)
        case .put, .copy: break
        }
    }

    /// The object at the transfer's key, if it is what the transfer sent.
    private func committed(_ transfer: Transfer) throws(WorkFailure) -> ObjectStatus? {
        guard let found = try work.status(of: transfer.key), found.version.size == transfer.size else { return nil }
        if case .version(let base) = transfer.base, base.isSame(as: found.version) {
            // The bytes are the same in any case; its attributes may be those that were sent.
            work.session.catalog.found(transfer.key, found)
            return nil
        }
        if transfer.method == .copy {
            let mark = transfer.expectedTag.flatMap { CopyMark($0) }
            return mark?.matches(found) ?? false ? found : nil
        }
        guard let entityTag = found.version.entityTag else { return nil }
        let tag = entityTag.opaque.lowercased()
        if let expected = transfer.expectedTag?.lowercased() {
            if tag == expected { return found }
            // Some servers give what came in parts the tag of a whole.
            guard transfer.method == .multipart, entityTag.isDigestOfWhole else { return nil }
        }
        return try localTag(transfer) == tag ? found : nil
    }

    /// The tag of the staged content; nil when not all of it is here.
    private func localTag(_ transfer: Transfer) throws(WorkFailure) -> String? {
        guard let id = transfer.generation,
            let generation = try work.journal({ (journal) throws(JournalError) in try journal.generation(id) }),
            generation.underlay == .none, generation.size == transfer.size
        else { return nil }
        do throws(SystemError) {
            guard generation.size > 0 else { return try UploadContent(nil, size: 0).entityTag() }
            let file = try work.session.journal.openStaging(id, creating: false)
            return try UploadContent(file, size: generation.size).entityTag()
        } catch {
            Log.info("flusher", "cannot read what was sent: \(error)")
            return nil
        }
    }

    /// Aborts an upload until no part of it is left: one that was on its way at the first abort may arrive after it.
    func abortMultipart(_ key: ObjectKey, _ upload: String) throws(WorkFailure) {
        for _ in 0..<Self.abortLimit {
            let wasGone = try isGone { () throws(WorkFailure) in
                try work.remote { (store) throws(StoreError) in try store.abortMultipartUpload(key, uploadID: upload) }
            }
            if wasGone { return }
            var parts: [UploadedPart] = []
            let isOver = try isGone { () throws(WorkFailure) in
                parts = try work.remote { (store) throws(StoreError) in try store.listParts(key, uploadID: upload) }
            }
            if isOver || parts.isEmpty { return }
        }
        throw .store(StoreError(.temporary, "an upload still has parts after it was aborted"))
    }

    private static let abortLimit = 3

    /// Whether a request failed because its upload is not there.
    private func isGone(_ request: () throws(WorkFailure) -> Void) throws(WorkFailure) -> Bool {
        do throws(WorkFailure) {
            try request()
            return false
        } catch {
            guard case .store(let cause) = error, cause.cause == .noSuchUpload || cause.cause == .notFound else {
                throw error
            }
            return true
        }
    }

    private func abortResumable(_ resource: String, _ interopVersion: Int64) throws(WorkFailure) {
        var fields = HTTPFields()
        let version = InteropVersion(rawValue: Int(interopVersion)) ?? .final
        fields[UploadProtocol.versionField] = version.fieldValue
        let exchange = UploadExchange(method: "DELETE", target: .resource(resource), fields: fields)
        let response = try work.remote { (store) throws(StoreError) in
            try store.exchange(exchange, informational: nil, progress: nil, cancellation: work.job.cancellation)
        }
        // Any refusal means that it is not there, or not ours to end; only trouble is worth another try.
        if response.status >= 500 || response.status == 429 {
            throw .store(StoreError(.temporary, "ending an upload was answered by \(response.status)"))
        }
    }
}

extension StoreError {
    /// Whether the remote refuses what is asked of this key, which may be another matter at another one.
    var isOfKey: Bool { isRefusal || cause == .invalidKey || cause == .tooLarge }

    /// Whether the remote says that it will not, whenever it is asked again.
    fileprivate var isRefusal: Bool {
        switch cause {
        case .forbidden, .unsupported, .rejected: true
        default: false
        }
    }
}
