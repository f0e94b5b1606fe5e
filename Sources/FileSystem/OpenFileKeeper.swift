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
        /// The log has that it could not be fetched.
        var hasTold = false
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
        // As with nearly every file that loses its name.
        guard !versions.isEmpty else { return }
        let mustStart = state.update { state in
            guard !state.isStopping else { return false }
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
            // What is all here is let go first: fetching the others may take long.
            for var entry in batch.filter({ !isSettled($0.version) }) where !fetch(&entry) { rest.append(entry) }
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

    /// Lets go of a version at the remote that is all here and may stay; true when it needs no look any more.
    private func isSettled(_ version: KeptVersion) -> Bool {
        guard version.version.size > 0 else {
            version.release()
            return true
        }
        guard let reader = version.reader(in: cache) else { return true }
        let whole = ByteRange(0, version.version.size)
        // Room for what is to be fetched is taken before.
        guard isSmall(version) || reader.isResident(whole), hasRoom(version), reader.isResident(whole) else {
            return false
        }
        // Looked at once more: what is spared from now on may have gone a moment ago.
        reader.spareAll()
        guard reader.isResident(whole) else { return false }
        version.release()
        return true
    }

    private func isSmall(_ version: KeptVersion) -> Bool { version.version.size <= Self.largest }

    /// Whether the cache may keep a version, whose part of that is taken with it.
    private func hasRoom(_ version: KeptVersion) -> Bool {
        if version.hasRoom { return true }
        guard let room = room(for: version.version.size) else { return false }
        version.take(room)
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

    /// Room for a version; nil when there is none.
    private func room(for size: Int64) -> Room? {
        let capacity = cache.options.capacity
        guard size <= capacity / 4 else { return nil }
        let hasRoom = state.inspect { state in
            guard state.taken + size <= capacity / 2 else { return false }
            state.taken += size
            return true
        }
        return hasRoom ? Room(self, size) : nil
    }

    /// Fetches what is missing of a version that has room; true when it needs no look any more.
    private func fetch(_ entry: inout Entry) -> Bool {
        let (now, version) = (monotonicSeconds(), entry.version)
        guard isSmall(version), version.hasRoom, now >= entry.retryAt, !cache.isThrifty,
            let reader = version.reader(in: cache)
        else { return version.hasEnded }
        reader.spareAll()
        do throws(StoreError) {
            let isWhole = try reader.complete { !version.hasEnded && !cache.isThrifty && !isStopping }
            if !isWhole { entry.retryAt = now + Self.pause }
            return isSettled(version)
        } catch {
            tell(&entry, error)
            entry.retryAt = now + Self.pause
            guard error.cause == .preconditionFailed || error.cause == .notFound else { return false }
            version.release()
            return true
        }
    }

    /// Says once what is in the way of a file: the remote may be away for days.
    private func tell(_ entry: inout Entry, _ error: StoreError) {
        guard !entry.hasTold else { return }
        entry.hasTold = true
        Log.info("mount", "\(entry.version.key), which is open, is not all here yet: \(error)")
    }

    private var isStopping: Bool { state.inspect { $0.isStopping } }
}
