// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Journal
internal import Policy

/// How often rows were refused, or found a local file unreadable, one attempt after the other: after some a person is asked.
struct Refusals: Sendable {
    private struct Series {
        /// The change that was wanted each time.
        var wish: ChangeSequence
        var count: Int
    }

    private var series: [RowID: Series] = [:]

    /// Counts an attempt that was refused, and returns how many there were in a row with this change; one that does not
    /// count ends the row.
    mutating func count(_ row: RowID, _ wish: ChangeSequence, counts: Bool) -> Int {
        let before = series[row].flatMap { $0.wish == wish ? $0.count : nil } ?? 0
        series[row] = counts ? Series(wish: wish, count: before + 1) : nil
        return counts ? before + 1 : 0
    }

    /// An attempt ended well, or the row is gone.
    mutating func forget(_ row: RowID) {
        series[row] = nil
    }
}
