// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import CShims
internal import Glibc
internal import HTTPWire
internal import Platform

/// Accepts connections and serves each on a thread of its own.
package final class HTTPServer: Sendable {
    private struct State {
        var connections: [UInt64: ConnectionSocket] = [:]
        var nextID: UInt64 = 0
        var isStopping = false
    }

    private let handler: any HTTPRequestHandler
    private let limits: HTTPLimits
    package let statistics: ServerStatistics
    /// The address that is listened on, with its real port.
    package let address: SocketAddress
    private let listener: FileDescriptor
    private let state = Monitor(State())

    /// Binds and listens; port 0 takes a free one.
    package init(
        address: SocketAddress,
        handler: any HTTPRequestHandler,
        limits: HTTPLimits = HTTPLimits(),
        statistics: ServerStatistics = ServerStatistics()
    ) throws(SystemError) {
        self.handler = handler
        self.limits = limits
        self.statistics = statistics
        let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
        let number = try retryingOnInterrupt("socket") { socket(address.family, type, 0) }
        let listener = FileDescriptor(owning: number)
        var on: Int32 = 1
        setsockopt(listener.raw, SOL_SOCKET, SO_REUSEADDR, &on, socklen_t(MemoryLayout<Int32>.size))
        _ = try retryingOnInterrupt("bind", address.description) {
            address.withPointer { bind(listener.raw, $0, $1) }
        }
        if address.isLoopback { Self.doNotPace(listener.raw) }
        _ = try retryingOnInterrupt("listen", address.description) { listen(listener.raw, 512) }
        self.address = try SocketAddress(boundTo: listener.raw)
        self.listener = listener
    }

    /// Has a listening socket's connections send without pacing, for programs of this machine: where the system paces (BBR),
    /// timers would only hold up what a copy in memory takes (tcp(7), `TCP_CONGESTION`).
    ///
    /// Before the first connection, as one that was paced once goes on with timers. Where it may not be set nothing is lost.
    private static func doNotPace(_ listener: Int32) {
        // Part of every kernel, and of what everybody may use unless an administrator has taken it out.
        let algorithm = "reno"
        setsockopt(listener, Int32(IPPROTO_TCP), TCP_CONGESTION, algorithm, socklen_t(algorithm.utf8.count))
    }

    /// Accepts until ``stop()``, then waits for the running requests to end.
    package func run() {
        while !state.inspect({ $0.isStopping }) {
            if let (descriptor, peer) = accept() { start(descriptor, peer) }
        }
        let ended: Void? = state.wait(timeout: 10) { $0.connections.isEmpty ? () : nil }
        if ended == nil { Log.warning("serve", "some requests did not end in time") }
    }

    /// Makes ``run()`` return: no new connections, content still being received is cut.
    package func stop() {
        state.update { state in
            state.isStopping = true
            for socket in state.connections.values { socket.shutdownReading() }
        }
        _ = shutdown(listener.raw, Int32(SHUT_RDWR))
    }

    private func accept() -> (OpenFile, SocketAddress)? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let number = moorage_accept(listener.raw, &storage, &length)
        if number < 0 {
            // Out of descriptors or memory: the connection waits in the backlog until others have ended.
            if errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS { usleep(20_000) }
            return nil
        }
        let peer = withUnsafePointer(to: &storage) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { SocketAddress($0, length) }
        }
        return (OpenFile(FileDescriptor(owning: number)), peer)
    }

    private func start(_ file: OpenFile, _ peer: SocketAddress) {
        let socket = ConnectionSocket(file, limits: limits)
        let id: UInt64? = state.update { state in
            guard !state.isStopping, state.connections.count < limits.connections else { return nil }
            state.nextID += 1
            state.connections[state.nextID] = socket
            return state.nextID
        }
        guard let id else { return refuse(socket) }
        let connection = HTTPConnection(
            socket: socket,
            peer: peer,
            handler: handler,
            limits: limits,
            statistics: statistics,
            isBusy: { [weak self] in self?.isBusy ?? true }
        )
        do {
            try Thread.detached(name: "serve", stackSize: 512 * 1024) {
                connection.run()
                self.state.update { _ = $0.connections.removeValue(forKey: id) }
            }
        } catch {
            state.update { _ = $0.connections.removeValue(forKey: id) }
            refuse(socket)
        }
    }

    /// Whether more than half of the connections are in use: then nobody may hold one without using it.
    private var isBusy: Bool { state.inspect { $0.connections.count > limits.connections / 2 } }

    private func refuse(_ socket: ConnectionSocket) {
        let fields = HTTPFields([
            .init(name: "Retry-After", value: "1"),
            .init(name: "Content-Length", value: "0"),
            .init(name: "Connection", value: "close"),
        ])
        let answer = HTTPResponseHead.encoded(503, fields)
        try? socket.send(answer)
        socket.shutdownBoth()
    }
}
