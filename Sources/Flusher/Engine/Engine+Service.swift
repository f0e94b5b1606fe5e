// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform
package import Policy

extension Engine {
    /// The line that systemctl(1) shows: how long the queue is, what runs, and what the rest waits for.
    func serviceStatus() -> String {
        state.inspect { state in
            let progress = state.jobs.values.map(\.progress)
            return ServiceStatus(
                pending: state.scheduler.count,
                running: progress.count,
                sent: progress.reduce(0) { $0 + ($1?.sent ?? 0) },
                size: progress.reduce(0) { $0 + ($1?.size ?? 0) },
                reasons: state.openReasons
            ).line
        }
    }
}

extension Engine.State {
    /// Why the volumes with something pending do not go on, in the order of the reasons' list.
    fileprivate var openReasons: [WaitingReason] {
        var found: Set<WaitingReason> = []
        for (id, volume) in volumes where !scheduler.isEmpty(of: id) {
            if volume.facts.connection.value == .offline { found.insert(.offline) }
            if volume.facts.authentication.value == .refused { found.insert(.auth) }
            found.formUnion(volume.facts.holds.map(\.reason))
        }
        return WaitingReason.allCases.filter(found.contains)
    }
}

/// What the flusher does, in one line.
package struct ServiceStatus: Sendable {
    package var pending: Int
    package var running: Int
    /// Bytes of what runs that were sent, and all of them.
    package var sent: Int64
    package var size: Int64
    package var reasons: [WaitingReason]

    package init(pending: Int, running: Int, sent: Int64, size: Int64, reasons: [WaitingReason]) {
        self.pending = pending
        self.running = running
        self.sent = sent
        self.size = size
        self.reasons = reasons
    }

    package var line: String {
        guard pending > 0 || running > 0 else { return "nothing pending" }
        var parts: [String] = []
        if running > 0 { parts.append("sending \(running)" + (size > 0 ? ", \(sent * 100 / size) % of it" : "")) }
        let others = max(0, pending - running)
        if others > 0 {
            let why = reasons.isEmpty ? "" : ": " + reasons.map(\.rawValue).joined(separator: ", ")
            parts.append("\(others) waiting\(why)")
        }
        return parts.joined(separator: "; ")
    }
}
