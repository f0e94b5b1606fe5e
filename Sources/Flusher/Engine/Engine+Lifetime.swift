// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Journal
internal import Platform
internal import Policy

/// What could not be sent for longer than its `lifetime`: it is told loudly, goes on being tried, and is never dropped.
extension Engine {
    /// Of so many that wait for too long since one look at the queue it is told; all are counted.
    private static let toldAtOnce = 100

    /// Looks for what waits for too long; of each, whoever is to be told of what needs a person is told once.
    func watchLifetimes() {
        let now = Timestamp.now()
        let news = state.inspect { state in
            state.volumes.keys.sorted().compactMap { id -> (VolumeSession, [RowID])? in
                guard let volume = state.volumes[id] else { return nil }
                let lifetimes = volume.rules.conditions.map(\.lifetime)
                let rows = Set(
                    state.scheduler.overdue(of: id, now: now) { work in
                        lifetimes[lifetimes.indices.contains(work.rules) ? work.rules : 0]
                    }
                )
                guard rows != volume.expired else { return nil }
                // One that is tried, and waits again, is no news.
                state.volumes[id]?.expired = rows.union(volume.expired.filter { state.jobs[$0] != nil })
                return (volume.session, rows.subtracting(volume.expired).sorted())
            }
        }
        for (session, rows) in news where !rows.isEmpty { tell(expired: rows, session) }
    }

    private func tell(expired rows: [RowID], _ session: VolumeSession) {
        let what = "waits for longer than its lifetime; see moorage uploads"
        Log.warning("flusher", "\(session.description.remote): \(rows.count) more of what \(what)")
        board.count(session.id) { $0.attention += rows.count }
        for row in rows.prefix(Self.toldAtOnce) {
            guard let node = (try? session.journal.node(NodeID(row.node))) ?? nil else { continue }
            let reason = report(node, session).error ?? what
            tell(.attention, row, path: node.path) { $0.error = reason }
        }
    }

    /// Marks an upload that waits for too long as one that needs attention, with what it waits for.
    func noteLifetime(_ report: inout UploadReport, _ node: JournalNode, _ session: VolumeSession) {
        guard report.state == .queued || report.state == .waiting else { return }
        let row = RowID(volume: session.id, node: node.id.value)
        let lifetime = state.inspect { $0.conditions(of: row).lifetime }
        let age = Double(Timestamp.now().nanoseconds - node.changedAt.nanoseconds) / 1e9
        guard age > lifetime else { return }
        let reasons = report.waiting.map(\.reason)
        let what = reasons.isEmpty ? report.error ?? "no worker was free" : reasons.joined(separator: ", ")
        report.state = .attention
        report.error = "not sent for \(Int(age)) seconds, waits for: \(what); it goes as soon as it may"
    }
}
