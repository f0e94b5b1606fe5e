// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Glibc
internal import Platform

/// What tells whether a file was changed: its length and its time of change, which nobody can set.
///
/// The kernel's clock for files goes in ticks of up to 10 ms, so two changes may carry one time. A stamp is only
/// conclusive, like an entry of git's index, when a tick has passed between the time it holds and what it is to vouch for.
struct FileStamp: Hashable, Sendable {
    private let size: Int64
    /// In nanoseconds since 1970.
    private let changed: Int64
    /// How many names the file has; 0 when it was deleted.
    let links: UInt

    /// More than the longest tick, in nanoseconds.
    private static let tick: Int64 = 20_000_000

    /// The file as it is now, nil when it cannot be asked.
    init?(_ descriptor: Int32) {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { return nil }
        size = Int64(status.st_size)
        changed = Int64(status.st_ctim.tv_sec) &* 1_000_000_000 &+ Int64(status.st_ctim.tv_nsec)
        links = UInt(status.st_nlink)
    }

    /// Whether every change made at `moment` or later gives the file another stamp.
    func isConclusive(at moment: Moment) -> Bool { changed < moment.nanoseconds - Self.tick }

    static func == (left: FileStamp, right: FileStamp) -> Bool {
        left.size == right.size && left.changed == right.changed
    }

    func hash(into hasher: inout Hasher) {
        hasher.combine(size)
        hasher.combine(changed)
    }

    /// A time of the clock that files get their times from.
    struct Moment: Sendable {
        fileprivate let nanoseconds: Int64

        static func now() -> Moment {
            var time = timespec()
            clock_gettime(CLOCK_REALTIME_COARSE, &time)
            return Moment(nanoseconds: Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))
        }
    }
}
