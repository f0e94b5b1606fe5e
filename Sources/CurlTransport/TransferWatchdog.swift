// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Decides when a transfer has waited too long.
///
/// libcurl's own low-speed limit averages over seconds and also strikes while a
/// server works on its answer; here each kind of waiting has its own limit. Times are those of ``AttendedClock``.
struct TransferWatchdog {
    private let stallTimeout: Double?
    private let answerTimeout: Double?
    private var deadline: Double?
    private let bodyCount: Int64
    private let leastBytes: Int64
    private var lastActivity: Double
    private var lastCheck: Double
    private var lastCount: Int64 = -1
    private var headerBytes: Int64 = 0

    init(_ request: TransferRequest, startedAt: Double) {
        stallTimeout = request.stallTimeout
        answerTimeout = request.answerTimeout
        deadline = request.totalTimeout.map { startedAt + $0 }
        bodyCount = request.body?.count ?? 0
        leastBytes = request.leastBytes
        lastActivity = startedAt
        lastCheck = startedAt
    }

    /// How long nothing may move on a connection whose network has changed, in seconds.
    private static let doubtfulTimeout = 5.0
    /// Since when it is doubtful that the connection still leads anywhere; nil: it is not.
    private var doubtful: Double?

    /// The network has changed: what does not move from now on is taken for dead soon.
    ///
    /// A server that works on its answer sends nothing either; it is asked again then.
    mutating func doubt(at now: Double) {
        doubtful = now
        lastActivity = min(lastActivity, now)
    }

    /// A header line arrived.
    mutating func noteHeader(_ count: Int) { headerBytes += Int64(count) }

    /// Why the transfer is to be given up now, nil when it may go on.
    ///
    /// `hasBegun` is false while it waits for a connection, which only the deadline limits here, and not even that while
    /// those that have the connections get on (`isOtherMoving`): then it waits for us, not for the remote. `wasHeld`: we had
    /// it wait ourselves.
    mutating func check(
        now: Double,
        hasBegun: Bool,
        isOtherMoving: Bool = false,
        wasHeld: Bool = false,
        sent: Int64,
        received: Int64,
        hasHead: Bool
    ) -> TransferError? {
        if !hasBegun, isOtherMoving, let end = deadline { deadline = end + max(0, now - lastCheck) }
        lastCheck = now
        if let deadline, now >= deadline {
            return TransferError(hasBegun ? .timeout : .unreachable, "no complete answer in time")
        }
        let count = sent + received + headerBytes
        if !hasBegun || wasHeld || count < lastCount || count - lastCount >= leastBytes {
            // What the kernel had taken already says nothing of the way.
            if let since = doubtful, now - since > 1, count > lastCount { doubtful = nil }
            lastCount = count
            lastActivity = now
            return nil
        }
        if let doubtful, now - max(doubtful, lastActivity) >= Self.doubtfulTimeout {
            return TransferError(.timeout, "nothing moved since the network changed")
        }
        let isAnswerAwaited = !hasHead && sent >= bodyCount
        guard let limit = isAnswerAwaited ? answerTimeout : stallTimeout, now - lastActivity >= limit else {
            return nil
        }
        let reason = isAnswerAwaited ? "the server did not answer" : "too little data moved"
        return TransferError(.timeout, "\(reason) for \(Int(limit)) s")
    }
}
