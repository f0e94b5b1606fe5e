// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import CurlTransport
internal import HTTPWire
internal import ObjectStore
internal import Platform

/// The files that are read in one piece, each under a version of its own.
///
/// A weak validator cannot name a version, so each gets a tag that is made up
/// here: it stands for the answer that was read, and for others that have every
/// byte which was read before. Tags end with the process.
final class Snapshots: Sendable {
    private struct Entry {
        var version: ObjectVersion
        var expectation: Snapshot.Expectation
        var snapshot: Snapshot?
        var madeAt: Double
        var usedAt: Double
    }

    /// How many names are remembered, and how many of them with content.
    private static let maximumNames = 4096
    private static let maximumFiles = 64

    /// One version of a file, however it was learned of: of those that have a tag not all tell a time.
    private struct Version: Hashable {
        let key: ObjectKey
        let tag: String?
        let size: Int64
        let modified: Timestamp?

        init(_ key: ObjectKey, _ version: ObjectVersion) {
            self.key = key
            tag = version.entityTag?.opaque
            size = version.size
            modified = tag == nil ? version.lastModified : nil
        }
    }

    private struct State {
        var entries: [ObjectKey: Entry] = [:]
        /// How many have a version open, of those that anybody has.
        var openings: [Version: Int] = [:]

        /// Puts another entry, or none, in the place of one, whose snapshot nobody gets any more.
        ///
        /// Whoever still reads from that gets to the end of the range under way.
        mutating func replace(_ key: ObjectKey, with entry: Entry?) {
            entries[key]?.snapshot?.setOpen(false)
            entries[key] = entry
        }
    }

    private let client: HTTPClient
    private let memory = AnswerMemory()
    private let held = HeldAnswers()
    private let state = Lock(State())

    init(_ client: HTTPClient) {
        self.client = client
    }

    /// Has it told why files are kept in memory that belong on the disk, and nil once none is; on any thread.
    func tellOfDisk(_ body: @escaping @Sendable (SystemError?) -> Void) { memory.tell(body) }

    /// One more has a version open, whether or not it is one that is read in one piece.
    ///
    /// What the snapshot is told is told under the lock, so that it hears of it in the order of events.
    func opened(_ key: ObjectKey, _ version: ObjectVersion) {
        state.withLock { state in
            state.openings[Version(key, version), default: 0] += 1
            Self.snapshot(of: key, version, in: state)?.setOpen(true)
        }
    }

    /// One less: without any its answer is given up.
    func closed(_ key: ObjectKey, _ version: ObjectVersion) {
        let left = Version(key, version)
        state.withLock { state in
            let count = state.openings[left, default: 1] - 1
            state.openings[left] = count > 0 ? count : nil
            if count <= 0 { Self.snapshot(of: key, version, in: state)?.setOpen(false) }
        }
    }

    private static func snapshot(of key: ObjectKey, _ version: ObjectVersion, in state: State) -> Snapshot? {
        state.entries[key].flatMap { $0.version.isSame(as: version) ? $0.snapshot : nil }
    }

    /// The version for what a HEAD said of a file without a strong validator.
    func version(of key: ObjectKey, seen: Observation, size: Int64, modified: Timestamp?) -> ObjectVersion {
        let now = monotonicSeconds()
        return state.withLock { state in
            if let known = state.entries[key], case .observation(let before) = known.expectation,
                before.isStillShown(by: seen),
                seen.hasValidator || client.isBelieved(known.madeAt)
            {
                return known.version
            }
            let tag = EntityTag(opaque: "\(HTTPStore.weakTagPrefix)\(Randomness.hexadecimal(bytes: 8))", isWeak: true)
            let version = ObjectVersion(entityTag: tag, size: size, lastModified: modified)
            let entry = Entry(version: version, expectation: .observation(seen), madeAt: now, usedAt: now)
            state.replace(key, with: entry)
            Self.trim(&state)
            return version
        }
    }

    func forget(_ key: ObjectKey) {
        state.withLock { $0.replace(key, with: nil) }
    }

    /// Reads a range of a version from its one answer, which is asked for when it was not yet.
    func fetch(
        _ key: ObjectKey,
        _ version: ObjectVersion,
        _ range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        do throws(StoreError) {
            let fetch = SnapshotFetch(try snapshot(key, version), range, sink)
            fetch.start()
            return fetch
        } catch {
            client.transport.schedule(after: 0) { sink.finished(.failure(error)) }
            return NoFetch()
        }
    }

    private func snapshot(_ key: ObjectKey, _ version: ObjectVersion) throws(StoreError) -> Snapshot {
        let limit = client.configuration.spoolLimit
        guard version.size <= limit else {
            throw StoreError(
                .tooLarge,
                "the file cannot be read in parts, and as a whole it is above cache_size (\(limit) bytes)"
            )
        }
        let now = monotonicSeconds()
        return try state.withLock { state throws(StoreError) in
            let isStrong = version.entityTag?.isWeak != true
            if state.entries[key]?.version.isSame(as: version) != true, isStrong {
                let entry = Entry(version: version, expectation: .version(version), madeAt: now, usedAt: now)
                state.replace(key, with: entry)
            }
            guard var entry = state.entries[key], entry.version.isSame(as: version) else { throw HTTPErrors.changed }
            entry.usedAt = now
            let isNew = entry.snapshot == nil
            let isOpen = state.openings[Version(key, version)] != nil
            let snapshot = entry.snapshot ?? make(key, entry, isOpen: isOpen)
            entry.snapshot = snapshot
            state.entries[key] = entry
            if isNew { Self.trim(&state, keeping: key, room: limit - version.size) }
            return snapshot
        }
    }

    private func make(_ key: ObjectKey, _ entry: Entry, isOpen: Bool) -> Snapshot {
        Snapshot(
            Snapshot.Surroundings(client: client, memory: memory, held: held),
            client.url(key),
            size: entry.version.size,
            expectation: entry.expectation,
            isOpen: isOpen
        ) { [weak self] _ in
            self?.forget(key, entry.version)
        }
    }

    private func forget(_ key: ObjectKey, _ version: ObjectVersion) {
        state.withLock { state in
            if state.entries[key]?.version.isSame(as: version) == true { state.replace(key, with: nil) }
        }
    }

    /// Gives up what was not used for the longest time, until the bounds hold.
    private static func trim(_ state: inout State, keeping kept: ObjectKey? = nil, room: Int64 = .max) {
        if state.entries.count > maximumNames {
            let oldest = state.entries.filter { $0.value.snapshot == nil }.sorted { $0.value.usedAt < $1.value.usedAt }
            for (key, _) in oldest.prefix(state.entries.count / 2) where key != kept { state.entries[key] = nil }
        }
        var files = state.entries.filter { $0.value.snapshot != nil && $0.key != kept }
        var bytes = files.reduce(0) { $0 + $1.value.version.size }
        while files.count >= maximumFiles || bytes > room,
            let oldest = files.min(by: { $0.value.usedAt < $1.value.usedAt })
        {
            bytes -= oldest.value.version.size
            files[oldest.key] = nil
            state.replace(oldest.key, with: nil)
        }
    }
}

/// A fetch that was over before it began.
private final class NoFetch: RangeFetch {
    func cancel() {}
}
