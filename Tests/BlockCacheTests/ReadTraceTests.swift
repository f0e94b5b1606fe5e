// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import TestSupport
import Testing

/// Plays reads against a planner and a remote of a certain latency and bandwidth, all in numbers.
///
/// Answers share one line in the order of their requests; blocks come whole.
private struct Simulation {
    struct Read {
        var range: ByteRange
        /// What the reader does with the bytes, in seconds.
        var work: Double
    }

    struct Outcome {
        var read: Int64 = 0
        var fetched: Int64 = 0
        var requests = 0
        /// Seconds in which the reader waited.
        var stalled = 0.0
        var seconds = 0.0
        /// How often it waited.
        var stalls = 0

        var waste: Double { Double(fetched) / Double(max(1, read)) }
    }

    let size: Int64
    let latency: Double
    /// In bytes a second.
    let bandwidth: Double
    private let geometry: BlockGeometry
    private static let streamLength: Int64 = 8 << 20
    /// What the planner is told of the line.
    private let known: Line

    private var planner = ReadPlanner()
    private var arrivals: [Double?]
    private var now = 0.0
    private var lineFreeAt = 0.0
    private(set) var outcome = Outcome()

    init(size: Int64 = 1 << 30, latency: Double, megabits: Double, isKnown: Bool = false) {
        self.size = size
        self.latency = latency
        bandwidth = megabits * 1e6 / 8
        known = isKnown ? Line(rate: bandwidth, latency: latency) : Line()
        geometry = BlockGeometry(size: size, preferredBlockSize: 32 << 10)
        arrivals = Array(repeating: nil, count: geometry.count)
    }

    mutating func play(_ reads: [Read]) -> Outcome {
        for read in reads { play(read) }
        outcome.seconds = now
        return outcome
    }

    private mutating func play(_ read: Read) {
        let blocks = geometry.blocks(in: read.range)
        let plan = planner.read(read.range, objectSize: size, presence: presence(of: blocks), line: known)
        if blocks.contains(where: { arrivals[$0] == nil }) {
            // The demand and what is wanted next to it come in one request.
            let next =
                plan.ahead.first.map {
                    $0.lower <= geometry.aligned(read.range).upper && $0.upper > read.range.upper
                } ?? false
            fetch(next ? ByteRange(read.range.lower, plan.ahead[0].upper) : read.range)
        }
        for range in plan.ahead { fetch(range) }
        let ready = blocks.compactMap { arrivals[$0] }.max() ?? now
        if ready > now {
            outcome.stalled += ready - now
            outcome.stalls += 1
            now = ready
        }
        now += read.work
        outcome.read += read.range.count
    }

    private func presence(of blocks: Range<Int>) -> ReadPresence {
        if blocks.contains(where: { arrivals[$0] == nil }) { return .missing }
        return blocks.contains { arrivals[$0] ?? 0 > now } ? .underWay : .resident
    }

    private mutating func fetch(_ range: ByteRange) {
        var first: Int?
        for block in geometry.blocks(in: range) {
            let isMissing = arrivals[block] == nil
            if isMissing, first == nil || geometry.range(of: block).lower % Self.streamLength == 0 {
                first = block
                outcome.requests += 1
                lineFreeAt = max(lineFreeAt, now + latency)
            }
            guard isMissing else {
                first = nil
                continue
            }
            let count = geometry.range(of: block).count
            lineFreeAt += Double(count) / bandwidth
            arrivals[block] = lineFreeAt
            outcome.fetched += count
        }
    }
}

/// What the planner makes of typical reads; the numbers are printed.
@Suite struct ReadTraceTests {
    private func tell(_ name: String, _ outcome: Simulation.Outcome) {
        func round(_ value: Double) -> Double { (value * 1000).rounded() / 1000 }
        print(
            "trace \(name): fetched/read \(round(outcome.waste)), requests \(outcome.requests), stalls \(outcome.stalls), "
                + "stalled \(round(outcome.stalled)) of \(round(outcome.seconds)) s"
        )
    }

    private func sequential(
        _ bytes: Int64,
        by count: Int64,
        work: Double = 0,
        from start: Int64 = 0
    ) -> [Simulation.Read] {
        stride(from: start, to: start + bytes, by: Int(count)).map {
            Simulation.Read(range: ByteRange(offset: $0, count: count), work: work)
        }
    }

    @Test(arguments: [(0.02, 500.0), (0.02, 1000), (0.1, 500), (0.1, 1000)])
    func aSequentialReaderGetsTheLine(latency: Double, megabits: Double) {
        var simulation = Simulation(latency: latency, megabits: megabits)
        let outcome = simulation.play(sequential(1 << 30, by: 1 << 20))
        tell("sequential, \(latency) s, \(megabits) Mbit/s", outcome)
        let line = Double(outcome.read) / simulation.bandwidth
        #expect(outcome.seconds < line * 1.02 + 6 * latency)
        #expect(outcome.waste == 1)
    }

    /// Reads the beginning of a file of 1 GiB, over a line that is not known and over one that is.
    private func compare(
        _ bytes: Int64,
        latency: Double,
        megabits: Double
    ) -> (unknown: Simulation.Outcome, known: Simulation.Outcome) {
        func play(_ isKnown: Bool) -> Simulation.Outcome {
            var simulation = Simulation(latency: latency, megabits: megabits, isKnown: isKnown)
            let outcome = simulation.play(sequential(bytes, by: 128 << 10))
            tell("\(bytes >> 20) MiB, \(latency) s, \(megabits) Mbit/s, line \(isKnown ? "known" : "unknown")", outcome)
            return outcome
        }
        return (play(false), play(true))
    }

    /// One file was read, and another one is: the line is known.
    @Test func aKnownLineIsFilledAtOnce() {
        let outcomes = compare(64 << 20, latency: 0.1, megabits: 1000)
        #expect(outcomes.known.seconds < outcomes.unknown.seconds - 0.02)
        #expect(outcomes.known.stalled < outcomes.unknown.stalled)
    }

    /// Waits for all of a line that is never faster than its reader, and then leaves.
    @Test func ofANarrowLineLittleIsAskedForInVain() {
        let (unknown, known) = compare(32 << 20, latency: 0.05, megabits: 8)
        #expect(unknown.fetched - unknown.read > 16 << 20)
        #expect(known.fetched - known.read <= Line(rate: 1e6, latency: 0.05).reach)
        #expect(known.seconds <= unknown.seconds * 1.01)
    }

    @Test func aSlowReaderIsNotRunAwayFrom() {
        // Reads 1 MiB/s, and stops after 8 MiB.
        var simulation = Simulation(latency: 0.02, megabits: 1000)
        let outcome = simulation.play(sequential(8 << 20, by: 128 << 10, work: 0.125))
        tell("slow, stopped early", outcome)
        #expect(outcome.fetched <= 20 << 20 && outcome.stalls <= 3)
    }

    @Test func randomReadsFetchTheirBlocks() {
        let seed = UInt64.random(in: 0...UInt64.max)
        print("trace random 4 KiB: seed \(seed)")
        var random = SeededGenerator(seed: seed)
        let reads = (0..<2000).map { _ in
            let block = Int64.random(in: 0..<(1 << 18), using: &random)
            return Simulation.Read(range: ByteRange(offset: block << 12, count: 4096), work: 0)
        }
        var simulation = Simulation(latency: 0.02, megabits: 1000)
        let outcome = simulation.play(reads)
        tell("random 4 KiB", outcome)
        #expect(outcome.waste <= 8.1, "32 KiB for each 4 KiB, but for what lies close together by chance")
        #expect(Double(outcome.requests) <= 2000 * 1.05)
        #expect(outcome.seconds <= 2000 * 0.02 * 1.1)
    }

    @Test func aBackwardReaderIsFast() {
        var simulation = Simulation(size: 256 << 20, latency: 0.05, megabits: 1000)
        let outcome = simulation.play(sequential(256 << 20, by: 256 << 10).reversed())
        tell("backward", outcome)
        #expect(outcome.waste < 1.01)
        #expect(outcome.seconds < 256 * 8.4 / 1000 * 1.3 + 20 * 0.05)
    }

    @Test func stridesAreForeseen() {
        // One 16 KiB row of each 1 MiB, as of a table by columns.
        let reads = (0..<900).map {
            Simulation.Read(range: ByteRange(offset: Int64($0) << 20, count: 16384), work: 0.0005)
        }
        var simulation = Simulation(latency: 0.02, megabits: 1000)
        let outcome = simulation.play(reads)
        tell("strided", outcome)
        #expect(outcome.waste <= 2.2)
        #expect(outcome.stalled < 900 * 0.02 / 4)
    }

    @Test func readersOfOneDescriptorDoNotDisturbEachOther() {
        var reads: [Simulation.Read] = []
        let runs = (0..<4).map { sequential(64 << 20, by: 128 << 10, from: Int64($0) * (200 << 20)) }
        for index in runs[0].indices { for run in runs { reads.append(run[index]) } }
        var simulation = Simulation(latency: 0.02, megabits: 1000)
        let outcome = simulation.play(reads)
        tell("four runs", outcome)
        // What is ahead of each when it ends is fetched in vain.
        #expect(outcome.waste < 2)
        #expect(outcome.stalled < Double(outcome.fetched) / simulation.bandwidth * 1.1 + 0.5)
    }

    @Test func aHeaderAndAnIndexCostLittle() {
        // As a player or an archive does: the beginning, the end, then a piece in the middle.
        var reads = [Simulation.Read(range: ByteRange(0, 4096), work: 0)]
        reads += sequential(64 << 10, by: 4096, from: (1 << 30) - (64 << 10))
        reads += sequential(1 << 20, by: 64 << 10, from: 300 << 20)
        var simulation = Simulation(latency: 0.02, megabits: 1000)
        let outcome = simulation.play(reads)
        tell("header, index, piece", outcome)
        #expect(outcome.fetched < 8 << 20 && outcome.stalled < 8 * simulation.latency)
    }

    /// What a recorded trace may cost: bytes fetched over bytes of the reads, requests over reads, and seconds waited.
    struct Bounds: Sendable {
        var waste: Double
        var requests: Double
        var stalled: Double
    }

    @Test(arguments: [
        (RecordedReads.copy, Bounds(waste: 1, requests: 0.05, stalled: 0.9)),
        (.mappingForward, Bounds(waste: 3, requests: 0.07, stalled: 0.35)),
        (.mappingAnywhere, Bounds(waste: 1.4, requests: 1.05, stalled: 5.5)),
        (.mappingAdvised, Bounds(waste: 8.1, requests: 1, stalled: 6)),
        (.database, Bounds(waste: 7, requests: 0.8, stalled: 14)),
        (.archiveList, Bounds(waste: 7, requests: 1.5, stalled: 0.1)),
        (.archiveFolder, Bounds(waste: 5, requests: 0.35, stalled: 2)),
    ])
    func whatProgramsReadCosts(recorded: RecordedReads, bounds: Bounds) {
        let reads = recorded.ranges.map { Simulation.Read(range: $0, work: 0) }
        var simulation = Simulation(size: recorded.size, latency: 0.02, megabits: 1000)
        let outcome = simulation.play(reads)
        tell(recorded.name, outcome)
        #expect(outcome.waste <= bounds.waste)
        #expect(Double(outcome.requests) <= bounds.requests * Double(reads.count))
        #expect(outcome.stalled <= bounds.stalled)
    }
}
