// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Decides when a transfer has waited too long.
///
/// libcurl's own low-speed limit averages over seconds and also strikes while a
/// server works on its answer; here each kind of waiting has its own limit.
struct TransferWatchdog {
    private let stallTimeout: Double?
    private let answerTimeout: Double?
    private let deadline: Double?
    private let bodyCount: Int64
    private var lastActivity: Double
    private var lastCount: Int64 = -1
    private var isActive = false

    init(_ request: TransferRequest, startedAt: Double) {
        stallTimeout = request.stallTimeout
        answerTimeout = request.answerTimeout
        deadline = request.totalTimeout.map { startedAt + $0 }
        bodyCount = request.body?.count ?? 0
        lastActivity = startedAt
    }

    /// Something arrived.
    mutating func noteActivity() { isActive = true }

    /// Why the transfer is to be given up now, nil when it may go on.
    ///
    /// `hasBegun` is false while it waits for a connection, which only the deadline limits here.
    mutating func check(
        now: Double,
        hasBegun: Bool,
        sent: Int64,
        received: Int64,
        hasHead: Bool
    ) -> TransferError? {
        if let deadline, now >= deadline {
            return TransferError(hasBegun ? .timeout : .unreachable, "no complete answer in time")
        }
        let count = sent + received
        if !hasBegun || isActive || count != lastCount {
            isActive = false
            lastCount = count
            lastActivity = now
            return nil
        }
        let isAnswerAwaited = !hasHead && sent >= bodyCount
        guard let limit = isAnswerAwaited ? answerTimeout : stallTimeout, now - lastActivity >= limit else {
            return nil
        }
        let reason = isAnswerAwaited ? "the server did not answer" : "no data moved"
        return TransferError(.timeout, "\(reason) for \(Int(limit)) s")
    }
}
