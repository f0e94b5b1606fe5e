// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Synchronization

/// The usual ``Cancellation``: a flag that calls its handlers once when set.
package final class CancellationFlag: Cancellation {
    private struct State {
        var isCancelled = false
        var isWindingDown = false
        var trafficClass = TrafficClass.interactive
        var pace: (any TransferPace)?
        var timeouts: TransferTimeouts?
        var nextToken = 0
        var handlers: [Int: @Sendable () -> Void] = [:]
    }

    private let state = Mutex(State())

    package init() {}

    package var isCancelled: Bool { state.withLock { $0.isCancelled } }

    package var isWindingDown: Bool { state.withLock { $0.isWindingDown } }

    package var trafficClass: TrafficClass {
        get { state.withLock { $0.trafficClass } }
        set { state.withLock { $0.trafficClass = newValue } }
    }

    package var pace: (any TransferPace)? {
        get { state.withLock { $0.pace } }
        set { state.withLock { $0.pace = newValue } }
    }

    package var timeouts: TransferTimeouts? {
        get { state.withLock { $0.timeouts } }
        set { state.withLock { $0.timeouts = newValue } }
    }

    /// Lets no new request begin.
    ///
    /// ``cancel()`` may follow.
    package func windDown() {
        state.withLock { $0.isWindingDown = true }
    }

    package func onCancel(_ handler: @escaping @Sendable () -> Void) -> Int {
        let token: Int? = state.withLock { state in
            if state.isCancelled { return nil }
            state.nextToken += 1
            state.handlers[state.nextToken] = handler
            return state.nextToken
        }
        if let token { return token }
        handler()
        return 0
    }

    package func removeHandler(_ token: Int) {
        state.withLock { _ = $0.handlers.removeValue(forKey: token) }
    }

    /// Cancels, running the handlers on this thread.
    package func cancel() {
        let handlers = state.withLock { state in
            state.isCancelled = true
            defer { state.handlers = [:] }
            return state.handlers
        }
        for handler in handlers.values { handler() }
    }
}
