// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Database
internal import Journal
internal import ObjectStore
internal import Platform
internal import Policy

extension Engine {
    /// Takes in what changed in a volume's journal.
    func refresh(_ id: String) {
        guard let volume = state.inspect({ $0.volumes[id] }) else { return }
        let started = monotonicSeconds()
        do throws(JournalError) {
            try takeIn(volume, isFull: volume.seen < 0 || started >= volume.reloadAt)
        } catch {
            Log.error("flusher", "\(volume.session.description.remote): \(error)")
            let reason = error.description
            state.inspect { $0.volumes[id]?.trouble = reason }
        }
        let now = monotonicSeconds()
        // Reading a long queue must not become the main work.
        let pause = max(0.05, (now - started) * 4)
        state.inspect { state in
            state.volumes[id]?.refreshAt = now + max(1, pause)
            state.volumes[id]?.notBefore = now + pause
        }
    }

    private func takeIn(_ volume: Volume, isFull: Bool) throws(JournalError) {
        let sequence = try volume.session.journal.currentSequence()
        if isFull {
            try takeInAll(volume, sequence)
        } else if sequence != volume.seen {
            try takeInChanges(volume, sequence)
        }
        noteDrained(volume.session.id)
    }

    /// The most rows of a volume that are known at once.
    private static let rowLimit = 100_000
    /// So many rows are read at once: more would take much memory, and the others' time.
    private static let portion = 2000

    private func takeInAll(_ volume: Volume, _ sequence: ChangeSequence) throws(JournalError) {
        let session = volume.session
        let ids = try session.journal.pendingPlaces(limit: Self.rowLimit).map(\.id)
        var kept = Set<Int64>(minimumCapacity: ids.count)
        for start in stride(from: 0, to: ids.count, by: Self.portion) {
            let nodes = try session.journal.nodes(ids[start..<min(start + Self.portion, ids.count)])
            for node in nodes { kept.insert(node.id.value) }
            let unknown = missed(nodes, volume)
            takeIn(nodes, volume)
            report(missed: unknown, session)
        }
        let known = kept
        let isWhole = ids.count < Self.rowLimit
        state.update { state in
            state.forgetRows(of: session.id, except: known)
            state.forgetRules(of: session.id)
            state.volumes[session.id]?.seen = sequence
            state.volumes[session.id]?.hasMore = !isWhole
            state.volumes[session.id]?.reloadAt = monotonicSeconds() + (isWhole ? 60 : 2)
        }
    }

    private func takeInChanges(_ volume: Volume, _ sequence: ChangeSequence) throws(JournalError) {
        let id = volume.session.id
        let nodes = try volume.session.journal.nodes(changedAfter: volume.seen, limit: Self.rowLimit)
        // Only up to the last row taken in, when there are more: the rest is read next time.
        let isWhole = nodes.count < Self.rowLimit
        state.inspect { $0.noteFiles(nodes, of: id) }
        takeIn(nodes, volume)
        state.inspect { state in
            state.volumes[id]?.seen = isWhole ? sequence : nodes.last?.sequence ?? sequence
            state.volumes[id]?.hasMore = !isWhole
            // Of rows with the sequence of the last one some may be missing: all are read then.
            if !isWhole { state.volumes[id]?.reloadAt = monotonicSeconds() }
        }
    }

    private func takeIn(_ nodes: [JournalNode], _ volume: Volume) {
        let id = volume.session.id
        let news = newcomers(nodes, volume)
        let superseded = state.update { state in
            if nodes.contains(where: \.isOpen) { state.volumes[id]?.hasOpenRows = true }
            return nodes.compactMap { state.take($0, of: id) }
        }
        tellQueued(news, id)
        for job in superseded where job.mayBeCutShort { job.cancellation.cancel() }
    }

    /// The rows that are not known although they should have been taken in already.
    private func missed(_ nodes: [JournalNode], _ volume: Volume) -> [JournalNode] {
        guard volume.seen >= 0, !volume.hasMore, volume.reloadAt > 0 else { return [] }
        return state.inspect { state in
            nodes.filter { node in
                guard node.sequence <= volume.seen, let row = ScheduledRow(node, of: volume.session.id) else {
                    return false
                }
                return state.scheduler.row(row.id) == nil && state.jobs[row.id] == nil
            }
        }
    }

    /// Says so when a row was missed and is still as it was then: no event is to be missed.
    private func report(missed nodes: [JournalNode], _ session: VolumeSession) {
        for node in nodes.prefix(10) {
            guard let now = try? session.journal.node(node.id), now.sequence == node.sequence else { continue }
            Log.warning("flusher", "\(session.description.remote): a row was overlooked: \(node.path)")
        }
    }

    private func noteDrained(_ id: String) {
        let isNews = state.inspect { state in
            guard let volume = state.volumes[id] else { return false }
            let isDrained = !volume.hasMore && state.scheduler.isEmpty(of: id)
            state.volumes[id]?.wasDrained = isDrained
            return isDrained && !volume.wasDrained
        }
        if isNews { publish(.drained(volume: id)) }
    }
}

extension Engine.State {
    /// Takes in a row; returns the job that works on content nobody wants any more, to be cancelled.
    mutating func take(_ node: JournalNode, of volume: String) -> RunningJob? {
        let id = RowID(volume: volume, node: node.id.value)
        let now = Timestamp.now()
        // Another thread may have read, and taken in, a newer state of the row meanwhile.
        if let known = scheduler.row(id), known.sequence > node.sequence { return nil }
        noteSent(of: id)
        if var row = ScheduledRow(node, of: volume) {
            apply(&row, node)
            if lackingSpace.contains(id) {
                row.facts.needsDiskSpace = true
                row.facts.nextAttempt = nil
            }
            if let session = volumes[volume]?.session { row.facts.isPaused = isPaused(node, of: session) }
            let isHeld = row.facts.isPaused && scheduler.row(id)?.facts.isPaused == false
            scheduler.update(row, now: now)
            // Some need not wait for what a person holds.
            if isHeld { scheduler.release(dependentsOf: id, now: now) }
        } else if !scheduler.isRunning(id) {
            scheduler.remove(id, now: now)
        } else if var row = scheduler.row(id) {
            // It is open for writing, while what was written before is being sent: by the rules of now.
            row.facts.notBefore = node.schedule.notBefore
            apply(&row, node)
            scheduler.update(row, now: now)
        }
        guard let job = jobs[id], let sent = job.generation else { return nil }
        return node.stillUses(sent) ? nil : job
    }

    /// Notes how many files programs completed since the journal was read last.
    mutating func noteFiles(_ nodes: [JournalNode], of volume: String) {
        let count = nodes.count { node in
            !node.isOpen && scheduler.isNews(RowID(volume: volume, node: node.id.value), changed: node.changedAt)
        }
        scheduler.noteFiles(count, now: .now())
    }

    /// Forgets the rows of a volume that are in the journal no more.
    mutating func forgetRows(of volume: String, except kept: Set<Int64>) {
        let now = Timestamp.now()
        for id in scheduler.rows(of: volume) where !kept.contains(id.node) && jobs[id] == nil {
            scheduler.remove(id, now: now)
        }
    }
}

extension JournalNode {
    /// Whether an upload of a content is still of use: it is the row's, or the row's is built on it.
    fileprivate func stillUses(_ sent: GenerationID) -> Bool {
        guard let generation else { return false }
        if generation.id == sent { return true }
        // A chain of more than one step is rare; finishing an upload in vain is no mistake, only a cost.
        if case .generation = generation.underlay { return generation.content.underlayLength > 0 }
        return isOpen
    }
}

extension ScheduledRow {
    /// The scheduler's view of a row; nil for one that is not to be worked on now.
    init?(_ node: JournalNode, of volume: String) {
        guard !node.isOpen, node.schedule.attention == nil else { return nil }
        let isCopy = node.generation?.wholeRemote != nil
        var facts = WorkFacts(changed: node.changedAt)
        facts.isPaused = node.schedule.isPaused
        facts.notBefore = node.schedule.notBefore
        facts.nextAttempt = node.schedule.nextAttempt
        facts.deadline = node.schedule.deadline
        facts.remaining = isCopy ? 0 : node.size
        facts.needsDiskSpace = !isCopy && node.generation?.underlay ?? .none != .none
        self.init(
            id: RowID(volume: volume, node: node.id.value),
            sequence: node.sequence,
            priority: Int(node.schedule.priority),
            size: node.size >= 8 << 20 && !isCopy ? .large : .small,
            facts: facts
        )
    }
}
