// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Conditions
internal import Platform

/// Tells the desktop when something needs a person, where there is a desktop.
final class DesktopNotifier: Sendable {
    private struct State {
        var notices = Notices()
        var isStopped = false
    }

    private let state = Monitor(State())

    func start() throws(SystemError) {
        try Thread.detached(name: "notices", stackSize: 256 << 10) { self.work() }
    }

    func stop() { state.update { $0.isStopped = true } }

    func note(_ kind: Notices.Kind, path: String, remote: String) {
        state.update { $0.notices.note(kind, path: path, remote: remote, at: monotonicSeconds()) }
    }

    private func work() {
        while true {
            let pause = state.inspect { state in
                state.notices.dueAt.map { max(0.01, $0 - monotonicSeconds()) }
            }
            // Woken when something comes, or when what was gathered is due.
            let isOver: Bool? = state.wait(timeout: pause) { state in
                if state.isStopped { return true }
                return pause == nil && state.notices.dueAt != nil ? false : nil
            }
            if isOver == true { return }
            if let message = state.inspect({ $0.notices.take(at: monotonicSeconds()) }) { tell(message) }
        }
    }

    private func tell(_ message: Notices.Message) {
        // No desktop, no bus, nobody who shows it: nothing is lost, status says the same.
        if !DesktopNotification.send(summary: "Moorage: \(message.summary)", body: message.body) {
            Log.info("notices", "nobody shows: \(message.summary)")
        }
    }
}
