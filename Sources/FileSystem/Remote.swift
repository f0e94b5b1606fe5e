// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import BlockCache
package import ObjectStore
internal import Platform
internal import Synchronization

/// The object store as the mount sees it: one that stops answering is not asked again for a while.
///
/// Without this every name that is not known locally would wait for a timeout
/// of its own. While the remote counts as unreachable all calls fail at once;
/// after a pause one call is let through to look.
package final class Remote: RangeSource {
    private struct Circuit {
        var failedUntil: Double = 0
        var pause: Double = Remote.shortestPause
        var isProbing = false
    }

    private static let shortestPause = 1.0
    private static let longestPause = 5.0

    package let store: any ObjectStore
    private let circuit = Lock(Circuit())

    package init(store: any ObjectStore) {
        self.store = store
    }

    /// Whether the last call found nobody.
    package var isUnreachable: Bool { circuit.withLock { $0.failedUntil > 0 } }

    /// Somebody reached the remote: calls are let through again.
    package func becameReachable() { note(nil) }

    /// Runs a call unless the remote counts as unreachable.
    func call<Value>(_ body: (any ObjectStore) throws(StoreError) -> Value) throws(StoreError) -> Value {
        try admit()
        do {
            let value = try body(store)
            note(nil)
            return value
        } catch {
            note(error)
            throw error
        }
    }

    package func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        do {
            try admit()
        } catch {
            sink.finished(.failure(error))
            return EndedFetch()
        }
        return store.fetch(key, version: version, range: range, into: WatchedSink(sink, self))
    }

    fileprivate func note(_ error: StoreError?) {
        circuit.withLock { circuit in
            circuit.isProbing = false
            // Our own cancelling says nothing about the remote.
            if error?.cause == .cancelled { return }
            guard error?.cause == .unreachable else {
                circuit = Circuit()
                return
            }
            circuit.failedUntil = monotonicSeconds() + circuit.pause
            circuit.pause = min(Self.longestPause, circuit.pause * 2)
        }
    }

    private func admit() throws(StoreError) {
        let isAdmitted = circuit.withLock { circuit in
            if circuit.failedUntil == 0 { return true }
            guard monotonicSeconds() >= circuit.failedUntil, !circuit.isProbing else { return false }
            circuit.isProbing = true
            return true
        }
        if !isAdmitted { throw StoreError(.unreachable, "the remote did not answer a moment ago") }
    }
}

/// Tells the circuit how a fetch ended.
private final class WatchedSink: RangeSink {
    private let sink: any RangeSink
    private let remote: Remote

    init(_ sink: any RangeSink, _ remote: Remote) {
        self.sink = sink
        self.remote = remote
    }

    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64) {
        sink.received(bytes, at: offset)
    }

    func finished(_ result: Result<Void, StoreError>) {
        switch result {
        case .success: remote.note(nil)
        case .failure(let error): remote.note(error)
        }
        sink.finished(result)
    }
}

/// A fetch that was over before it began.
private final class EndedFetch: RangeFetch {
    func cancel() {}
}
