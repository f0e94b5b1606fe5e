// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What this process was started with.
package enum ProgramArguments {
    /// The name that the program was called by, and its arguments.
    ///
    /// Swift's runtime looks for them on the stack below the environment, and finds none where a library that was loaded
    /// before (`LD_PRELOAD`, ld.so(8)) has moved the environment by setting a variable. The kernel knows them still
    /// (`/proc/self/cmdline`, proc(5)).
    package static func all() -> [String] {
        let found = CommandLine.arguments
        guard found.isEmpty, let bytes = try? Files.read("/proc/self/cmdline", limit: limit) else { return found }
        return parse(bytes)
    }

    /// Each ends with a byte of zero.
    static func parse(_ bytes: [UInt8]) -> [String] {
        var words = bytes.split(separator: 0, omittingEmptySubsequences: false)
        if words.last?.isEmpty ?? false { words.removeLast() }
        return words.map { String(decoding: $0, as: UTF8.self) }
    }

    /// As many bytes as the kernel takes (execve(2)).
    private static let limit = 8 << 20
}
