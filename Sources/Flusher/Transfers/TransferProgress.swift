// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// How far one transfer is, written by the transfer threads and read by whoever asks.
package final class TransferProgress: Sendable {
    private struct State {
        var acknowledged: Int64 = 0
        /// Bytes handed to the network by each request in flight, by part number.
        var inFlight: [Int: Int64] = [:]
        var name: String?
    }

    package let size: Int64
    private let state = Lock(State())

    package init(size: Int64) {
        self.size = size
    }

    /// Bytes acknowledged or on their way, at most the size.
    package var sent: Int64 {
        state.withLock { min(size, $0.inFlight.values.reduce($0.acknowledged, +)) }
    }

    /// The protocol in use, once it is known.
    package var protocolName: String? { state.withLock { $0.name } }

    func use(_ name: String) {
        state.withLock { $0.name = name }
    }

    func acknowledge(_ bytes: Int64) {
        state.withLock { $0.acknowledged = bytes }
    }

    func sending(_ part: Int, _ bytes: Int64) {
        state.withLock { $0.inFlight[part] = bytes }
    }

    /// Ends a request, acknowledged or not.
    func ended(_ part: Int, acknowledged: Int64? = nil) {
        state.withLock { state in
            state.inFlight[part] = nil
            if let acknowledged { state.acknowledged = acknowledged }
        }
    }
}
