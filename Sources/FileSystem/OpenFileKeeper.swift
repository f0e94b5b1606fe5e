// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import ObjectStore
internal import Platform

/// Brings what open files without a name show of the remote into the cache, as far as they are small, and lets go of a
/// version at the remote as soon as all of it is here.
///
/// Its thread lives only while there is something to do.
final class OpenFileKeeper: Sendable {
    private struct Entry {
        let version: KeptVersion
        /// No attempt to fetch it before this time, in monotonic seconds.
        var retryAt = 0.0
    }

    private struct State {
        var entries: [Entry] = []
        /// What is fetched, or was, of files that are still open, in bytes.
        var taken: Int64 = 0
        var isRunning = false
        var isStopping = false
    }

    /// What is larger is not fetched, in bytes.
    static let largest: Int64 = 64 << 20
    /// Between two looks at what is not all here, in seconds.
    private static let glance = 1.0
    /// Between two attempts to fetch, in seconds.
    private static let pause = 5.0

    private let cache: BlockCache
    private let state = Monitor(State())

    init(cache: BlockCache) {
        self.cache = cache
    }

    func keep(_ versions: [KeptVersion]) {
        let mustStart = state.update { state in
            guard !versions.isEmpty, !state.isStopping else { return false }
            state.entries += versions.map { Entry(version: $0) }
            defer { state.isRunning = true }
            return !state.isRunning
        }
        guard mustStart else { return }
        do throws(SystemError) {
            try Thread.detached(name: "keeper") { [self] in run() }
        } catch {
            // They are held until they are closed, and the next one tries again.
            Log.warning("mount", "no thread for what is open without a name: \(error)")
            state.inspect { $0.isRunning = false }
        }
    }

    /// Nothing further is begun.
    func stop() { state.update { $0.isStopping = true } }

    private func run() {
        while let batch = next() {
            var rest: [Entry] = []
            for var entry in batch where !look(&entry) { rest.append(entry) }
            let (kept, known) = (rest, batch.count)
            let isIdle = state.inspect { state in
                state.entries.replaceSubrange(..<known, with: kept)
                return state.entries.count == kept.count
            }
            if isIdle {
                _ = state.wait(timeout: Self.glance) { $0.entries.count > kept.count || $0.isStopping ? true : nil }
            }
        }
    }

    /// Those to look at; nil ends the thread.
    private func next() -> [Entry]? {
        state.inspect { state in
            guard !state.entries.isEmpty, !state.isStopping else {
                state.isRunning = false
                return nil
            }
            return state.entries
        }
    }

    /// Does what can be done for a version; true when it needs no look any more.
    private func look(_ entry: inout Entry) -> Bool {
        let version = entry.version
        guard version.version.size > 0 else {
            version.release()
            return true
        }
        guard let reader = version.reader(in: cache) else { return true }
        if !version.hasRoom, let room = room(for: version.version.size) { version.take(room) }
        if version.hasRoom, fetch(&entry, reader) { return true }
        let whole = ByteRange(0, version.version.size)
        guard reader.isResident(whole) else { return false }
        // Looked at once more: what is spared from now on may have gone a moment ago.
        reader.spareAll()
        guard reader.isResident(whole) else { return false }
        version.release()
        return true
    }

    /// A part of what the cache may keep for open files without a name, until this goes.
    final class Room: Sendable {
        private let owner: OpenFileKeeper
        private let size: Int64

        fileprivate init(_ owner: OpenFileKeeper, _ size: Int64) {
            self.owner = owner
            self.size = size
        }

        deinit {
            let size = size
            owner.state.inspect { $0.taken -= size }
        }
    }

    /// Room for a version that is small enough to be fetched; nil when there is none.
    private func room(for size: Int64) -> Room? {
        let capacity = cache.options.capacity
        guard size <= min(Self.largest, capacity / 4) else { return nil }
        let hasRoom = state.inspect { state in
            guard state.taken + size <= capacity / 2 else { return false }
            state.taken += size
            return true
        }
        return hasRoom ? Room(self, size) : nil
    }

    /// Fetches what is missing; true when there is nothing more to be had.
    private func fetch(_ entry: inout Entry, _ reader: CacheReader) -> Bool {
        let now = monotonicSeconds()
        guard now >= entry.retryAt, !cache.isThrifty else { return false }
        reader.spareAll()
        let version = entry.version
        do throws(StoreError) {
            let isWhole = try reader.complete { !version.hasEnded && !cache.isThrifty && !isStopping }
            if !isWhole { entry.retryAt = now + Self.pause }
            return version.hasEnded
        } catch {
            Log.info("mount", "\(version.key), which is open, is not all here yet: \(error)")
            entry.retryAt = now + Self.pause
            guard error.cause == .preconditionFailed || error.cause == .notFound else { return false }
            version.release()
            return true
        }
    }

    private var isStopping: Bool { state.inspect { $0.isStopping } }
}
