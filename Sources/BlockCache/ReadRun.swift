// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base

/// One sequence of reads that goes forward or backward.
struct Run: Sendable {
    private enum Direction {
        case forward
        case backward
    }

    /// All that was read, with what lies between.
    private var covered: ByteRange
    private var direction: Direction?
    /// Up to where, or down to where, bytes were asked for.
    private var frontier: Int64
    /// How much is wanted ahead, in bytes; 0 before the run has shown to be one.
    private var window: Int64
    /// How much was ahead when more was asked for last.
    private var granted: Int64 = 0
    private(set) var lastUse: Int
    /// The reader had to wait since more was asked for last.
    private var hasStalled = false

    /// The widest window of a reader that never has to wait: it reads slowly, and may stop any time.
    private static let calmWindow: Int64 = 8 << 20
    /// The window of a run that has shown to be one, for reads of a few kilobytes.
    private static let smallestWindow: Int64 = 256 << 10

    init(_ range: ByteRange, at clock: Int, window: Int64) {
        covered = range
        frontier = range.upper
        self.window = window
        direction = window > 0 ? .forward : nil
        lastUse = clock
    }

    /// How far a read may lie off the expected place: the kernel's own readahead arrives out of order, as much of it as
    /// its reads are long.
    private static func tolerance(_ range: ByteRange) -> Int64 { min(max(8 * range.count, 64 << 10), 4 << 20) }

    /// Whether a read goes on where the run is.
    func continues(with range: ByteRange) -> Bool {
        let tolerance = Self.tolerance(range)
        let isAtEnd = range.lower <= covered.upper + tolerance && range.upper >= covered.upper - tolerance
        let isAtBeginning = range.upper >= covered.lower - tolerance && range.lower <= covered.lower + tolerance
        switch direction {
        case .forward: return isAtEnd
        case .backward: return isAtBeginning
        case nil: return isAtEnd || isAtBeginning
        }
    }

    /// Notes a read of the run; returns what to ask for now, within `reach` of it.
    mutating func take(_ range: ByteRange, at clock: Int, _ presence: ReadPresence, _ reach: Reach) -> [ByteRange] {
        lastUse = clock
        if direction == nil { begin(with: range) }
        switch presence {
        case .resident: break
        // The reader is faster than what was asked for ahead.
        case .underWay: hasStalled = true
        // What was asked for did not come, or went away again.
        case .missing: forget()
        }
        covered = ByteRange(min(covered.lower, range.lower), max(covered.upper, range.upper))
        switch direction {
        case .forward: return goForward(reach)
        case .backward: return goBackward(reach)
        case nil: return []
        }
    }

    private mutating func begin(with range: ByteRange) {
        if range.upper > covered.upper {
            direction = .forward
            frontier = covered.upper
        } else if range.lower < covered.lower {
            direction = .backward
            frontier = covered.lower
        } else {
            return
        }
        window = max(Self.smallestWindow, 2 * range.count)
    }

    /// With less ahead than this more is asked for: when half of it is used up, so that the next bytes come before these
    /// are read; of a wide window sooner, since all of the fetches that run may end at once.
    private var threshold: Int64 { max(1, granted / 2, granted - (16 << 20)) }

    private mutating func goForward(_ reach: Reach) -> [ByteRange] {
        frontier = max(frontier, covered.upper)
        let width = min(window, reach.most)
        // With more readers than before, more may be ahead already than this one may have now.
        guard width > 0, frontier < covered.upper + min(threshold, width) else { return [] }
        let from = frontier
        let end = covered.upper + width
        let unit = reach.unit(of: width)
        let rounded = end / unit * unit
        guard rounded > from else { return [] }
        frontier = rounded
        widen(reach)
        return [ByteRange(from, frontier)]
    }

    private mutating func goBackward(_ reach: Reach) -> [ByteRange] {
        frontier = min(frontier, covered.lower)
        let width = min(window, reach.most)
        guard width > 0, frontier > 0, frontier > covered.lower - min(threshold, width) else { return [] }
        let from = frontier
        let start = max(0, covered.lower - width)
        let unit = reach.unit(of: width)
        let rounded = (start + unit - 1) / unit * unit
        guard rounded < from else { return [] }
        frontier = rounded
        widen(reach)
        return [ByteRange(frontier, from)]
    }

    var isBackward: Bool { direction == .backward }

    /// More is wanted ahead next time; for a reader that had to wait much more, and what keeps the line busy at least.
    private mutating func widen(_ reach: Reach) {
        granted = min(window, reach.most)
        if hasStalled || window < Self.calmWindow {
            let wider = hasStalled ? max(4 * window, reach.fill) : 2 * window
            window = min(wider, max(window, reach.most))
        }
        hasStalled = false
    }

    /// What was asked for and not read.
    var pending: [ByteRange] {
        switch direction {
        case .forward where frontier > covered.upper: [ByteRange(covered.upper, frontier)]
        case .backward where frontier < covered.lower: [ByteRange(frontier, covered.lower)]
        default: []
        }
    }

    /// Its readahead is given up: taken up again, it begins small.
    mutating func leave() {
        forget()
        window = min(window, Self.smallestWindow)
    }

    private mutating func forget() {
        switch direction {
        case .forward: frontier = covered.upper
        case .backward: frontier = covered.lower
        case nil: break
        }
    }
}
