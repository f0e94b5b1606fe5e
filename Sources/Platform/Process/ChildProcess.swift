// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc

/// Starting this program again as a process of its own.
///
/// posix_spawn(3) instead of fork(2): the child of a threaded Swift process may
/// only call exec, its thread pools do not survive a fork.
package enum ChildProcess {
    /// The path of the running program.
    package static func executablePath() throws(SystemError) -> String {
        var buffer = [CChar](repeating: 0, count: 4096)
        let count = readlink("/proc/self/exe", &buffer, buffer.count)
        guard count > 0 else { throw SystemError.last("readlink", "/proc/self/exe") }
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Starts a program in a session of its own, working in `/`, with standard input from /dev/null,
    /// and standard output and error in the given descriptors (nil: /dev/null).
    ///
    /// `inherit` maps further descriptors of ours to numbers in the child. Returns the child's pid.
    package static func spawnDetached(
        _ path: String,
        _ arguments: [String],
        output: Int32? = nil,
        errors: Int32? = nil,
        inherit: [(ours: Int32, theirs: Int32)] = []
    ) throws(SystemError) -> Int32 {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        for (target, source) in [(Int32(1), output), (Int32(2), errors)] {
            if let source {
                posix_spawn_file_actions_adddup2(&actions, source, target)
            } else {
                posix_spawn_file_actions_addopen(&actions, target, "/dev/null", O_WRONLY, 0)
            }
        }
        for pair in inherit { posix_spawn_file_actions_adddup2(&actions, pair.ours, pair.theirs) }
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        let newSession: Int16 = 0x80
        posix_spawnattr_setflags(&attributes, newSession)
        var argv: [UnsafeMutablePointer<CChar>?] = ([path] + arguments).map { strdup($0) }
        argv.append(nil)
        defer { for pointer in argv { free(pointer) } }
        var environment: [UnsafeMutablePointer<CChar>?] = Self.environment().map { strdup($0) }
        environment.append(nil)
        defer { for pointer in environment { free(pointer) } }
        var pid: pid_t = 0
        let result = posix_spawn(&pid, path, &actions, &attributes, argv, environment)
        guard result == 0 else { throw SystemError.make(result, "posix_spawn", path) }
        return pid
    }

    /// Ours, but that a crash is just the end: the runtime would hold the process for minutes, and with it everybody who uses
    /// the mount, to write the stack and the registers into the log, which may hold a part of a secret.
    ///
    /// Whoever sets the variable has their way ("Backtracing support", the Swift runtime's documentation).
    private static func environment() -> [String] {
        var entries: [String] = []
        var entry = environ
        while let text = entry.pointee {
            entries.append(String(cString: text))
            entry += 1
        }
        let name = "SWIFT_BACKTRACE="
        return entries.contains { $0.hasPrefix(name) } ? entries : entries + [name + "enable=no"]
    }
}
