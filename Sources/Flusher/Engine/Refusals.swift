// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Journal
internal import Policy

/// Attempts of a row that ended alike, one after the other, at one and the same change.
struct Refusals {
    var wish: ChangeSequence
    var count: Int
}

extension Engine.State {
    /// Counts an attempt that was refused, and returns how many there were in a row with this change; one that does not
    /// count ends the row.
    mutating func countRefusal(of row: RowID, _ wish: ChangeSequence, counts: Bool) -> Int {
        let before = refusals[row].flatMap { $0.wish == wish ? $0.count : nil } ?? 0
        refusals[row] = counts ? Refusals(wish: wish, count: before + 1) : nil
        return counts ? before + 1 : 0
    }
}
