// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import HTTPWire
internal import Platform

/// Serves the requests of one connection, one after the other, on one thread.
///
/// All its state belongs to that thread; other threads reach the socket only.
final class HTTPConnection: @unchecked Sendable {
    let socket: ConnectionSocket
    private let peer: SocketAddress
    private let handler: any HTTPRequestHandler
    private let limits: HTTPLimits
    private let statistics: ServerStatistics
    private let isBusy: @Sendable () -> Bool
    private let input: ConnectionInput
    /// The method of a request whose content was not read to its end.
    private var unreadMethod: String?

    init(
        socket: ConnectionSocket,
        peer: SocketAddress,
        handler: any HTTPRequestHandler,
        limits: HTTPLimits,
        statistics: ServerStatistics,
        isBusy: @escaping @Sendable () -> Bool
    ) {
        self.socket = socket
        self.peer = peer
        self.handler = handler
        self.limits = limits
        self.statistics = statistics
        self.isBusy = isBusy
        input = ConnectionInput(socket: socket)
    }

    /// Serves until either side ends the connection.
    func run() {
        var isOpen = true
        while isOpen {
            do {
                guard let head = try readHead() else { break }
                isOpen = try serve(head)
            } catch {
                refuse(error)
                isOpen = false
            }
        }
        linger()
    }

    /// The next request's head; nil when the connection ended or stayed idle.
    private func readHead() throws(HTTPParseError) -> HTTPRequestHead? {
        var parser = HTTPHeadParser(limits: limits)
        var deadline: Double?
        while true {
            let timeout =
                deadline.map { $0 - monotonicSeconds() } ?? (isBusy() ? limits.busyIdleTimeout : limits.idleTimeout)
            do {
                guard try input.fill(timeout: timeout) else { return nil }
            } catch {
                if deadline != nil, case .timedOut = error { throw HTTPParseError(408, "head took too long") }
                return nil
            }
            deadline = deadline ?? monotonicSeconds() + (isBusy() ? limits.busyIdleTimeout : limits.headTimeout)
            let (consumed, head) = try parser.consume(input.available)
            input.drop(consumed)
            if let head { return head }
        }
    }

    /// Lets the handler answer; whether another request may follow.
    private func serve(_ head: HTTPRequestHead) throws(HTTPParseError) -> Bool {
        let (path, query) = try HTTPTarget.parse(head.target)
        let request = HTTPRequest(
            method: head.method,
            target: head.target,
            path: path,
            query: query,
            fields: head.fields,
            peer: peer.description,
            isLoopback: peer.isLoopback
        )
        let exchange = HTTPExchange(
            head: head,
            socket: socket,
            input: input,
            limits: limits,
            statistics: statistics
        )
        statistics.countRequest(head.method)
        handler.handle(request, body: exchange, responder: exchange)
        if !exchange.hasSentFinal { exchange.sendMissingAnswer() }
        exchange.drain()
        let wasInterrupted = exchange.finish()
        if !exchange.isComplete { unreadMethod = head.method }
        Log.debug("serve", "\(peer) \(head.method) \(Self.shown(request)) \(exchange.finalStatus)")
        return !exchange.mustClose && !wasInterrupted
    }

    /// The path as logs may show it: the query can hold a signature, and who knows an upload's URL can write to it.
    private static func shown(_ request: HTTPRequest) -> String {
        let prefix = ResumableUploadHandler.pathPrefix
        return request.rawPath.hasPrefix(prefix) ? prefix + "..." : String(request.rawPath)
    }

    /// Answers a request that no handler may see.
    private func refuse(_ error: HTTPParseError) {
        Log.info("serve", "\(peer) refused: \(error.reason)")
        let text = Array("\(error.reason)\n".utf8)
        let fields = HTTPFields([
            .init(name: "Date", value: HTTPDate.format(Timestamp.now())),
            .init(name: "Content-Type", value: "text/plain"),
            .init(name: "Content-Length", value: String(text.count)),
            .init(name: "Connection", value: "close"),
        ])
        let answer = HTTPResponseHead.encoded(error.status, fields) + text
        try? socket.send(answer)
    }

    /// Closes so that the last answer arrives: unread bytes would turn the close into a reset.
    private func linger() {
        socket.shutdownWriting()
        let deadline = monotonicSeconds() + limits.lingerTimeout
        while true {
            if let unreadMethod { statistics.countReceived(unreadMethod, input.available.count) }
            input.drop(input.available.count)
            let remaining = deadline - monotonicSeconds()
            guard remaining > 0, (try? input.fill(timeout: remaining)) == true else { break }
        }
        socket.shutdownBoth()
    }
}

extension HTTPExchange {
    /// Answers in the place of a handler that did not: a defect, but no reason to leave the client waiting.
    func sendMissingAnswer() {
        mustClose = true
        switch bodyError {
        case .malformed(let reason):
            send(400, HTTPFields(), .bytes(Array("\(reason)\n".utf8)))
        case .timedOut:
            send(408, HTTPFields(), .none)
        default:
            send(500, HTTPFields(), .none)
        }
    }
}
