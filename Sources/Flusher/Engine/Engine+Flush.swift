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
    /// How many rows are looked at before others may have the state.
    private static let lookedAtOnce = 256

    /// What a flush still waits for in one volume.
    private struct Share {
        let session: VolumeSession
        /// The newest change at the time of the call.
        let sequence: ChangeSequence
        var remaining: [JournalNode]
        /// The rows that were meant at the call, wherever they go.
        var meant: Set<NodeID>
    }

    /// Uploads everything that is pending under a selection now, without regard to quiet periods and backoff.
    ///
    /// Ends when all of it is remote, when the time is over, or when only a person can help what is left.
    func flush(
        _ selection: UploadSelection,
        timeout: Double?,
        report: (FlushProgress) -> Bool
    ) -> ControlReply {
        let end = timeout.map { monotonicSeconds() + $0 }
        let closed = openAll(selection, until: min(end ?? .infinity, monotonicSeconds() + 10))
        var shares: [Share] = []
        var overridden = Overridden()
        do throws(JournalError) {
            shares = try begin(selection, &overridden)
        } catch {
            return .failed(reason: error.description)
        }
        let files = shares.reduce(0) { $0 + $1.remaining.count }
        let bytes = shares.reduce(0) { $0 + $1.remaining.reduce(0) { $0 + $1.size } }
        var nextReport = 0.0
        var spent = 0.0
        while !isStopping {
            let started = monotonicSeconds()
            if started >= nextReport {
                for share in shares { watchOverridden(share.remaining, share.session, &overridden) }
                var progress = progress(of: shares, files: files, bytes: bytes)
                progress.overridden = overridden.reports
                guard report(progress) else { break }
                nextReport = started + 0.5
            }
            shares.removeAll { $0.remaining.isEmpty }
            if shares.isEmpty || isStuck(shares) || started >= end ?? .infinity { break }
            spent += monotonicSeconds() - started
            // Looking at many rows takes what sending them needs.
            let pause = max(0.1, min(spent * 9, 2, (end ?? .infinity) - started))
            _ = state.wait(timeout: pause) { $0.isStopping ? true : nil }
            let looked = monotonicSeconds()
            for index in shares.indices { look(at: &shares[index], selection) }
            spent = monotonicSeconds() - looked
        }
        // Of single files nobody waits for more than that they are sent: `fsync=remote` is among those who ask.
        if shares.isEmpty, selection.paths.isEmpty, selection.ids.isEmpty { adopt(sessions(selection), until: end) }
        let rows = shares.flatMap { share in share.remaining.map { (share.session, $0) } }
        let remaining = rows.prefix(Self.reportLimit).map { session, node in self.report(node, session) }
        // What is pending there is not known, so not all of it can be called remote.
        if remaining.isEmpty, let closed { return .failed(reason: closed) }
        return .flushed(remaining: remaining)
    }

    /// Gives what was sent to the caches now, so that who unmounts and mounts again finds it there.
    ///
    /// Content of many gigabytes, whose checksums take longer than a few seconds, gets there later.
    private func adopt(_ sessions: [VolumeSession], until end: Double?) {
        guard !sessions.isEmpty else { return }
        let isDone = Monitor(false)
        do throws(SystemError) {
            try Thread.detached(name: "adopt") {
                for session in sessions { self.adopt(session) }
                isDone.update { $0 = true }
            }
        } catch {
            // Maintenance does it in a moment.
            return
        }
        let left = (end ?? .infinity) - monotonicSeconds()
        _ = isDone.wait(timeout: min(5, max(0, left))) { $0 ? true : nil }
    }

    private func adopt(_ session: VolumeSession) {
        // It is not opened anew meanwhile.
        state.inspect { $0.adopters[session.id, default: 0] += 1 }
        defer { state.inspect { $0.adopters[session.id, default: 1] -= 1 } }
        do throws(JournalError) {
            try session.adoptFinished()
        } catch {
            Log.warning("flusher", "\(session.description.remote): \(error)")
        }
    }

    /// Opens the volumes of a selection; returns what is in the way of one that cannot be.
    private func openAll(_ selection: UploadSelection, until end: Double) -> String? {
        while true {
            scanVolumes()
            let (open, failed, unrecovered) = state.inspect { (Set($0.volumes.keys), $0.failed, $0.unrecovered) }
            let closed = VolumeDescription.all(in: options.directories).volumes.first {
                !open.contains($0.id) && selection.means($0.id)
            }
            guard let closed else { return nil }
            let reason = failed[closed.id] ?? "it is being opened; try again"
            let isSoonOver = failed[closed.id] == nil || unrecovered.contains(closed.id)
            guard isSoonOver, monotonicSeconds() < end, !isStopping else { return "\(closed.remote): \(reason)" }
            _ = state.wait(timeout: 0.25) { $0.isStopping ? true : nil }
        }
    }

    private func begin(
        _ selection: UploadSelection,
        _ overridden: inout Overridden
    ) throws(JournalError) -> [Share] {
        var shares: [Share] = []
        for session in sessions(selection) {
            refresh(session.id)
            let sequence = try session.journal.currentSequence()
            let names = try session.journal.namesOfFiles(atOrBelow: selection.paths.map { ObjectKey($0) })
            let nodes = try unsettled(session, sequence) { row in
                selection.meansWhatBecame(row, in: session.id) || names.contains(row.path)
            }
            guard !nodes.isEmpty else { continue }
            noteOverridden(nodes, session, &overridden)
            force(nodes, session)
            let meant = Set(nodes.map(\.id))
            shares.append(Share(session: session, sequence: sequence, remaining: nodes, meant: meant))
        }
        return shares
    }

    /// The rows a flush waits for; a file that is being written is not closed yet, so nothing was promised for it.
    private func unsettled(
        _ session: VolumeSession,
        _ sequence: ChangeSequence,
        isMeant: (JournalNode) -> Bool
    ) throws(JournalError) -> [JournalNode] {
        try session.journal.unsettledNodes(through: sequence).filter { !$0.isOpen && isMeant($0) }
    }

    private func look(at share: inout Share, _ selection: UploadSelection) {
        do throws(JournalError) {
            let known = Dictionary(share.remaining.map { ($0.id, $0.path) }) { first, _ in first }
            let (id, meant) = (share.session.id, share.meant)
            let names = try share.session.journal.namesOfFiles(atOrBelow: selection.paths.map { ObjectKey($0) })
            // A row that was moved meanwhile is meant as before.
            share.remaining = try unsettled(share.session, share.sequence) { row in
                selection.meansWhatBecame(row, in: id) || meant.contains(row.id) || names.contains(row.path)
            }
            share.meant.formUnion(share.remaining.map(\.id))
            // What turned up later under the same call is hurried too, also a row that became a conflict copy, and what
            // failed, once its next attempt is due.
            let now = Timestamp.now()
            let forgotten = forgotten(share.remaining, id, now: now)
            let fresh = share.remaining.filter { row in
                known[row.id] != row.path || row.schedule.attempts > 0 && row.schedule.nextAttempt ?? now <= now
                    || forgotten.contains(row.id)
            }
            if !fresh.isEmpty { force(fresh, share.session) }
        } catch {
            Log.warning("flusher", "\(share.session.id): \(error)")
        }
    }

    /// The rows of which the wish that they go now was lost with a first try, or as they were changed during it, and
    /// conditions, a time or something that has to happen first hold them since.
    private func forgotten(_ rows: [JournalNode], _ volume: String, now: Timestamp) -> Set<NodeID> {
        var forgotten: Set<NodeID> = []
        // Others need the state, too.
        for first in stride(from: 0, to: rows.count, by: Self.lookedAtOnce) {
            state.inspect { state in
                for row in rows[first..<min(rows.count, first + Self.lookedAtOnce)] where row.schedule.attempts == 0 {
                    let id = RowID(volume: volume, node: row.id.value)
                    guard !state.scheduler.isRunning(id), let work = state.scheduler.row(id)?.facts else { continue }
                    let isEarly = work.notBefore.map { $0 > now } ?? false
                    let isUnwished = !work.isForced && (isEarly || work.dependency != nil)
                    if isUnwished || state.isHeld(id, now: now) { forgotten.insert(row.id) }
                }
            }
        }
        return forgotten
    }

    /// Whether nothing that is left can go on without a person.
    private func isStuck(_ shares: [Share]) -> Bool {
        let refused = state.inspect { state in
            Set(state.volumes.filter { $0.value.facts.authentication.value == .refused && $0.value.probes > 0 }.keys)
        }
        return shares.allSatisfy { share in
            if refused.contains(share.session.id) { return true }
            var held: Set<NodeID> = []
            return share.remaining.allSatisfy { isHeld($0, share.session, &held) }
        }
    }

    /// Whether a row waits for a person, or for another one that does; `held` are those of which that is known.
    private func isHeld(_ node: JournalNode, _ session: VolumeSession, _ held: inout Set<NodeID>) -> Bool {
        var seen: Set<NodeID> = [node.id]
        var queue = [node]
        while let row = queue.popLast() {
            let isPaused = state.inspect { $0.isPaused(row, of: session) }
            if held.contains(row.id) || isPaused || row.schedule.attention != nil {
                held.insert(node.id)
                return true
            }
            for blocker in (try? session.journal.blockers(of: row)) ?? [] {
                guard let id = blocker.row, seen.insert(id).inserted else { continue }
                if let other = (try? session.journal.node(id)) ?? nil { queue.append(other) }
            }
        }
        return false
    }

    private func progress(of shares: [Share], files: Int, bytes: Int64) -> FlushProgress {
        var left: Int64 = 0
        var count = 0
        for share in shares {
            count += share.remaining.count
            left += share.remaining.reduce(0) { $0 + $1.size }
        }
        return state.inspect { state in
            let ids = Set(shares.map(\.session.id))
            let sent = state.jobs.reduce(Int64(0)) { sum, job in
                ids.contains(job.key.volume) ? sum + (job.value.progress?.sent ?? 0) : sum
            }
            let isOffline = ids.contains { id in
                guard let facts = state.volumes[id]?.facts else { return false }
                return facts.isAway || facts.holds.contains { $0.reason == .offline }
            }
            return FlushProgress(
                filesTotal: files,
                filesDone: max(0, files - count),
                bytesTotal: bytes,
                bytesDone: min(bytes, max(0, bytes - left + sent)),
                isOffline: isOffline
            )
        }
    }
}

extension UploadSelection {
    /// Whether a row is meant, also one that was kept beside the path that is.
    fileprivate func meansWhatBecame(_ node: JournalNode, in volume: String) -> Bool {
        if means(node, in: volume) { return true }
        guard let path = node.conflictOf else { return false }
        return paths.contains { path.isInside(ObjectKey($0)) }
    }
}
