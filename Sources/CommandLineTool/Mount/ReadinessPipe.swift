// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// The pipe on which a mount's process tells the command that started it how the mount went.
///
/// One line: `ready`, `ready NOTE`, or `STATUS MESSAGE`.
struct ReadinessPipe: ~Copyable {
    private let writing: FileDescriptor?

    /// Takes over the descriptor that the parent named; nil: there is no parent to tell.
    init(descriptor: Int32?) {
        if let descriptor, fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 {
            writing = FileDescriptor(owning: descriptor)
        } else {
            writing = nil
        }
    }

    var isConnected: Bool { writing != nil }

    /// The mount answers; false when nobody listens any more.
    consuming func ready(note: String?) -> Bool {
        send("ready" + (note.map { " " + Console.oneLine($0) } ?? ""))
    }

    /// The mount failed.
    consuming func failed(_ failure: CommandFailure) {
        _ = send("\(failure.status) \(Console.oneLine(failure.message))")
    }

    private borrowing func send(_ line: String) -> Bool {
        do throws(SystemError) {
            try writing?.write(Array((line + "\n").utf8))
            return true
        } catch {
            return error.code != EPIPE
        }
    }
}

/// What the command that started a mount's process learns from it.
enum MountOutcome: Equatable {
    case ready(note: String?)
    case failed(CommandFailure)

    /// Reads the line of a ``ReadinessPipe``; nil when the process ended without one.
    init?(line: String) {
        let text = line.hasSuffix("\n") ? String(line.dropLast()) : line
        let words = text.split(separator: " ", maxSplits: 1).map(String.init)
        guard let first = words.first else { return nil }
        let rest = words.dropFirst().first
        if first == "ready" {
            self = .ready(note: rest)
        } else if let status = Int32(first) {
            self = .failed(CommandFailure(rest ?? "failed", status: status))
        } else {
            return nil
        }
    }
}
