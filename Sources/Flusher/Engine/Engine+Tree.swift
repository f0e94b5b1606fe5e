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
    /// The progress of a selection's volumes, or of the first path named in each, as trees.
    func trees(_ selection: UploadSelection) -> ControlReply {
        var trees: [TreeReport] = []
        for session in sessions(selection) {
            do throws(JournalError) {
                for path in selection.paths.isEmpty ? [.root] : selection.paths.map({ ObjectKey($0) }) {
                    trees.append(try tree(of: session, below: path))
                }
            } catch {
                return .failed(reason: "\(session.description.remote): \(error)")
            }
        }
        return .trees(trees: trees)
    }

    private func tree(of session: VolumeSession, below path: ObjectKey) throws(JournalError) -> TreeReport {
        let ids = try session.journal.pendingPlaces(atOrBelow: [path], limit: .max).map(\.id)
        let now = monotonicSeconds()
        // Few rows have a transfer: theirs are looked up, not each row's.
        let begun = Set(session.transfers.map(\.node))
        let jobs = state.inspect { state in state.jobs.filter { $0.key.volume == session.id } }
        var paused = Set(session.pauses.current.all.map(\.path))
        var leaves: [ProgressTree.Leaf] = []
        leaves.reserveCapacity(ids.count)
        // A part at a time: the rows take more memory than what is told of them.
        for start in stride(from: 0, to: ids.count, by: 1000) {
            for node in try session.journal.nodes(ids[start..<min(start + 1000, ids.count)]) {
                let row = RowID(volume: session.id, node: node.id.value)
                if node.schedule.isPaused { paused.insert(node.path) }
                leaves.append(
                    leaf(node, jobs[row], begun.contains(node.id) ? session.transfer(of: node) : nil, session, now)
                )
            }
        }
        let tree = ProgressTree(leaves, done: board.done(in: session.id), paused: paused, below: path)
        return tree.report(name: session.description.remote)
    }

    private func leaf(
        _ node: JournalNode,
        _ job: RunningJob?,
        _ transfer: Transfer?,
        _ session: VolumeSession,
        _ now: Double
    ) -> ProgressTree.Leaf {
        let row = RowID(volume: session.id, node: node.id.value)
        let seen = board.upload(row, sent: job?.progress?.sent ?? 0, at: now)
        let sent = max(seen?.sent ?? 0, max(job?.progress?.sent ?? 0, transfer?.acknowledged ?? 0))
        var leaf = ProgressTree.Leaf(
            id: UploadReport.id(session.id, node.id),
            path: node.path,
            size: node.size,
            sent: min(node.size, sent),
            state: .queued,
            restarts: seen?.restarts ?? 0
        )
        if let progress = job?.progress {
            leaf.bytesPerSecond = Int64(seen?.rate ?? progress.rate)
            leaf.parts = progress.parts.map { TreeReport(part: $0, of: node.path) }
        }
        leaf.state = state.inspect { state in
            if job != nil { return .uploading }
            if node.schedule.attention != nil { return .attention }
            if state.isPaused(node, of: session) { return .paused }
            return state.scheduler.waiting(row, now: .now()).isEmpty ? .queued : .waiting
        }
        return leaf
    }
}

extension TreeReport {
    fileprivate init(part: (number: Int, size: Int64, sent: Int64), of path: ObjectKey) {
        self.init(kind: .part, name: "\(part.number)", path: path.string)
        size = part.size
        sent = min(part.size, part.sent)
    }
}
