// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Platform
internal import Synchronization

/// How it goes with keeping what is read: a pure value.
///
/// While the disk fails, or has too little room, what is cached already is read from it and the rest is
/// read past the cache; from time to time the disk is tried again.
package struct CacheHealth: Hashable, Sendable {
    /// Blocks that did not match their checksum, or could not be read, and were fetched again.
    package internal(set) var damagedBlocks = 0
    /// Reads that were answered past the cache.
    package internal(set) var uncachedReads = 0
    /// The space that was taken when it was measured last, in bytes.
    package internal(set) var usedBytes: Int64 = 0
    /// What the disk said, nil while it works.
    private var failure: String?
    /// When to try the disk again, in monotonic seconds.
    private var retryAt = 0.0
    /// What the disk said to files that the server sends in one answer only, nil while it takes them.
    private var failureOfWholeFiles: String?
    /// Less is free on the disk than is to stay free.
    private var lacksRoom = false

    /// How long the disk is left alone after an error, in seconds.
    private static let pause = 10.0

    package init() {}

    /// Whether bytes may be written to the disk now; after an error one caller is let through each pause.
    package mutating func mayStore(at now: Double) -> Bool {
        if lacksRoom { return false }
        guard failure != nil else { return true }
        guard now >= retryAt else { return false }
        retryAt = now + Self.pause
        return true
    }

    package mutating func failed(_ error: SystemError, at now: Double) {
        failure = error.reason
        retryAt = now + Self.pause
    }

    /// The disk did not take a file that the server sends in one answer only; nil: no such file is read now.
    package mutating func failedWholeFile(_ error: SystemError?) { failureOfWholeFiles = error?.reason }

    /// The disk took bytes.
    package mutating func stored() { failure = nil }

    package mutating func measured(free: Int64, minimumFree: Int64) { lacksRoom = free < minimumFree }

    /// What people should know, nil when all is well.
    package var warning: String? {
        let warnings = [warningOfBlocks, warningOfWholeFiles].compactMap { $0 }
        return warnings.isEmpty ? nil : warnings.joined(separator: "; ")
    }

    private var warningOfBlocks: String? {
        if let failure { return "reading without the cache: \(failure)" }
        return lacksRoom ? "reading without the cache: its disk has less room than cache_free leaves" : nil
    }

    private var warningOfWholeFiles: String? {
        failureOfWholeFiles.map { reason in
            "a file that the server sends only as a whole is kept in memory, and asked for again where it is long: \(reason)"
        }
    }
}

/// The health that all readers of a cache share, told to other processes in a file.
final class CacheCondition: Sendable {
    private let health = Lock(CacheHealth())
    private let isFailing = Atomic(false)
    /// When it was told last, in whole monotonic seconds.
    private let toldAt = Atomic(0)
    private let note: CacheNote?

    init(note path: String?) {
        note = path.flatMap { path in
            do throws(SystemError) {
                return try CacheNote(creating: path)
            } catch {
                Log.warning("cache", "its condition cannot be told: \(error)")
                return nil
            }
        }
    }

    var current: CacheHealth { health.withLock { $0 } }

    /// Whether the disk failed, some time ago by now.
    func isDueForTrial() -> Bool { isFailing.load(ordering: .relaxed) && mayStore() }

    func mayStore() -> Bool { change { $0.mayStore(at: monotonicSeconds()) } }

    func failed(_ error: SystemError) {
        Log.debug("cache", "\(error)")
        change { $0.failed(error, at: monotonicSeconds()) }
        // Afterwards: who stores something in between is not to take it for the news that the disk works again.
        isFailing.store(true, ordering: .relaxed)
    }

    func failedWholeFile(_ error: SystemError?) { change { $0.failedWholeFile(error) } }

    func stored() {
        if isFailing.exchange(false, ordering: .relaxed) { change { $0.stored() } }
    }

    func measured(free: Int64, minimumFree: Int64, used: Int64) {
        change { health in
            health.usedBytes = used
            health.measured(free: free, minimumFree: minimumFree)
        }
    }

    func foundDamaged(_ blocks: Int) { count { $0.damagedBlocks += blocks } }
    func readUncached() { count { $0.uncachedReads += 1 } }

    /// Writes down the counts.
    func tell() { note?.write(current) }

    /// Counts, and tells of it once a second; the rest is told by and by.
    private func count(_ body: (inout CacheHealth) -> Void) {
        health.withLock { body(&$0) }
        let now = Int(monotonicSeconds())
        if toldAt.exchange(now, ordering: .relaxed) != now { tell() }
    }

    private func change<Value>(_ body: (inout CacheHealth) -> Value) -> Value {
        let (value, old, new) = health.withLock { health in
            let old = health.warning
            return (body(&health), old, health.warning)
        }
        if old != new {
            if let new { Log.warning("cache", new) } else { Log.notice("cache", "keeping what is read again") }
            tell()
        }
        return value
    }
}
