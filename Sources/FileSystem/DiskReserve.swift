// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// Keeps the last of the state's disk for the journal, so that a full disk can still be cleared and written down.
///
/// Without it the bytes of a file take all the room, and then even its removal
/// fails. The disk is asked once for many writes.
final class DiskReserve: Sendable {
    /// What contents leave free: the journal's log, and some rows.
    static let reserve: Int64 = 8 << 20
    private static let largestShare: Int64 = 16 << 20

    private let directory: String
    /// The bytes that may be written before the disk is asked again.
    private let allowance = Lock<Int64>(0)

    /// Gives back the room of content that nothing needs any more; whether there was some.
    private let reclaim: @Sendable () -> Bool

    init(directory: String, reclaim: @escaping @Sendable () -> Bool = { false }) {
        self.directory = directory
        self.reclaim = reclaim
    }

    /// Counts `count` bytes about to be written; throws ENOSPC when they would touch the reserve.
    ///
    /// Files deleted a moment ago may still have their staging files: those go first.
    func claim(_ count: Int64) throws(FileError) {
        if grant(count) { return }
        guard reclaim(), grant(count) else { throw .system(SystemError.make(ENOSPC, "write", directory)) }
    }

    private func grant(_ count: Int64) -> Bool {
        allowance.withLock { left in
            if left < count {
                // A disk that does not tell says so itself when it is full.
                left = (try? Files.freeSpace(at: directory)).map { Self.share(of: $0, atLeast: count) } ?? count
            }
            guard left >= count else { return false }
            left -= count
            return true
        }
    }

    /// A part of the free space, so that several writers see the end of it in time; all that is needed when it is there.
    static func share(of free: Int64, atLeast count: Int64) -> Int64 {
        let usable = free - reserve
        return usable < count ? 0 : max(count, min(largestShare, usable / 4))
    }
}
