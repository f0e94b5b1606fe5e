// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// The size of the reads that the kernel makes ahead of a program.
enum KernelReadahead {
    /// Twice the kernel's own: most of what larger ones save, and a mapping that is read here and there gets no more than
    /// this around each place; in KiB.
    private static let kibibytes = 256

    /// Sets it for a mount, where the system allows (root only); without it everything works, a little slower.
    static func enlarge(_ mountpoint: String) {
        guard let device = device(of: mountpoint) else { return }
        let path = "/sys/class/bdi/\(device)/read_ahead_kb"
        guard let file = try? FileDescriptor.open(path, O_WRONLY) else { return }
        try? file.write(Array("\(kibibytes)\n".utf8))
    }

    /// `MAJOR:MINOR` of the newest mount at a path, from mountinfo: stat(2) would ask the mount itself.
    private static func device(of mountpoint: String) -> String? {
        guard let bytes = try? Files.read("/proc/self/mountinfo", limit: 16 << 20) else { return nil }
        let escaped = mountpoint.replacing("\\", with: "\\134").replacing(" ", with: "\\040")
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n").reversed() {
            let fields = line.split(separator: " ")
            if fields.count > 4, fields[4] == escaped { return String(fields[2]) }
        }
        return nil
    }
}
