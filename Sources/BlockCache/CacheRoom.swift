// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform

/// Has the limits of a cache looked at after so many bytes: between two looks every few seconds a fast line brings more
/// than what is to stay free.
final class CacheRoom: Sendable {
    /// The most and the least bytes between two looks.
    private static let steps: ClosedRange<Int64> = (1 << 20)...(64 << 20)

    private struct State {
        /// How many bytes may come before the next look.
        var left: Int64 = 0
        var look: (@Sendable () -> Int64)?
        /// Somebody looks: two at once would both give up what is too much.
        var isLooking = false
    }

    private let state = Lock(State())

    /// Has `look` called, which keeps the cache within its limits and returns how many bytes may come then.
    func serve(_ look: @escaping @Sendable () -> Int64) { state.withLock { $0.look = look } }

    /// Counts bytes that come to the disk; outside of all locks of the cache.
    func took(_ count: Int64) {
        let look = state.withLock { state -> (@Sendable () -> Int64)? in
            state.left -= count
            guard state.left < 0, !state.isLooking, let look = state.look else { return nil }
            state.isLooking = true
            return look
        }
        guard let look else { return }
        let room = look()
        // A part of it: others take of the same disk.
        state.withLock { state in
            state.left = min(max(room / 4, Self.steps.lowerBound), Self.steps.upperBound)
            state.isLooking = false
        }
    }
}

/// Keeping to what is to stay free on the disk, and giving way to what is written.
extension BlockCache {
    /// How much more than what is to stay free is free once files had to go, as a part of it.
    private static let slack: Int64 = 4

    /// Gives up files while the cache is above a limit; returns how many bytes may come to the disk then.
    @discardableResult
    func keepWithinLimits() -> Int64 {
        for object in registry.withLock({ $0.objects.values.map { $0.object } }) {
            added(object.takeUnmeasured(), to: object.name)
        }
        var free = freeSpace
        let used = usedBytes
        var surplus = used > options.capacity ? used - options.capacity / 10 * 9 : 0
        if free < options.minimumFree {
            surplus = max(surplus, options.minimumFree - free + options.minimumFree / Self.slack)
        }
        if surplus > 0 {
            trim(surplus)
            free = freeSpace
        }
        shared.condition.measured(free: free, minimumFree: options.minimumFree, used: usedBytes)
        return min(free - options.minimumFree, options.capacity - usedBytes)
    }

    /// Closes files that nobody reads and that another process has given up: until then they take their space; whether there
    /// were some.
    @discardableResult
    func closeNameless() -> Bool {
        let idle = registry.withLock { $0.objects.values.filter { $0.uses == 0 }.map(\.object) }
        let nameless = idle.filter { FileStamp($0.file.descriptor.raw)?.links == 0 }
        if nameless.isEmpty { return false }
        // What is taken out here is closed at the end, outside of the lock.
        return withExtendedLifetime(nameless) {
            registry.withLock { registry in
                for object in nameless {
                    guard let known = registry.objects[object.name], known.object === object, known.uses == 0 else {
                        continue
                    }
                    registry.objects[object.name] = nil
                }
            }
            return true
        }
    }

    private var freeSpace: Int64 { (try? Files.freeSpace(at: options.directory)) ?? .max }

    /// The least that is given up at once for others, in bytes.
    private static let portion: Int64 = 64 << 20

    /// Gives up files of so many bytes and more for who writes to the same disk; whether any went.
    ///
    /// None where all of them would not do. Never what is pinned, and of what is being read only what lies far from there. In vain at most once a second.
    package func giveWay(_ count: Int64) -> Bool {
        yielding.withLock { notBefore in
            guard monotonicSeconds() >= notBefore, count <= Self.portion || count <= usedBytes else { return false }
            let hasClosed = closeNameless()
            let hasGiven = trim(max(count, Self.portion), isPatient: true) > 0 || hasClosed
            if !hasGiven { notBefore = monotonicSeconds() + 1 }
            return hasGiven
        }
    }

    /// Whether what it gives up makes room in a folder.
    package func isOnDisk(of folder: String) -> Bool {
        guard let mine = (try? FileStatus.of(options.directory)) ?? nil else { return false }
        return ((try? FileStatus.of(folder)) ?? nil)?.device == mine.device
    }
}
