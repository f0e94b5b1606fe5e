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

/// Answers clients out of the engine.
final class EngineControl: ControlHandler {
    private let engine: Engine
    private let onStop: @Sendable () -> Void
    private let version: ProgramVersion

    /// `onStop` is called when a client asks the flusher to end; it must not block.
    init(engine: Engine, onStop: @escaping @Sendable () -> Void) {
        self.engine = engine
        version = ProgramVersion(engine.options.program)
        self.onStop = onStop
    }

    func greet(version: String?) -> Bool {
        if let version, ProgramVersion(version) > self.version, engine.beginHandingOver() {
            Log.notice("flusher", "gives way to version \(version)")
            onStop()
        }
        return engine.isHandingOver
    }

    func handle(_ request: ControlRequest, report: (FlushProgress) -> Bool) -> ControlReply {
        switch request {
        case .credentials(let volume, let credentials):
            engine.take(credentials, for: volume)
            return .done
        case .wake(let volume):
            engine.wake(volume)
            return .done
        case .reread(let volume):
            engine.reread(volume)
            return .done
        case .status: return .status(report: engine.statusReport())
        case .uploads(let selection): return .uploads(uploads: engine.uploadReports(selection))
        case .trees(let selection): return engine.trees(selection)
        case .change(let verb, let selection): return engine.change(verb, selection)
        case .conflicts(let selection): return .conflicts(conflicts: engine.conflictReports(selection))
        case .resolve(let keep, let selection): return engine.resolve(keep, selection)
        case .flush(let selection, let timeout): return engine.flush(selection, timeout: timeout, report: report)
        case .policy: return .policy(report: engine.policyReport())
        case .setPolicy(let changes, let seconds): return engine.set(changes, seconds: seconds)
        case .unsetPolicy(let keys): return engine.unset(keys)
        case .stop:
            onStop()
            return .done
        case .follow:
            engine.learnWaiting()
            return .done
        case .hello, .subscribe: return .failed(reason: "not expected here")
        }
    }
}

extension Engine {
    /// The rows a selection means, by volume; what it names and is not there is told apart.
    func select(_ selection: UploadSelection) -> (rows: [(VolumeSession, [JournalNode])], problems: [String]) {
        var rows: [(VolumeSession, [JournalNode])] = []
        var problems: [String] = []
        var missing = Set(selection.ids)
        for session in sessions(selection) {
            do throws(JournalError) {
                let nodes = try selection.nodes(of: session)
                for node in nodes { missing.remove(UploadReport.id(session.id, node.id)) }
                if !nodes.isEmpty { rows.append((session, nodes)) }
            } catch {
                problems.append("\(session.id): \(error)")
            }
        }
        problems += missing.sorted().map { "\($0): no such upload" }
        return (rows, problems)
    }

    func sessions(_ selection: UploadSelection) -> [VolumeSession] {
        // A client may come before the volumes were opened for the first time, or right after another one was mounted.
        if hasUnopened(selection) { scanVolumes() }
        let wanted = state.inspect { $0.volumes.values.map(\.session) }.filter { selection.means($0.id) }
        return wanted.sorted { $0.id < $1.id }
    }

    /// Whether there may be volumes that are neither open nor known to be broken.
    private func hasUnopened(_ selection: UploadSelection) -> Bool {
        let known = state.inspect { Set($0.volumes.keys).union($0.failed.keys) }
        return VolumeDescription.all(in: options.directories).volumes.contains {
            selection.means($0.id) && !known.contains($0.id)
        }
    }

    /// Carries out a verb on the rows of a selection.
    func change(_ verb: UploadVerb, _ selection: UploadSelection) -> ControlReply {
        let (rows, selectionProblems) = select(selection)
        var problems = selectionProblems
        var reports: [UploadReport] = []
        if verb == .pause || verb == .resume {
            return changePauses(verb == .pause, selection, rows, problems)
        }
        for (session, nodes) in rows {
            do throws(JournalError) {
                let changed = try apply(verb, nodes, session, &problems)
                let isWish = verb == .now || verb == .retry
                reread(nodes, session, isWish: isWish)
                if isWish { force(nodes, session) }
                reports += results(of: changed, session)
            } catch {
                problems.append("\(session.id): \(error)")
                continue
            }
            publish(.changed(volume: session.id))
        }
        return .changed(uploads: reports, refused: problems, pauses: nil)
    }

    private func changePauses(
        _ isPaused: Bool,
        _ selection: UploadSelection,
        _ rows: [(VolumeSession, [JournalNode])],
        _ problems: [String]
    ) -> ControlReply {
        let known = Dictionary(rows.map { ($0.0.id, $0.1) }) { first, _ in first }
        var (problems, reports, rules) = (problems, [UploadReport](), [PauseReport]())
        for session in sessions(selection) {
            do throws(JournalError) {
                let outcome = try setPaused(isPaused, selection, known[session.id] ?? [], session)
                problems += outcome.problems
                rules += outcome.rules
                reports += results(of: outcome.rows, session)
            } catch {
                problems.append("\(session.id): \(error)")
                continue
            }
            publish(.changed(volume: session.id))
        }
        return .changed(uploads: reports, refused: problems, pauses: rules)
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
                    state.scheduler.remove(RowID(volume: session.id, node: node.id.value), now: .now())
                }
            }
        }
    }

    func force(_ nodes: [JournalNode], _ session: VolumeSession) {
        state.update { state in
            for node in nodes {
                // A row made a moment ago, such as a conflict copy, may not have been taken in yet.
                if state.scheduler.row(RowID(volume: session.id, node: node.id.value)) == nil {
                    _ = state.take(node, of: session.id)
                }
                state.scheduler.force(RowID(volume: session.id, node: node.id.value), now: .now())
            }
            state.volumes[session.id]?.probeSoonIfWaiting(monotonicSeconds())
        }
    }

    /// The rows as they are now; those that are gone as they were.
    private func results(of nodes: [JournalNode], _ session: VolumeSession) -> [UploadReport] {
        nodes.prefix(Self.reportLimit).map { node in
            report((try? session.journal.node(node.id)) ?? node, session)
        }
    }
}

extension Volume {
    /// Asks a remote that is away at once, as a person wants something of it.
    mutating func probeSoonIfWaiting(_ now: Double) {
        if probeAt != nil { probeSoon(now) }
    }
}

extension UploadSelection {
    /// Whether a volume may have rows that are meant.
    func means(_ volume: String) -> Bool { volumes.isEmpty || volumes.contains(volume) }

    /// The rows that are meant, in the order of the queue.
    fileprivate func nodes(of session: VolumeSession) throws(JournalError) -> [JournalNode] {
        guard !paths.isEmpty || !ids.isEmpty else { return try session.journal.pendingNodes(limit: 100_000) }
        let numbers = ids.compactMap { id in id.split(separator: "-").last.flatMap { Int64($0) } }
        let nodes = try session.journal.pendingNodes(
            atOrBelow: paths.map { ObjectKey($0) },
            ids: numbers.map { NodeID($0) }
        )
        return nodes.filter { means($0, in: session.id) }
    }

    /// The numbers of the first rows that are meant, in the order of the queue.
    func ids(in session: VolumeSession, limit: Int) throws(JournalError) -> [NodeID] {
        guard !paths.isEmpty || !ids.isEmpty else { return try session.journal.pendingIDs(limit: limit) }
        return try nodes(of: session).prefix(limit).map(\.id)
    }

    /// Whether a row is meant.
    func means(_ node: JournalNode, in volume: String) -> Bool {
        if !ids.isEmpty, ids.contains(UploadReport.id(volume, node.id)) { return true }
        if !paths.isEmpty { return paths.contains { node.path.isInside(ObjectKey($0)) } }
        return ids.isEmpty
    }
}
