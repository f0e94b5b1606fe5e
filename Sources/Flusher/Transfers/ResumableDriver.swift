// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import ObjectStore
internal import Platform
package import ResumableUpload

/// Uploads content as an IETF resumable upload, continued to the byte after any cut.
package struct ResumableDriver {
    private let context: UploadContext
    /// Interim responses come on the transfer thread, while this one is blocked in the request.
    private let machine: MachineBox
    private var patience = Patience()
    private var lastError = LastError()
    /// The entity tag of the content stored as one object; costs a pass over it, so only after a doubt.
    private var localTag: String?
    private var hasSentAll = false

    /// Begins anew, or goes on with the upload that the journal knows by asking for its offset.
    package init(_ context: UploadContext, resuming state: ResumableUploadState?) {
        self.context = context
        let fields = context.store.creationFields(metadata: context.metadata, condition: context.condition)
        if let state {
            machine = MachineBox(
                ResumableUploadMachine(resuming: state, intent: context.intent, creationFields: fields)
            )
        } else {
            let support = ResumableSupport(context.store.capabilities.resumableUpload)
            machine = MachineBox(
                ResumableUploadMachine(intent: context.intent, creationFields: fields, support: support)
            )
        }
    }

    package mutating func run() -> UploadResult {
        let result = drive()
        do throws(StoreError) {
            try keepUnrecorded()
        } catch {
            return .failed(error)
        }
        return result
    }

    /// Notes an upload that an interim response named where the attempt ended before it was journalled.
    private func keepUnrecorded() throws(StoreError) {
        guard let state = machine.unrecorded else { return }
        try context.recorder.begun(upload: state.resource, interopVersion: state.version.rawValue, partSize: 0)
    }

    private mutating func drive() -> UploadResult {
        context.progress.use("ietf-resumable", acknowledged: machine.acknowledged)
        let known = machine.support
        defer {
            if machine.support != known { context.store.learned(.init(machine.support)) }
        }
        var action = machine.start()
        while true {
            do throws(StoreError) {
                let step = try perform(action)
                switch step {
                case .action(let next): action = next
                case .result(let result): return result
                }
            } catch {
                return .failed(error)
            }
            context.progress.ended(1, acknowledged: machine.acknowledged)
        }
    }

    private enum Step {
        case action(ResumableUploadMachine.Action)
        case result(UploadResult)
    }

    private mutating func perform(_ action: ResumableUploadMachine.Action) throws(StoreError) -> Step {
        switch action {
        case .send(let request): return .action(machine.handle(try send(request)))
        case .journal(let state):
            try context.recorder.begun(
                upload: state.resource,
                interopVersion: state.version.rawValue,
                partSize: 0
            )
            return .action(machine.handle(.journalled))
        case .verifyTarget: return .action(machine.handle(verify()))
        case .wait(let pause):
            try context.recorder.acknowledged(machine.acknowledged)
            let acknowledged = machine.acknowledged
            if lastError.isOverload { context.progress.noteTrouble() }
            guard let delay = patience.wait(pause, acknowledged: acknowledged, random: .random(in: 0..<1)),
                context.cancellation.sleep(delay)
            else { return .result(.failed(lastError.error(pause.fault, retryAfter: pause.retryAfter))) }
            return .action(machine.handle(.waited))
        case .done(let version): return .result(.committed(version))
        case .conflict(let found): return .result(.conflict(found))
        case .unsupported: return .result(.unsupported)
        case .failed(let fault): return .result(.failed(lastError.error(fault)))
        case .cancelled: return .result(.failed(StoreError(.cancelled, "given up")))
        }
    }

    /// Sends one request; its answer or its failure goes to the machine.
    private mutating func send(
        _ request: ResumableUploadMachine.Request
    ) throws(StoreError) -> ResumableUploadMachine.Event {
        let endsUpload = request.body.map { !$0.isEmpty && $0.upper == context.content.size } ?? false
        // The tag is not known without reading everything: the size and the server's word decide after a doubt.
        if endsUpload {
            try context.recorder.mayCommit(expectedTag: nil)
            // A creation that holds everything may be sent twice; what came late is known by its tag.
            if case .object = request.target, hasSentAll, localTag == nil { localTag = try context.localEntityTag() }
            hasSentAll = true
            try context.recorder.committing(expectedTag: localTag)
        }
        let exchange = UploadExchange(
            method: request.method,
            target: target(request.target),
            fields: request.fields,
            body: request.body.map { context.content.body($0) }
        )
        do throws(StoreError) {
            let response = try exchangeThroughGate(exchange, startingAt: request.body?.lower ?? 0)
            if request.method == "DELETE", response.status >= 500 || response.status == 429 { try leave() }
            if endsUpload { context.recorder.answered() }
            if let error = context.store.error(of: response) { _ = lastError.note(error) }
            return .response(
                ResumableUploadMachine.Response(
                    status: response.status,
                    fields: response.fields,
                    body: response.body,
                    url: response.url
                )
            )
        } catch {
            guard error.cause != .cancelled else {
                try context.recorder.acknowledged(machine.acknowledged)
                throw error
            }
            if request.method == "DELETE" { try leave() }
            return .failed(lastError.note(error), retryAfter: error.retryAfter)
        }
    }

    /// Leaves the end of an upload, which failed, to others.
    private func leave() throws(StoreError) {
        guard let state = machine.state else { return }
        try context.recorder.left(upload: state.resource, interopVersion: state.version.rawValue)
    }

    private func exchangeThroughGate(
        _ exchange: UploadExchange,
        startingAt offset: Int64
    ) throws(StoreError) -> UploadExchangeResponse {
        let context = context
        let machine = machine
        let url: String =
            switch exchange.target {
            case .resource(let url): url
            case .object: ""
            }
        return try context.gate.run(context.cancellation) { () throws(StoreError) in
            try context.store.exchange(
                exchange,
                informational: { status, fields in
                    guard let acknowledged = machine.informational(status, fields, url) else { return }
                    context.progress.acknowledge(acknowledged, by: 1)
                },
                progress: { sent in
                    let ahead = offset + sent - machine.acknowledged
                    context.progress.sending(1, max(0, ahead))
                },
                cancellation: context.cancellation
            )
        }
    }

    private func target(_ target: ResumableUploadMachine.Request.Target) -> UploadExchange.Target {
        switch target {
        case .object: .object(context.key)
        case .resource(let url): .resource(url)
        }
    }

    private mutating func verify() -> ResumableUploadMachine.Event {
        do throws(StoreError) {
            let found = try context.target()
            if localTag == nil, found?.size == context.content.size { localTag = try context.localEntityTag() }
            return .target(found, expectedTag: localTag)
        } catch {
            return .failed(lastError.note(error), retryAfter: error.retryAfter)
        }
    }
}

/// The machine, shared with the thread that delivers interim responses.
private final class MachineBox: Sendable {
    private let machine: Monitor<ResumableUploadMachine>

    init(_ machine: ResumableUploadMachine) {
        self.machine = Monitor(machine)
    }

    var acknowledged: Int64 { machine.inspect { $0.acknowledgedBytes } }
    var support: ResumableSupport { machine.inspect { $0.support } }

    var state: ResumableUploadState? { machine.inspect { $0.state } }
    var unrecorded: ResumableUploadState? { machine.inspect { $0.unrecordedState } }

    func start() -> ResumableUploadMachine.Action { machine.inspect { $0.start() } }

    func handle(_ event: ResumableUploadMachine.Event) -> ResumableUploadMachine.Action {
        machine.inspect { $0.handle(event) }
    }

    func informational(_ status: Int, _ fields: HTTPFields, _ url: String) -> Int64? {
        machine.inspect { $0.informational(status: status, fields: fields, url: url) }
    }
}

extension ResumableSupport {
    /// The machine's view of what the store learned.
    init(_ support: StoreCapabilities.ResumableSupport) {
        self =
            switch support {
            case .unknown: .unknown
            case .none: .none
            case .version(let number): InteropVersion(rawValue: number).map { .version($0) } ?? .unknown
            }
    }
}

extension StoreCapabilities.ResumableSupport {
    init(_ support: ResumableSupport) {
        self =
            switch support {
            case .unknown: .unknown
            case .none: .none
            case .version(let version): .version(version.rawValue)
            }
    }
}
