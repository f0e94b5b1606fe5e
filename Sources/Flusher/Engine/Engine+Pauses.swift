// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control
internal import Database
internal import Journal
internal import ObjectStore
internal import Platform
internal import Policy

extension Engine {
    /// Pauses what a selection names, or lets it go on.
    ///
    /// A file that is pending is paused itself, wherever it is moved to; any other path by a rule for all that is or comes
    /// below it, and the whole volume where no path is named.
    func setPaused(
        _ isPaused: Bool,
        _ selection: UploadSelection,
        _ ids: [NodeID],
        _ session: VolumeSession,
        _ outcome: inout VerbOutcome
    ) throws(JournalError) {
        var rows = selection.ids(in: session)
        var places = selection.paths.map { ObjectKey($0) }
        if places.isEmpty, selection.ids.isEmpty { places = [.root] }
        for place in places {
            let node = try session.journal.node(at: place)
            let file = node.flatMap { $0.kind == .directory ? nil : $0 }
            let paused = isPaused ? [] : try session.journal.pausedRows(atOrBelow: place)
            do throws(SystemError) {
                if isPaused {
                    if let file { rows.append(file.id) } else { try hold(place, session, &outcome) }
                } else {
                    rows += try letGo(place, file, isAll: selection.isEverything, paused, session, &outcome)
                }
            } catch {
                outcome.problems.append("\(place): \(error)")
            }
        }
        try session.journal.setPaused(rows, isPaused)
        try retake(ids, session, isPaused: isPaused)
        try note(ids, session, &outcome)
    }

    private func hold(
        _ place: ObjectKey,
        _ session: VolumeSession,
        _ outcome: inout VerbOutcome
    ) throws(SystemError) {
        let now = Timestamp.now()
        guard try session.pauses.change({ $0.hold(place, at: now) }) else {
            return outcome.problems.append("\(place): \(PauseRules.limit) places are paused already")
        }
        outcome.rules.append(PauseReport(path: place.string, since: now.seconds))
    }

    /// Lifts the pause of a place; where it has none of its own those of all below it.
    ///
    /// Returns the rows to let go.
    private func letGo(
        _ place: ObjectKey,
        _ file: JournalNode?,
        isAll: Bool,
        _ paused: [NodeID],
        _ session: VolumeSession,
        _ outcome: inout VerbOutcome
    ) throws(SystemError) -> [NodeID] {
        if !isAll {
            if let file, file.schedule.isPaused { return [file.id] }
            if try session.pauses.change({ $0.letGo(place) }) {
                outcome.rules.append(PauseReport(path: place.string, since: Timestamp.now().seconds))
                return []
            }
        }
        let gone = try session.pauses.change { $0.letGoAll(below: place) }
        outcome.rules += gone.map { PauseReport(path: $0.path.string, since: $0.since.seconds) }
        if gone.isEmpty, paused.isEmpty, let outer = session.pauses.holding(place).last {
            let name = outer.path.isRoot ? "the whole volume" : outer.path.string
            outcome.problems.append(
                "\(place): is paused with \(name), resume that; or uploads now sends it all the same"
            )
        }
        return paused
    }

    /// Takes rows in again after pauses changed, and stops those that are held now.
    private func retake(_ ids: [NodeID], _ session: VolumeSession, isPaused: Bool) throws(JournalError) {
        for start in stride(from: 0, to: ids.count, by: 500) {
            let slice = try session.journal.nodes(ids[start..<min(ids.count, start + 500)])
            let jobs = state.update { state in
                if isPaused {
                    for node in slice { state.exempt.remove(RowID(volume: session.id, node: node.id.value)) }
                }
                for node in slice { _ = state.take(node, of: session.id) }
                return slice.filter { state.isPaused($0, of: session) }.compactMap { node in
                    state.jobs[RowID(volume: session.id, node: node.id.value)]
                }
            }
            for job in jobs { job.cancellation.cancel() }
        }
    }

    /// Notes that a person wants rows to go although a folder above them is paused.
    func exempt(_ nodes: [JournalNode], _ session: VolumeSession) {
        state.inspect { state in
            for node in nodes where !session.pauses.holding(node.path).isEmpty {
                state.exempt.insert(RowID(volume: session.id, node: node.id.value))
            }
        }
    }
}

extension Engine.State {
    /// Whether a person holds a row back, itself or by a place above it.
    func isPaused(_ node: JournalNode, of session: VolumeSession) -> Bool {
        if node.schedule.isPaused { return true }
        let row = RowID(volume: session.id, node: node.id.value)
        return !exempt.contains(row) && !session.pauses.holding(node.path).isEmpty
    }

    /// Every pause that holds a row, for people.
    func pauses(of node: JournalNode, in session: VolumeSession) -> [Waiting] {
        var found: [Waiting] = []
        let row = RowID(volume: session.id, node: node.id.value)
        if !exempt.contains(row) {
            found = session.pauses.holding(node.path).map { rule in
                let place = rule.path.isRoot ? "the whole volume" : rule.path == node.path ? "it" : rule.path.string
                return Waiting(.paused, since: rule.since, detail: "\(place) is paused")
            }
        }
        guard node.schedule.isPaused else { return found }
        return found + [Waiting(.paused, since: node.changedAt, detail: "this upload is paused")]
    }
}
