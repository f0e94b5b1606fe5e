// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Journal
internal import ObjectStore
internal import Platform

extension RowWork {
    /// Sends a transfer's content, by the protocol it was begun with, else by the best one that works.
    func upload(
        _ transfer: Transfer,
        _ node: JournalNode,
        _ metadata: ObjectMetadata
    ) throws(WorkFailure) -> UploadResult {
        if let result = try compose(transfer, node, metadata) { return result }
        guard let transfer = session.transfer(transfer.id) else { throw .changed }
        let content = try content(of: transfer, node)
        let progress = TransferProgress(size: content.size, total: SentBytes(of: [session.sent, job.sent]))
        job.progress = progress
        var methods = UploadMethods.candidates(
            demanded: session.description.uploadProtocol,
            capabilities: store.capabilities,
            size: content.size
        )
        // What was begun is gone on with; what may have been committed is found out by its own protocol.
        let isBegun = transfer.upload != nil || transfer.phase == .committing
        if isBegun, let begun = UploadMethods(transfer.method) {
            methods.removeAll { $0 == begun }
            methods.insert(begun, at: 0)
        }
        for (index, method) in methods.enumerated() {
            guard let current = session.transfer(transfer.id) else { throw .changed }
            if index > 0 || current.method != method.journalled, current.upload != nil || current.phase == .committing {
                try restart(current, method: method.journalled)
            }
            guard let state = session.transfer(transfer.id) else { throw .changed }
            let result = try run(method, state, context(state, metadata, content, progress, method))
            if let place = content.damagedAt, let id = transfer.generation { throw try damaged(id, at: place) }
            if case .unsupported = result { continue }
            return result
        }
        return .unsupported
    }

    /// Lets the server put the content together from what it has and what is sent; nil when that is not the way.
    private func compose(
        _ transfer: Transfer,
        _ node: JournalNode,
        _ metadata: ObjectMetadata
    ) throws(WorkFailure) -> UploadResult? {
        let isNew = transfer.upload == nil && transfer.phase == .sending
        guard isNew || transfer.composition != nil else { return nil }
        let mayCompose = UploadMethods.mayCompose(
            demanded: session.description.uploadProtocol,
            capabilities: store.capabilities
        )
        if mayCompose,
            let (content, source) = try Hydration(work: self).composed(
                transfer,
                partSize: session.description.partSize
            )
        {
            let progress = TransferProgress(size: content.size, total: SentBytes(of: [session.sent, job.sent]))
            job.progress = progress
            let result = try run(
                .multipart,
                transfer,
                context(transfer, metadata, content, progress, .multipart, source)
            )
            if let place = content.damagedAt, let id = transfer.generation { throw try damaged(id, at: place) }
            switch result {
            case .unsupported: Log.info("flusher", "\(transfer.key): the server copies no parts, all of it is sent")
            case .failed(let error) where error.cause == .preconditionFailed:
                if let version = try TransferCleanup(work: self).arrival(of: transfer) { return .committed(version) }
                Log.info("flusher", "\(source.key), which part of \(transfer.key) comes from, changed: \(error)")
            default: return result
            }
        }
        guard let state = session.transfer(transfer.id) else { throw .changed }
        if state.upload != nil || state.composition != nil { try restart(state, method: .put) }
        return nil
    }

    /// Notes that bytes of a content changed on the disk after they were written: they are not sent.
    func damaged(_ id: GenerationID, at place: Int64) throws(WorkFailure) -> WorkFailure {
        let end = place + ChecksumList.blockSize
        let file = session.journal.stagingPath(id)
        let reason = "bytes \(place) to \(end - 1) of \(file): \(SyncDoubt.attentionAfterDamage)"
        try journal { (journal) throws(JournalError) in try journal.noteDamage(of: id, reason) }
        return .attention(reason)
    }

    private func context(
        _ transfer: Transfer,
        _ metadata: ObjectMetadata,
        _ content: UploadContent,
        _ progress: TransferProgress,
        _ method: UploadMethods,
        _ source: UploadSource? = nil
    ) -> UploadContext {
        UploadContext(
            store: store,
            key: transfer.key,
            content: content,
            source: source,
            metadata: metadata,
            condition: condition(transfer.base),
            recorder: JournalRecorder(
                session: session,
                transfer: transfer.id,
                method: method.journalled,
                composition: source?.record,
                isAwaited: job.isAwaited
            ),
            progress: progress,
            gate: settings.gate,
            cancellation: job.cancellation,
            parallelism: settings.parallelism
        )
    }

    private func run(
        _ method: UploadMethods,
        _ transfer: Transfer,
        _ context: UploadContext
    ) throws(WorkFailure) -> UploadResult {
        switch method {
        case .put:
            var driver = PutDriver(context, isDoubtful: transfer.phase == .committing)
            return driver.run()
        case .multipart:
            let parts = try journal { (journal) throws(JournalError) in try journal.parts(of: transfer.id) }
            var driver = MultipartDriver(
                context,
                resuming: .init(transfer, parts),
                partSize: session.description.partSize
            )
            return driver.run()
        case .resumable:
            try TransferCleanup(work: self).doubt(transfer)
            session.setAnswered(transfer.id, true)
            var driver = ResumableDriver(context, resuming: .init(transfer))
            return driver.run()
        }
    }

    /// The bytes to send, all of them local now.
    private func content(of transfer: Transfer, _ node: JournalNode) throws(WorkFailure) -> UploadContent {
        do throws(SystemError) {
            if let target = node.target, transfer.generation == nil { return try UploadContent(target.bytes) }
        } catch {
            throw .local(error)
        }
        return try Hydration(work: self).complete(transfer)
    }
}
