// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Platform

/// A proxy on loopback before one HTTP/1.1 server, which does to connections what a ``FaultPlan`` says.
///
/// It relays bytes as they come and only follows their framing, so that
/// interim responses, chunks and odd fields arrive unchanged.
package final class FaultProxy: Sendable {
    /// The faults and the counters.
    package let plan = FaultPlan()
    /// Where clients connect.
    package let address: SocketAddress

    private struct State: Sendable {
        var upstream: SocketAddress
        var isStopped = false
        var isListening = true
        var nextID = 0
        var connections: [Int: ProxyConnection] = [:]
    }

    private let state: Monitor<State>

    /// Listens on `listen` (port 0 picks one) and relays to `upstream`, until ``stop()``.
    package init(
        upstream: SocketAddress,
        listen: SocketAddress = SocketAddress(port: 0)
    ) throws(SystemError) {
        let listener = try LoopbackSocket.bound(to: listen, isListening: true)
        address = SocketAddress(host: listen.host, port: LoopbackSocket.port(of: listener))
        state = Monitor(State(upstream: upstream))
        let number = listener.detach()
        try Thread.detached(name: "proxy-accept") { [self] in accept(FileDescriptor(owning: number)) }
    }

    /// Sends later connections to another server.
    package func setUpstream(_ upstream: SocketAddress) {
        state.update { $0.upstream = upstream }
    }

    /// Changes how connections are received, and returns when that is so.
    package func setMode(_ mode: ConnectionMode) {
        plan.setMode(mode)
        _ = state.wait(timeout: 5) { $0.isListening == (mode != .refuse) || $0.isStopped ? true : nil }
    }

    /// Cuts all live connections and returns how many those were.
    @discardableResult
    package func cutAll(_ style: CutStyle = .reset) -> Int {
        let live = state.inspect { Array($0.connections.values) }
        for connection in live { connection.cut(style) }
        return live.count
    }

    /// How many connections are live.
    package var connectionCount: Int { state.inspect { $0.connections.count } }

    /// Ends all connections and the listener.
    package func stop() {
        plan.clear()
        state.update { $0.isStopped = true }
        cutAll()
    }

    private func accept(_ first: consuming FileDescriptor) {
        var listener = first
        while !state.inspect({ $0.isStopped }) {
            if plan.state.inspect({ $0.mode }) == .refuse {
                _ = consume listener
                guard let next = listenAgain() else { return }
                listener = next
            } else if let socket = try? LoopbackSocket.accept(listener, milliseconds: 20) {
                serve(socket)
            }
        }
    }

    /// Keeps the port bound but closed until connections are welcome again.
    private func listenAgain() -> FileDescriptor? {
        guard let placeholder = try? LoopbackSocket.bound(to: address, isListening: false) else { return nil }
        state.update { $0.isListening = false }
        while plan.state.wait(timeout: 0.05, until: { $0.mode == .refuse ? nil : true }) == nil {
            if state.inspect({ $0.isStopped }) { return nil }
        }
        guard (try? LoopbackSocket.startListening(placeholder)) != nil else { return nil }
        state.update { $0.isListening = true }
        return placeholder
    }

    private func serve(_ socket: consuming FileDescriptor) {
        if plan.state.inspect({ $0.mode }) == .reset {
            LoopbackSocket.resetOnClose(socket)
            return
        }
        let upstream = state.inspect { $0.upstream }
        let connection = ProxyConnection(socket, to: upstream, plan) { [self] style in cutAll(style) }
        let id = state.update { state -> Int in
            state.nextID += 1
            state.connections[state.nextID] = connection
            return state.nextID
        }
        let started: ()? = try? Thread.detached(name: "proxy-request") { [self] in
            connection.run()
            state.update { $0.connections[id] = nil }
        }
        if started == nil { state.update { $0.connections[id] = nil } }
    }
}
