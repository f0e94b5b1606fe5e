// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore
internal import Platform

/// A source of which only so many ranges are asked at once; more wait for the end of those.
///
/// In turn the shortest of those that came first begins, and the one that came first: who needs a block does not wait for
/// whole pieces of others, nor they for ever for blocks.
///
/// What waits here waits for nobody's answer: other requests find free connections meanwhile, and no time limit of
/// the remote's runs.
final class FetchQueue: RangeSource {
    private struct State {
        var running = 0
        var waiting: [QueuedFetch] = []
        /// The one that came first is next.
        var isOldestNext = false
        /// Somebody begins those that may begin; whoever else makes room leaves it to them.
        var isBeginning = false
    }

    fileprivate let source: any RangeSource
    private let limit: Int
    /// Among how many of those that wait the shortest is looked for.
    private static let window = 64
    private let state = Lock(State())

    /// `limit`: the most fetches at once, at least 1.
    init(_ source: any RangeSource, limit: Int) {
        self.source = source
        self.limit = limit
    }

    func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink
    ) -> any RangeFetch {
        fetch(key, version: version, range: range, into: sink, beginning: {})
    }

    /// The same; `beginning` is called when the request goes out, before anything comes.
    func fetch(
        _ key: ObjectKey,
        version: ObjectVersion,
        range: ByteRange,
        into sink: any RangeSink,
        beginning: @escaping @Sendable () -> Void
    ) -> any RangeFetch {
        let fetch = QueuedFetch(self, length: range.count, sink) { source, fetch in
            beginning()
            return source.fetch(key, version: version, range: range, into: fetch)
        }
        state.withLock { $0.waiting.append(fetch) }
        beginWaiting()
        return fetch
    }

    func opened(_ key: ObjectKey, version: ObjectVersion) { source.opened(key, version: version) }

    func closed(_ key: ObjectKey, version: ObjectVersion) { source.closed(key, version: version) }

    /// Begins as many as there is room for.
    ///
    /// One that ends at once makes room while it begins, which would go as deep as the queue is long.
    private func beginWaiting() {
        let isMine = state.withLock { state in
            defer { state.isBeginning = true }
            return !state.isBeginning
        }
        guard isMine else { return }
        while let next = state.withLock(takeNext) { next.begin() }
    }

    private func takeNext(_ state: inout State) -> QueuedFetch? {
        guard state.running < limit, !state.waiting.isEmpty else {
            state.isBeginning = false
            return nil
        }
        state.running += 1
        defer { state.isOldestNext.toggle() }
        let first = state.waiting.prefix(Self.window)
        let shortest = first.indices.min { first[$0].length < first[$1].length }
        return state.waiting.remove(at: state.isOldestNext ? 0 : shortest ?? 0)
    }

    fileprivate func ended() {
        state.withLock { $0.running -= 1 }
        beginWaiting()
    }

    /// Takes a fetch out that has not begun; false when it has.
    fileprivate func remove(_ fetch: QueuedFetch) -> Bool {
        state.withLock { state in
            guard let index = state.waiting.firstIndex(where: { $0 === fetch }) else { return false }
            state.waiting.remove(at: index)
            return true
        }
    }
}

/// A fetch of a ``FetchQueue``, also while it waits.
private final class QueuedFetch: RangeFetch, RangeSink {
    private struct State {
        var handle: (any RangeFetch)?
        var isCancelled = false
        var isOver = false
    }

    private let queue: FetchQueue
    /// In bytes.
    let length: Int64
    private let sink: any RangeSink
    private let start: @Sendable (any RangeSource, QueuedFetch) -> any RangeFetch
    private let state = Lock(State())

    init(
        _ queue: FetchQueue,
        length: Int64,
        _ sink: any RangeSink,
        _ start: @escaping @Sendable (any RangeSource, QueuedFetch) -> any RangeFetch
    ) {
        self.queue = queue
        self.length = length
        self.sink = sink
        self.start = start
    }

    func begin() {
        let handle = start(queue.source, self)
        let isCancelled = state.withLock { state in
            // The two would hold each other for ever.
            if !state.isOver { state.handle = handle }
            return state.isCancelled
        }
        if isCancelled { handle.cancel() }
    }

    func cancel() {
        if queue.remove(self) { return sink.finished(.failure(StoreError(.cancelled, "cancelled"))) }
        let handle = state.withLock { state in
            state.isCancelled = true
            return state.handle
        }
        handle?.cancel()
    }

    func received(_ bytes: UnsafeRawBufferPointer, at offset: Int64) { sink.received(bytes, at: offset) }

    func drained() { sink.drained() }

    func finished(_ result: Result<Void, StoreError>) {
        state.withLock { $0 = State(isCancelled: $0.isCancelled, isOver: true) }
        sink.finished(result)
        queue.ended()
    }
}
