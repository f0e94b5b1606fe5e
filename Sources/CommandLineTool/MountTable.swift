// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// One line of the kernel's table of mounts, see proc_pid_mountinfo(5).
struct MountEntry: Equatable {
    let mountpoint: String
    let type: String
    let source: String

    /// What is mounted there, when we mounted it.
    var remote: String? {
        let mark = "moorage#"
        return type == "fuse.moorage" && source.hasPrefix(mark) ? String(source.dropFirst(mark.count)) : nil
    }
}

/// The mounts that this process sees.
enum MountTable {
    /// Reads /proc/self/mountinfo.
    static func current() -> [MountEntry] {
        let bytes = (try? Files.read("/proc/self/mountinfo", limit: 16 << 20)) ?? []
        return parse(String(decoding: bytes, as: UTF8.self))
    }

    /// Whether the topmost mount at this path is a mounted bucket.
    static func isMoorage(at path: String) -> Bool {
        current().last { $0.mountpoint == path }?.type == "fuse.moorage"
    }

    static func parse(_ text: String) -> [MountEntry] {
        text.split(separator: "\n").compactMap { line in
            let fields = line.split(separator: " ")
            guard fields.count > 8, let dash = fields[6...].firstIndex(of: "-"), dash + 2 < fields.count else {
                return nil
            }
            return MountEntry(
                mountpoint: unescaped(fields[4]),
                type: String(fields[dash + 1]),
                source: unescaped(fields[dash + 2])
            )
        }
    }

    /// Undoes the kernel's octal escapes of white space and backslash.
    private static func unescaped(_ field: Substring) -> String {
        var bytes: [UInt8] = []
        var rest = Array(field.utf8)[...]
        while let byte = rest.popFirst() {
            let digits = rest.prefix(3)
            if byte == UInt8(ascii: "\\"), digits.count == 3,
                let value = UInt8(String(decoding: digits, as: UTF8.self), radix: 8)
            {
                bytes.append(value)
                rest = rest.dropFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
