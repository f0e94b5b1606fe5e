// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore
internal import Platform

/// A ranged read into memory, for when the cache's disk is full or broken.
final class UncachedRead: RangeSink {
    private struct State {
        var bytes: [UInt8] = []
        var result: Result<Void, StoreError>?
    }

    private let monitor = Monitor(State())

    private init() {}

    /// Blocks until the whole range is there.
    static func read(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        from source: any RangeSource
    ) throws(StoreError) -> [UInt8] {
        let sink = UncachedRead()
        let fetch = source.fetch(key, version: version, range: range, into: sink)
        let outcome = sink.monitor.waitUnlessInterrupted { state in state.result.map { ($0, state.bytes) } }
        guard let (result, bytes) = outcome else {
            fetch.cancel()
            throw StoreError(.cancelled, "the reader was interrupted")
        }
        try result.get()
        guard Int64(bytes.count) == range.count else {
            throw StoreError(.protocolViolation, "the answer has \(bytes.count) bytes instead of \(range.count)")
        }
        return bytes
    }

    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        monitor.inspect { $0.bytes.append(contentsOf: bytes) }
    }

    func finished(_ result: Result<Void, StoreError>) {
        monitor.update { $0.result = result }
    }
}
