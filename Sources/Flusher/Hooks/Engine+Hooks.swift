// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Database
internal import Journal
internal import Platform
internal import Policy

extension Engine {
    /// For how long a change must have waited, beyond its quiet period, for `before_start` to be asked, in seconds.
    private static let delay = 5.0

    /// Runs the user's programs, and tells the desktop, of what those who read events are told.
    func react(to event: TransferEvent) {
        guard let id = event.volume, let remote = remote(of: id) else { return }
        switch event.event {
        case .idle: hooks.run(.idle(volume: id, remote: remote))
        case .attention: call(id, remote, event.path ?? "", event.error ?? "it needs a person", .upload)
        case .conflict: call(id, remote, event.path ?? "", "it was changed at the remote too", .conflict)
        case .gate where event.waiting?.contains { $0.reason == WaitingReason.auth.rawValue } ?? false:
            call(id, remote, "", "the credentials are missing, wrong or expired", .credentials)
        default: break
        }
    }

    private func call(_ id: String, _ remote: String, _ path: String, _ reason: String, _ kind: Notices.Kind) {
        hooks.run(.attention(volume: id, remote: remote, path: path, reason: reason))
        notifier?.note(kind, path: path, remote: remote)
    }

    private func remote(of id: String) -> String? {
        state.inspect { $0.volumes[id]?.session.description.remote }
    }

    /// Asks the user's program whether an upload that has waited may begin now; false when it is to wait on.
    func mayBegin(_ row: RowID, _ session: VolumeSession) -> Bool {
        guard hooks.asksBeforeStart, let node = (try? session.journal.node(NodeID(row.node))) ?? nil,
            !session.waitsForReaders(node)
        else { return true }
        let isWished = state.inspect { $0.scheduler.row(row)?.facts.isForced ?? false }
        let waited = Double(Timestamp.now().nanoseconds - node.changedAt.nanoseconds) / 1e9
        let patience = session.description.quietPeriod + Self.delay
        guard !isWished, node.generation != nil, node.schedule.attention == nil, waited > patience else { return true }
        let hook = Hook.beforeStart(
            volume: session.id,
            remote: session.description.remote,
            path: node.path.string,
            size: node.size,
            waited: waited
        )
        let answer = hooks.ask(hook)
        // A person who asked for it meanwhile goes before any program.
        if state.inspect({ $0.scheduler.row(row)?.facts.isForced ?? false }) { return true }
        do throws(JournalError) {
            return try carryOut(answer, node, session)
        } catch {
            Log.error("flusher", "\(session.description.remote): \(error)")
            return true
        }
    }

    private func carryOut(
        _ answer: StartAnswer,
        _ node: JournalNode,
        _ session: VolumeSession
    ) throws(JournalError) -> Bool {
        switch answer {
        case .start: return true
        case .change(let wishes): return try change(node, wishes, session)
        case .cancel(let reason):
            Log.notice("hooks", "\(node.path): \(reason)")
            let isNoted = try session.journal.recordFailure(
                node.id,
                of: node.sequence,
                attempts: node.schedule.attempts,
                nextAttempt: nil,
                error: reason,
                attention: reason
            )
            guard isNoted else { return false }
            board.count(session.id) { $0.attention += 1 }
            tell(.attention, RowID(volume: session.id, node: node.id.value), path: node.path) { $0.error = reason }
            return false
        }
    }

    /// Notes what the program wants of an upload; whether it may begin so.
    private func change(
        _ node: JournalNode,
        _ wishes: [UploadWish],
        _ session: VolumeSession
    ) throws(JournalError) -> Bool {
        Log.info("hooks", "\(node.path): before_start changes \(wishes)")
        var outcome = try session.journal.reschedule(node.id) { $0.take(wishes) }
        if outcome == .tooManySettings {
            Log.warning("hooks", "\(node.path): files have too many different settings: only its times are changed")
            outcome = try session.journal.reschedule(node.id) { $0.take(wishes.filter { !$0.isSetting }) }
        }
        guard outcome == .noted else { return false }
        guard let changed = try session.journal.node(node.id) else { return false }
        let row = RowID(volume: session.id, node: node.id.value)
        let mayBegin = state.update { state in
            _ = state.take(changed, of: session.id)
            let now = Timestamp.now()
            return state.scheduler.row(row) != nil && !state.isHeld(row, now: now)
        }
        noteTrafficClasses()
        return mayBegin
    }
}

extension JournalNode.Schedule {
    fileprivate mutating func take(_ wishes: [UploadWish]) {
        for wish in wishes {
            wish.apply(notBefore: &notBefore, deadline: &deadline, priority: &priority, settings: &settings)
        }
    }
}
