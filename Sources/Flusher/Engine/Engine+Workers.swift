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

extension Engine {
    private struct Assignment {
        var work: RowWork
        var session: VolumeSession
        var row: RowID
    }

    /// A worker's life: takes the next row, does what can be done for it, tells what came of it.
    func work() {
        while let assignment = state.wait(until: { self.next(&$0) }) {
            guard let assignment = assignment else { return }
            guard mayBegin(assignment.row, assignment.session) else {
                takeInAgain(assignment.row, assignment.session)
                continue
            }
            let outcome = assignment.work.run()
            conclude(assignment.row, assignment.session, outcome)
        }
    }

    /// The next assignment, nil to wait for one; the inner nil ends the worker.
    private func next(_ state: inout State) -> Assignment?? {
        if state.isStopping { return .some(nil) }
        if state.isHandingOver { return nil }
        guard let row = state.scheduler.next(now: .now()) else { return nil }
        guard let volume = state.volumes[row.id.volume], let store = volume.session.store else {
            state.scheduler.block(row.id, on: nil, detail: "the remote is not known yet", now: .now())
            return nil
        }
        let job = RunningJob(
            row: row.id,
            closesLongCircle: row.closesLongCircle,
            isAwaited: state.scheduler.isAwaited(row.id),
            path: .root
        )
        state.jobs[row.id] = job
        job.cancellation.trafficClass = state.trafficClass(of: row.id)
        job.cancellation.pace = state.pace(of: row.id)
        job.cancellation.timeouts = state.timeouts(of: row.id)
        let settings = WorkSettings(
            gate: gate,
            // What is slowed down gains nothing by more connections, which others may need.
            parallelism: job.cancellation.pace == nil ? options.partsPerFile : 1,
            isAsPlanned: { [weak self] node in self?.state.inspect { $0.isAsPlanned(node, row.id) } ?? true },
            isHeld: { [weak self] node in
                let other = RowID(volume: row.id.volume, node: node.value)
                return self?.state.inspect { $0.isHeldBack(other, now: .now()) } ?? false
            },
            host: options.host,
            publish: { [weak self] in self?.publish($0, of: job) }
        )
        let work = RowWork(session: volume.session, store: store, job: job, settings: settings)
        return .some(Assignment(work: work, session: volume.session, row: row.id))
    }

    private func publish(_ event: WorkEvent, of job: RunningJob) {
        lookAtLast(job)
        switch event {
        case .committed(let volume, let path):
            board.finished(volume, path, size: job.progress?.size ?? 0)
            publish(.committed(volume: volume, path: path.string))
            tell(.finished, job.row, path: path) { $0.size = job.progress?.size }
        case .conflict(let volume, let path, let copy):
            board.count(volume) { $0.conflicts += 1 }
            tell(.conflict, job.row, path: path) { $0.copy = copy.string }
            Log.notice("flusher", "conflict: \(path) changed at the remote too; ours is kept as \(copy)")
            publish(.conflict(volume: volume, path: path.string, copy: copy.string))
        }
    }

    // MARK: outcomes

    private func conclude(_ row: RowID, _ session: VolumeSession, _ outcome: WorkOutcome) {
        switch outcome {
        case .progress:
            let hadLacked = state.inspect { state in
                state.refusals.forget(row)
                return state.lackingSpace.remove(row) != nil
            }
            var outage: ServerOutage?
            observe(row.volume) { volume, now in
                outage = volume.outage
                volume.succeeded(now)
                volume.relapses = 0
                volume.work.done += 1
                if hadLacked { volume.space.succeed() }
            }
            noteAnswer(of: row.volume, after: outage)
            takeInAgain(row, session, isRound: true)
        case .failed(let failure):
            fail(row, session, failure)
            // Nothing was done, and that each second perhaps.
            if case .inUse = failure { return }
        }
        noteMaintenance(session)
    }

    /// Lets maintenance look soon when something was left for it.
    private func noteMaintenance(_ session: VolumeSession) {
        let soon = monotonicSeconds() + 0.2
        state.inspect { state in state.maintainAt = min(state.maintainAt, soon) }
    }

    /// Reads a row anew after work on it; `isRound`: the work says that it may go on at once, `isWished`: what a person
    /// asked for is still to be done.
    private func takeInAgain(_ row: RowID, _ session: VolumeSession, isRound: Bool = false, isWished: Bool = false) {
        let node: JournalNode?
        do throws(JournalError) {
            node = try session.journal.node(NodeID(row.node))
        } catch {
            return giveBack(row, detail: error.description)
        }
        if isRound, let node, isGoingRound(row, node) {
            return giveBack(row, detail: "it comes out as it was again and again")
        }
        noteEnd(of: row, isDone: node == nil)
        let isDrained = state.update { state in
            if node == nil {
                state.rounds[row] = nil
                state.refusals.forget(row)
                state.exempt.remove(row)
            }
            state.noteSent(of: row)
            state.jobs[row] = nil
            // What a person asked for is not done by one round of several; what is written anew is another thing.
            let isSame = state.scheduler.row(row)?.facts.changed == node?.changedAt && node?.schedule.isPaused == false
            state.scheduler.finished(row, keepsForce: (isRound || isWished) && isSame, now: .now())
            if let node {
                _ = state.take(node, of: row.volume)
            } else {
                state.scheduler.remove(row, now: .now())
            }
            guard let volume = state.volumes[row.volume], !volume.hasMore else { return false }
            let isDrained = state.scheduler.isEmpty(of: row.volume)
            state.volumes[row.volume]?.wasDrained = isDrained
            return isDrained
        }
        if isDrained { publish(.drained(volume: row.volume)) }
    }

    /// Whether work on a row keeps leaving it as it was, which must cost a pause at least.
    private func isGoingRound(_ row: RowID, _ node: JournalNode) -> Bool {
        state.inspect { state in
            guard state.scheduler.row(row)?.sequence == node.sequence else {
                state.rounds[row] = nil
                return false
            }
            let rounds = state.rounds[row, default: 0] + 1
            state.rounds[row] = rounds
            return rounds > 16
        }
    }

    /// Notes what an attempt that is over has sent.
    private func noteEnd(of row: RowID, isDone: Bool = false) {
        guard let job = state.inspect({ $0.jobs[row] }) else { return }
        board.ended(row, transferred: job.transferred, isDone: isDone)
    }

    /// Puts a row back for a moment.
    private func giveBack(
        _ row: RowID,
        on blocker: RowID? = nil,
        for seconds: Double = 0.5,
        reason: WaitingReason = .dependency,
        detail: String
    ) {
        noteEnd(of: row)
        state.update { state in
            state.noteSent(of: row)
            let wasAwaited = state.jobs[row]?.isAwaited ?? true
            state.jobs[row] = nil
            // Who began to wait for it since is not waited for as long as if nobody did.
            let isNews = reason == .open && !wasAwaited && state.scheduler.isAwaited(row)
            let pause = isNews ? 0 : seconds
            state.scheduler.block(row, on: blocker, for: pause, reason: reason, detail: detail, now: .now())
        }
    }

    private func fail(_ row: RowID, _ session: VolumeSession, _ failure: WorkFailure) {
        switch failure {
        case .changed: takeInAgain(row, session, isRound: true)
        case .blocked(let node, let detail):
            giveBack(row, on: node.map { RowID(volume: row.volume, node: $0.value) }, detail: detail)
        case .later(let seconds, let detail): giveBack(row, for: seconds, detail: detail)
        case .inUse(let seconds, let detail): giveBack(row, for: seconds, reason: .open, detail: detail)
        case .journal(let error):
            Log.error("flusher", "\(session.description.remote): \(error)")
            // It is the whole volume's trouble, and asking for each row makes it no better.
            giveBack(row, for: error.kind == .busy ? 0.5 : 5, detail: error.description)
        case .diskFull(let reason, let needed):
            let free = (try? Files.freeSpace(at: session.places.state)) ?? 0
            state.inspect { _ = $0.lackingSpace.insert(row) }
            observe(row.volume) { volume, now in volume.lackSpace(needed, free: free, now) }
            record(row, session, error: reason, attention: false)
        case .local(let error): record(row, session, error: error.description, attention: false, patience: 5)
        case .attention(let reason): record(row, session, error: reason, attention: true)
        case .store(let error): fail(row, session, error)
        }
    }

    private func fail(_ row: RowID, _ session: VolumeSession, _ error: StoreError) {
        switch error.cause {
        case .cancelled: takeInAgain(row, session, isWished: true)
        case .unreachable where state.inspect { $0.isImpatient(row) } && error.code != StoreError.captivePortal:
            noteTimeout(error, row)
            // That it took too long for this one says nothing for all: the remote is asked.
            observe(row.volume) { volume, _ in volume.probeAt = volume.probeAt ?? monotonicSeconds() }
            record(row, session, error: error.message, attention: false)
        case .unreachable:
            noteTimeout(error, row)
            lose(session, error, source: "requests")
            takeInAgain(row, session, isWished: true)
        case .authentication:
            observe(row.volume) { volume, now in volume.refused(error, now) }
            takeInAgain(row, session)
        case .temporary, .corrupted, .protocolViolation:
            let isAway = countFailure(row.volume, error)
            if error.isOverload {
                state.inspect { $0.scheduler.noteTrouble(with: row.volume, at: monotonicSeconds()) }
            }
            // A remote that fails everything is as good as away: it is asked now and then, rows are not charged.
            if isAway { lose(session, error, source: "failures") }
            record(row, session, error: error.message, attention: false, hint: error.retryAfter)
        case .localInput where error.code == JournalRecorder.failure: giveBack(row, detail: error.message)
        case .forbidden, .noSuchBucket, .redirected, .noSpace, .preconditionFailed, .notFound, .noSuchUpload:
            noteAnswer(of: row.volume, after: nil)
            record(row, session, error: error.message, attention: false, hint: error.retryAfter)
        // What cannot be read now may be readable in a moment: out of descriptors, threads, or a disk that hiccups.
        case .rejected, .localInput: record(row, session, error: error.message, attention: false, patience: 5)
        case .unsupported, .tooLarge, .invalidKey:
            record(row, session, error: error.message, attention: true)
        }
    }

    /// A request that reached the remote and was not answered in time says that less should be asked of it at once.
    private func noteTimeout(_ error: StoreError, _ row: RowID) {
        guard error.code == nil else { return }
        state.inspect { $0.scheduler.noteTrouble(with: row.volume, at: monotonicSeconds()) }
    }

    /// Counts what the server answered with a failure of its own; true where it is as good as away.
    ///
    /// That is so after a few in a row, of this volume or of all on the server together.
    private func countFailure(_ id: String, _ error: StoreError) -> Bool {
        state.inspect { state in
            state.volumes[id]?.failures += 1
            let isForAll = error.outage == .failing && state.noteServerFailure(of: id)
            return isForAll || state.volumes[id].map { $0.failures > 3 } ?? false
        }
    }

    /// The remote cannot be reached: everything waits, and it is asked now and then.
    private func lose(_ session: VolumeSession, _ error: StoreError, source: String) {
        Log.info("flusher", "\(session.description.remote): \(error.message)")
        observe(session.id) { volume, time in
            // It asks for itself before others do it for it.
            if volume.facts.isOpen { volume.lastTurn = 0 }
            volume.facts.lose(error, source: source, at: time)
            volume.trouble = error.message
            volume.outage = error.outage
            volume.isHeldForOthers = false
            let now = monotonicSeconds()
            volume.relapse(now)
            if volume.probeAt == nil { volume.probeAt = max(now, volume.lastProbe + 0.2) + volume.pauseAfterRelapse }
        }
        shareLoss(of: session.id, error)
    }

    /// Notes a failed attempt in the journal, with when the next one is, or that a person is needed.
    ///
    /// After `patience` attempts that ended like that, without another end between them, a person is asked for.
    private func record(
        _ row: RowID,
        _ session: VolumeSession,
        error: String,
        attention: Bool,
        hint: Double? = nil,
        patience: Int = .max
    ) {
        do throws(JournalError) {
            guard let node = try session.journal.node(NodeID(row.node)) else { return takeInAgain(row, session) }
            let wish = state.inspect { $0.jobs[row]?.wish } ?? node.sequence
            let refusals = state.inspect { $0.refusals.count(row, wish, counts: patience < .max) }
            let needsPerson = attention || refusals >= patience
            // What is wanted by now may be just what the refusal was answered with.
            if needsPerson, node.isOpen || wish != node.sequence { return takeInAgain(row, session, isRound: true) }
            let attempts = Int(node.schedule.attempts) + 1
            let rules = state.inspect { $0.conditions(of: row) }
            let delay = Backoff.delay(
                afterFailures: attempts,
                first: min(rules.retryBase, rules.retryCap),
                longest: rules.retryCap,
                random: .random(in: 0..<1),
                hint: hint
            )
            Log.info("flusher", "\(node.path): attempt \(attempts): \(error)")
            let next = Timestamp.now().advanced(bySeconds: delay)
            let isNoted = try session.journal.recordFailure(
                node.id,
                of: node.sequence,
                attempts: Int64(attempts),
                nextAttempt: next,
                error: error,
                attention: needsPerson ? error : nil
            )
            guard isNoted else { return takeInAgain(row, session, isRound: true) }
            board.count(row.volume) { volume in
                volume.failures += 1
                if needsPerson { volume.attention += 1 }
            }
            tell(needsPerson ? .attention : .failed, row, path: node.path) { event in
                event.error = error
                event.attempts = attempts
                if !needsPerson { event.nextAttempt = next.rfc3339 }
            }
        } catch {
            Log.error("flusher", "\(session.description.remote): \(error)")
            // Nothing holds the row back but this.
            return giveBack(row, detail: error.description)
        }
        takeInAgain(row, session)
        publish(.changed(volume: row.volume))
    }
}

extension Volume {
    /// A request was answered as it should be.
    mutating func succeeded(_ now: Timestamp) {
        facts.connection.observe(.online, source: "requests", at: now)
        facts.authentication.observe(.accepted, source: "requests", at: now)
        answeredAt = now
        answered()
        trouble = nil
    }

    /// The credentials are missing, wrong or expired.
    mutating func refused(_ error: StoreError, _ now: Timestamp) {
        facts.authentication.observe(.refused, source: "requests", at: now)
        trouble = error.message
        if probeAt == nil { probeAt = max(0, lastProbe) + 1 }
    }
}
