// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Journal
internal import Platform
internal import Policy

/// What would hold uploads that somebody asks for, found out while one request is carried out.
struct Overridden {
    private var reasons: [String: (remote: String, reasons: Set<WaitingReason>)] = [:]

    /// Takes in what would hold rows of a volume; returns the reasons that were not known yet.
    mutating func add(_ news: Set<WaitingReason>, of session: VolumeSession) -> [WaitingReason] {
        let known = reasons[session.id]?.reasons ?? []
        guard !news.isSubset(of: known) else { return [] }
        reasons[session.id] = (session.description.remote, known.union(news))
        return WaitingReason.allCases.filter { news.contains($0) && !known.contains($0) }
    }

    var reports: [OverriddenReport] {
        reasons.sorted { $0.key < $1.key }.map { id, found in
            let names = WaitingReason.allCases.filter(found.reasons.contains).map(\.rawValue)
            return OverriddenReport(volume: id, remote: found.remote, reasons: names)
        }
    }
}

extension Engine {
    /// How many rows are looked at again and again while somebody waits for them.
    private static let watched = 200
    /// So many are looked at in one go: others wait for the state meanwhile.
    private static let portion = 1000

    /// Notes and logs what would hold rows if nobody asked for them; call it before they are forced.
    func noteOverridden(_ nodes: [JournalNode], _ session: VolumeSession, _ overridden: inout Overridden) {
        var found: Set<WaitingReason> = []
        for start in stride(from: 0, to: nodes.count, by: Self.portion) {
            let some = nodes[start..<min(start + Self.portion, nodes.count)]
            found.formUnion(state.inspect { $0.overridden(some, of: session.id, now: .now()) })
        }
        let news = overridden.add(found, of: session).map(\.rawValue)
        guard !news.isEmpty else { return }
        Log.notice(
            "flusher",
            "\(session.description.remote): sent now as somebody waits for it, although: \(news.joined(separator: ", "))"
        )
    }

    /// The same for some of the rows that are waited for: a gate may have closed since.
    func watchOverridden(_ nodes: [JournalNode], _ session: VolumeSession, _ overridden: inout Overridden) {
        noteOverridden(Array(nodes.prefix(Self.watched)), session, &overridden)
    }
}

extension Engine.State {
    /// What would hold rows if nobody asked for them, but what holds them all the same.
    fileprivate mutating func overridden(
        _ nodes: ArraySlice<JournalNode>,
        of volume: String,
        now: Timestamp
    ) -> Set<WaitingReason> {
        var found: Set<WaitingReason> = []
        for node in nodes {
            let row = RowID(volume: volume, node: node.id.value)
            // A row made a moment ago may not have been taken in yet.
            if scheduler.row(row) == nil { _ = take(node, of: volume) }
            guard var work = scheduler.row(row)?.facts, let facts = volumes[row.volume]?.facts else { continue }
            work.isForced = false
            if let notBefore = work.notBefore, notBefore > now { found.insert(.notBefore) }
            for hold in Policy.holds(of: work, volume: facts, now: now, isBegun: jobs[row] != nil) {
                found.insert(hold.reason)
            }
        }
        return found.filter { !$0.isBeyondWishes }
    }
}
