// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CShims
internal import Glibc

/// How a process ended, for whoever started it.
package enum ProcessEnd: Hashable, Sendable, CustomStringConvertible {
    /// It called exit(3), or returned from its main function, with this status.
    case exited(Int32)
    case signalled(Int32, coreDumped: Bool)

    /// Reads a status as wait(2) gives it, of a process that ended.
    package init(waitStatus status: Int32) {
        // The macros of wait(2) (WIFEXITED and its like) are not imported.
        let signal = status & 0x7F
        self = signal == 0 ? .exited(status >> 8 & 0xFF) : .signalled(signal, coreDumped: status & 0x80 != 0)
    }

    /// What a sentence about the process goes on with.
    package var description: String {
        switch self {
        case .exited(let status): "ended with status \(status)"
        case .signalled(let signal, let coreDumped):
            "was ended by \(Self.name(signal))" + (coreDumped ? " and left a core dump" : "")
        }
    }

    /// A signal as signal(7) names it; real-time signals and those of tomorrow have no name.
    private static func name(_ signal: Int32) -> String {
        guard let name = moorage_signal_name(signal) else { return "signal \(signal)" }
        return "SIG\(String(cString: name)) (\(signal))"
    }

    /// Waits for a child's end (waitpid(2)), `seconds` at most; nil when it has not ended, or is no child of ours.
    package static func of(_ child: Int32, within seconds: Double) -> ProcessEnd? {
        let limit = monotonicSeconds() + seconds
        var status: Int32 = 0
        while true {
            let result = waitpid(child, &status, WNOHANG)
            if result == child { return ProcessEnd(waitStatus: status) }
            guard result == 0 || errno == EINTR, monotonicSeconds() < limit else { return nil }
            usleep(5_000)
        }
    }
}
