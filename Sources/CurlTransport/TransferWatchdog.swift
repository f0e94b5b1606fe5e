// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Decides when a transfer has waited too long.
///
/// libcurl's own low-speed limit averages over seconds and also strikes while a
/// server works on its answer; here each kind of waiting has its own limit. Times are those of ``AttendedClock``.
struct TransferWatchdog {
    private let stallTimeout: Double?
    private let answerTimeout: Double?
    private let deadline: Double?
    private let bodyCount: Int64
    private let leastBytes: Int64
    private var lastActivity: Double
    private var lastCount: Int64 = -1
    private var headerBytes: Int64 = 0

    init(_ request: TransferRequest, startedAt: Double) {
        stallTimeout = request.stallTimeout
        answerTimeout = request.answerTimeout
        deadline = request.totalTimeout.map { startedAt + $0 }
        bodyCount = request.body?.count ?? 0
        leastBytes = request.leastBytes
        lastActivity = startedAt
    }

    /// A header line arrived.
    mutating func noteHeader(_ count: Int) { headerBytes += Int64(count) }

    /// Why the transfer is to be given up now, nil when it may go on.
    ///
    /// `hasBegun` is false while it waits for a connection, which only the deadline limits here; `wasHeld`: we had it
    /// wait ourselves.
    mutating func check(
        now: Double,
        hasBegun: Bool,
        wasHeld: Bool = false,
        sent: Int64,
        received: Int64,
        hasHead: Bool
    ) -> TransferError? {
        if let deadline, now >= deadline {
            return TransferError(hasBegun ? .timeout : .unreachable, "no complete answer in time")
        }
        let count = sent + received + headerBytes
        if !hasBegun || wasHeld || count < lastCount || count - lastCount >= leastBytes {
            lastCount = count
            lastActivity = now
            return nil
        }
        let isAnswerAwaited = !hasHead && sent >= bodyCount
        guard let limit = isAnswerAwaited ? answerTimeout : stallTimeout, now - lastActivity >= limit else {
            return nil
        }
        let reason = isAnswerAwaited ? "the server did not answer" : "too little data moved"
        return TransferError(.timeout, "\(reason) for \(Int(limit)) s")
    }
}
