// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import BlockCache
internal import Configuration
internal import Control
internal import Database
internal import Glibc
internal import Journal
internal import Platform
internal import Policy

extension Engine {
    /// The document of `status --json`.
    func statusReport() -> StatusReport {
        _ = sessions(UploadSelection())
        let volumes = state.inspect { Array($0.volumes.values) }.sorted { $0.session.id < $1.session.id }
        let now = Timestamp.now()
        var conditions = state.inspect { $0.policy.conditionReports(now) }
        for volume in volumes {
            let id = volume.session.id
            conditions["connection:\(id)"] = ConditionReport(volume.facts.connection, now) { $0.rawValue }
            conditions["authentication:\(id)"] = ConditionReport(volume.facts.authentication, now) { $0.rawValue }
            conditions["disk-space:\(id)"] = ConditionReport(volume.facts.hasDiskSpace, now) { $0 ? "enough" : "full" }
        }
        let failed = state.inspect { $0.failed }
        let reports = volumes.map { report($0) } + failed.sorted { $0.key < $1.key }.compactMap { brokenVolume($0, $1) }
        return StatusReport(
            flusher: FlusherReport(running: true, pid: getpid()),
            conditions: conditions,
            volumes: reports
        )
    }

    private func report(_ volume: Volume) -> VolumeReport {
        let session = volume.session
        var report = VolumeReport.empty(session.description, session.places, staging: stagingBytes(of: session))
        report.connection = volume.connectionName
        report.error = volume.trouble
        report.holds = volume.facts.holds.map { UploadReport.Waiting($0) }
        if report.mountpoint == nil { report.cache.bytes = session.cache.usedBytes }
        do throws(JournalError) {
            let counts = try counts(of: session)
            report.pending = VolumeReport.Pending(files: counts.total, bytes: counts.bytes)
            report.conflicts = counts.conflicts
            report.attention = counts.attention + volume.expired.count
            report.activity = activity(of: session, counts)
        } catch {
            report.error = error.description
        }
        let running = state.inspect { state in
            state.jobs.filter { $0.key.volume == session.id }.values.compactMap(\.progress)
        }
        report.uploading = VolumeReport.Uploading(
            files: running.count,
            bytesDone: running.reduce(0) { $0 + $1.sent },
            bytesTotal: running.reduce(0) { $0 + $1.size }
        )
        return report
    }

    private func brokenVolume(_ id: String, _ reason: String) -> VolumeReport? {
        let path = options.directories.registration(of: id) + "/volume.json"
        guard let description = try? VolumeDescription(loading: path) else { return nil }
        var report = VolumeReport.empty(description, options.directories.places(of: description))
        report.error = reason
        return report
    }

    /// One upload as it is now.
    func report(_ node: JournalNode, _ session: VolumeSession) -> UploadReport {
        let row = RowID(volume: session.id, node: node.id.value)
        let (job, waiting, pauses) = state.inspect { state in
            (state.jobs[row], state.scheduler.waiting(row, now: .now()), state.pauses(of: node, in: session))
        }
        var report = UploadReport(node, volume: session.id, transfer: session.transfer(of: node))
        if let job {
            report.state = .uploading
            if let progress = job.progress {
                let sent = progress.sent
                report.sent = max(sent, board.upload(row, sent: sent, at: monotonicSeconds())?.sent ?? 0)
                report.uploadProtocol = progress.protocolName ?? report.uploadProtocol
            }
        } else if report.state == .queued, !pauses.isEmpty {
            report.state = .paused
        } else if report.state == .queued, !waiting.isEmpty {
            report.state = .waiting
        }
        if job == nil {
            let others = waiting.filter { $0.reason != .paused }
            report.waiting = (pauses + others).map { UploadReport.Waiting($0) }
        }
        noteLifetime(&report, node, session)
        return report
    }
}

extension Volume {
    /// How the remote is, in one word.
    var connectionName: String {
        if facts.authentication.value == .refused { return "auth" }
        return facts.connection.value.rawValue
    }
}

extension VolumeReport {
    /// A volume's line with nothing pending.
    ///
    /// `staging` is what its staging files occupy, if the caller knows.
    static func empty(
        _ description: VolumeDescription,
        _ places: VolumePlaces,
        staging: Int64? = nil
    ) -> VolumeReport {
        let isMounted = FileLock.holder(of: places.mountLock).isHeld
        return VolumeReport(
            id: description.id,
            remote: description.remote,
            mountpoint: isMounted ? description.mountpoint : nil,
            pending: Pending(files: 0, bytes: 0),
            staging: Staging(bytes: staging ?? Files.occupiedBytes(in: places.staging)),
            uploading: Uploading(files: 0, bytesDone: 0, bytesTotal: 0),
            conflicts: 0,
            cache: Cache(bytes: 0, limit: description.cacheSize, note: places.cacheNote, isMounted: isMounted)
        )
    }
}

extension VolumeReport.Cache {
    /// With what the mount tells of its cache; it warns only while it lasts.
    package init(bytes: Int64, limit: Int64, note: String, isMounted: Bool) {
        let content = CacheNote.read(note)
        self.init(
            bytes: isMounted ? content.usedBytes ?? bytes : bytes,
            limit: limit,
            damagedBlocks: content.damagedBlocks,
            uncachedReads: content.uncachedReads,
            warning: isMounted ? content.warning : nil
        )
    }
}

extension UploadReport {
    /// The id that commands print and take: part of the volume's id, and the row's number.
    static func id(_ volume: String, _ node: NodeID) -> String { "\(volume.prefix(8))-\(node.value)" }

    /// A row as the journal alone tells it.
    init(_ node: JournalNode, volume: String, transfer: Transfer?) {
        let schedule = node.schedule
        let isResumable = transfer.map { $0.method == .multipart || $0.method == .resumable } ?? false
        self.init(
            id: Self.id(volume, node.id),
            volume: volume,
            path: node.path.string,
            kind: Self.kind(of: node),
            size: node.size,
            sent: transfer?.acknowledged ?? 0,
            copied: transfer?.copiedBytes ?? 0,
            state: schedule.attention != nil ? .attention : schedule.isPaused ? .paused : .queued,
            waiting: [],
            uploadProtocol: transfer?.method.name,
            attempts: Int(schedule.attempts),
            nextAttempt: schedule.nextAttempt?.rfc3339,
            resumable: isResumable,
            error: schedule.attention ?? schedule.lastError
        )
    }

    private static func kind(of node: JournalNode) -> Kind {
        switch node.kind {
        case .tombstone: .delete
        case .directory: .mkdir
        case .hardLink: .copy
        case .file, .symbolicLink: node.generation?.wholeRemote != nil ? .copy : .put
        }
    }
}

extension UploadReport.Waiting {
    init(_ waiting: Waiting) {
        self.init(
            reason: waiting.reason.rawValue,
            since: waiting.since.rfc3339,
            until: waiting.until?.rfc3339,
            detail: waiting.detail
        )
    }
}

extension ConditionReport {
    init<Value>(_ fact: Fact<Value>, _ now: Timestamp, _ name: (Value) -> String) {
        self.init(
            value: name(fact.value),
            source: fact.source,
            age: fact.age(at: now),
            since: fact.since.rfc3339
        )
    }
}
