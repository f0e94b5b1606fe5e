// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc

/// Runs a program of somebody else's for a bounded time, without a shell, with an environment that is given whole.
///
/// It is a process group of its own, working in our folder, with standard input from /dev/null and standard error ours; the group
/// is killed when the time is over.
package enum BoundedProgram {
    package enum Outcome: Hashable, Sendable {
        /// It ended with this status; the beginning of what it printed.
        case exited(Int32, output: String)
        case killed(signal: Int32)
        case timedOut
        case notStarted(String)
    }

    /// How much of the output is kept, in bytes; more is read and thrown away.
    private static let outputLimit = 4096

    /// Runs the first of `words`, an absolute path, with the others; takes `timeout` seconds and a little more at most.
    package static func run(_ words: [String], environment: [String: String], timeout: Double) -> Outcome {
        guard let program = words.first else { return .notStarted("no program") }
        var ends: [Int32] = [-1, -1]
        guard pipe(&ends) == 0 else { return .notStarted(SystemError.last("pipe").description) }
        for end in ends { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        let output = FileDescriptor(owning: ends[0])
        let started: (result: Int32, pid: pid_t)
        do {
            let input = FileDescriptor(owning: ends[1])
            started = spawn(program, words, environment, input.raw)
        }
        guard started.result == 0 else {
            return .notStarted(SystemError.make(started.result, "posix_spawn", program).description)
        }
        return wait(for: started.pid, output, until: monotonicSeconds() + timeout)
    }

    private static func spawn(
        _ program: String,
        _ words: [String],
        _ environment: [String: String],
        _ output: Int32
    ) -> (result: Int32, pid: pid_t) {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, 1)
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // Our threads block and ignore signals that it is to be ended by.
        var none = sigset_t()
        sigemptyset(&none)
        posix_spawnattr_setsigmask(&attributes, &none)
        var all = sigset_t()
        sigfillset(&all)
        posix_spawnattr_setsigdefault(&attributes, &all)
        posix_spawnattr_setpgroup(&attributes, 0)
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF)
        )
        var arguments: [UnsafeMutablePointer<CChar>?] = words.map { strdup($0) } + [nil]
        defer { for pointer in arguments { free(pointer) } }
        var variables: [UnsafeMutablePointer<CChar>?] = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for pointer in variables { free(pointer) } }
        var pid: pid_t = 0
        let result = posix_spawn(&pid, program, &actions, &attributes, &arguments, &variables)
        return (result, pid)
    }

    /// Reads what it prints until it ends, or kills it when the time is over.
    private static func wait(for pid: pid_t, _ output: borrowing FileDescriptor, until end: Double) -> Outcome {
        var text: [UInt8] = []
        var status: Int32 = 0
        var isOpen = true
        while true {
            if isOpen { isOpen = read(output, into: &text) } else { usleep(20_000) }
            let result = waitpid(pid, &status, WNOHANG)
            if result == pid || (result < 0 && errno != EINTR) { break }
            if monotonicSeconds() >= end {
                kill(-pid, SIGKILL)
                while waitpid(pid, &status, 0) < 0, errno == EINTR {}
                return .timedOut
            }
        }
        // What it left behind in its group has no business any more.
        kill(-pid, SIGKILL)
        while isOpen, read(output, into: &text), text.count < outputLimit, monotonicSeconds() < end {}
        guard status & 0x7F == 0 else { return .killed(signal: status & 0x7F) }
        return .exited(status >> 8 & 0xFF, output: String(decoding: text.prefix(outputLimit), as: UTF8.self))
    }

    /// Takes in what there is within 20 ms; false when the other end is closed.
    private static func read(_ output: borrowing FileDescriptor, into text: inout [UInt8]) -> Bool {
        var entry = pollfd(fd: output.raw, events: Int16(POLLIN), revents: 0)
        guard poll(&entry, 1, 20) > 0 else { return true }
        var chunk = [UInt8](repeating: 0, count: 1024)
        let count = Glibc.read(output.raw, &chunk, chunk.count)
        guard count > 0 else { return count < 0 && errno == EINTR }
        if text.count < outputLimit { text += chunk[..<count] }
        return true
    }
}
