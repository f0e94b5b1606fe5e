// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What the kernel tells of the time that programs lose by waiting for the machine
/// ("PSI - Pressure Stall Information", kernel.org).
package enum PressureStall {
    /// For how long somebody had to wait for `resource` (`cpu`, `io` or `memory`), in microseconds since the machine's
    /// start; nil where the kernel does not tell.
    package static func total(of resource: String) -> UInt64? {
        guard let text = try? Files.read("/proc/pressure/\(resource)", limit: 4096) else { return nil }
        return total(in: String(decoding: text, as: UTF8.self))
    }

    /// The `total` of the line `some`.
    package static func total(in text: String) -> UInt64? {
        let line = text.split(separator: "\n").first { $0.hasPrefix("some ") }
        let word = line?.split(separator: " ").first { $0.hasPrefix("total=") }
        return word.flatMap { UInt64($0.dropFirst("total=".count)) }
    }
}
