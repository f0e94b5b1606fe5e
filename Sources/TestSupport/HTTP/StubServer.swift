// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Platform

/// An HTTP/1.1 server on loopback whose answers a closure writes: the far end for tests of clients and proxies.
package final class StubServer: Sendable {
    package typealias Handler = @Sendable (_ head: MessageHead, _ body: [UInt8]) -> [UInt8]

    package let address: SocketAddress
    private let handler: Handler
    private let isStopped = Monitor(false)

    /// Answers each request with the bytes that `handler` returns; an empty answer closes the connection.
    package init(_ handler: @escaping Handler) throws(SystemError) {
        self.handler = handler
        let listener = try LoopbackSocket.bound(to: SocketAddress(port: 0), isListening: true)
        address = SocketAddress(port: LoopbackSocket.port(of: listener))
        let number = listener.detach()
        try Thread.detached(name: "stub-accept") { [self] in
            let listener = FileDescriptor(owning: number)
            while !isStopped.inspect({ $0 }) {
                if let socket = try? LoopbackSocket.accept(listener, milliseconds: 50) { serve(socket) }
            }
        }
    }

    /// Ends the listener and, within 50 ms, the connections.
    package func stop() {
        isStopped.update { $0 = true }
    }

    private func serve(_ socket: consuming FileDescriptor) {
        let isStopped = isStopped
        let stream = SocketStream(socket) { isStopped.inspect { $0 } }
        try? Thread.detached(name: "stub-serve") { [handler] in
            while let raw = stream.readHead(), let head = MessageHead(raw) {
                guard let body = stream.readBody(head.requestFraming) else { return }
                let answer = handler(head, body)
                if answer.isEmpty || !stream.write(answer) { return stream.finishPolitely() }
            }
        }
    }
}

extension SocketStream {
    /// A whole body as it is on the wire, framing included; nil when it ends early.
    package func readBody(_ framing: BodyFraming) -> [UInt8]? {
        var meter = BodyMeter(framing)
        var body: [UInt8] = []
        while !meter.isFinished {
            guard let bytes = available() else { return framing == .untilClose ? body : nil }
            let count = meter.advance(bytes)
            body += bytes[..<count]
            consume(count)
        }
        return body
    }
}
