// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Glibc
internal import Synchronization

/// How much a log line matters, least first.
package enum LogLevel: Int, Sendable, Comparable, CaseIterable {
    case debug
    case info
    case notice
    case warning
    case error

    /// As syslog(3) numbers them.
    var priority: Int {
        switch self {
        case .debug: 7
        case .info: 6
        case .notice: 5
        case .warning: 4
        case .error: 3
        }
    }

    package static func < (left: LogLevel, right: LogLevel) -> Bool { left.rawValue < right.rawValue }
}

/// The process's log: one line an event on standard error, which the parent points at the journal or a file.
///
/// Never give it a secret: no signed query, no credential, no upload URL.
package enum Log {
    private static let repetitions = Lock(LogRepetitions())
    private static let threshold = Atomic<Int>(LogLevel.notice.rawValue)

    /// The least level that is written.
    package static var level: LogLevel {
        get { LogLevel(rawValue: threshold.load(ordering: .relaxed)) ?? .notice }
        set { threshold.store(newValue.rawValue, ordering: .relaxed) }
    }

    private static let file = Lock<LogFile?>(nil)
    private static let isJournal = Atomic<Bool>(false)

    /// Writes lines as the journal wants them when standard error is what `stream` (JOURNAL_STREAM, systemd.exec(5))
    /// names: it keeps time and process itself, and takes the level from the beginning of a line (sd-daemon(3)).
    package static func adaptToJournal(stream: String?) {
        var raw = stat()
        guard let stream, fstat(2, &raw) == 0 else { return }
        isJournal.store(stream == "\(raw.st_dev):\(raw.st_ino)", ordering: .relaxed)
    }

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

    /// What lines begin with by which the journal knows their level; empty when they go elsewhere.
    static func mark(_ level: LogLevel) -> String { isJournal.load(ordering: .relaxed) ? "<\(level.priority)>" : "" }

    /// A line as it is written.
    package static func line(
        _ level: LogLevel,
        _ area: String,
        _ text: String,
        at now: Timestamp,
        isJournal: Bool
    ) -> String {
        isJournal
            ? "<\(level.priority)>\(area): \(text)\n" : "\(now.rfc3339) \(level) \(area)[\(getpid())]: \(text)\n"
    }

    private static func write(_ level: LogLevel, _ area: String, _ message: () -> String) {
        guard level.rawValue >= threshold.load(ordering: .relaxed) else { return }
        // Control characters of a remote name must not forge a line or drive a terminal.
        let text = String(
            String.UnicodeScalarView(
                message().unicodeScalars.map { $0.properties.generalCategory == .control ? "?" : $0 }
            )
        )
        let now = Timestamp.now()
        guard let missed = repetitions.withLock({ $0.note(text, at: now) }) else { return }
        let count = missed > 0 ? " (and \(missed) times more before)" : ""
        let line = Array(
            Self.line(level, area, text + count, at: now, isJournal: isJournal.load(ordering: .relaxed)).utf8
        )
        _ = line.withUnsafeBytes { Glibc.write(2, $0.baseAddress, $0.count) }
        // A thread that finds another one at it has nothing to do.
        file.withLockIfAvailable { $0?.renew(2) }
    }
}

/// Keeps a line that comes again and again, as when a disk has failed and thousands of files wait for it, from filling
/// the disk that the log is on.
package struct LogRepetitions: Sendable {
    private struct Line {
        let text: String
        let written: Timestamp
        var missed = 0
    }

    /// How long a line is not written again, in seconds.
    private static let pause: Int64 = 10
    /// How many lines are remembered.
    private static let limit = 32

    private var lines: [Line] = []

    package init() {}

    /// Whether to write a line now: nil when not, otherwise how often it was not since the last time.
    package mutating func note(_ text: String, at now: Timestamp) -> Int? {
        guard let index = lines.firstIndex(where: { $0.text == text }) else {
            if lines.count >= Self.limit { lines.removeFirst() }
            lines.append(Line(text: text, written: now))
            return 0
        }
        let age = now.seconds - lines[index].written.seconds
        guard age < 0 || age >= Self.pause else {
            lines[index].missed += 1
            return nil
        }
        let missed = lines.remove(at: index).missed
        lines.append(Line(text: text, written: now))
        return missed
    }
}
