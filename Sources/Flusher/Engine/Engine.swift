// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Conditions
internal import Configuration
internal import Control
internal import Journal
internal import ObjectStore
internal import Platform
internal import Policy

/// The flusher's engine: brings what the journals of all volumes want to their remotes.
///
/// Threads: one coordinator (volumes, rows, time), a fixed number of workers (one row each), one prober (remotes that
/// did not answer), one for maintenance (unwanted transfers, released files, mounts that died), one that looks at what runs
/// and tells of it. They share one monitor, which is never held during a request or a write to disk.
final class Engine: Sendable {
    struct State {
        var scheduler: Scheduler
        var volumes: [String: Volume] = [:]
        var jobs: [RowID: RunningJob] = [:]
        /// Volumes that could not be opened, and why.
        var failed: [String: String] = [:]
        /// Those among them whose journal a mount is bringing in order.
        var unrecovered: Set<String> = []
        /// Servers that have answered nothing well since they failed first, by ``VolumeDescription/server``.
        var failingServers: [String: ServerFailures] = [:]
        /// Credentials handed over, by volume; nil for those of every volume that has none of its own.
        var credentials: [String?: HandedCredentials] = [:]
        var scanAt: Double = 0
        var routes = RouteTimes()
        var maintainAt: Double = 0
        var auditAt: Double = 0
        var policyAt: Double = 0
        var stressAt: Double = 0
        /// When it was found out last.
        var stressReadAt: Double = -.infinity
        var isStopping = false
        /// Nothing new is begun: a newer program is to go on.
        var isHandingOver = false
        var policy = PolicyState()
        var busyUntil: Double
        /// The volume that maintenance is at.
        var maintained: String?
        /// How many who flushed have what was sent handed to the caches, by volume.
        var adopters: [String: Int] = [:]
        /// Attempts of rows that ended well and left them as they were: nothing may go round in circles.
        var rounds: [RowID: Int] = [:]
        /// Attempts that were refused.
        var refusals = Refusals()
        /// Rows that a person wants to go although a folder above them is paused.
        var exempt: Set<RowID> = []
        /// Rows that found no room on the local disk: they go on when there is some, without regard to their backoff.
        var lackingSpace: Set<RowID> = []
        /// How long the machine had slept at the last look, in seconds.
        var sleptSeconds: Double?
        /// The threads that have not ended, by name.
        var threads: Set<String> = []
    }

    let options: FlusherOptions
    let makeStore: StoreFactory
    let state: Monitor<State>
    let gate: RequestGate
    /// Held while volumes are looked for and opened, so that each is opened once.
    let scanning = Lock<Void>(())
    /// How uploads get on.
    let board = ActivityBoard()
    /// The user's programs.
    let hooks: HookRunner
    /// The desktop, if it is to be told anything.
    let notifier: DesktopNotifier?
    /// What was told to those who read events.
    let narration = Lock(Narration())
    private let events: Lock<EventSink>
    let service: ServiceReporter

    init(options: FlusherOptions, makeStore: @escaping StoreFactory) {
        self.options = options
        self.makeStore = makeStore
        gate = RequestGate(limit: options.requests)
        hooks = HookRunner(options.watching, environment: options.environment)
        notifier = options.watching.notifies && DesktopNotification.isPossible ? DesktopNotifier() : nil
        let limits = SchedulerLimits(workers: options.workers, large: options.largeUploads)
        state = Monitor(State(scheduler: Scheduler(limits: limits), busyUntil: monotonicSeconds()))
        events = Lock(EventSink())
        service = ServiceReporter(options.service)
    }

    /// Starts all threads; events go to `publish`, which must not block.
    ///
    /// `isFollowed` says whether somebody reads what happens to single uploads.
    func start(
        isFollowed: @escaping @Sendable () -> Bool = { false },
        publish: @escaping @Sendable (ControlEvent) -> Void
    ) throws(SystemError) {
        events.withLock { $0 = EventSink(publish: publish, isFollowed: isFollowed) }
        loadOverrides()
        state.inspect { $0.policy.budgetLimits = options.budget }
        loadBudget()
        applyLimits()
        watchMachine()
        watchSleep()
        try run("coordinator") { self.coordinate() }
        try run("prober") { self.probe() }
        // Nobody waits for its end, as names may take long to be looked up.
        try Thread.detached(name: "routes") { self.watchRoutes() }
        try run("maintenance") { self.maintain() }
        try run("activity") { self.watchActivity() }
        try hooks.start()
        try notifier?.start()
        for number in 1...options.workers { try run("worker-\(number)") { self.work() } }
    }

    private func run(_ name: String, _ body: @escaping @Sendable () -> Void) throws(SystemError) {
        state.update { _ = $0.threads.insert(name) }
        do throws(SystemError) {
            try Thread.detached(name: name) {
                body()
                self.state.update { _ = $0.threads.remove(name) }
            }
        } catch {
            state.update { _ = $0.threads.remove(name) }
            throw error
        }
    }

    /// Gives up what runs, keeping what the remote acknowledged, and waits for the threads, at most `timeout` seconds.
    func stop(timeout: Double) {
        let jobs = state.update { state in
            state.isStopping = true
            return Array(state.jobs.values)
        }
        options.conditions?.stop()
        defer { countSentBytes(isLast: true) }
        options.sleep?.stop()
        hooks.stop()
        notifier?.stop()
        for job in jobs { job.cancellation.cancel() }
        if state.wait(timeout: timeout, until: { $0.threads.isEmpty ? true : nil }) == nil {
            let left = state.inspect { $0.threads.sorted().joined(separator: ", ") }
            Log.warning("flusher", "ending although some requests do not let go: \(left)")
        }
    }

    func publish(_ event: ControlEvent) {
        let sink = events.withLock { $0 }
        sink.publish?(event)
        narrate(event)
    }

    /// Whether somebody reads what happens to single uploads.
    var isFollowed: Bool {
        let sink = events.withLock { $0 }
        return sink.isFollowed?() ?? false
    }

    var isStopping: Bool { state.inspect { $0.isStopping } }

    /// Seconds since there was anything to do.
    func idleTime() -> Double {
        state.inspect { state in
            let now = monotonicSeconds()
            let hasWork =
                !state.jobs.isEmpty || state.scheduler.hasActiveRows
                || state.volumes.values.contains { $0.hasMore || $0.unwanted > 0 || $0.hasLeftovers || $0.seen < 0 }
            if hasWork { state.busyUntil = now }
            return now - state.busyUntil
        }
    }

    // MARK: the coordinator

    private func coordinate() {
        while !isStopping {
            service.beat { serviceStatus() }
            lookAfterSleep()
            if let scan = due({ $0.scanAt }) {
                state.inspect { $0.scanAt = scan + 30 }
                scanVolumes()
            }
            for id in volumesToRefresh() { refresh(id) }
            if let audit = due({ $0.auditAt }) {
                state.inspect { $0.auditAt = audit + 5 }
                self.audit()
                watchLifetimes()
            }
            watchLoad()
            watchStress()
            keepPolicy()
            cutLateWork()
            applyLimits()
            noteTrafficClasses()
            state.update { _ in }
            let pause = min(state.inspect { Self.pause(&$0) }, service.longestSleep)
            let end = monotonicSeconds() + pause
            _ = state.wait(timeout: pause) { state in
                // What came meanwhile may be due before that, by more than the time that passes between two looks.
                state.isStopping || monotonicSeconds() + Self.pause(&state) < end - 0.005 ? true : nil
            }
        }
    }

    /// The time now when that of `moment` has come.
    func due(_ moment: (State) -> Double) -> Double? {
        state.inspect { state in
            let now = monotonicSeconds()
            return moment(state) <= now ? now : nil
        }
    }

    /// How long nothing changes by the passing of time, in seconds.
    private static func pause(_ state: inout State) -> Double {
        let now = monotonicSeconds()
        var next = state.scanAt
        for volume in state.volumes.values { next = min(next, volume.refreshAt) }
        var pause = next - now
        if let alarm = state.scheduler.lookAgain() {
            pause = min(pause, Double(alarm.nanoseconds - Timestamp.now().nanoseconds) / 1e9)
        }
        if let end = state.policy.limits.nextSwitch {
            pause = min(pause, Double(end.nanoseconds - Timestamp.now().nanoseconds) / 1e9)
        }
        if state.scheduler.standsBack { pause = min(pause, LoadGate.interval) }
        return max(0.01, min(1, pause))
    }

    /// Lets the scheduler know how long somebody has waited for a processor.
    private func watchLoad() {
        let stalled = PressureStall.total(of: "cpu")
        state.inspect { $0.scheduler.observe(stalled: stalled, now: .now()) }
    }

    /// The safety net: starts what no event brought on, and says so, because every event should.
    private func audit() {
        let overlooked = state.update { state in
            for id in Array(state.volumes.keys) { state.volumes[id]?.probeIfClosed() }
            return state.scheduler.audit(now: .now())
        }
        guard !overlooked.isEmpty else { return }
        let names = overlooked.prefix(5).map { "\($0.volume.prefix(8))-\($0.node)" }.joined(separator: ", ")
        Log.warning("flusher", "\(overlooked.count) rows were overlooked: \(names)")
    }

    private func volumesToRefresh() -> [String] {
        state.inspect { state in
            let now = monotonicSeconds()
            return state.volumes.filter { $0.value.refreshAt <= now }.map(\.key)
        }
    }

    /// When rows of a volume are to go may be another time than before.
    func reread(_ volume: String) {
        state.update { state in
            state.volumes[volume]?.reloadAt = 0
            state.volumes[volume]?.refreshAt = 0
        }
    }

    /// There may be new work, or the remote may be back.
    func wake(_ volume: String?) {
        state.update { state in
            let now = monotonicSeconds()
            if volume == nil || state.volumes[volume ?? ""] == nil { state.scanAt = 0 }
            for (id, old) in state.volumes where volume == nil || id == volume {
                var entry = old
                entry.refreshAt = min(entry.refreshAt, max(now, entry.notBefore))
                if entry.probeAt != nil { entry.probeSoon(now) }
                state.volumes[id] = entry
            }
        }
    }
}

/// Where events go.
///
/// A closure that is itself the state of a lock is wrapped once more on every access; inside a value it is not.
private struct EventSink {
    var publish: (@Sendable (ControlEvent) -> Void)?
    var isFollowed: (@Sendable () -> Bool)?
}
