// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How far an upload was ever seen to be, so that what is told of it never goes back unsaid.
///
/// Bytes on their way count, and a part that was cut is sent again: without a mark the progress would fall then. Only where
/// what the remote had counts no more does it begin anew, which is counted.
package struct UploadMark: Sendable, Hashable {
    /// One look at an upload.
    package struct Look: Sendable, Hashable {
        /// Which content it is: another one is another upload.
        package var content: Int64
        /// Bytes that the remote acknowledged.
        package var acknowledged: Int64
        /// The same, and those on their way.
        package var sent: Int64
        package var size: Int64

        package init(content: Int64, acknowledged: Int64, sent: Int64, size: Int64) {
            self.content = content
            self.acknowledged = acknowledged
            self.sent = sent
            self.size = size
        }
    }

    /// What a look shows that is worth to be told.
    package enum News: Sendable, Hashable {
        case started
        case resumed(offset: Int64)
        case restarted
    }

    private var content: Int64?
    private var acknowledged: Int64 = 0
    private var isRunning = false
    /// The most bytes that were sent or on their way, since it began last.
    package private(set) var sent: Int64 = 0
    /// How often it began at its first byte again although the remote had some of it.
    package private(set) var restarts = 0

    package init() {}

    /// Takes in a look at an upload that runs.
    package mutating func look(_ look: Look) -> [News] {
        var news: [News] = []
        if content != nil, content != look.content { self = UploadMark() }
        content = look.content
        // An attempt that finds nothing at the remote sends all of it again, whatever was on its way before.
        let beginsAgain = !isRunning && look.acknowledged == 0 && sent > look.sent
        if look.acknowledged < acknowledged || beginsAgain {
            restarts += 1
            sent = 0
            news.append(.restarted)
        }
        if !isRunning { news.append(look.acknowledged > 0 ? .resumed(offset: look.acknowledged) : .started) }
        isRunning = true
        acknowledged = look.acknowledged
        sent = min(look.size, max(sent, look.sent))
        return news
    }

    /// So much was told to somebody between two looks.
    package mutating func raise(to bytes: Int64) { sent = max(sent, bytes) }

    /// It runs no more for now.
    package mutating func rest() { isRunning = false }
}
