// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// One connected client, as the flusher sees it.
final class ControlSession: Sendable {
    private struct Events {
        var isSubscribed = false
        var isClosed = false
        var queue: [ControlEvent] = []
    }

    /// How many events wait for a slow reader before they are replaced by `overflow`.
    private static let queueLimit = 4096

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
            guard events.isSubscribed, !events.isClosed else { return }
            if events.queue.count >= Self.queueLimit { events.queue = [.overflow] }
            events.queue.append(event)
        }
    }

    private func answer(_ frame: ControlRequestFrame, isGreeted: inout Bool) throws(ControlError) {
        switch frame.request {
        case .hello(let version, let client):
            Log.info("control", "\(client) connected, protocol \(version)")
            isGreeted = version == ControlProtocol.version
            let welcome = ControlReply.welcome(
                protocolVersion: ControlProtocol.version,
                program: program,
                pid: getpid()
            )
            try send(ControlReplyFrame(id: frame.id, reply: welcome))
        case .stop:
            // The connection may be closed by what this sets off: answer first.
            try send(ControlReplyFrame(id: frame.id, reply: .done))
            _ = handler.handle(frame.request) { _ in true }
        case _ where !isGreeted:
            try send(ControlReplyFrame(id: frame.id, reply: .failed(reason: "the first request must be hello")))
        case .subscribe:
            try subscribe()
            try send(ControlReplyFrame(id: frame.id, reply: .done))
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
            guard frame.count >= ControlProtocol.frameLimit, case .uploads(let list) = reply, list.count > 1 else {
                return try channel.send(frame)
            }
            reply = .uploads(uploads: Array(list.prefix(list.count / 2)))
        }
    }

    private func subscribe() throws(ControlError) {
        let isFirst = events.update { events in
            defer { events.isSubscribed = true }
            return !events.isSubscribed
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
            for event in batch where (try? send(ControlReplyFrame(event: event))) == nil {
                return close()
            }
        }
    }

    /// The queued events, nil to wait for some, empty when the session is over.
    private static func nextBatch(_ events: inout Events) -> [ControlEvent]? {
        if events.isClosed { return [] }
        guard !events.queue.isEmpty else { return nil }
        defer { events.queue = [] }
        return events.queue
    }

    private func send(_ frame: ControlReplyFrame) throws(ControlError) {
        try channel.send(try JSON.encode(frame))
    }
}
