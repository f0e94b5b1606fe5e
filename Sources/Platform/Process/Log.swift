// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Synchronization

/// How much a log line matters, least first.
package enum LogLevel: Int, Sendable, Comparable, CaseIterable {
    case debug
    case info
    case notice
    case warning
    case error

    package static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }
}

/// The process's log: one line an event on standard error, which the parent points at the journal or a file.
///
/// Never give it a secret: no signed query, no credential, no upload URL.
package enum Log {
    private static let threshold = Atomic<Int>(LogLevel.notice.rawValue)

    /// The least level that is written.
    package static var level: LogLevel {
        get { LogLevel(rawValue: threshold.load(ordering: .relaxed)) ?? .notice }
        set { threshold.store(newValue.rawValue, ordering: .relaxed) }
    }

    private static let file = Lock<LogFile?>(nil)

    /// Keeps the log short while standard error goes to this file.
    package static func keepShort(_ file: LogFile) {
        Self.file.withLock { $0 = file }
    }

    package static func debug(_ area: String, _ message: @autoclosure () -> String) { write(.debug, area, message) }
    package static func info(_ area: String, _ message: @autoclosure () -> String) { write(.info, area, message) }
    package static func notice(_ area: String, _ message: @autoclosure () -> String) { write(.notice, area, message) }
    package static func warning(_ area: String, _ message: @autoclosure () -> String) {
        write(.warning, area, message)
    }
    package static func error(_ area: String, _ message: @autoclosure () -> String) { write(.error, area, message) }

    private static func write(_ level: LogLevel, _ area: String, _ message: () -> String) {
        guard level.rawValue >= threshold.load(ordering: .relaxed) else { return }
        // Control characters of a remote name must not forge a line or drive a terminal.
        let text = String(
            String.UnicodeScalarView(
                message().unicodeScalars.map { $0.properties.generalCategory == .control ? "?" : $0 }
            )
        )
        let line = Array("\(Timestamp.now().rfc3339) \(level) \(area)[\(getpid())]: \(text)\n".utf8)
        _ = line.withUnsafeBytes { Glibc.write(2, $0.baseAddress, $0.count) }
        // A thread that finds another one at it has nothing to do.
        file.withLockIfAvailable { $0?.renew(2) }
    }
}
