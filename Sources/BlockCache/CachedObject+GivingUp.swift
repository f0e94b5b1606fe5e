// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import ObjectStore
internal import Platform

/// Not fetching what nobody comes for any more.
extension CachedObject {
    /// With no more than this to come, and less on a slow line, a fetch is not cancelled, which would cost its connection; in
    /// bytes.
    private static let nearEnd: Int64 = 256 << 10

    /// Cancels what is under way of a range that nobody waits for, and nobody is about to come for.
    func giveUp(_ range: ByteRange) {
        let handles = monitor.inspect { giveUp(range, &$0) }
        for handle in handles { handle.cancel() }
    }

    /// Lets go of what was to be fetched ahead, as the last reader has gone; what is returned is still to be cancelled.
    ///
    /// What is fetched whole whoever reads it, because it is small or held, goes on coming.
    func giveUpAhead() -> [any RangeFetch] {
        guard version.size > wholeObjectLimit else { return [] }
        return monitor.inspect { state in
            guard !state.fetches.isEmpty || !state.queue.isEmpty, !isHeld else { return [] }
            return giveUp(ByteRange(0, version.size), &state)
        }
    }

    /// Gives up all fetches under way, as the object is kept open no longer.
    func cancelFetches() {
        let handles = monitor.inspect { state in
            state.queue = []
            return state.fetches.compactMap { $0.progress.handle }
        }
        for handle in handles { handle.cancel() }
    }

    private func giveUp(_ range: ByteRange, _ state: inout State) -> [any RangeFetch] {
        var handles: [any RangeFetch] = []
        let nearEnd = min(Self.nearEnd, gauge.line.rangeLength / 4)
        state.queue.removeAll { range.contains($0) }
        for fetch in state.fetches {
            // What has nearly arrived, or is asked for by others too, is let come.
            guard range.contains(fetch.owned), fetch.owned.upper - fetch.progress.position > nearEnd,
                !state.waiters.contains(where: { $0.intersection(fetch.owned) != nil })
            else { continue }
            fetch.progress.limit = geometry.aligned(ByteRange(fetch.range.lower, fetch.progress.position)).upper
            if let handle = fetch.progress.handle { handles.append(handle) }
        }
        return handles
    }
}
