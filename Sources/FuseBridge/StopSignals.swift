// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Platform

/// The signals that end a mount's process, SIGINT, SIGTERM and SIGHUP: one thread takes them, whatever the others do.
package enum StopSignals {
    private enum Phase {
        /// Nothing is mounted yet.
        case starting(@Sendable () -> Void)
        /// Between mount(2) and serving it: a signal waits.
        case mounting(hasCome: Bool)
        case serving(@Sendable () -> Void)
    }

    private static let phase = Lock<Phase?>(nil)

    /// Keeps the signals from every thread started from now on, and calls `early` when one comes before the mount.
    package static func take(early: @escaping @Sendable () -> Void) throws(SystemError) {
        phase.withLock { $0 = .starting(early) }
        try begin()
    }

    /// Something is being mounted: a signal waits for ``serve(_:)``.
    static func hold() {
        phase.withLock { if $0 != nil { $0 = .mounting(hasCome: false) } }
    }

    /// Calls `end` at each signal, also at one that came while mounting.
    static func serve(_ end: @escaping @Sendable () -> Void) throws(SystemError) {
        let before = phase.withLock { phase in
            defer { phase = .serving(end) }
            return phase
        }
        switch before {
        case .mounting(hasCome: true): kill(getpid(), SIGTERM)
        case nil: try begin()
        default: break
        }
    }

    private static func begin() throws(SystemError) {
        var signals = all
        pthread_sigmask(SIG_BLOCK, &signals, nil)
        try Thread.detached(name: "signals") {
            var signals = all
            var number: Int32 = 0
            while true {
                if sigwait(&signals, &number) == 0 { deliver() }
            }
        }
    }

    private static func deliver() {
        let action: (@Sendable () -> Void)? = phase.withLock { phase in
            switch phase {
            case .starting(let action), .serving(let action): return action
            case .mounting: phase = .mounting(hasCome: true)
            case nil: break
            }
            return nil
        }
        action?()
    }

    private static var all: sigset_t {
        var signals = sigset_t()
        sigemptyset(&signals)
        for signal in [SIGINT, SIGTERM, SIGHUP] { sigaddset(&signals, signal) }
        return signals
    }
}
