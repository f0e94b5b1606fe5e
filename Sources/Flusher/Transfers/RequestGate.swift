// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import ObjectStore
internal import Platform
internal import Synchronization

/// Bounds how many requests are in flight at once, over all transfers.
package final class RequestGate: Sendable {
    private let free: Monitor<Int>
    private let count = Atomic<Int>(0)

    /// How many requests were begun.
    var total: Int { count.load(ordering: .relaxed) }

    package init(limit: Int) {
        precondition(limit >= 1, "gate of \(limit)")
        free = Monitor(limit)
    }

    /// Runs `body` when there is room; throws `.cancelled` when `cancellation` came first, also when it only winds down.
    func run<Value>(
        _ cancellation: any Cancellation,
        _ body: () throws(StoreError) -> Value
    ) throws(StoreError) -> Value {
        let token = cancellation.onCancel { [free] in free.update { _ in } }
        defer { cancellation.removeHandler(token) }
        let entered: Bool? = free.wait { count in
            if cancellation.isCancelled || cancellation.isWindingDown { return false }
            guard count > 0 else { return nil }
            count -= 1
            return true
        }
        guard entered == true else { throw StoreError(.cancelled, "given up before the request") }
        defer { free.update { $0 += 1 } }
        count.add(1, ordering: .relaxed)
        return try body()
    }
}
