// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// How far one transfer is, written by the transfer threads and read by whoever asks.
package final class TransferProgress: Sendable {
    private struct State {
        var acknowledged: Int64 = 0
        /// Bytes handed to the network by each request in flight, by part number.
        var inFlight: [Int: Int64] = [:]
        /// The sizes of the parts under way.
        var sizes: [Int: Int64] = [:]
        var name: String?
        /// How often the remote asked for less, or did not answer in time.
        var troubles = 0
        /// When the first bytes went out (monotonic seconds), and what had been sent by then.
        var began: (time: Double, sent: Int64)?
        /// Bytes handed to the network, those that are sent again too.
        var transferred: Int64 = 0

        var sent: Int64 { inFlight.values.reduce(acknowledged, +) }
    }

    package let size: Int64
    /// Where what is sent is counted too.
    private let total: SentBytes?
    private let state = Lock(State())

    package init(size: Int64, total: SentBytes? = nil) {
        self.size = size
        self.total = total
    }

    /// Bytes acknowledged or on their way, at most the size.
    package var sent: Int64 {
        state.withLock { min(size, $0.sent) }
    }

    /// Bytes that the remote acknowledged.
    var acknowledged: Int64 { state.withLock { $0.acknowledged } }

    /// Bytes handed to the network, those that are sent again too: never falls.
    var transferred: Int64 { state.withLock { $0.transferred } }

    /// The parts under way: their numbers, sizes, and the bytes handed to the network.
    var parts: [(number: Int, size: Int64, sent: Int64)] {
        state.withLock { state in
            state.sizes.map { ($0.key, $0.value, state.inFlight[$0.key, default: 0]) }.sorted { $0.0 < $1.0 }
        }
    }

    /// What the requests under way have still to send: of parts what is left of them, else all that is left.
    var remainingInFlight: Int64 {
        state.withLock { state in
            guard !state.sizes.isEmpty else { return max(0, size - state.sent) }
            return state.sizes.reduce(0) { $0 + max(0, $1.value - state.inFlight[$1.key, default: 0]) }
        }
    }

    /// Bytes a second since the first of them went out; 0 when none did.
    var rate: Double {
        state.withLock { state in
            guard let began = state.began else { return 0 }
            return Double(max(0, state.sent - began.sent)) / max(0.1, monotonicSeconds() - began.time)
        }
    }

    /// The protocol in use, once it is known.
    package var protocolName: String? { state.withLock { $0.name } }

    /// An upload by this protocol begins, or goes on behind what the remote has.
    func use(_ name: String, acknowledged: Int64 = 0) {
        state.withLock { state in
            state.name = name
            state.acknowledged = acknowledged
        }
    }

    /// The remote asked for less, or did not answer in time, which is waited for in place.
    func noteTrouble() {
        state.withLock { $0.troubles += 1 }
    }

    /// How often that was so since it was asked last.
    func takeTroubles() -> Int {
        state.withLock { state in
            defer { state.troubles = 0 }
            return state.troubles
        }
    }

    func acknowledge(_ bytes: Int64) {
        state.withLock { $0.acknowledged = bytes }
    }

    /// The remote has so many bytes, the last of them by the request of `part` that goes on.
    func acknowledge(_ bytes: Int64, by part: Int) {
        state.withLock { state in
            let more = max(0, bytes - state.acknowledged)
            state.inFlight[part] = state.inFlight[part].map { max(0, $0 - more) }
            state.acknowledged = bytes
        }
    }

    /// A part of that many bytes is about to be sent.
    func begin(_ part: Int, size: Int64) {
        state.withLock { $0.sizes[part] = size }
    }

    func sending(_ part: Int, _ bytes: Int64) {
        state.withLock { state in
            if state.began == nil { state.began = (monotonicSeconds(), state.sent) }
            total?.add(bytes - state.inFlight[part, default: 0])
            state.transferred += max(0, bytes - state.inFlight[part, default: 0])
            state.inFlight[part] = bytes
        }
    }

    /// Ends a request, acknowledged or not.
    func ended(_ part: Int, acknowledged: Int64? = nil) {
        state.withLock { state in
            state.inFlight[part] = nil
            state.sizes[part] = nil
            if let acknowledged { state.acknowledged = acknowledged }
        }
    }
}
