// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Digests
internal import ObjectStore
internal import Platform
package import ResumableUpload

/// Uploads content as an S3 multipart upload, several parts side by side, some of them copied by the server.
///
/// The machine decides; this carries out its actions, parts on threads of their own, and hands the outcomes back in
/// the order they come.
package struct MultipartDriver {
    private typealias Action = MultipartUploadMachine.Action
    private typealias Event = MultipartUploadMachine.Event
    private typealias Outcome = PartOutcome

    private let context: UploadContext
    private var machine: MultipartUploadMachine
    private var patience = Patience()
    private var lastError = LastError()
    private let inbox = Monitor<[Outcome]>([])
    private var actions: [Action] = []
    /// When the wait is over; nil when none is on.
    private var wakeAt: Double?
    /// The fault that ends this attempt once nothing runs any more.
    private var givingUp: TransferPause?
    private var running = 0

    /// Begins anew, or goes on with the upload that the journal knows.
    ///
    /// `isDoubtful`: the upload may have been completed by a process before this one; its parts are listed, and what
    /// is not there any more is looked for at the target.
    package init(_ context: UploadContext, resuming state: MultipartState?, partSize: Int64?) {
        self.context = context
        machine = MultipartUploadMachine(
            intent: context.intent,
            state: state,
            partSize: partSize,
            composition: context.source?.composition,
            parallelism: context.parallelism,
            md5: { Digest.of($0, .md5) }
        )
    }

    package mutating func run() -> UploadResult {
        context.progress.use("s3-multipart", acknowledged: machine.acknowledgedBytes)
        let inbox = inbox
        let token = context.cancellation.onCancel { inbox.update { _ in } }
        defer { context.cancellation.removeHandler(token) }
        actions = machine.start()
        while true {
            do throws(StoreError) {
                if let result = try step() { return result }
            } catch {
                // The journal cannot be written: stop where we are, the next attempt asks the remote.
                drain()
                return .failed(error)
            }
        }
    }

    /// Carries out the actions at hand, then takes in what came.
    private mutating func step() throws(StoreError) -> UploadResult? {
        while !actions.isEmpty {
            if let result = try perform(actions.removeFirst()) { return result }
        }
        if let pause = givingUp, running == 0 {
            return .failed(lastError.error(pause.fault, retryAfter: pause.retryAfter))
        }
        let outcomes = nextOutcomes()
        if outcomes.isEmpty, wakeAt != nil {
            wakeAt = nil
            actions += machine.handle(.waited)
        }
        for outcome in outcomes { take(outcome) }
        return nil
    }

    /// What came in; empty when the wait is over, or was cut short by a cancellation.
    private func nextOutcomes() -> [Outcome] {
        let isWaiting = wakeAt != nil
        let timeout = wakeAt.map { max(0, $0 - monotonicSeconds()) }
        let cancellation = context.cancellation
        return inbox.wait(timeout: timeout) { outcomes in
            if isWaiting, cancellation.isCancelled, outcomes.isEmpty { return [] }
            guard !outcomes.isEmpty else { return nil }
            defer { outcomes = [] }
            return outcomes
        } ?? []
    }

    private mutating func take(_ outcome: Outcome) {
        running -= 1
        switch outcome {
        case .event(let event): actions += machine.handle(event)
        case .partFailed(let number, let error):
            let fault = lastError.note(error)
            actions += machine.handle(.partFailed(number: number, fault, retryAfter: error.retryAfter))
        }
        context.progress.acknowledge(machine.acknowledgedBytes)
    }

    private mutating func perform(_ action: Action) throws(StoreError) -> UploadResult? {
        switch action {
        case .create: answer { (driver) throws(StoreError) in .created(uploadID: try driver.create()) }
        case .journal(let state):
            try record(state)
            actions += machine.handle(.journalled)
        case .journalPart(let part):
            try context.recorder.part(
                number: part.number,
                size: part.size,
                md5: part.md5,
                entityTag: part.entityTag
            )
        case .listParts(let id): answer { (driver) throws(StoreError) in .listed(try driver.list(id)) }
        case .digest(let number, let range): try spawn { context in context.digestPart(number, range) }
        case .uploadPart(let id, let number, let range):
            try spawn { context in context.uploadPart(id, number, range) }
        case .copyPart(let id, let number, let range):
            try spawn { context in context.copyPart(id, number, range) }
        case .complete(let id, let parts):
            try context.recorder.mayCommit(expectedTag: machine.expectedTag)
            try context.recorder.committing(expectedTag: machine.expectedTag)
            answer { (driver) throws(StoreError) in .completed(try driver.complete(id, parts)) }
        case .verifyTarget: answer { (driver) throws(StoreError) in try driver.verify() }
        case .abort(let id):
            try abort(id)
            actions += machine.handle(.aborted)
        case .wait(let pause): wait(pause)
        case .done(let version): return .committed(version)
        case .conflict(let found): return .conflict(found)
        case .failed(.unsupported): return .unsupported
        case .failed(let fault): return .failed(lastError.error(fault))
        case .cancelled: return .failed(StoreError(.cancelled, "given up"))
        }
        return nil
    }

    /// Carries out a request on this thread and tells the machine.
    private mutating func answer(_ request: (borrowing MultipartDriver) throws(StoreError) -> Event) {
        do throws(StoreError) {
            let event = try request(self)
            actions += machine.handle(event)
        } catch {
            let fault = lastError.note(error)
            actions += machine.handle(.failed(fault, retryAfter: error.retryAfter))
        }
    }

    private mutating func wait(_ pause: TransferPause) {
        if lastError.isOverload { context.progress.noteTrouble() }
        guard !context.cancellation.isCancelled,
            let delay = patience.wait(pause, acknowledged: machine.acknowledgedBytes, random: .random(in: 0..<1))
        else {
            givingUp = pause
            return
        }
        wakeAt = monotonicSeconds() + delay
    }

    // MARK: requests

    /// Begins an upload; the journal knows of it before the server does, as its name may get lost on the way.
    private func create() throws(StoreError) -> String {
        try context.gate.run(context.cancellation) { () throws(StoreError) in
            try context.recorder.beginning(at: try context.store.serverTime())
            do throws(StoreError) {
                return try context.store.createMultipartUpload(context.key, metadata: context.metadata)
            } catch {
                if error.mayHaveHappened {
                    try context.recorder.perhapsBegun(at: try context.store.serverTime())
                } else {
                    try context.recorder.notBegun()
                }
                throw error
            }
        }
    }

    /// Notes the upload's name; without a note of it nobody could ever end the upload.
    private func record(_ state: MultipartState) throws(StoreError) {
        do throws(StoreError) {
            try context.recorder.begun(upload: state.uploadID, interopVersion: 0, partSize: state.partSize)
        } catch {
            try abort(state.uploadID)
            throw error
        }
    }

    private func list(_ id: String) throws(StoreError) -> [MultipartUploadMachine.Listed] {
        let parts = try context.gate.run(context.cancellation) { () throws(StoreError) in
            try context.store.listParts(context.key, uploadID: id)
        }
        try context.checkSource()
        return parts.map { .init(number: $0.number, size: $0.size, entityTag: $0.entityTag) }
    }

    private func complete(_ id: String, _ parts: [MultipartState.Part]) throws(StoreError) -> ObjectVersion {
        let list = parts.map { UploadedPart(number: $0.number, size: $0.size, entityTag: $0.entityTag) }
        return try context.gate.run(context.cancellation) { () throws(StoreError) in
            try context.store.completeMultipartUpload(
                context.key,
                uploadID: id,
                parts: list,
                condition: context.condition
            )
        }
    }

    /// Looks at the target; the whole content is read only where its tag could be the one that is found.
    private func verify() throws(StoreError) -> Event {
        let found = try context.target()
        guard let found, found.size == context.content.size, found.entityTag?.isDigestOfWhole ?? false,
            context.source == nil
        else {
            return .target(found, wholeTag: nil)
        }
        return .target(found, wholeTag: try context.localEntityTag())
    }

    /// Ends an upload, or leaves that to others.
    private func abort(_ id: String) throws(StoreError) {
        do throws(StoreError) {
            try context.store.abortMultipartUpload(context.key, uploadID: id)
        } catch {
            guard error.cause != .noSuchUpload, error.cause != .notFound else { return }
            Log.info("flusher", "an upload of \(context.key) is not ended yet: \(error)")
            try context.recorder.left(upload: id, interopVersion: 0)
        }
    }

    // MARK: threads

    private mutating func spawn(_ work: @escaping @Sendable (UploadContext) -> Outcome) throws(StoreError) {
        let inbox = inbox
        let context = context
        running += 1
        do throws(SystemError) {
            try Thread.detached(name: "part", stackSize: 512 << 10) {
                let outcome = work(context)
                inbox.update { $0.append(outcome) }
            }
        } catch {
            running -= 1
            throw StoreError(.localInput, "no thread for a part: \(error)")
        }
    }

    /// Waits for the threads that run.
    private mutating func drain() {
        while running > 0 { running -= inbox.wait { $0.isEmpty ? nil : Self.takeAll(&$0) } ?? 0 }
    }

    private static func takeAll(_ outcomes: inout [Outcome]) -> Int {
        defer { outcomes = [] }
        return outcomes.count
    }
}

/// What came of a part on its thread.
enum PartOutcome: Sendable {
    case event(MultipartUploadMachine.Event)
    case partFailed(Int, StoreError)
}

extension UploadContext {
    /// Sends one part, its digest computed just before.
    func uploadPart(_ id: String, _ number: Int, _ range: ByteRange) -> PartOutcome {
        defer { progress.ended(number) }
        do throws(StoreError) {
            let md5 = try partDigest(range)
            let tag = try gate.run(cancellation) { () throws(StoreError) in
                progress.begin(number, size: range.count)
                return try store.uploadPart(
                    key,
                    uploadID: id,
                    number: number,
                    body: content.body(range),
                    md5: md5,
                    progress: { self.progress.sending(number, $0) },
                    cancellation: cancellation
                )
            }
            return .event(.partUploaded(number: number, md5: md5, entityTag: tag))
        } catch {
            return .partFailed(number, error)
        }
    }

    /// Computes the digest of a part that the remote lists.
    func digestPart(_ number: Int, _ range: ByteRange) -> PartOutcome {
        do throws(StoreError) {
            return .event(.digested(number: number, md5: try partDigest(range)))
        } catch {
            return .partFailed(number, error)
        }
    }

    /// Lets the server copy one part of what it has.
    func copyPart(_ id: String, _ number: Int, _ range: ByteRange) -> PartOutcome {
        guard let source else { return .partFailed(number, StoreError(.unsupported, "there is nothing to copy")) }
        do throws(StoreError) {
            let tag = try gate.run(cancellation) { () throws(StoreError) in
                try store.copyPart(
                    key,
                    uploadID: id,
                    number: number,
                    source: source.key,
                    sourceVersion: source.version,
                    range: range
                )
            }
            let digest = EntityTag(fieldValue: tag).flatMap { $0.isDigestOfWhole ? Hexadecimal.decode($0.opaque) : nil }
            return .event(.partCopied(number: number, md5: digest ?? [], entityTag: tag))
        } catch {
            return .partFailed(number, error)
        }
    }

    /// Throws `.preconditionFailed` when the object that is copied from is not what it was any more.
    ///
    /// Most servers ignore the condition that each copy carries.
    func checkSource() throws(StoreError) {
        guard let source else { return }
        var found: ObjectVersion?
        do throws(StoreError) {
            found = try gate.run(cancellation) { () throws(StoreError) in
                try store.status(of: source.key, cancellation: cancellation).version
            }
        } catch {
            guard error.cause == .notFound else { throw error }
        }
        guard found?.isSame(as: source.version) ?? false else {
            throw StoreError(.preconditionFailed, "\(source.key), of which a part was copied, has changed")
        }
    }

    private func partDigest(_ range: ByteRange) throws(StoreError) -> [UInt8] {
        do throws(SystemError) {
            return try content.md5(range)
        } catch {
            throw StoreError(.localInput, error.description)
        }
    }
}
