// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// Which arrivals of all objects stay in memory until they are read, though they are in their files already.
///
/// A reader that is fast gets its bytes from here, where they were checked when they came, and not from the file. Those
/// that are there already have the right to stay for a while: they are read first. What comes meanwhile does without.
final class RecentArrivals: Sendable {
    private struct Entry {
        weak var object: CachedObject?
        let buffer: ObjectIdentifier
        /// In monotonic seconds.
        let since: Double
    }

    /// How many buffers are kept: 24 MiB at most.
    private static let limit = 96
    /// How long they are kept from newer ones when nobody comes, in seconds.
    private static let right = 1.0
    /// How long they are kept at all, in seconds.
    private static let age = 10.0
    /// Shorter ones cost as much as they save; in bytes.
    private static let least = 64 << 10

    private let entries = Lock<[Entry]>([])

    /// Whether a buffer of the object may stay in memory; makes room for it where it may.
    func admit(_ buffer: ArrivalBuffer, of object: CachedObject) -> Bool {
        guard buffer.count >= Self.least else { return false }
        let now = monotonicSeconds()
        let (isAdmitted, old) = entries.withLock { entries -> (Bool, Entry?) in
            var old: Entry?
            if entries.count >= Self.limit {
                guard let first = entries.first, first.object == nil || now - first.since > Self.right else {
                    return (false, nil)
                }
                old = entries.removeFirst()
            }
            entries.append(Entry(object: object, buffer: ObjectIdentifier(buffer), since: now))
            return (true, old)
        }
        if let old { old.object?.forgetRecent { ObjectIdentifier($0) == old.buffer } }
        return isAdmitted
    }

    /// Those that are still to be kept: a disk may take longer than that with them.
    func held(of buffers: [ArrivalBuffer]) -> [ArrivalBuffer] {
        entries.withLock { entries in
            buffers.filter { buffer in
                buffer.isKept && entries.contains { $0.buffer == ObjectIdentifier(buffer) }
            }
        }
    }

    /// Notes that buffers are not kept any more.
    func released(_ buffers: [ArrivalBuffer]) {
        let gone = Set(buffers.map { ObjectIdentifier($0) })
        entries.withLock { $0.removeAll { gone.contains($0.buffer) } }
    }

    /// Lets go of what nobody came for.
    func expire() {
        let now = monotonicSeconds()
        let old = entries.withLock { entries -> [Entry] in
            let old = entries.filter { $0.object == nil || now - $0.since > Self.age }
            entries.removeAll { $0.object == nil || now - $0.since > Self.age }
            return old
        }
        for entry in old { entry.object?.forgetRecent { ObjectIdentifier($0) == entry.buffer } }
    }
}
