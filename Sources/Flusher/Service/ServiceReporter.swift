// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// Tells the service manager how the flusher is; where there is none, every call does nothing.
final class ServiceReporter: Sendable {
    /// How long bringing a journal in order may take before the manager may think that the flusher hangs, in seconds:
    /// after a power cut every staging file is read.
    private static let longWork = 3600.0

    private let manager: ServiceManager?
    private let pulse: Lock<ServicePulse>

    init(_ manager: ServiceManager?) {
        self.manager = manager
        pulse = Lock(ServicePulse(watchdogTimeout: manager?.watchdogTimeout, now: monotonicSeconds()))
    }

    /// Clients are served from now on.
    func ready() {
        manager?.tell(["READY=1"], .patient)
    }

    /// The flusher ends, which takes up to `seconds`.
    func stopping(within seconds: Double) {
        manager?.tell(["STOPPING=1", "STATUS=ending", Self.extension(seconds)], .patient)
    }

    /// What is under way before ``ready()`` or after ``stopping(within:)`` takes up to `seconds` from now.
    func extend(by seconds: Double) {
        manager?.tell([Self.extension(seconds)])
    }

    /// The coordinator's sign of life, and what the flusher does; call it in every turn of its loop.
    func beat(status: () -> String) {
        guard let manager else { return }
        let now = monotonicSeconds()
        let lines = pulse.withLock { $0.beat(now: now, status: status) }
        manager.tell(lines)
    }

    /// How long the coordinator may sleep, in seconds.
    var longestSleep: Double {
        guard manager != nil, let due = pulse.withLock({ $0.dueAt }) else { return .infinity }
        return max(0.01, due - monotonicSeconds())
    }

    /// Runs what may keep the coordinator for much longer than the manager usually waits for it.
    func duringLongWork<Failure: Error>(_ body: () throws(Failure) -> Void) throws(Failure) {
        guard let manager, let timeout = manager.watchdogTimeout else { return try body() }
        manager.tell([Self.watchdog(max(timeout, Self.longWork))])
        defer { manager.tell([Self.watchdog(timeout)], .patient) }
        try body()
    }

    private static func `extension`(_ seconds: Double) -> String { "EXTEND_TIMEOUT_USEC=\(Int64(seconds * 1e6))" }
    private static func watchdog(_ seconds: Double) -> String { "WATCHDOG_USEC=\(Int64(seconds * 1e6))" }
}
