// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Glibc
import ObjectStore
import Platform
import TestSupport
import Testing

@testable import BlockCache

/// What is measured of the line, and what follows from it.
@Suite struct LineTests {
    @Test(
        arguments: [
            (nil, 8 << 20), (1e9, 16 << 20), (168e6, 16 << 20), (167e6, 8 << 20), (17e6, 8 << 20), (16e6, 4 << 20),
            (2e6, 512 << 10), (5e5, 256 << 10), (1, 256 << 10),
        ] as [(Double?, Int64)]
    )
    func aRangeTakesHalfASecondAtMost(rate: Double?, length: Int64) {
        let line = Line(rate: rate, latency: 0.1)
        #expect(line.rangeLength == length)
        #expect(line.reach == 8 * length)
    }

    /// Two at least are to be ahead of a reader that has to share with others.
    @Test(arguments: [(64, 16), (32, 16), (31, 8), (16, 8), (1, 8)]) func theLongestRangeIsForWhoMayHaveTwo(
        _ most: Int64,
        _ length: Int64
    ) {
        #expect(Line(rate: 1e9).rangeLength(within: most << 20) == length << 20)
        #expect(Line(rate: 2e6).rangeLength(within: most << 20) == 512 << 10)
        #expect(Line().rangeLength(within: most << 20) == 8 << 20)
    }

    /// Two of them that go out together are followed by the next two when they have half come: no later than these begin.
    @Test(arguments: [0, 0.02, 0.1, 0.25, 0.3, 0.6, 1]) func twoRangesFillALineHoweverLongAnswersTakeToBegin(
        _ latency: Double
    ) {
        for rate in stride(from: 0.5e6, through: 100e6, by: 0.1e6) {
            let line = Line(rate: rate, latency: latency)
            let time = Double(line.rangeLength) / rate
            #expect(line.rangeLength >= Line.usualRange || time >= latency, "\(rate)")
            #expect(line.rangeLength == Line.shortestRange || time <= max(0.5, 2 * latency), "\(rate)")
        }
    }

    @Test func whatKeepsTheLineBusyIsTwiceWhatIsOnTheWay() {
        #expect(Line(rate: 1e8, latency: 0.1).fill == 20_000_000)
        #expect(Line(latency: 0.1).fill == 0)
    }

    @Test func aSlowLineThatOneAnswerFillsIsSharedByTwo() {
        #expect(Line().ranges == 4)
        #expect(Line(rate: 1e6).ranges == 4)
        #expect(Line(rate: 1e6, rateAlone: 0.8e6).ranges == 2)
        #expect(Line(rate: 1e6, rateAlone: 0.5e6).ranges == 4)
        #expect(Line(rate: 1e8, rateAlone: 1e8).ranges == 4)
    }

    @Test func whatOneAnswerBringsAloneIsKnownApart() {
        var meter = LineMeter()
        meter.began(at: 0)
        meter.received(250_000, at: 0.25)
        #expect(meter.rate == 1e6 && meter.rateAlone == nil, "several were not measured yet")
        meter.began(at: 0.25)
        meter.received(750_000, at: 0.5)
        #expect(meter.rate == 3e6 && meter.rateAlone == 1e6)
        // The other was there for a part of it.
        meter.ended(0, after: 1, at: 0.6)
        meter.received(2_500_000, at: 0.75)
        #expect(meter.rate == 1e7 && meter.rateAlone == 1e6)
        meter.received(500_000, at: 1)
        #expect(meter.rateAlone == 2e6)
    }

    /// A line that has become slower, with more for each of several: what one brought before says nothing.
    @Test func anOldRateOfOneAloneIsForgotten() {
        var meter = LineMeter()
        meter.began(at: 0)
        meter.received(2_500_000, at: 0.25)
        meter.began(at: 0.25)
        meter.received(2_500_000, at: 0.5)
        #expect(meter.rateAlone == 1e7)
        meter.received(500_000, at: 0.75)
        #expect(meter.rateAlone == 1e7, "a sample alone proves little")
        for step in 4..<8 { meter.received(500_000, at: Double(step) * 0.25) }
        #expect(meter.rateAlone == nil)
    }

    /// Each comes at once when it has begun, and each tells that the line is faster.
    @Test(arguments: [0.05, 0.3, 1]) func shortAnswersOfAFastLineRaiseTheRate(_ latency: Double) {
        var meter = LineMeter()
        meter.began(at: 0)
        meter.received(25_000, at: 0.25)
        meter.ended(25_000, after: 0.5, at: 0.25)
        #expect(meter.rate.map { $0 < 1.2e5 } == true)
        var now = 1.0
        var count = 0
        while let rate = meter.rate, Line(rate: rate, latency: latency).rangeLength < Line.usualRange, count < 100 {
            let length = Line(rate: rate, latency: latency).rangeLength
            meter.began(at: now)
            now += 0.001
            meter.ended(length, after: latency + 0.001, at: now)
            count += 1
        }
        #expect(count <= 6, "a few requests and not hundreds")
    }

    @Test func anAnswerThatStandsStillIsNoSlowLine() {
        var meter = LineMeter()
        meter.began(at: 0)
        meter.received(1_000_000, at: 0.25)
        meter.received(2_000_000, at: 60)
        #expect(meter.rate.map { $0 >= 3e6 } == true)
    }

    @Test func threadsThatComeLateCountNoTimeTwice() {
        var meter = LineMeter()
        meter.began(at: 0)
        for step in 1...10 {
            meter.received(50_000, at: Double(step) * 0.1)
            meter.received(50_000, at: Double(step) * 0.1 - 0.09)
        }
        #expect(meter.rate.map { abs($0 - 1e6) < 1e5 } == true)
    }

    @Test func answersAtOneTimeCountTogether() {
        var meter = LineMeter()
        meter.began(at: 10)
        meter.began(at: 10)
        for step in 1...5 {
            meter.received(50_000, at: 10 + Double(step) * 0.1)
            meter.received(50_000, at: 10 + Double(step) * 0.1)
        }
        #expect(meter.rate.map { $0 > 0.8e6 && $0 < 1.2e6 } == true)
    }

    /// Between answers the line is not at work, and while one is awaited it is not either.
    @Test func timeWithoutAnAnswerIsNotCounted() {
        var meter = LineMeter()
        for start in stride(from: 0.0, to: 100, by: 10) {
            meter.began(at: start)
            meter.received(100_000, at: start + 0.1)
            meter.ended(100_000, after: 10, at: start + 0.1)
        }
        #expect(meter.rate.map { abs($0 - 1e6) < 1 } == true)
    }

    @Test func shortAnswersThatComeAtOnceSayNothing() {
        var meter = LineMeter()
        for start in 0..<1000 {
            meter.began(at: Double(start))
            meter.ended(32_768, after: 0.02, at: Double(start))
        }
        #expect(meter.rate == nil)
    }

    @Test func theRateRisesAtOnceAndFallsSlowly() {
        var meter = LineMeter()
        meter.began(at: 0)
        meter.received(250_000, at: 0.25)
        meter.received(2_500_000, at: 0.5)
        #expect(meter.rate == 1e7)
        meter.received(0, at: 0.75)
        #expect(meter.rate == 7.5e6)
    }

    @Test func theLatencyIsAnAverageWithABound() {
        let gauge = LineGauge()
        #expect(gauge.line == Line())
        gauge.began(after: 0.1, at: 0)
        #expect(gauge.latency == 0.1)
        gauge.began(after: 0.5, at: 0)
        #expect(gauge.line == Line(latency: 0.2))
        for _ in 0..<100 { gauge.began(after: 60, at: 0) }
        #expect(gauge.latency <= 1)
    }

    @Test(arguments: [false, true]) func rangesAreAsLongAsSuitsTheLine(isBackward: Bool) {
        var planner = ReadPlanner()
        let line = Line(rate: 1e6, latency: 0.1)
        let size: Int64 = 1 << 30
        var furthest: Int64 = 0
        for index in 0..<300 as Range<Int64> {
            let offset = isBackward ? size - (index + 1) << 17 : index << 17
            let range = ByteRange(offset: offset, count: 1 << 17)
            let plan = planner.read(range, objectSize: size, presence: .underWay, line: line)
            #expect(plan.ahead.allSatisfy { $0.count <= line.rangeLength })
            let distances = plan.ahead.map { isBackward ? range.lower - $0.lower : $0.upper - range.upper }
            #expect(distances == distances.sorted(), "what is needed first comes first")
            furthest = max(furthest, distances.last ?? 0)
        }
        #expect(furthest <= line.reach && furthest > line.reach - line.rangeLength)
    }

    /// What a fetch brings, in two parts with a time between, decides how the next reader is served.
    @Test func whatFetchesBringIsMeasured() throws {
        let folder = try TemporaryFolder()
        let source = SteppedSource()
        let cache = BlockCache(
            options: .init(
                directory: folder.path,
                blockSize: 65_536,
                minimumFree: 0,
                readahead: .init(initialWindow: 64 << 20)
            ),
            source: source
        )
        let version = ObjectVersion(entityTag: EntityTag(opaque: "v1"), size: 64 << 20)
        func read(_ name: String, _ range: ByteRange) throws -> Thread {
            let reader = cache.reader(of: ObjectKey(name), version: version)
            return try Thread(name: "reader") { _ = try? reader.bytes(range) }
        }
        func send(_ sink: any RangeSink, _ range: ByteRange) {
            expectedBytes(range).withUnsafeBytes { sink.received($0, at: range.lower) }
            sink.drained()
        }
        let first = try read("first", ByteRange(0, 131_072))
        _ = source.sink(3)
        let sink = source.sink(0)
        #expect(source.requests == 4 && source.ranges.allSatisfy { $0.count <= Line.usualRange })
        send(sink, ByteRange(0, 65_536))
        for part in 1..<3 as Range<Int64> {
            usleep(300_000)
            send(sink, ByteRange(part << 16, (part + 1) << 16))
        }
        first.join()
        let line = try #require(waitFor { cache.shared.gauge.line.rate == nil ? nil : cache.shared.gauge.line })
        #expect(line.rate.map { $0 > 1000 && $0 < 600_000 } == true, "128 KiB in 0.25 s at most")

        let second = try read("second", ByteRange(0, 65_536))
        _ = source.sink(7)
        usleep(100_000)
        #expect(source.requests == 8)
        #expect(source.ranges[4...].allSatisfy { $0.count <= line.rangeLength + 65_536 })
        send(source.sink(4), ByteRange(0, 65_536))
        second.join()
        for index in 0..<8 { source.sink(index).finished(.failure(StoreError(.cancelled, "cancelled"))) }
    }

    private func waitFor(_ value: () -> Line?) -> Line? {
        for _ in 0..<500 {
            if let value = value() { return value }
            usleep(10_000)
        }
        return nil
    }
}
