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
        case .uploads(let selection, nil): return .uploads(uploads: engine.uploadReports(selection))
        case .uploads(let selection, let page?): return engine.uploads(selection, page)
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

    /// The places of the rows that are meant, in order, those behind `last`.
    func places(
        in session: VolumeSession,
        after last: QueuePlace? = nil,
        limit: Int
    ) throws(JournalError) -> [QueuePlace] {
        let numbers = ids(in: session)
        if paths.isEmpty, numbers.isEmpty, !ids.isEmpty { return [] }
        return try session.journal.pendingPlaces(
            atOrBelow: paths.map { ObjectKey($0) },
            ids: numbers,
            after: last,
            limit: limit
        )
    }

    /// The numbers that ids name in one volume.
    func ids(in session: VolumeSession) -> [NodeID] {
        ids.compactMap { id in
            let number = id.split(separator: "-").last.flatMap { Int64($0) }.map { NodeID($0) }
            return number.flatMap { UploadReport.id(session.id, $0) == id ? $0 : nil }
        }
    }

    /// Whether a row is meant.
    func means(_ node: JournalNode, in volume: String) -> Bool {
        if !ids.isEmpty, ids.contains(UploadReport.id(volume, node.id)) { return true }
        if !paths.isEmpty { return paths.contains { node.path.isInside(ObjectKey($0)) } }
        return ids.isEmpty
    }
}
