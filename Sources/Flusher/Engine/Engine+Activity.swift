// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Control
internal import Database
internal import Journal
internal import Platform
internal import Policy

extension Engine {
    /// The life of the thread that looks at what runs, once a second, and tells those who read events.
    func watchActivity() {
        while state.wait(timeout: 1, until: { $0.isStopping ? true : nil }) == nil {
            lookAtUploads()
            prepareReports()
            tellWaiting()
        }
        var event = TransferEvent(.flusher, at: Timestamp.now().rfc3339)
        event.state = "stopping"
        publish(.activity(event: event))
    }

    /// Takes in how far everything that runs is.
    private func lookAtUploads() {
        let jobs = state.inspect { Array($0.jobs.values) }
        tell(board.look(jobs.compactMap { .init($0) }, at: monotonicSeconds()))
    }

    /// An attempt is about to be told as ended: what was not seen of it yet is told before.
    func lookAtLast(_ job: RunningJob) {
        guard isFollowed, let running = ActivityBoard.Running(job) else { return }
        tell(board.look(only: running, at: monotonicSeconds()))
    }

    private func tell(_ news: [ActivityBoard.News]) {
        guard !news.isEmpty, isFollowed else { return }
        let time = Timestamp.now().rfc3339
        for item in news { publish(.activity(event: TransferEvent(item, at: time))) }
    }

    /// Tells of something that happened to an upload.
    func tell(
        _ kind: TransferEvent.Kind,
        _ row: RowID,
        path: ObjectKey? = nil,
        _ complete: (inout TransferEvent) -> Void = { _ in }
    ) {
        var event = TransferEvent(
            kind,
            at: Timestamp.now().rfc3339,
            volume: row.volume,
            id: UploadReport.id(row.volume, NodeID(row.node)),
            path: path?.string
        )
        complete(&event)
        publish(.activity(event: event))
    }

    // MARK: queued

    /// The rows of a look into the journal whose content was not known yet; none while nobody reads events, and when the
    /// volume was just opened.
    func newcomers(_ nodes: [JournalNode], _ volume: Volume) -> [JournalNode] {
        guard volume.seen >= 0, isFollowed else { return [] }
        return state.inspect { state in
            nodes.filter { node in
                let row = RowID(volume: volume.session.id, node: node.id.value)
                return !node.isOpen && state.scheduler.isNews(row, changed: node.changedAt)
            }
        }
    }

    func tellQueued(_ nodes: [JournalNode], _ volume: String) {
        for node in nodes {
            tell(.queued, RowID(volume: volume, node: node.id.value), path: node.path) { $0.size = node.size }
        }
    }

    // MARK: waiting

    /// Tells which uploads wait for other reasons than before, while somebody reads that.
    private func tellWaiting() {
        let start = monotonicSeconds()
        guard isFollowed else { return narration.withLock { $0.reset() } }
        guard narration.withLock({ $0.isDue(at: start) }) else { return }
        for session in state.inspect({ $0.volumes.values.map(\.session) }) { tellWaiting(session) }
        narration.withLock { $0.ended(from: start, to: monotonicSeconds()) }
    }

    /// Learns what waits for what where nobody read that before: a new reader is told what changes from here on.
    func learnWaiting() {
        let start = monotonicSeconds()
        guard !narration.withLock({ $0.isPrimed }) else { return }
        for session in state.inspect({ $0.volumes.values.map(\.session) }) { tellWaiting(session) }
        narration.withLock { $0.ended(from: start, to: monotonicSeconds()) }
    }

    private func tellWaiting(_ session: VolumeSession) {
        let rows = state.inspect { $0.scheduler.rows(of: session.id) }
        narration.withLock { $0.keep(rows, of: session.id) }
        // The monitor is not held for long: a queue may have very many rows.
        for start in stride(from: 0, to: rows.count, by: 500) where !isStopping {
            let slice = rows[start..<min(rows.count, start + 500)]
            let waits = state.inspect { state in
                slice.filter { !state.scheduler.isRunning($0) }.map { ($0, state.scheduler.waiting($0, now: .now())) }
            }
            let news = narration.withLock { narration in
                waits.filter { narration.isNews($0.0, $0.1.map(\.reason)) }
            }
            for (row, waiting) in news {
                let node = (try? session.journal.node(NodeID(row.node))) ?? nil
                guard let node else { continue }
                tell(.waiting, row, path: node.path) { $0.waiting = waiting.map { .init($0) } }
            }
        }
    }

    // MARK: volumes

    /// Tells those who read events what an event for mounts means to them.
    func narrate(_ event: ControlEvent) {
        switch event {
        case .drained(let volume):
            board.drained(volume)
            state.inspect { $0.volumes[volume]?.session }?.costly.withLock { $0.forget() }
            publish(.activity(event: TransferEvent(.idle, at: Timestamp.now().rfc3339, volume: volume)))
        case .changed(let volume), .reachable(let volume, _): tellGate(of: volume)
        case .activity(let activity): react(to: activity)
        case .committed, .conflict, .overflow: break
        }
    }

    /// Tells when what holds a whole volume is something else than it was.
    func tellGate(of id: String) {
        guard let volume = state.inspect({ $0.volumes[id] }) else { return }
        let reasons = volume.gateReasons
        guard narration.withLock({ $0.isNews(gate: reasons.map(\.reason), of: id) }) else { return }
        var event = TransferEvent(.gate, at: Timestamp.now().rfc3339, volume: id)
        event.state = reasons.isEmpty ? "open" : "closed"
        event.waiting = reasons.map { .init($0) }
        publish(.activity(event: event))
    }
}

/// What was told to those who read events, so that nothing is told twice.
struct Narration: Sendable {
    private var waits: [RowID: [WaitingReason]] = [:]
    private var gates: [String: [WaitingReason]] = [:]
    private var nextScan = 0.0
    /// The first look only learns how everything is.
    private(set) var isPrimed = false

    /// Whether it is time to look at what waits; looking may take a tenth of the time.
    func isDue(at now: Double) -> Bool { now >= nextScan }

    mutating func ended(from start: Double, to end: Double) {
        isPrimed = true
        nextScan = end + (end - start) * 10
    }

    /// Nobody reads any more.
    mutating func reset() {
        waits = [:]
        isPrimed = false
        nextScan = 0
    }

    /// Forgets the rows of a volume that are gone.
    mutating func keep(_ rows: [RowID], of volume: String) {
        guard waits.count > rows.count else { return }
        let kept = Set(rows)
        waits = waits.filter { $0.key.volume != volume || kept.contains($0.key) }
    }

    /// Whether it is to be told that a row that does not run waits for these reasons.
    ///
    /// One that failed and is tried again and again waits once: between its attempts it may seem to wait for nothing.
    mutating func isNews(_ row: RowID, _ reasons: [WaitingReason]) -> Bool {
        let told = waits[row] ?? []
        if reasons == told || reasons.isEmpty && told == [.backoff] { return false }
        waits[row] = reasons.isEmpty ? nil : reasons
        return isPrimed && !reasons.isEmpty
    }

    /// Whether it is to be told that a volume is held for these reasons, none: that it is not held.
    mutating func isNews(gate reasons: [WaitingReason], of volume: String) -> Bool {
        guard gates[volume] ?? [] != reasons else { return false }
        gates[volume] = reasons
        return true
    }
}

extension Volume {
    /// Why none of its uploads that nobody waits for can go.
    var gateReasons: [Waiting] {
        var reasons = facts.holds
        if facts.connection.value == .offline, !reasons.contains(where: { $0.reason == .offline }) {
            reasons.append(Waiting(.offline, since: facts.connection.since))
        }
        if facts.connection.value == .portal, !reasons.contains(where: { $0.reason == .captivePortal }) {
            reasons.append(Waiting(.captivePortal, since: facts.connection.since, detail: trouble))
        }
        if facts.authentication.value == .refused {
            reasons.append(Waiting(.auth, since: facts.authentication.since, detail: trouble))
        }
        if !facts.hasDiskSpace.value { reasons.append(Waiting(.diskFull, since: facts.hasDiskSpace.since)) }
        return reasons
    }
}

extension ActivityBoard.Running {
    /// What a piece of work shows; nil while it sends nothing.
    init?(_ job: RunningJob) {
        guard let progress = job.progress, progress.protocolName != nil else { return nil }
        self.init(
            row: job.row,
            path: job.path.string,
            look: UploadMark.Look(
                content: job.generation?.value ?? 0,
                acknowledged: progress.acknowledged,
                sent: progress.sent,
                size: progress.size
            ),
            transferred: job.transferred
        )
    }
}

extension TransferEvent {
    fileprivate init(_ item: ActivityBoard.News, at time: String) {
        let row = item.running.row
        let kind: Kind =
            switch item.news {
            case nil: .progress
            case .started: .started
            case .resumed: .resumed
            case .restarted: .restarted
            }
        self.init(
            kind,
            at: time,
            volume: row.volume,
            id: UploadReport.id(row.volume, NodeID(row.node)),
            path: item.running.path
        )
        size = item.running.look.size
        sent = item.sent
        if case .resumed(let offset) = item.news { self.offset = offset }
        if kind == .progress { bytesPerSecond = item.rate.map { Int64($0) } }
    }
}
