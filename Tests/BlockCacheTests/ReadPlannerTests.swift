// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import TestSupport
import Testing

@Suite struct ReadPlannerTests {
    private let size: Int64 = 1 << 30

    /// The furthest byte that a plan asks for.
    private func end(_ plan: ReadPlan) -> Int64 { plan.ahead.map(\.upper).max() ?? 0 }

    @Test func theWindowGrowsWithASequentialReader() {
        var planner = ReadPlanner(limits: .init(initialWindow: 1 << 20, maximumWindow: 8 << 20))
        var position: Int64 = 0
        var asked: Int64 = 0
        var widest: Int64 = 0
        while position < 64 << 20 {
            let range = ByteRange(offset: position, count: 131_072)
            let plan = planner.read(range, objectSize: size, presence: .resident)
            position += 131_072
            for ahead in plan.ahead {
                #expect(ahead.lower == max(asked, 131_072), "nothing twice, nothing left out")
                asked = ahead.upper
            }
            #expect(asked >= position && asked - position <= 8 << 20)
            widest = max(widest, asked - position)
        }
        #expect(widest > 4 << 20)
    }

    /// Of a fast line ranges are long, where the reader may have two of them ahead.
    @Test(arguments: [(64, 16), (16, 8)]) func whatIsAskedForEndsWhereRangesEnd(_ share: Int64, _ longest: Int64) {
        var planner = ReadPlanner()
        var asked: [ByteRange] = []
        for index in 0..<2048 as Range<Int64> {
            let presence: ReadPresence = index < 200 ? .underWay : .resident
            let range = ByteRange(offset: index << 17, count: 1 << 17)
            let line = Line(rate: 1e9)
            asked += planner.read(range, objectSize: size, presence: presence, share: share << 20, line: line).ahead
        }
        let late = asked.filter { $0.lower > 64 << 20 }
        #expect(late.allSatisfy { $0.count == longest << 20 && $0.lower % (longest << 20) == 0 }, "\(late)")
        #expect(late.count > 4)
    }

    /// It stalled once, and has a window that is no two of the longest ranges ever after.
    @Test func aWindowOfOneLongRangeIsRoundedToo() {
        var planner = ReadPlanner(limits: .init(initialWindow: 2 << 20))
        var asked: [ByteRange] = []
        for index in 0..<1024 as Range<Int64> {
            let range = ByteRange(offset: index << 17, count: 1 << 17)
            let presence: ReadPresence = index == 1 ? .underWay : .resident
            asked += planner.read(range, objectSize: size, presence: presence, line: Line(rate: 1e9)).ahead
        }
        let late = asked.filter { $0.lower > 32 << 20 }
        #expect(late.count > 4 && late.allSatisfy { $0.count == 8 << 20 }, "\(late)")
    }

    @Test func randomReadsFetchNothingAhead() {
        var planner = ReadPlanner()
        for megabyte in [500, 100, 700, 300, 900, 30, 400, 650, 210, 990] as [Int64] {
            let range = ByteRange(offset: megabyte << 20, count: 4096)
            #expect(planner.read(range, objectSize: size, presence: .missing).ahead.isEmpty)
        }
    }

    /// Other readers begin while this one has much ahead.
    @Test(arguments: [false, true]) func aShareThatShrinksAsksForNothingMore(isBackward: Bool) {
        var planner = ReadPlanner()
        let count: Int64 = 1 << 20
        for index in 0..<400 as Range<Int64> {
            let range = ByteRange(offset: isBackward ? size - (index + 1) * count : index * count, count: count)
            let share = index % 100 < 90 ? Int64.max : count
            let plan = planner.read(range, objectSize: size, presence: .underWay, share: share)
            guard index % 100 == 90 else { continue }
            #expect(plan.ahead.isEmpty && plan.abandoned.isEmpty, "more than its share is ahead already")
        }
    }

    @Test func noReadsWhateverMakeAPlanOutsideTheObject() {
        let seed = UInt64.random(in: 0 ... .max)
        var random = SeededGenerator(seed: seed)
        for _ in 0..<300 {
            var planner = ReadPlanner()
            let size = Int64.random(in: 1...256 << 20, using: &random)
            var position: Int64 = 0
            for _ in 0..<500 {
                switch Int.random(in: 0..<10, using: &random) {
                case 0: position = Int64.random(in: 0..<size, using: &random)
                case 1...2: position = max(0, position - Int64.random(in: 0...4 << 20, using: &random))
                default: break
                }
                let count = Int64.random(in: 1...2 << 20, using: &random)
                guard let range = ByteRange(offset: position, count: count).intersection(ByteRange(0, size)) else {
                    position = 0
                    continue
                }
                let presence = [ReadPresence.resident, .underWay, .missing].randomElement(using: &random) ?? .missing
                let share = Int64(1 << 20) << Int64.random(in: 0...8, using: &random)
                let plan = planner.read(range, objectSize: size, presence: presence, share: share)
                #expect(plan.ahead.allSatisfy { $0.upper <= size && !$0.isEmpty }, "seed \(seed)")
                position = range.upper
            }
        }
    }

    @Test func readsOutOfOrderStayOneRun() {
        var planner = ReadPlanner()
        var asked: Int64 = 0
        for index in [0, 2, 1, 4, 3, 6, 5, 8, 7] as [Int64] {
            let range = ByteRange(offset: index * 131_072, count: 131_072)
            asked = max(asked, end(planner.read(range, objectSize: size, presence: .resident)))
        }
        #expect(asked > 9 * 131_072)
    }

    @Test func nothingIsAskedForBehindTheEnd() {
        var planner = ReadPlanner()
        let plan = planner.read(ByteRange(0, 100), objectSize: 5000, presence: .missing)
        #expect(plan.ahead == [ByteRange(100, 5000)])
    }

    @Test func aReaderThatHasToWaitGetsMore() {
        func asked(_ presence: ReadPresence) -> Int64 {
            var planner = ReadPlanner()
            var asked: Int64 = 0
            for index in 0..<8 as Range<Int64> {
                let range = ByteRange(offset: index << 20, count: 1 << 20)
                asked = max(asked, end(planner.read(range, objectSize: size, presence: presence)))
            }
            return asked
        }
        #expect(asked(.underWay) > asked(.resident))
    }

    @Test(arguments: [0, 8]) func aRunThatWasLeftBeginsSmall(seeks: Int64) {
        var planner = ReadPlanner()
        let count: Int64 = 1 << 20
        for index in 0..<64 as Range<Int64> {
            _ = planner.read(ByteRange(offset: index * count, count: count), objectSize: size, presence: .underWay)
        }
        for seek in 0..<seeks {
            let range = ByteRange(offset: 600 << 20 + seek << 12, count: 4096)
            _ = planner.read(range, objectSize: size, presence: .resident)
        }
        var widest: Int64 = 0
        for index in 64..<112 as Range<Int64> {
            let range = ByteRange(offset: index * count, count: count)
            let plan = planner.read(range, objectSize: size, presence: .resident)
            if index < 66 || seeks == 0 { widest = max(widest, end(plan) - range.upper) }
        }
        #expect(seeks == 0 ? widest > 32 << 20 : widest <= 1 << 20)
    }

    @Test func whatDidNotComeIsAskedForAgain() {
        var planner = ReadPlanner()
        _ = planner.read(ByteRange(0, 4096), objectSize: size, presence: .missing)
        let plan = planner.read(ByteRange(4096, 8192), objectSize: size, presence: .missing)
        #expect(plan.ahead.first?.lower == 8192)
    }

    @Test func aBackwardReaderIsFollowedDown() {
        var planner = ReadPlanner()
        // The second read shows where it goes.
        var lowest: Int64 = 998 << 17
        for index in (900..<1000).reversed() as ReversedCollection<Range<Int64>> {
            let range = ByteRange(offset: index << 17, count: 1 << 17)
            for ahead in planner.read(range, objectSize: size, presence: .resident).ahead {
                #expect(ahead.upper == lowest, "nothing twice, nothing left out")
                lowest = ahead.lower
            }
        }
        #expect(lowest < 900 << 17)
    }

    @Test func readsAtEqualDistancesGetTheNextOnes() {
        var planner = ReadPlanner()
        var asked: Set<Int64> = []
        for index in 0..<40 as Range<Int64> {
            let range = ByteRange(offset: index * 3_000_000, count: 4096)
            if index > 4 { #expect(asked.contains(range.lower)) }
            let plan = planner.read(range, objectSize: size, presence: .resident)
            for ahead in plan.ahead where index > 0 {
                #expect(ahead.count == 4096 && ahead.lower % 3_000_000 == 0)
                #expect(asked.insert(ahead.lower).inserted)
            }
        }
    }

    @Test func severalRunsOfOneDescriptorAreToldApart() {
        var planner = ReadPlanner()
        var asked: [Int64] = [0, 0, 0]
        for step in 0..<64 as Range<Int64> {
            for run in 0..<3 {
                let start = Int64(run) * (256 << 20)
                let range = ByteRange(offset: start + step << 17, count: 1 << 17)
                let plan = planner.read(range, objectSize: size, presence: .resident)
                #expect(plan.abandoned.isEmpty)
                asked[run] = max(asked[run], end(plan) - start)
            }
        }
        for end in asked { #expect(end > 64 << 17) }
    }

    @Test func aRunThatIsLeftGivesItsReadaheadBack() {
        var planner = ReadPlanner()
        var asked: Int64 = 0
        for index in 0..<32 as Range<Int64> {
            let range = ByteRange(offset: index << 20, count: 1 << 20)
            asked = max(asked, end(planner.read(range, objectSize: size, presence: .resident)))
        }
        var abandoned: [ByteRange] = []
        for index in 0..<9 as Range<Int64> {
            let range = ByteRange(offset: (500 + index * index * 7) << 20, count: 4096)
            abandoned += planner.read(range, objectSize: size, presence: .missing).abandoned
        }
        #expect(abandoned.contains(ByteRange(32 << 20, asked)))
    }

    @Test func theShareOfManyReadersIsKept() {
        var planner = ReadPlanner()
        var asked: Int64 = 0
        for index in 0..<200 as Range<Int64> {
            let range = ByteRange(offset: index << 17, count: 1 << 17)
            let plan = planner.read(range, objectSize: size, presence: .underWay, share: 1 << 20)
            asked = max(asked, end(plan))
            #expect(asked - range.upper <= 1 << 20)
        }
    }
}
