// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc
internal import Platform

/// The signals of a thread, as `/proc/TID/status` shows them (proc_pid_status(5)).
struct SignalSets: Hashable {
    /// Signal N is the bit N - 1.
    private var pending: UInt64
    private var blocked: UInt64
    private var ignored: UInt64
    private var caught: UInt64

    /// Reads the text of the file; nil when a line is missing.
    init?(status: String) {
        var sets: [Substring: UInt64] = [:]
        for line in status.split(separator: "\n") where line.hasPrefix("Sig") || line.hasPrefix("Shd") {
            let words = line.split(separator: ":")
            guard words.count == 2 else { continue }
            sets[words[0]] = UInt64(words[1].drop { $0.isWhitespace }, radix: 16)
        }
        guard let own = sets["SigPnd"], let shared = sets["ShdPnd"], let blocked = sets["SigBlk"],
            let ignored = sets["SigIgn"], let caught = sets["SigCgt"]
        else { return nil }
        pending = own | shared
        self.blocked = blocked
        self.ignored = ignored
        self.caught = caught
    }

    /// The signals of a thread now; nil when it is gone or must not be seen.
    init?(thread: pid_t) {
        guard let bytes = try? Files.read("/proc/\(thread)/status", limit: 1 << 16) else { return nil }
        self.init(status: String(decoding: bytes, as: UTF8.self))
    }

    /// Whether the thread ends as soon as it returns from the kernel: a pending signal's action is to kill, signal(7).
    ///
    /// Of a process that is being killed every thread has SIGKILL pending, whatever signal it was at first.
    var areFatal: Bool {
        if pending & Self.set(SIGKILL) != 0 { return true }
        return pending & ~(blocked | ignored | caught | Self.harmless) != 0
    }

    /// Those that are ignored, or only stop the process, unless it handles them.
    private static let harmless = set(SIGCHLD, SIGCONT, SIGURG, SIGWINCH, SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU)

    private static func set(_ signals: Int32...) -> UInt64 {
        signals.reduce(0) { $0 | 1 << UInt64($1 - 1) }
    }
}
