// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CFuse
internal import Glibc
internal import Platform

/// What libfuse says, which it would print by itself.
enum LibraryLog {
    private static let newest = Lock<String?>(nil)

    /// The newest message, on one line.
    static var last: String? { newest.withLock { $0 } }

    static func capture() {
        newest.withLock { $0 = nil }
        fuse_set_log_func { _, format, arguments in
            guard let format, let arguments = arguments as CVaListPointer? else { return }
            var buffer = [CChar](repeating: 0, count: 512)
            vsnprintf(&buffer, buffer.count, format, arguments)
            LibraryLog.note(String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self))
        }
    }

    private static func note(_ text: String) {
        var line = text
        while line.hasSuffix("\n") { line.removeLast() }
        Log.info("libfuse", line)
        newest.withLock { $0 = line }
    }
}
