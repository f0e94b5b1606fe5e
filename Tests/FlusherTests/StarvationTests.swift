// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Flusher
import Policy
import TestSupport
import Testing

/// What keeps coming, so that there is always more of it than can be sent.
private enum Stream: CaseIterable {
    case prior
    case due
    case both
}

/// A queue over days of virtual time: whatever is urgent never ends, and others come now and then.
private struct LongQueue {
    /// One that comes now and then.
    struct Other {
        var came: Timestamp
        var isDiscretionary: Bool
        var began: Timestamp?
    }

    let stream: Stream
    let start = Timestamp(seconds: 1_000_000)
    var now = Timestamp(seconds: 1_000_000)
    var random: SeededGenerator
    var scheduler = Scheduler(limits: SchedulerLimits(workers: 4, large: 2))
    var others: [RowID: Other] = [:]
    var running: [(id: RowID, size: ScheduledRow.Size, end: Timestamp)] = []
    var lastNode: Int64 = 0
    /// How many urgent ones were begun.
    var urgent = 0

    init(_ stream: Stream, seed: UInt64) {
        self.stream = stream
        random = SeededGenerator(seed: seed)
        var facts = VolumeFacts(at: now)
        facts.held = [HeldRules(), HeldRules(isDiscretionary: true)]
        scheduler.setFacts(facts, settings: PolicySettings(quietPeriod: 0), of: "v", now: now)
    }

    private mutating func add(_ size: ScheduledRow.Size, priority: Int, _ change: (inout WorkFacts) -> Void) -> RowID {
        lastNode += 1
        let id = RowID(volume: "v", node: lastNode)
        var facts = WorkFacts(changed: now)
        facts.remaining = size == .small ? 1 << 20 : 100 << 20
        change(&facts)
        scheduler.update(
            ScheduledRow(id: id, sequence: lastNode, priority: priority, size: size, facts: facts),
            now: now
        )
        return id
    }

    private mutating func addUrgent(_ size: ScheduledRow.Size) {
        let isPrior = stream == .prior || stream == .both && Bool.random(using: &random)
        // At the same priority a deadline is enough to go ahead.
        let priority = isPrior ? Int.random(in: 1...100, using: &random) : 0
        let isDue = !isPrior || stream == .both && Bool.random(using: &random)
        let now = now
        _ = add(size, priority: priority) { $0.deadline = isDue ? now.advanced(bySeconds: 10) : nil }
    }

    private mutating func addOther(_ size: ScheduledRow.Size) {
        let priority = Int.random(in: -5...0, using: &random)
        let isDiscretionary = Int.random(in: 0..<4, using: &random) == 0
        let id = add(size, priority: priority) { $0.rules = isDiscretionary ? 1 : 0 }
        others[id] = Other(came: now, isDiscretionary: isDiscretionary)
    }

    private mutating func begin() {
        while let row = scheduler.next(now: now) {
            let seconds = row.size == .small ? Double.random(in: 120...360, using: &random) : 1800
            running.append((row.id, row.size, now.advanced(bySeconds: seconds)))
            if others[row.id] == nil { urgent += 1 }
            others[row.id]?.began = now
        }
    }

    mutating func run(days: Double) {
        for _ in 0..<6 {
            addUrgent(.small)
            addUrgent(.large)
        }
        let end = start.advanced(bySeconds: days * 86_400)
        var nextSmall = start
        var nextLarge = start
        while now < end {
            if nextSmall <= now {
                addOther(.small)
                nextSmall = now.advanced(bySeconds: 1200)
            }
            if nextLarge <= now {
                addOther(.large)
                nextLarge = now.advanced(bySeconds: 14_400)
            }
            begin()
            let ends = running.map(\.end)
            now = min(nextSmall, nextLarge, ends.min() ?? end)
            // Whoever sent something urgent has more of it.
            for done in running where done.end <= now {
                scheduler.finished(done.id, now: now)
                scheduler.remove(done.id, now: now)
                if others[done.id] == nil { addUrgent(done.size) }
            }
            running.removeAll { $0.end <= now }
        }
    }

    /// How long those of a kind waited, or wait still, in days.
    func waits(isDiscretionary: Bool) -> [Double] {
        others.values.filter { $0.isDiscretionary == isDiscretionary }.map { other in
            Double((other.began ?? now).nanoseconds - other.came.nanoseconds) / 1e9 / 86_400
        }
    }

    /// The shortest wait of those of a kind that were begun, in days.
    func shortest(isDiscretionary: Bool) -> Double? {
        others.values.filter { $0.isDiscretionary == isDiscretionary }.compactMap { other in
            other.began.map { Double($0.nanoseconds - other.came.nanoseconds) / 1e9 / 86_400 }
        }.min()
    }
}

@Suite struct StarvationTests {
    @Test(arguments: Stream.allCases) fileprivate func noneWaitsForEverBehindWhatIsUrgent(_ stream: Stream) {
        var queue = LongQueue(stream, seed: 1)
        queue.run(days: 4)
        // Then a quarter of the starts is theirs; a large one takes half an hour.
        let patience = 6.0 / 24
        let background = queue.waits(isDiscretionary: false)
        let discretionary = queue.waits(isDiscretionary: true)
        #expect(background.count > 200 && discretionary.count > 50)
        #expect(background.max() ?? 9 < 1 + patience)
        #expect(discretionary.max() ?? 9 < 1 + patience)
        // Until then what is urgent does go first, and has most of the workers at any time.
        #expect(queue.shortest(isDiscretionary: false) ?? 0 >= 1)
        #expect(queue.shortest(isDiscretionary: true) ?? 0 >= 1)
        #expect(queue.urgent > 2000)
    }

    /// After a week without a network everything is old: what is urgent is urgent all the same.
    @Test func whatIsUrgentGoesBeforeMostOfWhatIsOld() throws {
        var scheduler = Scheduler(limits: SchedulerLimits(workers: 4, large: 2))
        let now = Timestamp(seconds: 1_000_000)
        scheduler.setFacts(VolumeFacts(at: now), settings: PolicySettings(quietPeriod: 0), of: "v", now: now)
        for number in 1...1000 as ClosedRange<Int64> {
            let facts = WorkFacts(changed: now.advanced(bySeconds: -700_000 + Double(number)))
            let row = ScheduledRow(
                id: RowID(volume: "v", node: number),
                sequence: number,
                priority: number > 990 ? 10 : 0,
                size: .small,
                facts: facts
            )
            scheduler.update(row, now: now)
        }
        var order: [Int64] = []
        while let row = scheduler.next(now: now) {
            order.append(row.id.node)
            scheduler.finished(row.id, now: now)
            scheduler.remove(row.id, now: now)
        }
        #expect(order.count == 1000 && Set(order).count == 1000)
        #expect(order.prefix(13) == [991, 992, 993, 1, 994, 995, 996, 2, 997, 998, 999, 3, 1000])
        #expect(Array(order.dropFirst(13)) == Array(4...990))
    }
}
