// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore
internal import Platform
internal import ResumableUpload

/// Uploads content in one request.
package struct PutDriver {
    /// What may have left the process beyond what was told, in bytes: the transport tells of a piece with the next one.
    private static let untold: Int64 = 2 << 20

    private let context: UploadContext
    private var machine: SinglePutMachine
    private var patience = Patience()
    private var lastError = LastError()

    /// `isDoubtful`: a process before this one may have sent the request already.
    package init(_ context: UploadContext, isDoubtful: Bool) {
        self.context = context
        machine = isDoubtful ? SinglePutMachine(resuming: context.intent) : SinglePutMachine(intent: context.intent)
    }

    package mutating func run() -> UploadResult {
        context.progress.use("put")
        do throws(StoreError) {
            return try drive()
        } catch {
            return .failed(error)
        }
    }

    private mutating func drive() throws(StoreError) -> UploadResult {
        // Known before the first byte goes out, so that a lost answer can be told from a foreign version.
        let tag = try context.localEntityTag()
        var action = machine.start()
        while true {
            switch action {
            case .put:
                try context.recorder.mayCommit(expectedTag: tag)
                action = machine.handle(put(tag))
            case .verifyTarget: action = machine.handle(verify(tag))
            case .wait(let pause):
                if lastError.isOverload { context.progress.noteTrouble() }
                guard let delay = patience.wait(pause, acknowledged: 0, random: .random(in: 0..<1)),
                    context.cancellation.sleep(delay)
                else { return .failed(lastError.error(pause.fault, retryAfter: pause.retryAfter)) }
                action = machine.handle(.waited)
            case .done(let version): return .committed(version)
            case .conflict(let found): return .conflict(found)
            case .failed(let fault): return .failed(lastError.error(fault))
            }
        }
    }

    private mutating func put(_ tag: String) -> SinglePutMachine.Event {
        let context = context
        let sent = Monitor(Int64(0))
        do throws(StoreError) {
            try context.recorder.committing(expectedTag: tag)
            let version = try context.gate.run(context.cancellation) { () throws(StoreError) in
                try context.store.put(
                    context.key,
                    body: context.content.whole,
                    metadata: context.metadata,
                    condition: context.condition,
                    progress: { count in
                        sent.inspect { $0 = max($0, count) }
                        context.progress.sending(1, count)
                    },
                    cancellation: context.cancellation
                )
            }
            context.progress.ended(1, acknowledged: context.content.size)
            context.recorder.answered()
            return .stored(version)
        } catch {
            context.progress.ended(1)
            // Without its last byte a server cannot take it.
            let left = context.content.size - sent.inspect { $0 }
            if !error.mayStillArrive || left > Self.untold { context.recorder.answered() }
            return .failed(lastError.note(error), retryAfter: error.retryAfter)
        }
    }

    private mutating func verify(_ tag: String) -> SinglePutMachine.Event {
        do throws(StoreError) {
            return .target(try context.target(), expectedTag: tag)
        } catch {
            return .failed(lastError.note(error), retryAfter: error.retryAfter)
        }
    }
}

extension UploadContext {
    /// The tag the whole content has when stored in one request.
    func localEntityTag() throws(StoreError) -> String {
        do throws(SystemError) {
            return try content.entityTag()
        } catch {
            throw StoreError(.localInput, error.description)
        }
    }
}

extension Cancellation {
    /// Sleeps; false when cancelled meanwhile.
    func sleep(_ seconds: Double) -> Bool {
        let monitor = Monitor(false)
        let token = onCancel { monitor.update { $0 = true } }
        defer { removeHandler(token) }
        return monitor.wait(timeout: seconds) { $0 ? true : nil } == nil
    }
}
