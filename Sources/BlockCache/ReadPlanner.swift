// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// How far ahead of its reads a file should be fetched, learned from the reads themselves.
///
/// A pure value, one an open file. A reader that goes forward gets a window that
/// doubles with each step it uses up; a jump closes the window again, so random
/// access fetches only the blocks it touches.
package struct ReadPlanner: Sendable {
    /// The bounds of the window, in bytes.
    package struct Limits: Hashable, Sendable {
        package var initialWindow: Int64
        package var maximumWindow: Int64

        package init(initialWindow: Int64 = 2 << 20, maximumWindow: Int64 = 32 << 20) {
            self.initialWindow = initialWindow
            self.maximumWindow = maximumWindow
        }
    }

    /// How far a read may lie off the expected place and still count as going forward: the kernel's
    /// own readahead arrives out of order.
    private static let tolerance: Int64 = 2 << 20

    private let limits: Limits
    /// The offset behind the furthest byte of the present run of reads.
    private var expected: Int64 = 0
    /// How much is wanted ahead, 0 while access looks random.
    private var window: Int64
    /// Up to where fetches of this run were asked for.
    private var planned: Int64 = 0

    package init(limits: Limits = Limits()) {
        self.limits = limits
        // The first read at offset 0 usually begins a whole pass over the file.
        window = limits.initialWindow
    }

    /// Notes a read and returns the offset up to which the object should be fetched, at least `range.upper`
    /// rounded up to the object's end.
    package mutating func read(_ range: ByteRange, objectSize: Int64) -> Int64 {
        if range.lower > expected + Self.tolerance || range.upper < expected - Self.tolerance {
            window = 0
            planned = range.upper
        } else if range.upper > expected {
            advance(to: range)
        }
        expected = isNear(range) ? max(expected, range.upper) : range.upper
        return min(objectSize, max(range.upper, planned))
    }

    private func isNear(_ range: ByteRange) -> Bool {
        range.lower <= expected + Self.tolerance && range.upper >= expected - Self.tolerance
    }

    private mutating func advance(to range: ByteRange) {
        if window == 0 { window = limits.initialWindow / 2 }
        // Ask for more when half of the window is used up, so that the next stream starts before this one ends.
        guard planned < range.upper + window / 2 else { return }
        planned = range.upper + window
        window = min(limits.maximumWindow, window * 2)
    }
}
