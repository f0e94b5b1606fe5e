// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What a read brings with it besides its own bytes.
package struct ReadPlan: Hashable, Sendable {
    /// What to fetch without waiting for it, in this order, within the object.
    package var ahead: [ByteRange] = []
    /// What was asked for before and nobody seems to come for.
    package var abandoned: [ByteRange] = []

    var isEmpty: Bool { ahead.isEmpty && abandoned.isEmpty }
}

/// Where the bytes of a read were when it came.
package enum ReadPresence: Hashable, Sendable {
    case resident
    /// A fetch that has begun brings them.
    case underWay
    case missing
}

/// Which bytes of an object to fetch beyond those that are read, learned from the reads themselves.
///
/// A pure value, one an open file. Reads belong to *runs*: sequences that go forward or backward, several at once where
/// several threads, or mappings, read through one descriptor. A run gets a window that grows as it is used up, faster
/// when its reader had to wait; reads at equal distances get the next few of them; anything else gets nothing, so random
/// access fetches the blocks it touches and no more.
package struct ReadPlanner: Sendable {
    /// The bounds of a window, in bytes.
    package struct Limits: Hashable, Sendable {
        /// What comes with the first read when that is at the beginning: that begins a pass over the file most often.
        package var initialWindow: Int64
        /// With 0 nothing is fetched that was not asked for.
        package var maximumWindow: Int64

        package init(initialWindow: Int64 = 2 << 20, maximumWindow: Int64 = 64 << 20) {
            self.initialWindow = initialWindow
            self.maximumWindow = maximumWindow
        }
    }

    /// Runs followed at once; the kernel's own limit for what one descriptor is read by is lower in practice.
    private static let maximumRuns = 4
    /// How many reads elsewhere make a run with readahead under way count as left.
    private static let patience = 8

    private let limits: Limits
    private var runs: [Run] = []
    private var stride = Stride()
    /// The number of reads so far.
    private var clock = 0

    package init(limits: Limits = Limits()) {
        self.limits = limits
    }

    /// Notes a read of an object of `objectSize` bytes, and says what else to fetch.
    ///
    /// `share` is the most that this reader may have ahead, in bytes; `line` is what the way to the remote brings. What is
    /// asked for is cut into ranges as long as suits the line, those that are needed first before the others.
    package mutating func read(
        _ range: ByteRange,
        objectSize: Int64,
        presence: ReadPresence,
        share: Int64 = .max,
        line: Line = Line()
    ) -> ReadPlan {
        var plan = ReadPlan()
        guard !range.isEmpty else { return plan }
        clock += 1
        let most = min(limits.maximumWindow, share, line.reach)
        let length = line.rangeLength(within: most)
        let reach = Reach(most: most, fill: line.fill, rangeLength: length)
        var isBackward = false
        if let index = runs.firstIndex(where: { $0.continues(with: range) }) {
            stride.interrupt()
            plan.ahead = runs[index].take(range, at: clock, presence, reach)
            isBackward = runs[index].isBackward
        } else {
            let isBeginning = clock == 1 && range.lower == 0
            let next = stride.note(range, most: reach.most)
            begin(Run(range, at: clock, window: isBeginning ? min(limits.initialWindow, reach.most) : 0), &plan)
            plan.ahead = isBeginning ? runs[runs.count - 1].take(range, at: clock, presence, reach) : next
        }
        leaveOld(&plan)
        plan.ahead = plan.ahead
            .compactMap { $0.intersection(ByteRange(0, objectSize)) }
            .flatMap { Self.pieces(of: $0, length, isBackward: isBackward) }
        return plan
    }

    /// Cuts a range where requests are to end.
    private static func pieces(of range: ByteRange, _ length: Int64, isBackward: Bool) -> [ByteRange] {
        guard range.count > length else { return [range] }
        let pieces = range.pieces(endingAtMultiplesOf: length)
        return isBackward ? pieces.reversed() : pieces
    }

    private mutating func begin(_ run: Run, _ plan: inout ReadPlan) {
        if runs.count == Self.maximumRuns, let oldest = runs.indices.min(by: { runs[$0].lastUse < runs[$1].lastUse }) {
            plan.abandoned += runs[oldest].pending
            runs.remove(at: oldest)
        }
        runs.append(run)
    }

    /// Lets go of what runs have under way that were not used for some time; they may still be taken up again.
    private mutating func leaveOld(_ plan: inout ReadPlan) {
        for index in runs.indices where clock - runs[index].lastUse == Self.patience {
            plan.abandoned += runs[index].pending
            runs[index].leave()
        }
    }
}

/// How far ahead of a read bytes are asked for, in bytes.
struct Reach: Sendable {
    var most: Int64
    /// What keeps the line busy; 0 when it is not known.
    var fill: Int64
    /// How long one range is to be.
    var rangeLength: Int64

    /// What a window of such a width is to end at a multiple of: what is between would be a request of its own; 1 for a
    /// narrow one, which ends anywhere.
    func unit(of width: Int64) -> Int64 {
        if width >= 2 * rangeLength { return rangeLength }
        return width >= 2 * Line.usualRange ? min(rangeLength, Line.usualRange) : 1
    }
}

/// Reads at equal distances.
private struct Stride: Sendable {
    private var last: ByteRange?
    private var distance: Int64 = 0
    private var count = 0
    /// The start of the furthest read asked for.
    private var planned: Int64 = 0

    /// How many reads are asked for ahead at most.
    private static let depth: Int64 = 16

    mutating func interrupt() {
        count = 0
        last = nil
    }

    /// Notes a read that belongs to no run; returns those that will follow it.
    mutating func note(_ range: ByteRange, most: Int64) -> [ByteRange] {
        defer { last = range }
        guard let last else { return [] }
        let moved = range.lower - last.lower
        guard moved == distance, moved != 0, range.count == last.count else {
            distance = moved
            count = 1
            return []
        }
        count += 1
        guard count >= 3 else { return [] }
        if count == 3 { planned = range.lower }
        let depth = min(Self.depth, Int64(count - 1), max(0, most / range.count))
        var result: [ByteRange] = []
        while (planned - range.lower) / distance < depth {
            planned += distance
            guard planned >= 0 else { break }
            result.append(ByteRange(offset: planned, count: range.count))
        }
        return result
    }
}
