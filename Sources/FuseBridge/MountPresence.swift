// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// Tells whether a mount is still among those that this process sees.
///
/// After an unmount the kernel ends the session only when no other mount
/// namespace holds a copy: a container that was started meanwhile would keep an
/// unmounted file system, and its process, alive. The device number is what stays
/// the same when a folder above the mountpoint is renamed.
struct MountPresence: Sendable {
    private let device: Substring

    /// Finds the mount at a path, the topmost one, in /proc/self/mountinfo; nil when there is none.
    init?(mountpoint: String, table: String = MountPresence.table()) {
        let path = Self.escaped(mountpoint)
        guard let line = Self.lines(table).last(where: { $0[4] == path }) else { return nil }
        device = line[2]
    }

    /// Whether the mount is still there, under whatever path.
    func isPresent(table: String = MountPresence.table()) -> Bool {
        // A table that cannot be read says nothing.
        table.isEmpty || Self.lines(table).contains { $0[2] == device }
    }

    static func table() -> String {
        String(decoding: (try? Files.read("/proc/self/mountinfo", limit: 16 << 20)) ?? [], as: UTF8.self)
    }

    private static func lines(_ table: String) -> [[Substring]] {
        table.split(separator: "\n").map { $0.split(separator: " ", maxSplits: 5) }.filter { $0.count > 4 }
    }

    /// A path as the kernel shows it: white space and backslashes as octal escapes, see proc_pid_mountinfo(5).
    private static func escaped(_ path: String) -> String {
        path.reduce(into: "") { text, character in
            switch character {
            case " ": text += "\\040"
            case "\t": text += "\\011"
            case "\n": text += "\\012"
            case "\\": text += "\\134"
            default: text.append(character)
            }
        }
    }
}
