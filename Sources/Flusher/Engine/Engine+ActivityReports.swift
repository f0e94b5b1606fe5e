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
    /// How many of the uploads that come next `status` names.
    private static let shownNext = 8

    /// What the journal holds, in numbers; of a long queue as it was a moment ago.
    func counts(of session: VolumeSession) throws(JournalError) -> JournalCounts {
        try kept(\.counts, session) { () throws(JournalError) in try session.journal.counts() }
    }

    /// What staging files occupy; of very many as it was a moment ago.
    func stagingBytes(of session: VolumeSession) -> Int64 {
        kept(\.staging, session) { Files.occupiedBytes(in: session.places.staging) }
    }

    /// What the queue of a volume waits for; of a long one as it was a moment ago.
    func summary(of session: VolumeSession) -> QueueSummary {
        kept(\.summary, session) {
            state.inspect { $0.scheduler.summary(of: session.id, first: Self.shownNext, now: .now()) }
        }
    }

    private func kept<Value, Failure>(
        _ report: any WritableKeyPath<CostlyReports, CostlyValue<Value>> & Sendable,
        _ session: VolumeSession,
        _ find: () throws(Failure) -> Value
    ) throws(Failure) -> Value {
        if let kept = session.costly.withLock({ $0[keyPath: report].kept(at: monotonicSeconds()) }) { return kept }
        // Not the time that passes: on a machine that is busy with other things that is long for the shortest queue.
        let start = processorSeconds()
        let value = try find()
        let cost = processorSeconds() - start
        session.costly.withLock { $0[keyPath: report].keep(value, at: monotonicSeconds(), cost: cost) }
        return value
    }

    /// Finds out what is costly before somebody asks for it.
    func prepareReports() {
        for session in state.inspect({ $0.volumes.values.map(\.session) }) where !isStopping {
            _ = try? counts(of: session)
            _ = stagingBytes(of: session)
            _ = summary(of: session)
        }
    }

    /// How the uploads of a volume get on.
    func activity(of session: VolumeSession, _ counts: JournalCounts) -> ActivityReport {
        let now = monotonicSeconds()
        let transfers = runningTransfers(of: session.id, at: now)
        let summary = summary(of: session)
        let running = Set(transfers.map(\.id))
        let idle = session.transfers.filter { !running.contains(UploadReport.id(session.id, $0.node)) }
        let sent = transfers.reduce(0) { $0 + $1.sent } + idle.reduce(0) { $0 + $1.acknowledged }
        let left = max(0, counts.bytes - sent)
        let rate = board.volume(session.id).meter.rate(at: now)
        return ActivityReport(
            bytesPerSecond: Int64(rate ?? 0),
            secondsLeft: left > 0 ? RateMeter.secondsLeft(left, at: rate)?.tenths : nil,
            bytesLeft: left,
            ready: summary.ready,
            waiting: summary.groups.map { .init(files: $0.files, waiting: .init($0.waiting)) },
            oldestWait: counts.oldest.map { .init(since: $0, now: .now()) },
            transfers: transfers,
            next: next(summary, session)
        )
    }

    /// The uploads that run, the one that is furthest first.
    private func runningTransfers(of volume: String, at now: Double) -> [TransferReport] {
        let jobs = state.inspect { state in state.jobs.filter { $0.key.volume == volume }.map(\.value) }
        let reports = jobs.compactMap { job -> TransferReport? in
            guard let progress = job.progress else { return nil }
            let seen = board.upload(job.row, sent: progress.sent, at: now)
            let sent = min(progress.size, max(progress.sent, seen?.sent ?? 0))
            let rate = seen?.rate ?? progress.rate
            return TransferReport(
                id: UploadReport.id(volume, job.node),
                path: job.path.string,
                size: progress.size,
                sent: sent,
                restarts: seen?.restarts ?? 0,
                bytesPerSecond: Int64(rate),
                secondsLeft: RateMeter.secondsLeft(progress.size - sent, at: rate)?.tenths,
                uploadProtocol: progress.protocolName
            )
        }
        return reports.sorted { ($0.sent, $1.id) > ($1.sent, $0.id) }
    }

    private func next(_ summary: QueueSummary, _ session: VolumeSession) -> [UploadReport] {
        summary.first.compactMap { row in
            guard let node = (try? session.journal.node(NodeID(row.node))) ?? nil else { return nil }
            let report = report(node, session)
            return report.state == .uploading ? nil : report
        }
    }
}

/// What takes long to find out about a volume with a long queue.
struct CostlyReports: Sendable {
    var counts = CostlyValue<JournalCounts>()
    var staging = CostlyValue<Int64>()
    var summary = CostlyValue<QueueSummary>()

    /// Much is different from what it was.
    mutating func forget() { self = CostlyReports() }
}

extension ActivityReport.Wait {
    fileprivate init(since: Timestamp, now: Timestamp) {
        let seconds = max(0, Double(now.nanoseconds - since.nanoseconds) / 1e9)
        self.init(since: since.rfc3339, seconds: seconds.tenths)
    }
}

extension Double {
    /// Nobody knows it better than to a tenth.
    var tenths: Double { (self * 10).rounded() / 10 }
}
