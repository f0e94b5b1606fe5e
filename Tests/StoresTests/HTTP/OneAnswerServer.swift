// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import CurlTransport
import Glibc
import HTTPWire
import ObjectStore
import Platform
import TestSupport

@testable import Stores

/// A web server that sends its one file whole or not at all, as far as it is let, and a store on it.
final class OneAnswerServer: Sendable {
    struct State {
        var content: [UInt8] = []
        var tag = "W/\"one\""
        /// How many bytes of an answer are sent for the time being.
        var limit = Int.max
        /// An answer breaks off after so many bytes, for each of the next ones.
        var breaks: [Int] = []
        /// The bytes that were sent of each answer.
        var sent: [Int] = []
        /// How many answers ended as the client was gone.
        var left = 0
    }

    static let key = ObjectKey("f")
    let state = Monitor(State())
    let store: HTTPStore
    private let isStopped = Monitor(false)
    private let spool: String

    /// `hasDisk`: whether there can be a file for what is read.
    init(_ content: [UInt8], hasDisk: Bool = true) throws {
        signal(SIGPIPE, SIG_IGN)
        state.update { $0.content = content }
        let listener = try LoopbackSocket.bound(to: SocketAddress(port: 0), isListening: true)
        let port = LoopbackSocket.port(of: listener)
        spool = "/tmp/moorage-web-\(Randomness.hexadecimal(bytes: 8))"
        if !hasDisk { _ = try FileDescriptor.open(spool, O_RDWR | O_CREAT | O_EXCL) }
        guard let root = WebURL("http://127.0.0.1:\(port)/v/") else { throw SystemError.make(EINVAL, "url") }
        var configuration = HTTPStoreConfiguration(root: root, spoolDirectory: hasDisk ? spool : spool + "/none")
        // Nothing of the client's own ends an answer that gets no further.
        configuration.stallTimeout = 3600
        store = HTTPStore(configuration: configuration, transport: try CurlTransport())
        let (number, state, isStopped) = (listener.detach(), state, isStopped)
        try Thread.detached(name: "one-answer") {
            let listener = FileDescriptor(owning: number)
            while !isStopped.inspect({ $0 }) {
                guard let socket = try? LoopbackSocket.accept(listener, milliseconds: 50) else { continue }
                Connection(SocketStream(socket) { isStopped.inspect { $0 } }, state, isStopped).start()
            }
        }
    }

    deinit {
        isStopped.update { $0 = true }
        unlink(spool)
        rmdir(spool)
    }

    func version() throws -> ObjectVersion { try store.status(of: Self.key, cancellation: nil).version }

    func fetch(
        _ version: ObjectVersion,
        _ range: ByteRange,
        _ key: ObjectKey = key
    ) -> (sink: CollectingSink, fetch: any RangeFetch) {
        let sink = CollectingSink(range.lower)
        return (sink, store.fetch(key, version: version, range: range, into: sink))
    }

    func read(_ version: ObjectVersion, _ lower: Int, _ count: Int, _ key: ObjectKey = key) throws -> [UInt8] {
        let (sink, fetch) = fetch(version, ByteRange(Int64(lower), Int64(lower + count)), key)
        return try withExtendedLifetime(fetch) { try sink.wait() }
    }

    /// Waits until so many answers ended as the client was gone.
    func waitForLeaving(_ count: Int = 1) -> Bool { state.wait(timeout: 20) { $0.left >= count ? true : nil } ?? false }

    var answers: Int { state.inspect { $0.sent.count } }
}

/// One connection of the server's.
private final class Connection: Sendable {
    private static let date = "Date: Mon, 14 Sep 2020 12:26:40 GMT\r\nLast-Modified: Sun, 13 Sep 2020 12:26:40 GMT\r\n"
    private let stream: SocketStream
    private let state: Monitor<OneAnswerServer.State>
    private let isStopped: Monitor<Bool>

    init(_ stream: SocketStream, _ state: Monitor<OneAnswerServer.State>, _ isStopped: Monitor<Bool>) {
        self.stream = stream
        self.state = state
        self.isStopped = isStopped
    }

    func start() {
        try? Thread.detached(name: "one-answer") { [self] in
            while let raw = stream.readHead(), let head = MessageHead(raw), answer(head.method) {}
        }
    }

    /// Whether the connection goes on.
    private func answer(_ method: String) -> Bool {
        let (content, tag) = state.inspect { ($0.content, $0.tag) }
        let head = "HTTP/1.1 200 OK\r\nContent-Length: \(content.count)\r\nETag: \(tag)\r\n\(Self.date)\r\n"
        guard stream.write(Array(head.utf8)) else { return false }
        return method == "HEAD" || send(content)
    }

    private func send(_ content: [UInt8]) -> Bool {
        let (number, end) = state.update { state -> (Int, Int?) in
            state.sent.append(0)
            return (state.sent.count - 1, state.breaks.isEmpty ? nil : state.breaks.removeFirst())
        }
        var position = 0
        while position < min(content.count, end ?? .max) {
            let limit = state.inspect { $0.limit }
            let count = min(64 << 10, content.count - position, limit - position, (end ?? .max) - position)
            let isWritten =
                count > 0 && content.withUnsafeBytes { stream.write(.init(rebasing: $0[position..<position + count])) }
            if isWritten {
                position += count
                state.update { $0.sent[number] = position }
            } else if count > 0 || isLeft() {
                state.update { $0.left += 1 }
                return false
            }
        }
        return end == nil
    }

    /// Waits a little; whether the client is gone, which says nothing more in the middle of an answer.
    private func isLeft() -> Bool {
        LoopbackSocket.isReady(stream.socket, POLLIN, milliseconds: 10) || isStopped.inspect { $0 }
    }
}
