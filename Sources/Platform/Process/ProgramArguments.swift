// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Glibc

/// What this process was started with.
package enum ProgramArguments {
    /// The name that the program was called by, and its arguments.
    ///
    /// Swift's runtime looks for them on the stack below the environment, and finds none where a library that was loaded
    /// before (`LD_PRELOAD`, ld.so(8)) has moved the environment by setting a variable. The kernel knows them still
    /// (`/proc/self/cmdline`, proc(5)).
    package static func all() -> [String] {
        let found = CommandLine.arguments
        return found.isEmpty ? kernels().map { String(decoding: $0, as: UTF8.self) } : found
    }

    /// The same as it was given, which need not be text.
    package static func bytes() -> [[UInt8]] {
        guard CommandLine.argc > 0 else { return kernels() }
        return UnsafeBufferPointer(start: CommandLine.unsafeArgv, count: Int(CommandLine.argc)).compactMap { pointer in
            pointer.map { Array(UnsafeRawBufferPointer(start: $0, count: strlen($0))) }
        }
    }

    private static func kernels() -> [[UInt8]] {
        (try? Files.read("/proc/self/cmdline", limit: limit)).map(parse) ?? []
    }

    /// Each ends with a byte of zero.
    static func parse(_ bytes: [UInt8]) -> [[UInt8]] {
        var words = bytes.split(separator: 0, omittingEmptySubsequences: false)
        if words.last?.isEmpty ?? false { words.removeLast() }
        return words.map(Array.init)
    }

    /// As many bytes as the kernel takes (execve(2)).
    private static let limit = 8 << 20
}
