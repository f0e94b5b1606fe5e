// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Conditions
internal import Glibc
internal import Journal
internal import ObjectStore
internal import Platform
internal import Policy

/// Why nothing goes while the machine is about to sleep or to end.
struct SleepHold: Sendable {
    let what: Preparation
    let since: Timestamp

    var hold: Waiting {
        let detail = what == .sleep ? "the machine is about to sleep" : "the machine is about to shut down"
        return Waiting(.sleep, since: since, detail: detail)
    }
}

extension Engine {
    /// How long requests that are nearly done may take before they are cut, in seconds: the machine waits for us, five
    /// seconds at most (InhibitDelayMaxSec of logind.conf(5)).
    private static let patience = 2.0
    /// How long cut work may take to let go, in seconds.
    private static let lettingGo = 1.0
    /// Within how many seconds everything is tried again after a sleep.
    private static let spread = 5.0

    /// Begins to hear when the machine sleeps.
    func watchSleep() {
        do throws(SystemError) {
            try options.sleep?.start(
                onHold: { [weak self] what in self?.hold(for: what) },
                onGoOn: { [weak self] in self?.goOn() }
            )
        } catch {
            Log.warning("flusher", "nothing is known of the machine's sleep: \(error)")
        }
    }

    /// Tells what runs, and notices a sleep that nobody announced; a part of the coordinator's loop.
    func lookAfterSleep() {
        options.sleep?.note(work: runningWork)
        let slept = Self.sleepingSeconds
        let before = state.inspect { state in
            defer { state.sleptSeconds = slept }
            return state.sleptSeconds
        }
        // Where logind tells of it, it comes to the same a second time.
        if let before, slept - before > 2 { wakeUp(slept - before) }
    }

    /// What is left of what runs, for people; nil: nothing runs.
    private var runningWork: String? {
        state.inspect { state in
            guard !state.jobs.isEmpty else { return nil }
            let left = state.jobs.values.reduce(Int64(0)) { sum, job in
                // Before the first byte goes, what is to go is known of the row alone.
                let known = state.scheduler.row(job.row)?.facts.remaining ?? 0
                return sum + (job.progress.map { max(0, $0.size - $0.sent) } ?? known)
            }
            let count = state.jobs.count
            let what = "\(count) upload\(count == 1 ? "" : "s") under way"
            return left > 0 ? "\(what), \((left >> 20) + 1) MiB left" : what
        }
    }

    /// The seconds that the machine slept since it was started (CLOCK_BOOTTIME against CLOCK_MONOTONIC).
    private static var sleepingSeconds: Double {
        var boot = timespec()
        var awake = timespec()
        clock_gettime(CLOCK_BOOTTIME, &boot)
        clock_gettime(CLOCK_MONOTONIC, &awake)
        return Double(boot.tv_sec - awake.tv_sec) + Double(boot.tv_nsec - awake.tv_nsec) / 1e9
    }

    // MARK: before

    /// Holds everything, and settles what runs on a thread of its own.
    private func hold(for what: Preparation) {
        state.update { $0.policy.sleep = SleepHold(what: what, since: .now()) }
        Log.notice("flusher", "the machine is about to \(what == .sleep ? "sleep" : "shut down")")
        applyPolicy()
        do throws(SystemError) {
            try Thread.detached(name: "settle") { self.settle(what) }
        } catch {
            Log.warning("flusher", "the machine does not wait: \(error)")
            options.sleep?.settled()
        }
    }

    /// Waits for what is nearly done, cuts the rest, and has the journals on the disk.
    private func settle(_ what: Preparation) {
        if !waitForJobs(Self.patience) {
            for job in state.inspect({ Array($0.jobs.values) }) { job.cancellation.cancel() }
            _ = waitForJobs(Self.lettingGo)
        }
        for session in state.inspect({ $0.volumes.values.map(\.session) }) {
            // Of the power that is lost while the machine sleeps nobody is to notice.
            _ = try? session.journal.markSynced([])
        }
        tellWhatIsLeft(what)
        options.sleep?.settled()
    }

    private func waitForJobs(_ seconds: Double) -> Bool {
        state.wait(timeout: seconds) { $0.jobs.isEmpty ? true : nil } ?? false
    }

    private func tellWhatIsLeft(_ what: Preparation) {
        let sessions = state.inspect { $0.volumes.values.map(\.session) }
        let counts = sessions.compactMap { try? $0.journal.counts() }
        let (files, bytes) = (counts.reduce(0) { $0 + $1.total }, counts.reduce(Int64(0)) { $0 + $1.bytes })
        let then = what == .sleep ? "after the sleep" : "when the flusher runs again"
        Log.notice("flusher", "ready for it; \(files) not remote yet, \(bytes) bytes: they go on \(then)")
    }

    // MARK: after

    private func goOn() {
        state.update { $0.policy.sleep = nil }
        Log.notice("flusher", "the machine is back")
        tryAgain()
    }

    /// The machine slept without a word.
    private func wakeUp(_ seconds: Double) {
        Log.notice("flusher", "the machine slept for \(Int(seconds)) s")
        tryAgain()
    }

    /// Everything is tried again, over new connections.
    private func tryAgain() {
        options.renewConnections()
        let now = Timestamp.now()
        state.update { state in
            for id in state.volumes.keys {
                let (spread, uptime) = (Self.spread, monotonicSeconds())
                state.scheduler.renewAttempts(of: id, now: now, spread: spread) { .random(in: 0..<1) }
                guard state.volumes[id]?.probeAt != nil else { continue }
                state.volumes[id]?.probes = 0
                state.volumes[id]?.probeAt = uptime + .random(in: 0..<spread / 2)
            }
        }
        applyPolicy()
    }
}
