// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Policy

/// The queues of what may start.
extension Scheduler {
    /// Where a row stands among others that may start.
    func place(of row: ScheduledRow, stamp: UInt64, now: Timestamp) -> Place {
        let facts = volumes[row.id.volume]?.facts ?? VolumeFacts(at: now)
        let rank = Policy.rank(row.facts, priority: row.priority, volume: facts, now: now)
        return Place(rank: rank, id: row.id, stamp: stamp)
    }

    func hasRoom(for size: ScheduledRow.Size) -> Bool {
        let other: ScheduledRow.Size = size == .small ? .large : .small
        let mine = running.values.count { $0.size == size }
        let isOtherWaiting = volumes.contains { $0.value.readyCount[other, default: 0] > 0 && hasRoom(in: $0.key) }
        let isOtherRunning = running.values.contains { $0.size == other }
        // With one worker there is nothing to keep free: the oldest goes.
        let reserve = isOtherWaiting && !isOtherRunning && limits.workers > 1 ? 1 : 0
        let bound = size == .large ? min(limits.large, limits.workers) : limits.workers
        return mine < min(bound, limits.workers - reserve)
    }

    /// Whether more may go on with the remote of a volume.
    private func hasRoom(in volume: String) -> Bool {
        running.keys.count { $0.volume == volume } < volumes[volume]?.limit.current ?? limits.workers
    }

    /// The first that may start of all volumes with room.
    mutating func first(_ size: ScheduledRow.Size) -> Place? {
        var best: Place?
        // The names of their own: with the dictionary held for a loop, taking one out would copy the whole heap.
        for volume in Array(volumes.keys) where hasRoom(in: volume) {
            guard let place = first(size, of: volume) else { continue }
            best = min(best ?? place, place)
        }
        return best
    }

    private mutating func first(_ size: ScheduledRow.Size, of volume: String, isByAge: Bool = false) -> Place? {
        let line = Line(size: size, isByAge: isByAge)
        while let place = volumes[volume]?.ready[line]?.first {
            if let entry = entries[place.id], entry.stamp == place.stamp, entry.isReady { return place }
            _ = volumes[volume]?.ready[line]?.popFirst()
        }
        return nil
    }

    mutating func take(_ size: ScheduledRow.Size) -> ScheduledRow? { first(size).flatMap { begin($0) } }

    private mutating func begin(_ place: Place) -> ScheduledRow? {
        guard let row = entries[place.id]?.row else { return nil }
        // Its places are outdated now.
        withdraw(place.id)
        running[place.id] = Running(size: row.size, started: nextStamp())
        if place.rank.transferClass > 0 { starts += 1 }
        return row
    }

    mutating func add(_ place: Place, _ row: ScheduledRow) {
        volumes[place.id.volume]?.readyCount[row.size, default: 0] += 1
        insert(place, into: Line(size: row.size))
        let age = QueueRank(transferClass: place.rank.transferClass, turn: row.facts.changed)
        insert(Place(rank: age, id: place.id, stamp: place.stamp), into: Line(size: row.size, isByAge: true))
    }

    private mutating func insert(_ place: Place, into line: Line) {
        let volume = place.id.volume
        volumes[volume]?.ready[line, default: BinaryHeap()].insert(place)
        guard volumes[volume]?.ready[line]?.count ?? 0 > bound else { return }
        let entries = entries
        volumes[volume]?.ready[line]?.keep { entries[$0.id]?.stamp == $0.stamp }
    }
}

/// What is urgent comes again and again, and must keep nobody waiting for ever.
extension Scheduler {
    /// One of so many starts is of what has waited longest, once that is a day.
    package static let share = 4

    /// Takes the oldest of what has waited for a day, when its turn has come and nobody waits for anything.
    mutating func takeLongestWaiting(now: Timestamp) -> ScheduledRow? {
        guard starts % Self.share == Self.share - 1 else { return nil }
        guard let usual = [first(.small), first(.large)].compactMap({ $0 }).min(), usual.rank.transferClass > 0 else {
            return nil
        }
        var oldest: Place?
        for size in [ScheduledRow.Size.small, .large] where hasRoom(for: size) {
            for volume in Array(volumes.keys) where hasRoom(in: volume) {
                guard let place = first(size, of: volume, isByAge: true) else { continue }
                oldest = min(oldest ?? place, place)
            }
        }
        guard let oldest, oldest.rank.transferClass <= usual.rank.transferClass,
            oldest.rank.turn.advanced(bySeconds: Policy.longestPrecedence) <= now
        else { return nil }
        return begin(oldest)
    }
}

/// How much goes on with each remote.
extension Scheduler {
    /// The remote of a volume asked for less, or did not answer in time; `time` in monotonic seconds.
    package mutating func noteTrouble(with volume: String, at time: Double) {
        volumes[volume]?.limit.noteTrouble(at: time)
    }

    /// Takes in what was done with the remote of a volume since the last time, see ``ConcurrencyLimit``.
    package mutating func noteWork(with volume: String, moved: Double, at time: Double) {
        let count = running.keys.count { $0.volume == volume }
        guard let limit = volumes[volume]?.limit else { return }
        volumes[volume]?.limit.observe(moved: moved, isFull: count >= limit.current, at: time)
    }

    /// How much may go on with the remote of a volume at once.
    package func limit(of volume: String) -> Int? { volumes[volume]?.limit.current }
}
