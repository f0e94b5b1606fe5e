// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Conditions
internal import Configuration
internal import Control
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
        state.update { state in
            state.policy.observed = facts
            if isComplete { state.policy.isWatched = true }
        }
        applyPolicy()
    }

    /// Holds, stops and lets go what the facts and rules of now say.
    func applyPolicy() {
        let now = Timestamp.now()
        let (changes, hasExpired) = state.update { state in
            let hasExpired = state.policy.overrides.expire(at: now)
            let changes = state.volumes.keys.sorted().compactMap { state.applyPolicy(to: $0, now: now) }
            return (changes, hasExpired)
        }
        if hasExpired { saveOverrides() }
        for change in changes {
            Log.notice("flusher", change.text)
            publish(.changed(volume: change.volume))
        }
        if !changes.isEmpty { stopHeldWork() }
    }

    // MARK: preemption

    /// Stops running work that is held now and that nobody waits for.
    ///
    /// Requests that are nearly done may end within ``Preemption/patience``, others are cut; what the remote
    /// acknowledged is kept either way.
    private func stopHeldWork() {
        let end = monotonicSeconds() + Preemption.patience
        let cut = state.update { state in
            var cut: [RunningJob] = []
            for (row, job) in state.jobs where state.isHeld(row) && !job.cancellation.isWindingDown {
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
            state.inspect { $0.policy.overrides = changed }
        } catch {
            return .failed(reason: error.description)
        }
        applyPolicy()
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
        var overrides = PolicyOverrides()
        /// Everybody was asked.
        var isWatched = false
        /// Work that is let end what is nearly done, and until when (monotonic seconds).
        var stops: [(job: RunningJob, end: Double)] = []

        /// The facts, with what a person says of them.
        func facts(now: Timestamp) -> MachineFacts {
            var facts = observed
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
    mutating func applyPolicy(to id: String, now: Timestamp) -> (volume: String, text: String)? {
        guard var volume = volumes[id] else { return nil }
        let before = volume.facts.holds
        let holds = Policy.continued(holds(of: volume.session.description, now: now), from: before)
        guard holds != before else { return nil }
        volume.facts.holds = holds
        volumes[id] = volume
        scheduler.setFacts(volume.facts, settings: volume.settings, of: id, now: now)
        let reasons = holds.map(\.reason.rawValue)
        guard reasons != before.map(\.reason.rawValue) else { return nil }
        let text = reasons.isEmpty ? "uploads go on" : "uploads are held: \(reasons.joined(separator: ", "))"
        return (id, "\(volume.session.description.remote): \(text)")
    }

    /// Why the machine's conditions hold the work of a volume.
    func holds(of volume: VolumeDescription, now: Timestamp) -> [Waiting] {
        Policy.holds(policy.facts(now: now), rules: rules(of: volume), isLocal: volume.isOnThisMachine)
    }

    /// The rules in force for a volume.
    func rules(of volume: VolumeDescription) -> TransferRules {
        TransferRules(conditions(of: volume))
    }

    func conditions(of volume: VolumeDescription) -> UploadConditions {
        (volume.conditions ?? UploadConditions()).overridden(by: policy.overrides)
    }

    /// Whether a running row is held now and nobody waits for it.
    func isHeld(_ row: RowID) -> Bool {
        guard let volume = volumes[row.volume], !volume.facts.holds.isEmpty else { return false }
        return !(scheduler.row(row)?.facts.isForced ?? false)
    }
}

extension Fact {
    /// What a person set.
    fileprivate init(_ value: Value, setAt entry: PolicyOverride, _ now: Timestamp) {
        self.init(value, source: "policy set", at: Timestamp(seconds: entry.set))
        observe(value, source: "policy set", at: now)
    }
}

extension TransferRules {
    init(_ conditions: UploadConditions) {
        self.init(
            allowsExpensive: conditions.allowExpensive,
            allowsConstrained: conditions.allowConstrained,
            allowsCellular: conditions.allowCellular,
            allowsPowerSaver: conditions.allowPowerSaver,
            isDiscretionary: conditions.discretionary,
            requiresPower: conditions.requirePower,
            minimumCharge: conditions.batteryMinimum
        )
    }
}
