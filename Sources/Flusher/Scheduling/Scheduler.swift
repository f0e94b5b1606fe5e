// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import Policy

/// Decides what to start next and why the rest waits: a pure value, told of rows, facts and time.
///
/// In the order of ``QueueRank``. Small and large work of each volume have a queue each: large work never takes every
/// worker while small work waits, nor small work all of them while large work waits, so neither starves; and a volume
/// whose remote wants less at once keeps no other one waiting. Every change costs O(log n) in the number of rows, except
/// a change of a volume's facts.
package struct Scheduler: Sendable {
    struct Entry: Sendable {
        var row: ScheduledRow
        /// Tells the one valid place in the queues from outdated ones.
        var stamp: UInt64
        var isReady = false
        /// The row that must go first.
        var blocker: RowID?
        /// When to ask again whether the dependency is still there, where no row is known to wait for.
        var recheck: Timestamp?
        /// The last time work on it ended, in the order of stamps.
        var finished: UInt64 = 0
        /// When it was put among the alarms, if it is there.
        var alarm: Timestamp?
        /// How often in a row it was found to wait for a row that is not known, such as one that needs a person.
        var fruitless = 0
        /// The time of its next attempt that counts no more, as the journal still tells it.
        var outdatedAttempt: Timestamp?
    }

    struct Running: Sendable {
        var size: ScheduledRow.Size
        /// When it began, in the order of stamps.
        var started: UInt64
    }

    struct Place: Comparable, Sendable {
        var rank: QueueRank
        var id: RowID
        var stamp: UInt64

        static func < (left: Place, right: Place) -> Bool {
            left.rank == right.rank ? left.id < right.id : left.rank < right.rank
        }
    }

    /// One of a volume's queues: what is of one size, by its rank or by its age alone.
    struct Line: Hashable, Sendable {
        var size: ScheduledRow.Size
        var isByAge = false
    }

    /// A volume and what of it may start.
    struct Queue: Sendable {
        var facts: VolumeFacts
        var settings: PolicySettings
        var ready: [Line: BinaryHeap<Place>] = [:]
        var readyCount: [ScheduledRow.Size: Int] = [.small: 0, .large: 0]
        /// How much goes on with its remote at once.
        var limit: ConcurrencyLimit
    }

    struct Alarm: Comparable, Sendable {
        var time: Timestamp
        var id: RowID
        var stamp: UInt64

        static func < (left: Alarm, right: Alarm) -> Bool {
            left.time == right.time ? left.id < right.id : left.time < right.time
        }
    }

    let limits: SchedulerLimits
    var volumes: [String: Queue] = [:]
    var entries = RowTable<Entry>()
    var running: [RowID: Running] = [:]
    private var alarms = BinaryHeap<Alarm>()
    var dependents: [RowID: Set<RowID>] = [:]
    private var lastStamp: UInt64 = 0
    /// How much was started that nobody waits for.
    var starts = 0
    /// The number of rows known of each volume.
    private var counts: [String: Int] = [:]
    /// What they have to send.
    private var pendingBytes: [String: Int64] = [:]
    private var lastTime: Timestamp?
    /// Whether nothing further begins while programs are busy writing.
    var loadGate = LoadGate()

    package init(limits: SchedulerLimits = SchedulerLimits()) {
        self.limits = limits
    }

    /// The rows known, running ones included.
    package var count: Int { entries.count }
    /// The places in all queues, outdated ones included.
    package var placeCount: Int {
        alarms.count + volumes.values.reduce(0) { $0 + $1.ready.values.reduce(0) { $0 + $1.count } }
    }
    package var runningCount: Int { running.count }

    package func isRunning(_ id: RowID) -> Bool { running[id] != nil }
    package func row(_ id: RowID) -> ScheduledRow? { entries[id]?.row }

    /// The rows known of a volume.
    package func rows(of volume: String) -> [RowID] { entries.keys.filter { $0.volume == volume } }

    /// Takes in what is known of a volume and looks at each of its rows again.
    package mutating func setFacts(
        _ facts: VolumeFacts,
        settings: PolicySettings,
        of volume: String,
        now: Timestamp
    ) {
        if volumes[volume] == nil {
            let limit = ConcurrencyLimit(most: limits.workers)
            volumes[volume] = Queue(facts: facts, settings: settings, limit: limit)
        }
        volumes[volume]?.facts = facts
        volumes[volume]?.settings = settings
        for id in rows(of: volume) { reconsider(id, now: now) }
    }

    /// Takes in what holds the work of a volume by rules that no row goes by so far; no row is looked at again.
    package mutating func setHeld(_ held: [HeldRules], settings: PolicySettings, of volume: String) {
        volumes[volume]?.facts.held = held
        volumes[volume]?.settings = settings
    }

    /// Forgets a volume and its rows; running work stays known until ``finished(_:now:)``.
    package mutating func removeVolume(_ volume: String) {
        for id in rows(of: volume) { forget(id) }
        volumes[volume] = nil
    }

    /// Takes in a new or changed row.
    ///
    /// What was asked for it by a person is kept until it was begun, and for as long as nobody changed it since.
    package mutating func update(_ row: ScheduledRow, now: Timestamp) {
        var row = row
        let old = entries[row.id]
        let outdated = old?.outdatedAttempt == row.facts.nextAttempt ? old?.outdatedAttempt : nil
        if outdated != nil { row.facts.nextAttempt = old?.row.facts.nextAttempt }
        if let old, old.row.isSame(as: row) { return }
        if let old, old.row.facts.isForced, running[row.id] == nil || old.row.facts.changed == row.facts.changed {
            row.facts.isForced = true
        }
        // What it waited for is asked anew when its turn comes.
        unlink(row.id)
        withdraw(row.id)
        if old == nil { counts[row.id.volume, default: 0] += 1 }
        pendingBytes[row.id.volume, default: 0] += row.facts.remaining - (old?.row.facts.remaining ?? 0)
        entries[row.id] = Entry(row: row, stamp: nextStamp(), finished: old?.finished ?? 0, outdatedAttempt: outdated)
        reconsider(row.id, now: now)
        // What waited for it although it was not known waits by its events from here on.
        if old == nil { release(dependentsOf: row.id, now: now) }
    }

    /// Forgets a row that is done or gone, and looks again at what waited for it.
    package mutating func remove(_ id: RowID, now: Timestamp) {
        forget(id)
        release(dependentsOf: id, now: now)
    }

    /// Tries what failed before again within `spread` seconds: after the machine slept, or the network was another one,
    /// the failures of before say nothing.
    ///
    /// `random` gives numbers in 0..<1: not all are to begin at one moment.
    package mutating func renewAttempts(
        of volume: String,
        now: Timestamp,
        spread: Double,
        random: () -> Double
    ) {
        for id in rows(of: volume) {
            guard let next = entries[id]?.row.facts.nextAttempt, next > now else { continue }
            if entries[id]?.outdatedAttempt == nil { entries[id]?.outdatedAttempt = next }
            entries[id]?.row.facts.nextAttempt = min(next, now.advanced(bySeconds: spread * random()))
            reconsider(id, now: now)
        }
    }

    /// Notes that a row must wait for another one, or, with `blocker` nil, for some seconds; told as `reason`.
    ///
    /// Where somebody waits for the row, the other one is as urgent.
    package mutating func block(
        _ id: RowID,
        on blocker: RowID?,
        for seconds: Double = 0.5,
        reason: WaitingReason = .dependency,
        detail: String,
        now: Timestamp
    ) {
        let started = running.removeValue(forKey: id)?.started ?? 0
        guard entries[id] != nil else { return }
        unlink(id)
        entries[id]?.row.facts.dependency = detail
        entries[id]?.row.facts.dependencyReason = reason
        entries[id]?.row.closesLongCircle = false
        if let blocker, blocker != id, isToCome(blocker, since: started), !breaksCircle(id, blocker, now: now) {
            link(id, to: blocker)
            entries[id]?.fruitless = 0
            if entries[id]?.row.facts.isForced == true { forceBlockers(of: id, now: now) }
        } else {
            let pause = seconds * pauseFactor(id, blocker)
            entries[id]?.recheck = now.advanced(bySeconds: pause)
        }
        reconsider(id, now: now)
    }

    private mutating func link(_ id: RowID, to blocker: RowID) {
        entries[id]?.blocker = blocker
        dependents[blocker, default: []].insert(id)
    }

    /// How many times as long as usual a row waits before it asks again.
    ///
    /// A row that is not known, above all one that needs a person, may hold up very many for very long: asking for each
    /// of them all the time would leave no time for others.
    private mutating func pauseFactor(_ id: RowID, _ blocker: RowID?) -> Double {
        guard let blocker, blocker != id, entries[blocker] == nil, running[blocker] == nil else { return 1 }
        link(id, to: blocker)
        let count = entries[id]?.fruitless ?? 0
        entries[id]?.fruitless = min(count + 1, Self.longestPause)
        return Double(1 << count)
    }

    /// Of how many rows a circle is that its members do not find by themselves.
    package static let longCircle = 64

    /// The longest pause, as a power of two of the usual one.
    private static let longestPause = 6

    /// Whether the end of work on a row is still to come for one who found out about it after `started`.
    ///
    /// An end that came meanwhile may have been what was waited for, and would be missed.
    private func isToCome(_ blocker: RowID, since started: UInt64) -> Bool {
        running[blocker] != nil || entries[blocker].map { $0.finished <= started } ?? false
    }

    /// Whether rows would wait for each other in a circle, which nothing would end; the others then look again.
    ///
    /// Of a long one only some do, for each may look at all of it then: a few next to each other, of which one at least
    /// has content.
    private mutating func breaksCircle(_ id: RowID, _ blocker: RowID, now: Timestamp) -> Bool {
        var chain = [blocker]
        while let next = entries[chain[chain.count - 1]]?.blocker, next != id, chain.count <= entries.count {
            chain.append(next)
        }
        guard entries[chain[chain.count - 1]]?.blocker == id else { return false }
        let isLong = chain.count >= Self.longCircle
        for member in isLong ? chain.prefix(8) : chain[...] {
            unlink(member)
            if isLong { entries[member]?.row.closesLongCircle = true }
            reconsider(member, now: now)
        }
        if isLong { entries[id]?.row.closesLongCircle = true }
        return true
    }

    /// The next row to start, which then counts as running; nil when nothing may start now.
    package mutating func next(now: Timestamp) -> ScheduledRow? {
        advance(to: now)
        guard running.count < limits.workers, !loadGate.isClosed else { return nil }
        if let row = takeLongestWaiting(now: now) { return row }
        let order: [ScheduledRow.Size] =
            switch (first(.small), first(.large)) {
            case (let small?, let large?): large < small ? [.large, .small] : [.small, .large]
            case (nil, .some): [.large]
            case (.some, nil): [.small]
            case (nil, nil): []
            }
        for size in order where hasRoom(for: size) {
            if let row = take(size) { return row }
        }
        return nil
    }

    /// Notes that the work on a row is over, however it ended.
    ///
    /// The row stays known, and goes on as it was last told of: ``update(_:now:)`` or ``remove(_:now:)`` may follow,
    /// or have come meanwhile. `keepsForce`: what was asked for it is not done yet.
    package mutating func finished(_ id: RowID, keepsForce: Bool = false, now: Timestamp) {
        running[id] = nil
        let stamp = nextStamp()
        entries[id]?.finished = stamp
        if !keepsForce { entries[id]?.row.facts.isForced = false }
        release(dependentsOf: id, now: now)
        reconsider(id, now: now)
    }

    /// Puts a row back that was taken by ``next(now:)`` and not begun.
    package mutating func putBack(_ id: RowID, now: Timestamp) {
        running[id] = nil
        reconsider(id, now: now)
    }

    /// Why a row does not start; empty when it runs, or would if a worker were free.
    package func waiting(_ id: RowID, now: Timestamp) -> [Waiting] {
        guard let entry = entries[id], running[id] == nil, let volume = volumes[id.volume] else { return [] }
        var reasons = Policy.reasons(entry.row.facts, volume: volume.facts, settings: volume.settings, now: now)
        let hasLoad = reasons.contains { $0.reason == .load }
        if let since = loadGate.since, !hasLoad { reasons.append(Waiting(.load, since: since)) }
        return reasons
    }

    /// When a row may become ready by the passing of time; nil when none will.
    package mutating func lookAgain() -> Timestamp? {
        while let alarm = alarms.first, entries[alarm.id]?.stamp != alarm.stamp { _ = alarms.popFirst() }
        return alarms.first?.time
    }

    // MARK: time

    private mutating func advance(to now: Timestamp) {
        if let lastTime, now < lastTime.advanced(bySeconds: -1) { takeInStep(now) }
        lastTime = now
        while let alarm = alarms.first, alarm.time <= now {
            _ = alarms.popFirst()
            guard let entry = entries[alarm.id], entry.stamp == alarm.stamp else { continue }
            reconsider(alarm.id, now: now)
        }
    }

    /// The clock was set back: what waits for a time may wait far too long.
    private mutating func takeInStep(_ now: Timestamp) {
        for id in Array(entries.keys) {
            if entries[id]?.recheck != nil { unlink(id) }
            reconsider(id, now: now)
        }
    }

    /// Puts a row where it belongs now: among the ready ones, at a time to look again, or nowhere.
    mutating func reconsider(_ id: RowID, now: Timestamp) {
        if let recheck = entries[id]?.recheck, recheck <= now { unlink(id) }
        guard let row = entries[id]?.row else { return }
        withdraw(id)
        // No copy of the whole queue: while there is one, each place that is put in would copy all others.
        guard running[id] == nil, let facts = volumes[id.volume]?.facts, let settings = volumes[id.volume]?.settings
        else {
            return
        }
        switch Policy.decide(row.facts, isRunning: false, volume: facts, settings: settings, now: now) {
        case .go: makeReady(id, row, facts, now: now)
        case .hold(let reasons), .stop(let reasons):
            let turn = Policy.lookAgain(reasons, row.facts, volume: facts, now: now)
            guard let time = turn ?? entries[id]?.recheck else { return }
            setAlarm(id, at: min(time, entries[id]?.recheck ?? time), stamp: nextStamp())
        }
    }

    private mutating func makeReady(_ id: RowID, _ row: ScheduledRow, _ facts: VolumeFacts, now: Timestamp) {
        let stamp = nextStamp()
        entries[id]?.stamp = stamp
        entries[id]?.isReady = true
        add(place(of: row, stamp: stamp, now: now), row)
        // Its place may be another one by then.
        if let turn = Policy.nextTurn(row.facts, volume: facts, now: now) {
            setAlarm(id, at: turn, stamp: stamp)
        }
    }

    private mutating func setAlarm(_ id: RowID, at time: Timestamp, stamp: UInt64) {
        entries[id]?.stamp = stamp
        entries[id]?.alarm = time
        alarms.insert(Alarm(time: time, id: id, stamp: stamp))
        guard alarms.count > bound else { return }
        let entries = entries
        alarms.keep { entries[$0.id]?.stamp == $0.stamp }
    }

    /// How many places a queue may have: outdated ones would pile up behind a row that does not get its turn.
    var bound: Int { 2 * entries.count + 64 }

    /// Takes a row out of the queues; its places there become outdated.
    mutating func withdraw(_ id: RowID) {
        guard let entry = entries[id] else { return }
        if entry.isReady { volumes[id.volume]?.readyCount[entry.row.size, default: 1] -= 1 }
        let stamp = nextStamp()
        entries[id]?.isReady = false
        entries[id]?.alarm = nil
        entries[id]?.stamp = stamp
    }

    mutating func nextStamp() -> UInt64 {
        lastStamp += 1
        return lastStamp
    }

    private mutating func forget(_ id: RowID) {
        withdraw(id)
        unlink(id)
        guard let entry = entries.removeValue(forKey: id) else { return }
        counts[id.volume, default: 1] -= 1
        pendingBytes[id.volume, default: 0] -= entry.row.facts.remaining
    }

    // MARK: dependencies

    /// Drops what a row is known to wait for.
    mutating func unlink(_ id: RowID) {
        if let blocker = entries[id]?.blocker {
            dependents[blocker]?.remove(id)
            if dependents[blocker]?.isEmpty == true { dependents[blocker] = nil }
        }
        entries[id]?.blocker = nil
        entries[id]?.recheck = nil
        entries[id]?.row.facts.dependency = nil
        entries[id]?.row.facts.dependencyReason = .dependency
    }

    /// Has those that wait for a row look again whether they have to.
    mutating func release(dependentsOf id: RowID, now: Timestamp) {
        for dependent in dependents.removeValue(forKey: id) ?? [] {
            unlink(dependent)
            entries[dependent]?.fruitless = 0
            reconsider(dependent, now: now)
        }
    }
}

extension Scheduler {
    /// Whether nothing begins, as programs are busy writing and wait for the processors.
    package var standsBack: Bool { loadGate.isClosed }

    /// Whether a row tells of a change that is not known yet, made by a program and not by the work on it.
    package func isNews(_ id: RowID, changed: Timestamp) -> Bool { entries[id]?.row.facts.changed != changed }

    /// Takes in how many files programs completed just now.
    package mutating func noteFiles(_ count: Int, now: Timestamp) { loadGate.noteFiles(count, at: now) }

    /// Takes in how busy the machine is; see ``LoadGate/observe(stalled:at:)``.
    package mutating func observe(stalled: UInt64?, now: Timestamp) { loadGate.observe(stalled: stalled, at: now) }
}

extension Scheduler {
    /// Whether a row is known that will or may be worked on without a person.
    package var hasActiveRows: Bool { entries.values.contains { !$0.row.facts.isPaused } }

    /// What the rows known of a volume have to send, in bytes.
    package func bytes(of volume: String) -> Int64 { pendingBytes[volume, default: 0] }

    /// The rows of a volume that wait for longer than `lifetime` says, in seconds, paused ones left out.
    package func overdue(of volume: String, now: Timestamp, lifetime: (WorkFacts) -> Double) -> [RowID] {
        var found: [RowID] = []
        for entry in entries.values {
            let (id, work) = (entry.row.id, entry.row.facts)
            guard id.volume == volume, !work.isPaused, running[id] == nil else { continue }
            if work.changed.advanced(bySeconds: lifetime(work)) < now { found.append(id) }
        }
        return found
    }

    /// Whether a person gave a row time.
    package var hasDiscretionaryRows: Bool { entries.values.contains { $0.row.facts.isDiscretionary } }

    /// Whether no row of a volume is known.
    package func isEmpty(of volume: String) -> Bool { counts[volume, default: 0] == 0 }
}

extension Scheduler {
    /// Looks at every row, and sets right those that no event would have brought on: their names.
    ///
    /// There are none if every event was told; this is for the case that one was not.
    package mutating func audit(now: Timestamp) -> [RowID] {
        advance(to: now)
        let overlooked = entries.keys.filter { isOverlooked($0, now: now) }.sorted()
        for id in overlooked {
            unlink(id)
            reconsider(id, now: now)
        }
        return overlooked
    }

    private func isOverlooked(_ id: RowID, now: Timestamp) -> Bool {
        guard let entry = entries[id], running[id] == nil, let volume = volumes[id.volume] else { return false }
        let reasons = Policy.reasons(entry.row.facts, volume: volume.facts, settings: volume.settings, now: now)
        // What is to be started is not taken back when a clock that was set back makes it wait again.
        if reasons.isEmpty || entry.isReady { return !entry.isReady }
        if entry.row.facts.dependency != nil, entry.recheck == nil {
            guard let blocker = entry.blocker else { return true }
            if dependents[blocker]?.contains(id) != true { return true }
            if entries[blocker] == nil && running[blocker] == nil { return true }
        }
        let turn = Policy.lookAgain(reasons, entry.row.facts, volume: volume.facts, now: now)
        guard let time = turn ?? entry.recheck else { return false }
        return entry.alarm.map { $0 > max(time, now) } ?? true
    }
}
