// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import BlockCache
import ObjectStore
import Platform
import Synchronization

/// The byte at an offset of the test object: differs between offsets, blocks and versions.
func expectedByte(_ offset: Int64, seed: UInt8 = 0) -> UInt8 {
    UInt8(truncatingIfNeeded: offset ^ (offset >> 8) ^ (offset >> 16)) &+ seed
}

func expectedBytes(_ range: ByteRange, seed: UInt8 = 0) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: Int(range.count)) { buffer, count in
        var offset = range.lower
        while offset < range.upper {
            buffer[count] = UInt8(truncatingIfNeeded: offset ^ (offset >> 8) ^ (offset >> 16)) &+ seed
            count += 1
            offset += 1
        }
    }
}

/// A remote that answers on threads of its own, in pieces, and can be told to fail or to hold still.
final class FakeSource: RangeSource {
    struct State {
        var requests: [ByteRange] = []
        /// Each fetch takes the first: fails with the error after so many bytes.
        var failures: [(after: Int64, error: StoreError)] = []
        /// Fetches stand still at this offset until it is raised.
        var heldAt: Int64 = .max
    }

    let state = Monitor(State())
    let seed: UInt8
    private let piece: Int64 = 10_007

    init(seed: UInt8 = 0) {
        self.seed = seed
    }

    var requests: [ByteRange] { state.inspect { $0.requests } }

    func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        let failure = state.update { state -> (after: Int64, error: StoreError)? in
            state.requests.append(range)
            return state.failures.isEmpty ? nil : state.failures.removeFirst()
        }
        let fetch = FakeFetch()
        do {
            try Thread.detached(name: "fake") { self.deliver(range, to: sink, fetch, failure) }
        } catch {
            sink.finished(.failure(StoreError(.temporary, "\(error)")))
        }
        return fetch
    }

    private func deliver(
        _ range: ByteRange,
        to sink: any RangeSink,
        _ fetch: FakeFetch,
        _ failure: (after: Int64, error: StoreError)?
    ) {
        let end = failure.map { min(range.upper, range.lower + $0.after) } ?? range.upper
        var position = range.lower
        while position < end {
            let next = min(end, position + piece)
            _ = state.wait { $0.heldAt >= next || fetch.isCancelled.load(ordering: .relaxed) ? true : nil }
            if fetch.isCancelled.load(ordering: .relaxed) {
                return sink.finished(.failure(StoreError(.cancelled, "cancelled")))
            }
            let bytes = expectedBytes(ByteRange(position, next), seed: seed)
            bytes.withUnsafeBytes { sink.received($0, at: position) }
            sink.drained()
            position = next
        }
        sink.finished(failure.map { .failure($0.error) } ?? .success(()))
    }
}

final class FakeFetch: RangeFetch {
    let isCancelled = Atomic(false)

    func cancel() {
        isCancelled.store(true, ordering: .relaxed)
    }
}

/// A folder that is gone at the end of the test.
final class TemporaryFolder: Sendable {
    let path: String

    init() throws {
        path = "/tmp/moorage-test-" + Randomness.hexadecimal(bytes: 8)
        try Files.makeDirectories(path)
    }

    deinit {
        remove(path)
    }

    private func remove(_ path: String) {
        guard let status = try? FileStatus.of(path) else { return }
        if status.isDirectory {
            for name in (try? Files.names(in: path)) ?? [] { remove("\(path)/\(name.string)") }
            try? Files.removeDirectory(path)
        } else {
            try? Files.removeIfPresent(path)
        }
    }

    /// The regular files anywhere in the folder.
    func files() throws -> [String] {
        try files(in: path)
    }

    private func files(in folder: String) throws -> [String] {
        var found: [String] = []
        for name in try Files.names(in: folder) {
            let path = "\(folder)/\(name.string)"
            if try FileStatus.of(path)?.isDirectory == true {
                found += try files(in: path)
            } else {
                found.append(path)
            }
        }
        return found
    }
}
