// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Platform

/// A mount's standing connection to the flusher: wakes it without blocking, starts it again whenever it is gone,
/// and hands on its events.
package final class FlusherLink: Sendable {
    private struct State {
        var isWakeWanted = true
        /// What the machine's conditions hold may be something else by now.
        var isPolicyWanted = true
        /// The order of what is pending was changed.
        var isRereadWanted = false
        var isClosed = false

        var hasWork: Bool { isWakeWanted || isPolicyWanted || isRereadWanted }
    }

    /// The time between two wakes, in seconds.
    private static let gathering = 0.1

    private let launcher: FlusherLauncher
    let volume: String
    private let credentials: HandedCredentials?
    private let onEvent: @Sendable (ControlEvent) -> Void
    private let onPolicy: @Sendable (PolicyReport.Volume) -> Void
    private let state = Monitor(State())
    /// How many callers of ``settle(_:)`` have a connection of their own.
    let settling = Monitor(0)
    /// The connection that is being read, so that closing wakes its thread.
    private let reading = Monitor<ControlClient?>(nil)

    /// Starts the link's two threads.
    ///
    /// `onEvent` gets the events of this volume on one of them, `onPolicy` what holds its transfers on the other, at the
    /// beginning and whenever it may have changed.
    ///
    /// `credentials` are handed to every flusher that is met, see ``ControlRequest/credentials(volume:credentials:)``.
    package init(
        launcher: FlusherLauncher,
        volume: String,
        credentials: HandedCredentials?,
        onPolicy: @escaping @Sendable (PolicyReport.Volume) -> Void = { _ in },
        onEvent: @escaping @Sendable (ControlEvent) -> Void
    ) throws(SystemError) {
        self.launcher = launcher
        self.volume = volume
        self.credentials = credentials
        self.onEvent = onEvent
        self.onPolicy = onPolicy
        try Thread.detached(name: "flusher-wake") { self.runWaking() }
        try Thread.detached(name: "flusher-events") { self.runReading() }
    }

    /// There is new work in the volume; returns at once.
    package func wake() {
        // Most calls come while one is asked for already: they must not wake the waiting thread for nothing.
        let isNews = state.inspect { state in
            defer { state.isWakeWanted = true }
            return !state.isWakeWanted
        }
        if isNews { state.update { _ in } }
    }

    /// When what is pending is to go was changed; returns at once.
    package func reread() {
        state.update { $0.isRereadWanted = true }
    }

    /// Ends both connections.
    ///
    /// A wake that was asked for before is sent first, within a few seconds.
    package func close() {
        state.update { $0.isClosed = true }
        _ = state.wait(timeout: 5) { $0.isWakeWanted ? nil : true }
        reading.update { client in
            client?.shutdown()
            client = nil
        }
    }

    private func runWaking() {
        var client: ControlClient?
        var pause = 0.1
        // With the first wake the flusher reads the settings anew, which may be others than those of the last mount.
        var isFirst = true
        while let isClosed = state.wait(timeout: nil, until: { $0.hasWork || $0.isClosed ? $0.isClosed : nil }) {
            if isClosed, !state.inspect({ $0.isWakeWanted }) { break }
            do throws(ControlError) {
                let connected = try reuse(client)
                client = connected
                // Cleared before the request: a change made while it is under way asks for another.
                let isWakeWanted = state.inspect { state in
                    defer { state.isWakeWanted = false }
                    return state.isWakeWanted
                }
                if isWakeWanted { _ = try connected.call(.wake(volume: isFirst ? nil : volume), timeout: 30) }
                isFirst = false
                try askToReread(connected)
                try learnPolicy(connected)
                state.update { _ in }
                pause = 0.1
                // A copy of many files asks for a wake each: the flusher looks at all of them at once.
                _ = state.wait(timeout: Self.gathering) { $0.isClosed ? true : nil }
            } catch {
                Log.info("control", "waking the flusher: \(error)")
                client?.shutdown()
                client = nil
                if isClosed { break }
                state.update { $0.isWakeWanted = true }
                _ = state.wait(timeout: pause) { $0.isClosed ? true : nil }
                pause = min(5, pause * 2)
            }
        }
        client?.shutdown()
        state.update { $0.isWakeWanted = false }
    }

    private func askToReread(_ client: ControlClient) throws(ControlError) {
        let isWanted = state.inspect { state in
            defer { state.isRereadWanted = false }
            return state.isRereadWanted
        }
        guard isWanted else { return }
        do throws(ControlError) {
            _ = try client.call(.reread(volume: volume), timeout: 30)
        } catch {
            // One of an earlier version reads everything once a minute.
            guard case .refused = error else {
                state.inspect { $0.isRereadWanted = true }
                throw error
            }
        }
    }

    /// Asks what holds the volume's transfers now, where that may have changed.
    private func learnPolicy(_ client: ControlClient) throws(ControlError) {
        let isWanted = state.inspect { state in
            defer { state.isPolicyWanted = false }
            return state.isPolicyWanted
        }
        guard isWanted else { return }
        do throws(ControlError) {
            guard case .policy(let report) = try client.call(.policy, timeout: 30) else { return }
            if let volume = report.volumes.first(where: { $0.id == volume }) { onPolicy(volume) }
        } catch {
            // One of an earlier version does not know what is asked; of another connection it is asked again.
            guard case .refused = error else {
                state.inspect { $0.isPolicyWanted = true }
                throw error
            }
        }
    }

    private func runReading() {
        var hasLostOne = false
        while !state.inspect({ $0.isClosed }) {
            if let client = try? launcher.connectIfRunning(program: "mount-events") {
                reading.update { $0 = client }
                defer { reading.update { $0 = nil } }
                do throws(ControlError) {
                    _ = try client.call(.subscribe)
                    // What happened before is not known: as after an overflow.
                    onEvent(.overflow)
                    askForPolicy()
                    while !state.inspect({ $0.isClosed }) {
                        guard let event = try client.nextEvent(timeout: nil), concernsUs(event) else { continue }
                        if event.mayChangePolicy { askForPolicy() }
                        onEvent(event)
                    }
                } catch {
                    Log.info("control", "events: \(error)")
                }
                client.shutdown()
                // The flusher went away, perhaps by SIGKILL: whatever is pending needs a new one.
                if !state.inspect({ $0.isClosed }) { wake() }
                hasLostOne = true
            } else if hasLostOne {
                // It may have answered that just before it ended.
                hasLostOne = false
                wake()
            }
            _ = state.wait(timeout: 0.2) { $0.isClosed ? true : nil }
        }
    }

    private func askForPolicy() {
        state.update { $0.isPolicyWanted = true }
    }

    private func reuse(_ client: ControlClient?) throws(ControlError) -> ControlClient {
        if let client { return client }
        return try connect()
    }

    func connect() throws(ControlError) -> ControlClient {
        let client = try launcher.connect(program: "mount")
        if let credentials { _ = try client.call(.credentials(volume: volume, credentials: credentials)) }
        return client
    }

    private func concernsUs(_ event: ControlEvent) -> Bool {
        switch event {
        case .committed(let volume, _), .conflict(let volume, _, _), .changed(let volume), .drained(let volume),
            .reachable(let volume, _):
            volume == self.volume
        case .overflow: true
        case .activity: false
        }
    }
}

extension ControlEvent {
    /// Whether it may tell of other conditions, or of nobody knows what.
    fileprivate var mayChangePolicy: Bool {
        switch self {
        case .changed, .overflow: true
        default: false
        }
    }
}
