// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Platform

/// What a ``StubClient`` got.
package struct StubResponse: Sendable {
    package let head: MessageHead
    package let body: [UInt8]
    /// Whether the body came whole.
    package let isWhole: Bool
}

/// One plain HTTP/1.1 connection, for tests of servers and proxies.
package final class StubClient: Sendable {
    private let stream: SocketStream

    /// Connects; every wait ends after `timeout` seconds.
    package init(_ address: SocketAddress, timeout: Double = 10) throws(SystemError) {
        let deadline = monotonicSeconds() + timeout
        stream = SocketStream(try LoopbackSocket.connected(to: address)) { monotonicSeconds() > deadline }
    }

    /// Sends bytes as they are.
    @discardableResult
    package func send(_ bytes: [UInt8]) -> Bool {
        stream.write(bytes)
    }

    /// Sends a request with a body of known length.
    @discardableResult
    package func send(_ method: String, _ target: String, fields: [String] = [], body: [UInt8] = []) -> Bool {
        let lines = ["\(method) \(target) HTTP/1.1", "Host: test", "Content-Length: \(body.count)"] + fields
        return stream.write(Array((lines.joined(separator: "\r\n") + "\r\n\r\n").utf8)) && stream.write(body)
    }

    /// The next response, interim ones too; nil when the connection ended.
    package func receive(method: String = "GET") -> StubResponse? {
        guard let raw = stream.readHead(), let head = MessageHead(raw) else { return nil }
        let framing = head.responseFraming(to: method)
        var meter = BodyMeter(framing)
        var body: [UInt8] = []
        while !meter.isFinished, let bytes = stream.available() {
            let count = meter.advance(bytes)
            body += bytes[..<count]
            stream.consume(count)
        }
        return StubResponse(head: head, body: body, isWhole: meter.isFinished || framing == .untilClose)
    }
}
