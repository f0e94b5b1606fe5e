// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Bandwidth
internal import Base
internal import Journal
internal import ObjectStore
internal import Platform
internal import Policy

/// A row being worked on, as others see it.
final class RunningJob: Sendable {
    private struct State {
        var path: ObjectKey
        var progress: TransferProgress?
        /// What was handed to the network for uploads before that one.
        var transferredBefore: Int64 = 0
        var generation: GenerationID?
        var wish: ChangeSequence?
    }

    let row: RowID
    /// It closes a circle of very many rows, and is to break it.
    let closesLongCircle: Bool
    /// Somebody waits for it.
    let isAwaited: Bool
    let cancellation = CancellationFlag()
    /// How fast it may go where that is set for the file itself.
    let ownLimit = RateLimit()
    /// What was sent of it and not yet counted for a budget.
    let sent = SentBytes()
    private let state: Lock<State>

    init(row: RowID, closesLongCircle: Bool = false, isAwaited: Bool = false, path: ObjectKey) {
        self.row = row
        self.isAwaited = isAwaited
        self.closesLongCircle = closesLongCircle
        state = Lock(State(path: path))
    }

    var node: NodeID { NodeID(row.node) }

    var path: ObjectKey {
        get { state.withLock { $0.path } }
        set { state.withLock { $0.path = newValue } }
    }

    /// How far the upload is, once one runs.
    var progress: TransferProgress? {
        get { state.withLock { $0.progress } }
        set {
            state.withLock { state in
                state.transferredBefore += state.progress?.transferred ?? 0
                state.progress = newValue
            }
        }
    }

    /// All bytes handed to the network by this work, those that were sent again too.
    var transferred: Int64 {
        state.withLock { $0.transferredBefore + ($0.progress?.transferred ?? 0) }
    }

    /// Whether the request in flight can be cut without doubt about what came of it.
    ///
    /// A PUT that is cut may still be taken by the server, and then after we looked: let it end and be replaced. What
    /// other protocols have sent counts for nothing before it is completed.
    var mayBeCutShort: Bool { progress?.protocolName != "put" }

    /// Whether the requests under way are worth their end when the work is to stop.
    var isNearlyDone: Bool {
        guard let progress else { return false }
        return Preemption.letsFinish(remaining: progress.remainingInFlight, rate: progress.rate)
    }

    /// The last change of the row that the work knows of.
    var wish: ChangeSequence? {
        get { state.withLock { $0.wish } }
        set { state.withLock { $0.wish = newValue } }
    }

    /// The content being sent.
    var generation: GenerationID? {
        get { state.withLock { $0.generation } }
        set { state.withLock { $0.generation = newValue } }
    }
}
