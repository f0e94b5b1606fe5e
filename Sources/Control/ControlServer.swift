// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Platform

/// Carries out what clients ask.
package protocol ControlHandler: AnyObject, Sendable {
    /// Answers one request, on the client's thread. `report` sends a `progress` reply and returns false when
    /// the client is gone. `hello` and `subscribe` never come here; `follow` does when its events may come already.
    func handle(_ request: ControlRequest, report: (FlushProgress) -> Bool) -> ControlReply
    /// A program of this version says hello; returns whether we give way to it.
    func greet(version: String?) -> Bool
}

extension ControlHandler {
    package func greet(version: String?) -> Bool { false }
}

/// The flusher's end of the control protocol: a thread for each client, a bounded number of them.
package final class ControlServer: Sendable {
    private struct State {
        var clients: [Int: ControlSession] = [:]
        var nextID = 0
        var isStopped = false
        /// The socket is the service manager's, which keeps it when we end: who connects then starts our successor.
        var isActivated = false
    }

    private let handler: any ControlHandler
    private let listener: FileDescriptor
    private let socketPath: String
    private let program: String
    private let state = Monitor(State())

    /// Listens at `socketPath`; the caller holds the lock that makes it the only flusher.
    package init(socketPath: String, program: String, handler: any ControlHandler) throws(SystemError) {
        self.handler = handler
        self.socketPath = socketPath
        self.program = program
        listener = try UnixSocket.listen(at: socketPath)
    }

    /// Serves the socket that the service manager opened at `socketPath` under the number `activated`.
    package init(
        activated: Int32,
        socketPath: String,
        program: String,
        handler: any ControlHandler
    ) {
        self.handler = handler
        self.socketPath = socketPath
        self.program = program
        listener = FileDescriptor(owning: activated)
        state.update { $0.isActivated = true }
    }

    /// Starts accepting clients.
    package func start() throws(SystemError) {
        try Thread.detached(name: "control") { self.acceptClients() }
    }

    /// Listens at a new socket, in place of one whose file was deleted; clients that are connected stay so.
    package func listenAgain() throws(SystemError) {
        let renewed = try UnixSocket.listen(at: socketPath)
        let wasActivated = state.update { state in
            defer { state.isActivated = false }
            return state.isActivated
        }
        // Wakes the accepting thread, which then finds the new socket under the old one's number. That of the manager
        // is not ours to shut down; the thread looks now and then.
        if !wasActivated { UnixSocket.shutdown(listener.raw) }
        try UnixSocket.move(renewed, onto: listener.raw)
    }

    /// How many clients are connected.
    package var clientCount: Int { state.inspect { $0.clients.count } }

    /// Whether somebody reads what happens to uploads.
    package var isFollowed: Bool { state.inspect { Array($0.clients.values) }.contains(where: \.isFollowing) }

    /// Sends an event to everybody who asked for such; never blocks.
    package func publish(_ event: ControlEvent) {
        for session in state.inspect({ Array($0.clients.values) }) { session.publish(event) }
    }

    /// Closes the socket when no client is connected; false when one is.
    package func stopIfUnused() -> Bool {
        let isUnused = state.update { state in
            guard state.clients.isEmpty else { return false }
            state.isStopped = true
            return true
        }
        if isUnused { stop() }
        return isUnused
    }

    /// Closes the socket and every connection.
    package func stop() {
        let (sessions, isActivated) = state.update { state in
            state.isStopped = true
            return (Array(state.clients.values), state.isActivated)
        }
        if !isActivated {
            try? Files.removeIfPresent(socketPath)
            UnixSocket.shutdown(listener.raw)
        }
        for session in sessions { session.close() }
    }

    /// How long the accepting thread waits before it looks whether it is still wanted, in seconds: nothing that is done
    /// to a socket of the service manager may wake it.
    private static let attention = 0.5

    private func acceptClients() {
        while !state.inspect({ $0.isStopped }) {
            do throws(SystemError) {
                if state.inspect({ $0.isActivated }) {
                    guard try UnixSocket.waitReadable(listener.raw, timeout: Self.attention) else { continue }
                    // Who comes when it is too late waits for the next flusher.
                    if state.inspect({ $0.isStopped }) { return }
                }
                admit(FrameChannel(try UnixSocket.accept(listener.raw)))
            } catch {
                if state.inspect({ $0.isStopped }) { return }
                Log.warning("control", "accepting a client: \(error)")
                usleep(100_000)
            }
        }
    }

    /// Gives a client a thread, unless it is another user's or one too many.
    private func admit(_ channel: FrameChannel) {
        guard let peer = try? channel.peer(), peer.uid == getuid() || peer.uid == 0 else {
            Log.warning("control", "refused a connection of another user")
            return
        }
        let session = ControlSession(channel: channel, program: program, handler: handler)
        let id: Int? = state.update { state in
            guard state.clients.count < ControlProtocol.clientLimit, !state.isStopped else { return nil }
            state.nextID += 1
            state.clients[state.nextID] = session
            return state.nextID
        }
        guard let id else { return session.refuse("too many clients, \(ControlProtocol.clientLimit) are connected") }
        do throws(SystemError) {
            try Thread.detached(name: "client-\(id)") {
                session.run()
                self.state.update { _ = $0.clients.removeValue(forKey: id) }
            }
        } catch {
            state.update { _ = $0.clients.removeValue(forKey: id) }
            session.refuse("no thread: \(error)")
        }
    }
}
