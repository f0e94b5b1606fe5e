// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Flusher
import Policy
import TestSupport
import Testing

/// What is true of the rows, next to what the scheduler was told of them.
private struct SchedulerModel {
    struct Row {
        var row: ScheduledRow
        /// The row it waits for, if that is known, else when it looks again.
        var blocker: RowID?
        var recheck: Timestamp?
        var lastEnd = 0
    }

    let limits: SchedulerLimits
    let settings = PolicySettings(quietPeriod: 2, longestBackoff: 60)
    var random: SeededGenerator
    var scheduler: Scheduler
    var now = Timestamp(seconds: 1_000_000)
    var rows: [RowID: Row] = [:]
    var facts: [String: VolumeFacts] = [:]
    /// The running rows with the number of the event at which they began.
    var running: [RowID: (size: ScheduledRow.Size, began: Int)] = [:]
    var nextNode: Int64 = 1
    /// Rows with times that a clock set back made odd: they may start early, which does no harm.
    var odd: Set<RowID> = []
    var event = 0
    static let volumes = ["v", "w"]

    init(seed: UInt64) {
        random = SeededGenerator(seed: seed)
        limits = SchedulerLimits(
            workers: Int.random(in: 1...4, using: &random),
            large: Int.random(in: 1...3, using: &random)
        )
        scheduler = Scheduler(limits: limits)
        for volume in Self.volumes { setFacts(volume) { _, _ in } }
    }

    private func chance(_ percent: Int, _ random: inout SeededGenerator) -> Bool {
        Int.random(in: 0..<100, using: &random) < percent
    }

    // MARK: events

    mutating func step() {
        event += 1
        switch Int.random(in: 0..<20, using: &random) {
        case 0...3: change(RowID(volume: pick(Self.volumes), node: nextNode))
        case 4, 5: if let id = anyRow { change(id) }
        case 6: if let id = anyRow { remove(id) }
        case 7: if let id = anyRow { force(id) }
        case 8: setFacts(pick(Self.volumes)) { facts, random in Self.shake(&facts, &random) }
        case 9...14: if let id = running.keys.sorted().randomElement(using: &random) { end(id) }
        case 15: now = now.advanced(bySeconds: Double.random(in: -100 ... -10, using: &random))
        default: now = now.advanced(bySeconds: Double.random(in: 0...1.5, using: &random))
        }
        begin()
        odd.formUnion(rows.keys.filter { !isPlain($0) })
    }

    private mutating func pick(_ volumes: [String]) -> String { volumes.randomElement(using: &random) ?? "v" }

    private var anyRow: RowID? {
        mutating get { rows.keys.sorted().randomElement(using: &random) }
    }

    private static func shake(_ facts: inout VolumeFacts, _ random: inout SeededGenerator) {
        let now = Timestamp(seconds: 0)
        facts.connection.observe(Bool.random(using: &random) ? .online : .offline, source: "test", at: now)
        facts.authentication.observe(
            Int.random(in: 0..<4, using: &random) == 0 ? .refused : .accepted,
            source: "test",
            at: now
        )
        facts.hasDiskSpace.observe(Bool.random(using: &random), source: "test", at: now)
        let battery = Bool.random(using: &random) ? [Waiting(.battery, since: now)] : []
        let window = Bool.random(using: &random) ? [Waiting(.window, since: now)] : []
        facts.held = [
            HeldRules(),
            HeldRules(discretionary: battery + window, risen: window, isDiscretionary: Bool.random(using: &random)),
        ]
        facts.isUnderPressure = Int.random(in: 0..<10, using: &random) == 0
    }

    mutating func setFacts(_ volume: String, _ body: (inout VolumeFacts, inout SeededGenerator) -> Void) {
        var new = facts[volume] ?? VolumeFacts(at: now)
        body(&new, &random)
        facts[volume] = new
        scheduler.setFacts(new, settings: settings, of: volume, now: now)
    }

    private mutating func change(_ id: RowID) {
        if rows[id] == nil { nextNode += 1 }
        var work = WorkFacts(changed: now.advanced(bySeconds: Double.random(in: -5...1, using: &random)))
        work.isPaused = chance(10, &random)
        work.needsDiskSpace = chance(20, &random)
        if chance(20, &random) { work.notBefore = now.advanced(bySeconds: Double.random(in: 0...5, using: &random)) }
        if chance(20, &random) { work.nextAttempt = now.advanced(bySeconds: Double.random(in: 0...90, using: &random)) }
        if chance(20, &random) { work.deadline = now.advanced(bySeconds: Double.random(in: 55...70, using: &random)) }
        work.rules = Int.random(in: 0...1, using: &random)
        let size: ScheduledRow.Size = Bool.random(using: &random) ? .small : .large
        let row = ScheduledRow(id: id, sequence: Int64(event), size: size, facts: work)
        scheduler.update(row, now: now)
        let old = rows[id]
        let isUnchanged = old?.row.facts.changed == row.facts.changed
        let isForced = old?.row.facts.isForced == true && (running[id] == nil || isUnchanged)
        rows[id] = Row(row: row, lastEnd: old?.lastEnd ?? 0)
        odd.remove(id)
        rows[id]?.row.facts.isForced = isForced
    }

    private mutating func remove(_ id: RowID) {
        scheduler.remove(id, now: now)
        rows[id] = nil
        release(id)
    }

    private mutating func force(_ id: RowID) {
        scheduler.force(id, now: now)
        rows[id]?.row.facts.isForced = true
        forceBlockers(of: id)
    }

    /// What a forced row waits for is forced, unless it failed and has to wait for its next attempt.
    private mutating func forceBlockers(of id: RowID) {
        var next = rows[id]?.blocker
        while let blocker = next, let facts = rows[blocker]?.row.facts, !facts.isForced, facts.nextAttempt ?? now <= now
        {
            rows[blocker]?.row.facts.isForced = true
            next = rows[blocker]?.blocker
        }
    }

    /// What waited for a row waits no more.
    private mutating func release(_ blocker: RowID) {
        for id in rows.keys where rows[id]?.blocker == blocker { rows[id]?.blocker = nil }
    }

    private mutating func begin() {
        while let row = scheduler.next(now: now) {
            let id = row.id
            #expect(running[id] == nil && running.count < limits.workers, "\(id) is started wrongly")
            let hindrances = reasons(id, at: now).filter { $0.until == nil }
            #expect(rows[id] != nil && hindrances.isEmpty, "\(id) is started too early")
            running[id] = (row.size, event)
        }
    }

    /// Work ends: done, done in part, failed, or found to wait for another row.
    private mutating func end(_ id: RowID) {
        let began = running.removeValue(forKey: id)?.began ?? 0
        switch Int.random(in: 0..<4, using: &random) {
        case 0:
            scheduler.finished(id, now: now)
            finish(id)
            remove(id)
        case 1:
            scheduler.finished(id, now: now)
            finish(id)
            if rows[id] != nil { change(id) }
        // A newer state was taken in meanwhile, and nobody tells of it again.
        case 2:
            scheduler.finished(id, now: now)
            finish(id)
        default:
            // Circles are rare by chance alone.
            let waiting = rows.keys.filter { rows[$0]?.blocker == id }.min()
            block(id, on: waiting ?? (Bool.random(using: &random) ? anyRow : nil), began)
        }
    }

    private mutating func finish(_ id: RowID) {
        rows[id]?.row.facts.isForced = false
        rows[id]?.lastEnd = event
        release(id)
    }

    private mutating func block(_ id: RowID, on blocker: RowID?, _ began: Int) {
        scheduler.block(id, on: blocker, for: 3, detail: "x", now: now)
        guard rows[id] != nil else { return }
        rows[id]?.recheck = now.advanced(bySeconds: 3)
        guard let blocker, blocker != id, rows[blocker] != nil || running[blocker] != nil else { return }
        if running[blocker] == nil, rows[blocker]?.lastEnd ?? 0 > began { return }
        var chain = [blocker]
        while let last = chain.last, let next = rows[last]?.blocker, !chain.contains(next) { chain.append(next) }
        if chain.contains(id) {
            for member in chain where member != id { rows[member]?.blocker = nil }
            return
        }
        rows[id]?.blocker = blocker
        rows[id]?.recheck = nil
        if rows[id]?.row.facts.isForced == true { forceBlockers(of: id) }
    }

    // MARK: what must hold

    /// Why a row must wait at a moment, by what is true of it.
    private func reasons(_ id: RowID, at time: Timestamp) -> [Waiting] {
        guard let row = rows[id], let facts = facts[id.volume] else { return [] }
        var work = row.row.facts
        // A time that is further ahead than any pause is long was set before the clock was.
        let isBlocked =
            row.blocker != nil || row.recheck.map { $0 > time && $0 <= time.advanced(bySeconds: 3) } ?? false
        work.dependency = isBlocked ? "x" : nil
        return Policy.reasons(work, volume: facts, settings: settings, now: time)
    }

    /// Whether the times of a row are such as they are while no clock is set back.
    private func isPlain(_ id: RowID) -> Bool {
        guard let work = rows[id]?.row.facts else { return false }
        let isTried = work.nextAttempt.map { $0 <= now.advanced(bySeconds: settings.longestBackoff) } ?? true
        return work.changed <= now && isTried
    }

    private func isReady(_ id: RowID) -> Bool { rows[id] != nil && reasons(id, at: now).isEmpty }

    /// No row that may run is left while there is room for it.
    func expectNoneOverlooked(_ comment: String) {
        let ready = rows.keys.filter { running[$0] == nil && isReady($0) }
        for id in ready { #expect(!hasRoom(id, ready), "\(id) is overlooked, \(comment)") }
    }

    private func hasRoom(_ id: RowID, _ ready: [RowID]) -> Bool {
        guard let size = rows[id]?.row.size, running.count < limits.workers else { return false }
        let mine = running.values.count { $0.size == size }
        if size == .large, mine >= limits.large { return false }
        // One worker is kept for the other kind while it waits and none of it runs.
        let isOtherWaiting = ready.contains { rows[$0]?.row.size != size }
        let isOtherRunning = mine < running.count
        let reserve = isOtherWaiting && !isOtherRunning && limits.workers > 1 ? 1 : 0
        return mine < limits.workers - reserve
    }

    /// The scheduler looks again no later than a row becomes ready by the passing of time.
    mutating func expectAlarmInTime(_ comment: String) {
        let alarm = scheduler.lookAgain()
        for id in rows.keys where running[id] == nil && !isReady(id) && !odd.contains(id) {
            var time = now
            for _ in 0..<25 where !reasons(id, at: time).isEmpty { time = time.advanced(bySeconds: 1) }
            guard reasons(id, at: time).isEmpty else { continue }
            #expect(alarm != nil && alarm ?? time <= time, "\(id) is ready at \(time), \(comment)")
        }
    }

    mutating func expectNothingToAudit(_ comment: String) {
        let overlooked = scheduler.audit(now: now)
        #expect(overlooked.isEmpty, "\(comment)")
    }
}

@Suite struct SchedulerModelTests {
    /// Whatever happens to rows, volumes and clocks, nothing that may run is left lying.
    @Test(arguments: 1...40 as ClosedRange<UInt64>)
    func nothingThatMayRunIsOverlooked(seed: UInt64) {
        var model = SchedulerModel(seed: seed)
        for number in 0..<400 {
            model.step()
            let comment = "seed \(seed), step \(number)"
            model.expectNoneOverlooked(comment)
            model.expectAlarmInTime(comment)
            if number % 10 == 9 { model.expectNothingToAudit(comment) }
        }
    }
}
