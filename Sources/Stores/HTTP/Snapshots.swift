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
/// here: it stands for the one answer that was read, and nothing of another
/// answer is ever shown under it. Tags end with the process and with the answer.
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

    private let client: HTTPClient
    private let entries = Lock<[ObjectKey: Entry]>([:])

    init(_ client: HTTPClient) {
        self.client = client
    }

    /// The version for what a HEAD said of a file without a strong validator.
    func version(of key: ObjectKey, seen: Observation, size: Int64, modified: Timestamp?) -> ObjectVersion {
        let now = monotonicSeconds()
        return entries.withLock { entries in
            if let known = entries[key], case .observation(let before) = known.expectation,
                before.isStillShown(by: seen),
                seen.hasValidator || client.isBelieved(known.madeAt)
            {
                return known.version
            }
            let tag = EntityTag(opaque: "\(HTTPStore.weakTagPrefix)\(Randomness.hexadecimal(bytes: 8))", isWeak: true)
            let version = ObjectVersion(entityTag: tag, size: size, lastModified: modified)
            entries[key] = Entry(version: version, expectation: .observation(seen), madeAt: now, usedAt: now)
            Self.trim(&entries)
            return version
        }
    }

    func forget(_ key: ObjectKey) {
        entries.withLock { _ = $0.removeValue(forKey: key) }
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
        return try entries.withLock { entries throws(StoreError) in
            let isStrong = version.entityTag?.isWeak != true
            if entries[key]?.version != version, isStrong {
                entries[key] = Entry(version: version, expectation: .version(version), madeAt: now, usedAt: now)
            }
            guard var entry = entries[key], entry.version == version else { throw HTTPErrors.changed }
            entry.usedAt = now
            defer { entries[key] = entry }
            if let snapshot = entry.snapshot { return snapshot }
            let made = try self.make(key, entry)
            entry.snapshot = made
            Self.trim(&entries, keeping: key, room: limit - version.size)
            return made
        }
    }

    private func make(_ key: ObjectKey, _ entry: Entry) throws(StoreError) -> Snapshot {
        do throws(SystemError) {
            let snapshot = try Snapshot(
                client,
                client.url(key),
                size: entry.version.size,
                expectation: entry.expectation
            ) { [weak self] _ in
                self?.forget(key, entry.version)
            }
            snapshot.begin()
            return snapshot
        } catch {
            throw StoreError(.localInput, "no file for reading in one piece: \(error)")
        }
    }

    private func forget(_ key: ObjectKey, _ version: ObjectVersion) {
        entries.withLock { entries in
            if entries[key]?.version == version { entries[key] = nil }
        }
    }

    /// Gives up what was not used for the longest time, until the bounds hold.
    ///
    /// Who still reads from a file that is given up gets to its end of the range under way.
    private static func trim(_ entries: inout [ObjectKey: Entry], keeping kept: ObjectKey? = nil, room: Int64 = .max) {
        if entries.count > maximumNames {
            let oldest = entries.filter { $0.value.snapshot == nil }.sorted { $0.value.usedAt < $1.value.usedAt }
            for entry in oldest.prefix(entries.count / 2) where entry.key != kept { entries[entry.key] = nil }
        }
        var files = entries.filter { $0.value.snapshot != nil && $0.key != kept }
        var bytes = files.reduce(0) { $0 + $1.value.version.size }
        while files.count >= maximumFiles || bytes > room,
            let oldest = files.min(by: { $0.value.usedAt < $1.value.usedAt })
        {
            bytes -= oldest.value.version.size
            files[oldest.key] = nil
            entries[oldest.key] = nil
        }
    }
}

/// A fetch that was over before it began.
private final class NoFetch: RangeFetch {
    func cancel() {}
}
