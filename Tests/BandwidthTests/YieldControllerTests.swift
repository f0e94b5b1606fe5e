// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Bandwidth
import Testing

/// A line with a queue before it, in steps of a millisecond: ours, and somebody else who fills it as TCP does.
private struct Line {
    /// Bytes a second.
    var capacity: Double
    /// In seconds.
    var roundTrip: Double
    /// How long the queue may get, in seconds.
    var depth = 0.3
    /// The other's window, in bytes; nil: nobody else is there.
    var window: Double?
    /// How much delay the other wants at most, in seconds, as those do that keep queues short; nil: it fills the queue.
    var othersTarget: Double?

    private(set) var queue = (ours: 0.0, others: 0.0)
    private var othersInFlight = 0.0
    private var smoothed: Double
    private(set) var delivered = (ours: 0.0, others: 0.0)
    private var dropped = 0.0

    init(capacity: Double, roundTrip: Double, window: Double? = nil, othersTarget: Double? = nil) {
        self.capacity = capacity
        self.roundTrip = roundTrip
        self.window = window
        self.othersTarget = othersTarget
        smoothed = roundTrip
    }

    private var delay: Double { (queue.ours + queue.others) / capacity }

    /// Lets a fifth of a second pass with us sending at `rate`; what a connection of ours sees of it.
    mutating func run(_ rate: Double, wants: Double = .infinity, dt: Double = 0.001) -> YieldController.Sample {
        let before = delivered.ours
        dropped = 0
        for _ in 0..<Int(YieldController.interval / dt) { step(min(rate, wants) * dt, dt) }
        return YieldController.Sample(
            roundTrip: smoothed,
            shortest: roundTrip,
            acknowledged: Int64(delivered.ours - before),
            repeated: Int64(dropped),
            interval: YieldController.interval,
            wasHeld: wants >= rate
        )
    }

    private mutating func step(_ ours: Double, _ dt: Double) {
        let room = max(0, depth * capacity - queue.ours - queue.others)
        queue.ours += min(ours, room)
        dropped += ours - min(ours, room)
        if let window {
            // What its window lets it send is in the queue or on the way.
            let others = max(
                0,
                window - queue.others - capacity * roundTrip * queue.others / max(1, queue.ours + queue.others)
            )
            let isFull = others > room
            queue.others += min(others, room)
            let isLong = othersTarget.map { delay > $0 } ?? isFull
            self.window =
                isLong
                ? max(3000, window * (1 - 0.5 * dt / (roundTrip + delay))) : window + 1500 * dt / (roundTrip + delay)
        }
        let total = queue.ours + queue.others
        guard total > 0 else { return }
        let served = min(total, capacity * dt)
        let share = queue.ours / total
        delivered.ours += served * share
        delivered.others += served * (1 - share)
        queue.ours -= served * share
        queue.others -= served * (1 - share)
        smoothed += (roundTrip + delay - smoothed) / 8 * min(1, dt * 50)
    }
}

@Suite struct YieldControllerTests {
    /// The shares of the line's capacity that we and the other had over so many seconds.
    private func shares(
        _ line: inout Line,
        _ controller: inout YieldController,
        seconds: Double
    ) -> (ours: Double, others: Double) {
        let before = line.delivered
        for _ in 0..<Int(seconds / YieldController.interval) { controller.observe(line.run(controller.rate)) }
        let whole = line.capacity * seconds
        return ((line.delivered.ours - before.ours) / whole, (line.delivered.others - before.others) / whole)
    }

    @Test(arguments: [(1e6, 0.02), (12e6, 0.005), (250e3, 0.05), (1e6, 0.15), (60e6, 0.03)])
    func aLineWithNobodyElseIsUsed(capacity: Double, roundTrip: Double) {
        var line = Line(capacity: capacity, roundTrip: roundTrip)
        var controller = YieldController()
        _ = shares(&line, &controller, seconds: 15)
        let share = shares(&line, &controller, seconds: 60).ours
        #expect(share > 0.7, "\(share)")
    }

    @Test(arguments: [(1e6, 0.02), (12e6, 0.005), (1e6, 0.1), (60e6, 0.03)])
    func whoeverFillsTheQueueHasTheLine(capacity: Double, roundTrip: Double) {
        var line = Line(capacity: capacity, roundTrip: roundTrip, window: capacity * roundTrip)
        var controller = YieldController()
        _ = shares(&line, &controller, seconds: 15)
        let share = shares(&line, &controller, seconds: 60)
        #expect(share.others > 0.9 && share.ours < 0.08, "\(share)")
        #expect(share.ours > 0, "it goes on all the same")
    }

    @Test func whoeverKeepsTheQueueShortHasMostOfIt() {
        var line = Line(capacity: 2e6, roundTrip: 0.02, window: 40_000, othersTarget: 0.03)
        var controller = YieldController()
        _ = shares(&line, &controller, seconds: 15)
        let share = shares(&line, &controller, seconds: 60)
        #expect(share.others > 0.8, "\(share)")
    }

    /// Linux keeps what each sender has in its own machine's queue to a few milliseconds.
    @Test(arguments: [(12.5e6, 0.000_01), (2e6, 0.000_01), (2e6, 0.0005)])
    func whoeverSharesTheMachinesOwnQueueHasNearlyAll(capacity: Double, roundTrip: Double) {
        var line = Line(capacity: capacity, roundTrip: roundTrip, window: 40_000, othersTarget: 0.006)
        var controller = YieldController()
        _ = shares(&line, &controller, seconds: 15)
        let share = shares(&line, &controller, seconds: 60)
        #expect(share.others > 0.9, "\(share)")
        line.window = nil
        _ = shares(&line, &controller, seconds: 20)
        #expect(shares(&line, &controller, seconds: 20).ours > 0.7)
    }

    @Test func whatIsLeftIsFoundAgainWhenTheOtherIsGone() {
        var line = Line(capacity: 1e6, roundTrip: 0.03, window: 30_000)
        var controller = YieldController()
        _ = shares(&line, &controller, seconds: 60)
        line.window = nil
        _ = shares(&line, &controller, seconds: 20)
        #expect(shares(&line, &controller, seconds: 20).ours > 0.7)
    }

    @Test func whatIsNotWantedIsNoReasonToGoFaster() {
        var line = Line(capacity: 10e6, roundTrip: 0.02)
        var controller = YieldController()
        for _ in 0..<300 { controller.observe(line.run(controller.rate, wants: 50_000)) }
        #expect(controller.rate <= YieldController.initial)
    }

    @Test(arguments: [536, 1380, 1448, 8948] as [Int64])
    func whatIsSentAtOnceIsAnEvenNumberOfSegments(segment: Int64) {
        for bytes in stride(from: Int64(1), through: 256 << 10, by: 777) {
            let piece = YieldController.piece(bytes, segment: segment, rate: 100_000)
            // With what encryption adds to each of its records (RFC 8446, 5.2), too.
            for wire in [piece, piece + 22 * (1 + piece / 16_384)] where piece < 64 << 10 {
                #expect((wire + segment - 1) / segment % 2 == 0, "\(bytes): \(piece)")
            }
            #expect(piece <= max(bytes, 2 * segment) && piece > bytes - 2 * segment - segment / 4)
        }
    }

    @Test func withinAMachineAnyNumberOfBytesIsSent() {
        #expect(YieldController.piece(4096, segment: 65_483, rate: 100_000) == 4096)
        #expect(YieldController.piece(4096, segment: 0, rate: 100_000) == 4096)
        // Jumbo frames on a line that others fill: a piece is sent about every second all the same.
        #expect(YieldController.piece(4096, segment: 8948, rate: 4096) == 4096)
        #expect(YieldController.piece(4096, segment: 1448, rate: 4096) == 2534)
    }

    @Test func lossSlowsDownWhereNoQueueShows() {
        var controller = YieldController()
        for _ in 0..<20 {
            let sent = Int64(controller.rate * 0.2)
            let sample = YieldController.Sample(
                roundTrip: 0.02,
                shortest: 0.02,
                acknowledged: sent,
                repeated: sent / 10,
                interval: 0.2,
                wasHeld: true
            )
            controller.observe(sample)
        }
        #expect(controller.rate < 2 * YieldController.initial)
    }
}
