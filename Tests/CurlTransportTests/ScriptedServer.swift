// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Platform
import TestSupport

/// A listener on loopback that runs a script for each connection; the connection closes when the script returns.
final class ScriptedServer: Sendable {
    let url: String
    private let isStopped = Monitor(false)
    /// How many connections came.
    let connections = Monitor(0)
    /// The heads of the requests the scripts have read, in order.
    let heads = Monitor([MessageHead]())

    /// `script` gets the connection's number, counted from 1.
    init(_ script: @escaping @Sendable (ScriptedConnection, Int) -> Void) throws {
        let listener = try LoopbackSocket.bound(to: SocketAddress(port: 0), isListening: true)
        url = "http://127.0.0.1:\(LoopbackSocket.port(of: listener))"
        let number = listener.detach()
        let (isStopped, connections, heads) = (isStopped, connections, heads)
        try Thread.detached(name: "scripted") {
            let listener = FileDescriptor(owning: number)
            while !isStopped.inspect({ $0 }) {
                guard let socket = try? LoopbackSocket.accept(listener, milliseconds: 20) else { continue }
                let stream = SocketStream(socket) { isStopped.inspect { $0 } }
                let index = connections.update { count in
                    count += 1
                    return count
                }
                try? Thread.detached(name: "script") {
                    script(ScriptedConnection(stream: stream, heads: heads), index)
                }
            }
        }
    }

    func stop() {
        isStopped.update { $0 = true }
    }

    deinit {
        stop()
    }
}

/// The server's side of a connection in a script.
struct ScriptedConnection: Sendable {
    let stream: SocketStream
    fileprivate let heads: Monitor<[MessageHead]>

    fileprivate init(stream: SocketStream, heads: Monitor<[MessageHead]>) {
        self.stream = stream
        self.heads = heads
    }

    /// The next request's head, nil when the client is gone.
    func head() -> MessageHead? {
        guard let raw = stream.readHead(), let head = MessageHead(raw) else { return nil }
        heads.update { $0.append(head) }
        return head
    }

    /// The next request with its body as it is on the wire.
    func request() -> (head: MessageHead, body: [UInt8])? {
        guard let head = head(), let body = stream.readBody(head.requestFraming) else { return nil }
        return (head, body)
    }

    func write(_ text: String) {
        _ = stream.write(Array(text.utf8))
    }

    /// Waits until the client closes.
    func waitForClose() {
        while let bytes = stream.available() { stream.consume(bytes.count) }
    }
}
