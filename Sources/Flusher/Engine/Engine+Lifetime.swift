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
    /// Counts what waits for too long, and says so when it becomes more.
    func watchLifetimes() {
        let now = Timestamp.now()
        let news = state.inspect { state in
            state.volumes.keys.sorted().compactMap { id -> (String, Int)? in
                guard let volume = state.volumes[id] else { return nil }
                let lifetimes = volume.rules.conditions.map(\.lifetime)
                let count = state.scheduler.overdue(of: id, now: now) { work in
                    lifetimes[lifetimes.indices.contains(work.rules) ? work.rules : 0]
                }
                guard count != volume.expired else { return nil }
                state.volumes[id]?.expired = count
                return count > volume.expired ? (volume.session.description.remote, count) : nil
            }
        }
        for (remote, count) in news {
            let what = "uploads wait for longer than their lifetime; see moorage uploads"
            Log.warning("flusher", "\(remote): \(count) \(what)")
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
