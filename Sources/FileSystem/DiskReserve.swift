// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform
internal import Synchronization

/// Keeps the last of the state's disk for the journal, so that a full disk can still be cleared and written down.
///
/// Without it the bytes of a file take all the room, and then even its removal
/// fails. Near the end writers are slowed, and at it they wait, while there is something whose upload will make
/// room. The disk is asked once for many writes.
final class DiskReserve: Sendable {
    /// What contents leave free: the journal's log, and some rows.
    static let reserve: Int64 = 8 << 20
    private static let largestShare: Int64 = 16 << 20
    /// With less than this left writers are slowed, in bytes.
    static let scarcity: Int64 = 64 << 20
    private static let scarceShare: Int64 = 1 << 20

    /// How there may come to be more room.
    struct Relief: Sendable {
        /// How long a writer waits for it, in seconds.
        var patience = 0.0
        /// Gives back so many bytes of what is only cached; whether there were some.
        var giveWay: @Sendable (Int64) -> Bool = { _ in false }
        /// Gives back the room of content that nothing needs any more; whether there was some.
        var reclaim: @Sendable () -> Bool = { false }
        /// Whether uploads under way will give back so many bytes; asks for them.
        var isExpected: @Sendable (Int64) -> Bool = { _ in false }
    }

    private let directory: String
    private let relief: Relief
    /// The bytes that may be written before the disk is asked again.
    private let allowance = Lock<Int64>(0)
    /// Somebody has waited in vain, and there was no room since.
    private let isHopeless = Atomic(false)

    /// Whether uploads were to make room, and until when that is believed, in the clock's seconds.
    private let outlook = Lock((isGood: false, end: -Double.infinity))
    private static let outlookAge = 0.5
    /// How many times as long as a look took it is believed at least: of a long journal a look takes a while.
    private static let outlookShare = 20.0
    private let clock: @Sendable () -> Double

    init(directory: String, relief: Relief = Relief(), clock: @escaping @Sendable () -> Double = monotonicSeconds) {
        self.directory = directory
        self.relief = relief
        self.clock = clock
    }

    /// Counts `count` bytes about to be written; throws ENOSPC when they would touch the reserve and no room comes in
    /// time, and ends when the caller is being killed.
    ///
    /// What is only cached goes first, before writers are slowed, and then the staging files that files deleted a moment ago may
    /// still have. Once somebody has waited in vain
    /// nobody does until there was room, or each file of a copy would cost the whole time. `mayWait`: false for bytes
    /// whose program cannot be asked or killed any more.
    func claim(_ count: Int64, mayWait: Bool = true) throws(FileError) {
        let end = monotonicSeconds() + relief.patience
        while true {
            if let scarcity = grant(count) {
                if scarcity == 0 || relief.giveWay(count) { return }
                return mayWait ? try slow(by: scarcity) : ()
            }
            if relief.giveWay(count), grant(count) != nil { return }
            if relief.reclaim(), grant(count) != nil { return }
            let left = end - monotonicSeconds()
            guard mayWait, left > 0, !isHopeless.load(ordering: .relaxed), relief.isExpected(count) else {
                if mayWait, relief.patience > 0, left <= 0 { isHopeless.store(true, ordering: .relaxed) }
                throw .system(SystemError.make(ENOSPC, "write", directory))
            }
            try WriterPause.rest(min(0.1, left))
        }
    }

    /// Gives back room that nothing needs; whether there was some.
    @discardableResult
    func makeRoom() -> Bool {
        let hasGivenWay = relief.giveWay(1)
        return relief.reclaim() || hasGivenWay
    }

    private func slow(by scarcity: Double) throws(FileError) {
        guard scarcity > 0, relief.patience > 0, areUploadsExpected() else { return }
        try WriterPause.rest(scarcity * WriterPause.longest)
    }

    /// Whether uploads are to make room, or were a moment ago: near the end writers ask for each MiB.
    ///
    /// Whether a writer gets an error is never decided by this.
    func areUploadsExpected() -> Bool {
        let start = clock()
        if let isGood = outlook.withLock({ $0.end > start ? $0.isGood : nil }) { return isGood }
        let isGood = relief.isExpected(1)
        let now = clock()
        outlook.withLock { $0 = (isGood, now + max(Self.outlookAge, Self.outlookShare * (now - start))) }
        return isGood
    }

    /// How scarce room is, from 0 to 1; nil when there is none.
    private func grant(_ count: Int64) -> Double? {
        allowance.withLock { left -> Double? in
            if left >= count {
                left -= count
                return 0
            }
            // A disk that does not tell says so itself when it is full.
            let free = (try? Files.freeSpace(at: directory)) ?? .max
            left = free == .max ? count : Self.share(of: free, atLeast: count)
            guard left >= count else { return nil }
            left -= count
            if free - Self.reserve >= Self.largestShare { isHopeless.store(false, ordering: .relaxed) }
            return Self.scarcity(of: free)
        }
    }

    /// A part of the free space, so that several writers see the end of it in time; all that is needed when it is there.
    static func share(of free: Int64, atLeast count: Int64) -> Int64 {
        let usable = free - reserve
        if usable < count { return 0 }
        return max(count, min(usable < scarcity ? scarceShare : largestShare, usable / 4))
    }

    /// From 0 with ``scarcity`` left to 1 with nothing left.
    static func scarcity(of free: Int64) -> Double {
        let usable = min(scarcity, max(0, free - reserve))
        return 1 - Double(usable) / Double(scarcity)
    }
}
