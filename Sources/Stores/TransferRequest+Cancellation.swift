// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import CurlTransport
internal import ObjectStore

extension TransferRequest {
    /// Lets whoever may give it up say how urgent it is, how fast it goes, and how long its content is waited for.
    mutating func go(by cancellation: any Cancellation) {
        trafficClass = { cancellation.trafficClass }
        pace = { cancellation.pace }
        guard let timeouts = cancellation.timeouts, body?.count ?? 0 > 0 else { return }
        connectTimeout = timeouts.connect
        stallTimeout = timeouts.stall
        // What is slow to take content in is slow to answer.
        answerTimeout = answerTimeout.map { max($0, timeouts.stall) }
    }
}
