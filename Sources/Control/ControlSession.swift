// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// One connected client, as the flusher sees it.
final class ControlSession: Sendable {
    private struct Events {
        var isClosed = false
        /// A thread sends what is queued.
        var isSending = false
        var queue = EventQueue()
    }

    /// How long a reader of events may take nothing, in seconds: a pager may show the same page for a day.
    private static let patience = 86_400.0

    private let channel: FrameChannel
    private let program: String
    private let handler: any ControlHandler
    private let events = Monitor(Events())

    init(channel: FrameChannel, program: String, handler: any ControlHandler) {
        self.channel = channel
        self.program = program
        self.handler = handler
    }

    /// Answers requests until the client goes away.
    func run() {
        var isGreeted = false
        do throws(ControlError) {
            while let bytes = try channel.receive(timeout: nil) {
                let frame: ControlRequestFrame
                do throws(ControlError) {
                    frame = try JSON.decode(ControlRequestFrame.self, from: bytes)
                } catch {
                    try send(ControlReplyFrame(id: 0, reply: .failed(reason: "unknown request")))
                    continue
                }
                try answer(frame, isGreeted: &isGreeted)
            }
        } catch {
            if case .closed = error {} else { Log.info("control", "client: \(error)") }
        }
        close()
    }

    /// Tells the client why it is not served, and closes.
    func refuse(_ reason: String) {
        try? send(ControlReplyFrame(id: 0, reply: .failed(reason: reason)))
        close()
    }

    func close() {
        events.update { $0.isClosed = true }
        channel.shutdown()
    }

    /// Queues an event for a subscriber.
    func publish(_ event: ControlEvent) {
        events.update { events in
            guard !events.isClosed else { return }
            events.queue.add(event)
        }
    }

    /// Whether this client reads what happens to uploads.
    var isFollowing: Bool { events.inspect { $0.queue.followed != nil && !$0.isClosed } }

    private func answer(_ frame: ControlRequestFrame, isGreeted: inout Bool) throws(ControlError) {
        switch frame.request {
        case .hello(let version, let client, let programVersion):
            Log.info("control", "\(client) connected, protocol \(version)")
            let isEnding = handler.greet(version: programVersion)
            isGreeted = version == ControlProtocol.version && !isEnding
            let welcome = ControlReply.welcome(
                protocolVersion: ControlProtocol.version,
                program: program,
                pid: getpid(),
                isEnding: isEnding
            )
            try send(ControlReplyFrame(id: frame.id, reply: welcome))
        case .stop:
            // The connection may be closed by what this sets off: answer first.
            try send(ControlReplyFrame(id: frame.id, reply: .done))
            _ = handler.handle(frame.request) { _ in true }
        case _ where !isGreeted:
            try send(ControlReplyFrame(id: frame.id, reply: .failed(reason: "the first request must be hello")))
        case .subscribe:
            try beginEvents { $0.isSubscribed = true }
            try send(ControlReplyFrame(id: frame.id, reply: .done))
        case .follow(let volumes):
            try beginEvents { $0.followed = volumes }
            try send(handler.handle(frame.request) { _ in true }, to: frame.id)
        default:
            let reply = handler.handle(frame.request) { progress in
                (try? self.send(ControlReplyFrame(id: frame.id, reply: .progress(progress: progress)))) != nil
            }
            try send(reply, to: frame.id)
        }
    }

    /// Sends a reply; of a list that is longer than a frame may be, the beginning.
    private func send(_ reply: ControlReply, to id: Int) throws(ControlError) {
        var reply = reply
        while true {
            let frame = try JSON.encode(ControlReplyFrame(id: id, reply: reply))
            guard frame.count >= ControlProtocol.frameLimit, case .uploads(let list, nil) = reply, list.count > 1 else {
                return try channel.send(frame)
            }
            reply = .uploads(uploads: Array(list.prefix(list.count / 2)))
        }
    }

    private func beginEvents(_ ask: (inout EventQueue) -> Void) throws(ControlError) {
        let isFirst = events.update { events in
            defer { events.isSending = true }
            ask(&events.queue)
            return !events.isSending
        }
        guard isFirst else { return }
        do throws(SystemError) {
            try Thread.detached(name: "events") { self.sendEvents() }
        } catch {
            throw .system(error)
        }
    }

    private func sendEvents() {
        while let batch = events.wait(until: Self.nextBatch), !batch.isEmpty {
            for event in batch where (try? send(ControlReplyFrame(event: event), timeout: Self.patience)) == nil {
                return close()
            }
        }
    }

    /// The queued events, nil to wait for some, empty when the session is over.
    private static func nextBatch(_ events: inout Events) -> [ControlEvent]? {
        if events.isClosed { return [] }
        return events.queue.isEmpty ? nil : events.queue.take(at: .now())
    }

    private func send(_ frame: ControlReplyFrame, timeout: Double) throws(ControlError) {
        try channel.send(try JSON.encode(frame), timeout: timeout)
    }

    private func send(_ frame: ControlReplyFrame) throws(ControlError) {
        try channel.send(try JSON.encode(frame))
    }
}
