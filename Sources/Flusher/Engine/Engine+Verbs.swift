// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control
internal import Database
internal import Journal
internal import ObjectStore
internal import Platform
internal import Policy

/// What a verb came to.
struct VerbOutcome {
    /// The first uploads it applied to.
    var uploads: [UploadReport] = []
    /// How many it applied to.
    var count = 0
    var problems: [String] = []
    /// The places whose rule was made or lifted.
    var rules: [PauseReport] = []
    /// What would hold the uploads that go because of it.
    var overridden = Overridden()
}

extension Engine {
    /// How many uploads the answer to a verb tells of.
    private static let verbReportLimit = 1000
    /// So many rows are read at once: more would take much memory, and the others' time.
    private static let verbPortion = 1000

    /// Carries out a verb on the rows of a selection.
    func change(_ verb: UploadVerb, _ selection: UploadSelection) -> ControlReply {
        var outcome = VerbOutcome()
        var missing = Set(selection.ids)
        for session in sessions(selection) {
            do throws(JournalError) {
                let ids = try selection.places(in: session, limit: .max).map(\.id)
                for id in ids where !missing.isEmpty { missing.remove(UploadReport.id(session.id, id)) }
                switch verb {
                case .pause, .resume: try setPaused(verb == .pause, selection, ids, session, &outcome)
                case .now, .retry, .cancel: try change(verb, ids, session, &outcome)
                }
            } catch {
                outcome.problems.append("\(session.id): \(error)")
                continue
            }
            publish(.changed(volume: session.id))
        }
        return .changed(
            uploads: outcome.uploads,
            refused: missing.sorted().map { "\($0): no such upload" } + outcome.problems,
            pauses: verb == .pause || verb == .resume ? outcome.rules : nil,
            count: outcome.count,
            overridden: outcome.overridden.reports
        )
    }

    private func change(
        _ verb: UploadVerb,
        _ ids: [NodeID],
        _ session: VolumeSession,
        _ outcome: inout VerbOutcome
    ) throws(JournalError) {
        for start in stride(from: 0, to: ids.count, by: Self.verbPortion) {
            let nodes = try session.journal.nodes(ids[start..<min(start + Self.verbPortion, ids.count)])
            let isWish = verb == .now || verb == .retry
            // The moment to wait for is forgotten with it.
            if isWish { noteOverridden(nodes, session, &outcome.overridden) }
            let changed = try apply(verb, nodes, session, &outcome.problems)
            reread(nodes, session, isWish: isWish)
            if isWish { force(nodes, session) }
            note(changed, session, &outcome)
        }
    }

    /// The rows as they are now; those that are gone as they were.
    private func note(_ nodes: [JournalNode], _ session: VolumeSession, _ outcome: inout VerbOutcome) {
        outcome.count += nodes.count
        for node in nodes.prefix(max(0, Self.verbReportLimit - outcome.uploads.count)) {
            outcome.uploads.append(report((try? session.journal.node(node.id)) ?? node, session))
        }
    }

    /// Notes rows that a verb applied to and that are there still.
    func note(_ ids: [NodeID], _ session: VolumeSession, _ outcome: inout VerbOutcome) throws(JournalError) {
        let first = ids.prefix(max(0, Self.verbReportLimit - outcome.uploads.count))
        outcome.uploads += try session.journal.nodes(first).map { report($0, session) }
        outcome.count += ids.count
    }

    /// Returns the rows that the verb was carried out on.
    private func apply(
        _ verb: UploadVerb,
        _ nodes: [JournalNode],
        _ session: VolumeSession,
        _ problems: inout [String]
    ) throws(JournalError) -> [JournalNode] {
        let ids = nodes.map(\.id)
        var changed = nodes
        switch verb {
        // Not here: a pause is of places too.
        case .pause, .resume: break
        case .now, .retry:
            try session.journal.retryNow(ids, answeringAttention: verb == .retry)
            exempt(nodes, session)
        case .cancel:
            changed = []
            for node in nodes {
                guard !node.isOpen else {
                    problems.append("\(node.path): is being written")
                    continue
                }
                if try session.journal.cancel(node.id) {
                    changed.append(node)
                } else {
                    problems.append("\(node.path): changed meanwhile")
                }
            }
            cancelJobs(ids, session)
            state.inspect { $0.maintainAt = 0 }
        }
        return changed
    }

    private func cancelJobs(_ ids: [NodeID], _ session: VolumeSession) {
        let jobs = state.inspect { state in
            ids.compactMap { state.jobs[RowID(volume: session.id, node: $0.value)] }
        }
        for job in jobs { job.cancellation.cancel() }
    }

    /// Reads rows anew after a change that has no place in the order of changes.
    private func reread(_ nodes: [JournalNode], _ session: VolumeSession, isWish: Bool) {
        for node in nodes {
            let now: JournalNode?
            do throws(JournalError) {
                now = try session.journal.node(node.id)
            } catch {
                continue
            }
            state.update { state in
                if let now {
                    _ = state.take(now, of: session.id)
                    // At once: a worker that took it between would not know that somebody asks for it.
                    if isWish {
                        state.scheduler.force(RowID(volume: session.id, node: node.id.value), now: .now())
                    }
                } else {
                    let row = RowID(volume: session.id, node: node.id.value)
                    state.noteSent(of: row)
                    state.scheduler.remove(row, now: .now())
                }
            }
        }
    }
}
