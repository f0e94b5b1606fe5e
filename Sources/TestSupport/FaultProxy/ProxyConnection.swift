// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// One client's connection and the one to the upstream that belongs to it.
///
/// Two threads: the owner relays requests, the other one responses. Each reads
/// one socket; either may end both, which the other notices within 50 ms.
final class ProxyConnection: Sendable {
    /// A forwarded request whose response is awaited.
    struct Exchange: Sendable {
        var record: RequestRecord
        var fault: ChosenFault?
        var isRecorded = false
    }

    struct State: Sendable {
        var ending: CutStyle?
        var exchanges: [Exchange] = []
    }

    let plan: FaultPlan
    let client: SocketStream
    let state: Monitor<State>
    let upstreamAddress: SocketAddress
    private let cutAll: @Sendable (CutStyle) -> Void

    init(
        _ socket: consuming FileDescriptor,
        to upstream: SocketAddress,
        _ plan: FaultPlan,
        cutAll: @escaping @Sendable (CutStyle) -> Void
    ) {
        let state = Monitor(State())
        self.state = state
        self.plan = plan
        self.cutAll = cutAll
        upstreamAddress = upstream
        client = SocketStream(socket) { state.inspect { $0.ending != nil } }
    }

    /// Ends both sides; the first style counts.
    func cut(_ style: CutStyle) {
        state.update { state in state.ending = state.ending ?? style }
    }

    var isEnded: Bool { state.inspect { $0.ending != nil } }

    /// Relays until either side ends; then closes both.
    func run() {
        guard let upstream = firstHead() else { return close(nil) }
        let responses = try? Thread(name: "proxy-response") { [self] in relayResponses(from: upstream) }
        relayRequests(to: upstream)
        responses?.join()
        close(upstream)
    }

    /// Waits for a first byte of the client and connects to the upstream; a refused connection resets the client.
    private func firstHead() -> SocketStream? {
        guard client.available() != nil else { return nil }
        do {
            let state = state
            return SocketStream(try LoopbackSocket.connected(to: upstreamAddress)) {
                state.inspect { $0.ending != nil }
            }
        } catch {
            cut(.reset)
            return nil
        }
    }

    private func close(_ upstream: SocketStream?) {
        cut(.finish)
        // Before the client sees the end.
        for exchange in state.inspect({ $0.exchanges }) where !exchange.isRecorded { plan.record(exchange.record) }
        if state.inspect({ $0.ending }) == .reset {
            LoopbackSocket.resetOnClose(client.socket)
            if let upstream { LoopbackSocket.resetOnClose(upstream.socket) }
        } else {
            upstream?.finishPolitely()
            client.finishPolitely()
        }
    }

    /// Forwards content through the limits and planned cuts; false when the connection was cut.
    func pass(_ bytes: UnsafeRawBufferPointer, _ direction: Direction, to target: SocketStream) -> Bool {
        let bucket = direction == .request ? plan.upload : plan.download
        plan.waitWhileBlackholed { isEnded }
        bucket.take(bytes.count) { isEnded }
        let passage = plan.passage(of: Int64(bytes.count), direction)
        let written = target.write(UnsafeRawBufferPointer(rebasing: bytes[..<Int(passage.count)]))
        guard let due = passage.cut else { return written }
        if due.cutsEveryConnection { cutAll(due.style) }
        cut(due.style)
        return false
    }
}
