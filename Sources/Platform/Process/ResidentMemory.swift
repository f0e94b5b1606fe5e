// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc

/// The memory of this process (proc_pid_statm(5)).
package enum ResidentMemory {
    /// Bytes that are in memory now; nil where nobody tells.
    package static func bytes() -> Int64? {
        guard let text = try? Files.read("/proc/self/statm", limit: 256) else { return nil }
        let words = String(decoding: text, as: UTF8.self).split(separator: " ")
        guard words.count > 1, let pages = Int64(words[1]) else { return nil }
        return pages * Int64(sysconf(Int32(_SC_PAGESIZE)))
    }
}
