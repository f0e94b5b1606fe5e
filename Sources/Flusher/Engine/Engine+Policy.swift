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

extension Engine {
    /// Begins to watch the machine, and waits a moment for what is known of it: nothing is to go over a metered network
    /// only because nobody had time to say that it is one.
    func watchMachine() {
        guard let source = options.conditions else { return }
        do throws(SystemError) {
            try source.start { [weak self] facts, isComplete in self?.take(facts, isComplete: isComplete) }
        } catch {
            return Log.warning("flusher", "nothing is known of networks and batteries: \(error)")
        }
        _ = state.wait(timeout: 3) { $0.policy.isWatched || $0.isStopping ? true : nil }
    }

    /// Reads what was set with `policy set` before.
    func loadOverrides() {
        do throws(ConfigurationError) {
            let loaded = try PolicyOverrides(loading: options.directories.policyOverrides)
            state.inspect { $0.policy.overrides = loaded }
        } catch {
            Log.warning("flusher", error.description)
        }
    }

    /// Takes in what is known of the machine now.
    func take(_ facts: MachineFacts, isComplete: Bool) {
        let (isOther, hasRoutes) = state.update { state in
            let isOther = state.policy.observed.networkChanges != facts.networkChanges && state.policy.isWatched
            let hasRoutes = state.policy.observed.routeNews != facts.routeNews
            if state.policy.observed.network != facts.network || state.policy.observed.others != facts.others {
                state.noteSent()
            }
            state.policy.observed = facts
            if isComplete { state.policy.isWatched = true }
            return (isOther, hasRoutes)
        }
        if isOther { noteNetworkChange() }
        if hasRoutes { noteOtherRoutes(isNamed: false) }
        applyPolicy()
    }

    /// Holds, stops and lets go what the facts and rules of now say.
    func applyPolicy() {
        let now = Timestamp.now()
        let (changes, hasExpired) = state.update { state in
            if state.policy.overrides.nextEnd.map({ $0 <= now }) ?? false { state.noteSent() }
            let hasExpired = state.policy.overrides.expire(at: now)
            if hasExpired { state.takeInOverrides() }
            state.policy.clock = SystemLocalClock()
            state.policy.turnBudgets(at: now)
            let changes = state.volumes.keys.sorted().compactMap { state.applyPolicy(to: $0, now: now) }
            return (changes, hasExpired)
        }
        if hasExpired { saveOverrides() }
        for change in changes {
            for text in change.text { Log.notice("flusher", text) }
            publish(.changed(volume: change.volume))
        }
        stopHeldWork()
    }

    /// Goes by what the time alone changes: windows, budgets, the end of what was set for a while.
    func keepPolicy() {
        guard let now = due({ $0.policyAt }) else { return }
        state.inspect { $0.policyAt = now + 1 }
        countSentBytes()
        watchRates(now)
        askBehindPortals()
        let isDue = state.inspect { state in
            state.policy.overrides.nextEnd.map { $0 <= .now() } ?? false || state.isPolicyTimed
        }
        // What was set for a file that is being sent holds it without any change of the volume's.
        if isDue { applyPolicy() } else { stopHeldWork() }
    }

    /// Finds out how hard the machine works: every ten seconds where anything stands back for that, else once a minute.
    func watchStress() {
        guard let reader = options.stress, let now = due({ $0.stressAt }) else { return }
        let isWanted = state.inspect { state in
            state.stressAt = now + 10
            let mayStandBack =
                state.scheduler.hasDiscretionaryRows || state.volumes.values.contains { $0.rules.mayDefer }
            guard mayStandBack || now >= state.stressReadAt + 60 else { return false }
            state.stressReadAt = now
            return true
        }
        guard isWanted else { return }
        var stress = state.inspect { $0.policy.stress }
        reader.read(&stress)
        let isNews = state.inspect { state in
            state.policy.stress = stress
            let time = Timestamp.now()
            let isBusy = state.policy.pressure.observe(stress.pressure, source: stress.pressure.source("PSI"), at: time)
            let isHot = state.policy.heat.observe(stress.heat, source: stress.heat.source("sysfs"), at: time)
            return isBusy || isHot
        }
        if isNews { applyPolicy() }
    }

    // MARK: preemption

    /// Stops running work that is held now and that nobody waits for.
    ///
    /// Requests that are nearly done may end within ``Preemption/patience``, others are cut; what the remote
    /// acknowledged is kept either way.
    private func stopHeldWork() {
        let end = monotonicSeconds() + Preemption.patience
        let now = Timestamp.now()
        let cut = state.update { state in
            var cut: [RunningJob] = []
            for (row, job) in state.jobs where state.isHeld(row, now: now) && !job.cancellation.isWindingDown {
                job.cancellation.windDown()
                if job.isNearlyDone {
                    state.policy.stops.append((job, end))
                } else {
                    cut.append(job)
                }
            }
            return cut
        }
        for job in cut { job.cancellation.cancel() }
    }

    /// Cuts what was nearly done and did not end in time.
    func cutLateWork() {
        let now = monotonicSeconds()
        let late = state.inspect { state in
            let late = state.policy.stops.filter { $0.end <= now }
            state.policy.stops.removeAll { $0.end <= now }
            return late
        }
        for stop in late { stop.job.cancellation.cancel() }
    }

    // MARK: what a person sets

    func set(_ changes: [PolicyChange], seconds: Double?) -> ControlReply {
        change { (overrides) throws(ConfigurationError) in
            for change in changes { try overrides.set(change.key, to: change.value, for: seconds, now: .now()) }
        }
    }

    func unset(_ keys: [String]) -> ControlReply {
        change { (overrides) throws(ConfigurationError) in try overrides.unset(keys) }
    }

    private func change(_ body: (inout PolicyOverrides) throws(ConfigurationError) -> Void) -> ControlReply {
        do throws(ConfigurationError) {
            var overrides = state.inspect { $0.policy.overrides }
            try body(&overrides)
            // Not in force before it is sure to be in force after a restart too.
            try overrides.save(to: options.directories.policyOverrides)
            let changed = overrides
            state.inspect { state in
                state.noteSent()
                state.policy.overrides = changed
                state.takeInOverrides()
            }
        } catch {
            return .failed(reason: error.description)
        }
        applyPolicy()
        applyLimits()
        return .policy(report: policyReport())
    }

    private func saveOverrides() {
        do throws(ConfigurationError) {
            try state.inspect { $0.policy.overrides }.save(to: options.directories.policyOverrides)
        } catch {
            // Whoever reads the file sees by itself what is over.
            Log.warning("flusher", error.description)
        }
    }
}

extension Engine {
    /// What the engine knows of the machine and of what a person set.
    struct PolicyState {
        var observed = MachineFacts(at: .now())
        var stress = MachineStress()
        var pressure = MachineFacts(at: .now()).pressure
        var heat = MachineFacts(at: .now()).heat
        var overrides = PolicyOverrides()
        /// The machine is about to sleep or to end.
        var sleep: SleepHold?
        /// Everybody was asked.
        var isWatched = false
        var clock = SystemLocalClock()
        /// What the settings allow over networks that cost.
        var budgetLimits = ByteBudget.Limits()
        var budgets = ByteBudgets()
        /// What of it is written down.
        var savedBudgets = ByteBudgets()
        /// Not to be written down before this time (monotonic seconds).
        var budgetSaveAt: Double = 0
        /// Work that is let end what is nearly done, and until when (monotonic seconds).
        var stops: [(job: RunningJob, end: Double)] = []
        var limits = LimitState()

        /// How much may go by some rules of a volume before windows close and budgets are used up.
        func room(
            _ rules: TransferRules,
            _ facts: MachineFacts,
            _ bounds: [Bound],
            at moment: PolicyMoment
        ) -> TransferRoom {
            var room = TransferRoom()
            if let windows = rules.windows, windows.isOpen(at: moment.now, moment.clock) {
                room.closes = windows.closing(after: moment.now, moment.clock)
                room.opens = room.closes.flatMap { windows.nextOpening(after: $0, moment.clock) }
                room.closesNext = room.opens.flatMap { windows.closing(after: $0, moment.clock) }
            }
            guard facts.metered.value.isMetered, let left = amount(bounds, at: moment) else { return room }
            (room.bytes, room.refills, room.refill) = left
            return room
        }

        /// The facts of the network that a volume's remote is reached through, without what a person says of them.
        func network(of volume: Volume) -> NetworkFacts {
            let network = observed.through(volume.interface).network
            return volume.departed?.limit(network) ?? network
        }

        /// The facts that count for a volume, with what a person says of them.
        func facts(now: Timestamp, of volume: Volume) -> MachineFacts {
            var facts = observed
            facts.network = network(of: volume)
            return complete(facts, now: now)
        }

        /// The facts, with what a person says of them; those for what leaves by an interface, where one is named.
        func facts(now: Timestamp, through interface: String? = nil) -> MachineFacts {
            complete(observed.through(interface), now: now)
        }

        private func complete(_ facts: MachineFacts, now: Timestamp) -> MachineFacts {
            var facts = facts
            facts.pressure = pressure
            facts.heat = heat
            if let entry = overrides["metered"] {
                facts.metered = Fact(entry.value == "yes" ? .yes : .no, setAt: entry, now)
            }
            if let entry = overrides["low-data"] {
                facts.lowData = Fact(entry.value == "on" ? .yes : .no, setAt: entry, now)
            }
            return facts
        }
    }
}

extension Engine.State {
    /// Finds out why a volume's work is held now; returns what to tell when that is another reason than before.
    mutating func applyPolicy(to id: String, now: Timestamp) -> (volume: String, text: [String])? {
        guard var volume = volumes[id] else { return nil }
        if let departed = volume.departed, departed.isOver(at: monotonicSeconds()) {
            volume.departed = nil
            volumes[id]?.departed = nil
        }
        let before = volume.facts.held
        volume.facts.held = held(by: volume, now: now)
        guard volume.facts.held != before else { return nil }
        volumes[id] = volume
        scheduler.setFacts(volume.facts, settings: volume.settings, of: id, now: now)
        let remote = volume.session.description.remote
        let text = volume.facts.held.indices.compactMap { number -> String? in
            let reasons = volume.facts.held[number].usual.map(\.reason.rawValue)
            let others = before.indices.contains(number) ? before[number].usual.map(\.reason.rawValue) : []
            guard reasons != others, !volume.rules.isFree(number) else { return nil }
            let which = volume.rules.name(of: number).map { "uploads of \($0)" } ?? "uploads"
            let what = reasons.isEmpty ? "go on" : "are held: \(reasons.joined(separator: ", "))"
            return "\(remote): \(which) \(what)"
        }
        return (id, text)
    }

    /// Lets all rows go by what a person set.
    mutating func takeInOverrides() {
        for id in volumes.keys {
            volumes[id]?.rules.override(by: policy.overrides.values)
            // Some of it stands in the rows.
            volumes[id]?.reloadAt = 0
            volumes[id]?.refreshAt = 0
        }
    }

    /// Whether what holds work may change with the time alone.
    var isPolicyTimed: Bool {
        volumes.values.contains {
            $0.rules.isTimed || policy.isBudgeted($0) || $0.portalHold != nil || $0.departed != nil
        }
    }

    /// Why the machine's conditions hold the work of a volume, by the number of its rules.
    func held(by volume: Volume, now: Timestamp) -> [HeldRules] {
        held(volume.rules.rules.indices, by: volume, now: now)
    }

    private func held(_ numbers: Range<Int>, by volume: Volume, now: Timestamp) -> [HeldRules] {
        let facts = policy.facts(now: now, of: volume)
        let bounds = policy.bounds(of: volume)
        return numbers.map { number in
            let bounds = bounds + policy.bounds(of: volume, number)
            let moment = PolicyMoment(now: now, clock: policy.clock, quota: policy.quota(bounds, now: now))
            let rules = volume.rules.rules[number]
            let before = volume.facts.held.indices.contains(number) ? volume.facts.held[number] : HeldRules()
            func holds(_ isDiscretionary: Bool, _ before: [Waiting]) -> [Waiting] {
                var rules = rules
                rules.isDiscretionary = isDiscretionary
                let isLocal = volume.session.description.isOnThisMachine
                let holds = Policy.holds(facts, rules: rules, isLocal: isLocal, at: moment).filter {
                    $0.reason != .captivePortal || !volume.hasAnswered(since: $0.since)
                }
                return Policy.continued(holds + [policy.sleep?.hold].compactMap { $0 }, from: before)
            }
            return HeldRules(
                discretionary: holds(true, before.discretionary),
                risen: holds(false, before.risen),
                isDiscretionary: rules.isDiscretionary,
                room: policy.room(rules, facts, bounds, at: moment)
            )
        }
    }

    /// Gives a row what the rules for its path say.
    mutating func apply(_ row: inout ScheduledRow, _ node: JournalNode) {
        let id = row.id.volume
        guard let before = volumes[id]?.rules.revision,
            let number = volumes[id]?.rules.number(for: node.path, settings: node.schedule.settings),
            let rules = volumes[id]?.rules.rules[number]
        else { return }
        if volumes[id]?.rules.revision != before { noteNewRules(number, of: id) }
        row.facts.rules = number
        // What a person said of the file counts, then what is set for its path.
        if row.facts.notBefore == nil { row.facts.notBefore = rules.notBefore?.moment(changed: node.changedAt) }
        if row.facts.deadline == nil { row.facts.deadline = rules.deadline?.moment(changed: node.changedAt) }
        if row.priority == 0 { row.priority = rules.priority }
        if let size = rules.discretionarySize, row.facts.remaining >= size { row.facts.isDiscretionary = true }
        // Nobody asks where nothing ends.
        guard rules.windows != nil || volumes[id].map({ policy.isBudgeted($0, number) }) ?? false else { return }
        row.facts.isWhole = volumes[id]?.session.sendsWhole(node) ?? false
    }

    /// Finds out what holds work by rules that nothing has gone by so far.
    ///
    /// The others stay as they are: what is different with them is for ``applyPolicy(to:now:)`` to see and to tell.
    private mutating func noteNewRules(_ number: Int, of id: String) {
        guard let volume = volumes[id] else { return }
        var all = volume.facts.held
        if all.indices.contains(number) {
            all[number] = HeldRules()
            var anew = volume
            anew.facts.held = all
            all[number] = held(number..<number + 1, by: anew, now: .now())[0]
        } else {
            all += held(all.count..<number + 1, by: volume, now: .now())
        }
        volumes[id]?.facts.held = all
        if let volume = volumes[id] { scheduler.setHeld(all, settings: volume.settings, of: id) }
    }

    /// Forgets the rules of a volume that no row goes by.
    mutating func forgetRules(of id: String) {
        guard let rules = volumes[id]?.rules, rules.count > 1 else { return }
        let used = Set(scheduler.rows(of: id).compactMap { scheduler.row($0)?.facts.rules })
        volumes[id]?.rules.keep(only: used)
        guard let volume = volumes[id], volume.rules.revision != rules.revision else { return }
        let all = volume.facts.held.indices.map {
            volume.rules.isFree($0) ? volume.facts.held[0] : volume.facts.held[$0]
        }
        volumes[id]?.facts.held = all
        scheduler.setHeld(all, settings: volume.settings, of: id)
    }

    /// Whether a row that begins is to go now, by what is set for its file and what holds it.
    ///
    /// Something may have been set since it was chosen, which may have been taken in, or not.
    mutating func isAsPlanned(_ node: JournalNode, _ id: RowID) -> Bool {
        guard let known = scheduler.row(id)?.facts, !known.isForced, var row = ScheduledRow(node, of: id.volume) else {
            return true
        }
        apply(&row, node)
        guard row.facts.rules == known.rules, row.facts.notBefore == known.notBefore else { return false }
        return !isHeld(id, now: .now())
    }

    /// What the machine's conditions and the rules hold a row by now.
    func holds(of row: RowID) -> [Waiting] {
        guard let facts = volumes[row.volume]?.facts, let work = scheduler.row(row)?.facts else { return [] }
        return Policy.holds(of: work, volume: facts, now: .now(), isBegun: jobs[row] != nil)
    }

    /// Whether a row is held now, or is not to begin yet, and nobody waits for it.
    func isHeldBack(_ row: RowID, now: Timestamp) -> Bool {
        guard let facts = scheduler.row(row)?.facts else { return false }
        if !facts.isForced, let begin = facts.notBefore, begin > now { return true }
        return isHeld(row, now: now)
    }

    /// Whether a running row is held now and nobody waits for it.
    func isHeld(_ row: RowID, now: Timestamp) -> Bool {
        guard let volume = volumes[row.volume], let work = scheduler.row(row)?.facts else { return false }
        guard jobs[row] != nil else { return !Policy.holds(of: work, volume: volume.facts, now: now).isEmpty }
        return Policy.decide(work, isRunning: true, volume: volume.facts, settings: volume.settings, now: now) != .go
    }
}

extension MachineFacts.Answer {
    fileprivate func source(_ name: String) -> String { self == .unknown ? "none" : name }
}

extension Fact {
    /// What a person set.
    fileprivate init(_ value: Value, setAt entry: PolicyOverride, _ now: Timestamp) {
        self.init(value, source: "policy set", at: Timestamp(seconds: entry.set))
        observe(value, source: "policy set", at: now)
    }
}
