// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// What a writer may take before the staging folder is measured again.
struct StagingShare: Hashable, Sendable {
    /// In bytes.
    var bytes: Int64
    /// How long the writer that takes it is held up, in seconds.
    var pause: Double

    private static let largest: Int64 = 16 << 20
    private static let smallest: Int64 = 1 << 20

    /// The share of a writer of `count` bytes where `used` of `limit` bytes are taken; nil: it has to wait.
    ///
    /// Above three quarters of the limit shares are small, and pauses grow with what is taken, so that uploads keep up
    /// before anybody has to stop.
    static func of(_ count: Int64, used: Int64, limit: Int64) -> StagingShare? {
        let free = limit - used
        guard count <= free else { return nil }
        let threshold = limit / 4 * 3
        if used < threshold {
            return StagingShare(bytes: max(count, min(largest, (threshold - used) / 4)), pause: 0)
        }
        let fullness = Double(used - threshold) / Double(max(1, limit - threshold))
        return StagingShare(bytes: max(count, min(smallest, free)), pause: fullness * WriterPause.longest)
    }
}

/// Keeps what is not sent yet below a limit: slows writers near it, and has them wait for uploads at it.
///
/// What the staging files take on the disk counts, so holes and what is written over are free.
final class StagingBound: Sendable {
    private let limit: Int64
    /// How long a writer waits at the limit, in seconds.
    private let patience: Double
    private let directory: String
    /// Gives back what nothing needs any more, and wakes the flusher.
    private let makeRoom: @Sendable () -> Void
    /// The bytes that may be written before the folder is measured again.
    private let allowance = Monitor<Int64>(0)
    /// What is being written to files without a name, which the folder does not show, in bytes.
    private let unnamed = Lock<Int64>(0)

    init(limit: Int64, patience: Double, directory: String, makeRoom: @escaping @Sendable () -> Void) {
        self.limit = limit
        self.patience = patience
        self.directory = directory
        self.makeRoom = makeRoom
    }

    /// Counts `count` bytes about to be written; throws ENOSPC when there is no room for them in time, and ends when the
    /// caller is being killed.
    func claim(_ count: Int64) throws(FileError) {
        let end = monotonicSeconds() + patience
        while true {
            if let pause = grant(count) {
                if pause > 0 { try WriterPause.rest(pause) }
                return
            }
            guard monotonicSeconds() < end else {
                throw .system(SystemError.make(ENOSPC, "write", "\(directory): staging_limit"))
            }
            makeRoom()
            try WriterPause.rest(min(0.1, max(0, end - monotonicSeconds())))
        }
    }

    /// Counts what is written to a file without a name, until that has one or is gone.
    func countUnnamed() -> Unnamed { Unnamed(self) }

    /// The bytes of a file without a name.
    final class Unnamed: Sendable {
        private let bound: StagingBound
        private let bytes = Lock<Int64>(0)

        fileprivate init(_ bound: StagingBound) {
            self.bound = bound
        }

        func add(_ count: Int64) {
            bytes.withLock { $0 += count }
            bound.unnamed.withLock { $0 += count }
        }

        deinit {
            let count = bytes.withLock { $0 }
            bound.unnamed.withLock { $0 -= count }
        }
    }

    /// The pause to make; nil when there is no room.
    private func grant(_ count: Int64) -> Double? {
        allowance.inspect { left -> Double? in
            if left >= count {
                left -= count
                return 0
            }
            let used = Files.occupiedBytes(in: directory) + unnamed.withLock { $0 }
            guard let share = StagingShare.of(count, used: used, limit: limit) else {
                return nil
            }
            left = share.bytes - count
            return share.pause
        }
    }
}
