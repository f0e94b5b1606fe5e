// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// How many parts of an upload are in flight at once: slow start, then a careful increase.
///
/// Every part in flight is lost with its connection, and all of them with the process or the network. So an upload begins
/// with one, takes one more for each part that arrives, and so reaches the limit within some tens of megabytes on a
/// good network. An interruption halves the window, and from there it grows by one only after a
/// whole window has arrived; an upload that goes on after an interruption begins like that too.
package struct PartWindow: Hashable, Sendable {
    /// The largest size, at least 1.
    package let limit: Int
    /// Parts that may be in flight now, 1 to `limit`.
    package private(set) var size = 1
    /// Up to here each part that arrives lets one more in.
    private var threshold: Int
    /// Parts that arrived since the size changed last, above the threshold.
    private var arrivals = 0

    /// The window of a new upload, or of one that goes on after an interruption.
    package init(limit: Int, isResumed: Bool = false) {
        precondition(limit >= 1, "window of \(limit)")
        self.limit = limit
        threshold = isResumed ? 1 : limit
    }

    /// A part has arrived.
    package mutating func arrived() {
        arrivals += 1
        guard size < limit, size < threshold || arrivals >= size else { return }
        size += 1
        arrivals = 0
    }

    /// A part was lost on its way: once for all that were lost together.
    package mutating func interrupted() {
        size = max(1, size / 2)
        threshold = size
        arrivals = 0
    }
}
