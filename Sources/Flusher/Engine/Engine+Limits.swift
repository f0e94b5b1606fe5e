// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Bandwidth
internal import Base
internal import Configuration
internal import Control
internal import ObjectStore
internal import Platform
internal import Policy

extension Engine {
    /// Has the rates count that the timetables say for now, in all processes of this instance.
    func applyLimits() {
        let now = Timestamp.now()
        let (values, isDue) = state.inspect { state in
            (options.limits.overridden(by: state.policy.overrides.values), state.policy.limits.isDue(at: now))
        }
        let settings = [values.text(.maxRate) ?? "", values.text(.maxDownloadRate) ?? ""]
        let isNews = state.inspect { $0.policy.limits.settings != settings }
        options.trafficRules.values = TrafficRules.Values(values)
        guard isNews || isDue else { return }
        let clock = SystemLocalClock()
        var limits = LimitState(settings: settings, computed: now)
        for direction in TrafficDirection.allCases {
            let text = values.text(direction.option) ?? "off"
            let table = Timetable(text) ?? Timetable(rate: nil)
            let limit = LimitState.Limit(
                setting: text,
                rate: table.rate(at: now, in: clock),
                until: table.nextSwitch(after: now, in: clock)
            )
            limits.limits[direction] = limit
            guard options.bandwidth?.setRate(limit.rate, direction) == true else { continue }
            let rate = limit.rate.map { "at most \(byteText($0)) a second" } ?? "without limit"
            Log.notice("flusher", "\(direction == .up ? "uploads" : "downloads"): \(rate)")
        }
        let applied = limits
        state.inspect { $0.policy.limits = applied }
    }

    /// Has every upload under way know how urgent it is now.
    func noteTrafficClasses() {
        state.inspect { state in
            for (row, job) in state.jobs {
                job.cancellation.trafficClass = state.trafficClass(of: row)
                job.cancellation.pace = state.pace(of: row)
                job.cancellation.timeouts = state.timeouts(of: row)
            }
        }
    }
}

/// The rates that count now, and until when.
struct LimitState: Sendable {
    struct Limit: Sendable {
        /// As it was set.
        var setting: String
        /// Bytes a second; nil: no limit.
        var rate: Int64?
        /// When another one counts; nil: not by itself.
        var until: Timestamp?
    }

    /// What they were made of.
    var settings: [String] = []
    /// When they were computed, by the clock of the timetables.
    var computed = Timestamp(seconds: 0)
    var limits: [TrafficDirection: Limit] = [:]

    /// Nothing changes by the passing of time before this.
    var nextSwitch: Timestamp? { limits.values.compactMap(\.until).min() }

    /// Whether they have to be computed again: the time of a switch has come, or the clock or the zone was set.
    ///
    /// The zone cannot be waited for: a quarter of an hour is how late a change of it may be seen.
    func isDue(at now: Timestamp) -> Bool {
        if let nextSwitch, nextSwitch <= now { return true }
        return nextSwitch != nil && (now < computed || now.seconds - computed.seconds >= 900)
    }
}

extension Engine.State {
    /// How urgent the work on a row is.
    func trafficClass(of row: RowID) -> TrafficClass {
        guard let work = scheduler.row(row)?.facts, let facts = volumes[row.volume]?.facts else { return .background }
        if work.isForced { return .interactive }
        return Policy.isDiscretionary(work, volume: facts, now: .now()) ? .discretionary : .background
    }

    /// What the uploads of a row's volume, or of paths that have a limit of their own, may send together now; nil: no
    /// limit but that of all.
    mutating func pace(of row: RowID) -> RateLimit? {
        guard let rules = volumes[row.volume]?.rules.conditions else { return nil }
        let own = scheduler.row(row)?.facts.rules ?? 0
        guard let text = rules[rules.indices.contains(own) ? own : 0].rateLimit, let table = Timetable(text) else {
            return nil
        }
        let limit = limit(of: row, own, text, rules)
        limit.rate = table.rate(at: .now(), in: policy.clock)
        return limit
    }

    /// What a row's rate is taken from: a file's own, or that of all which the same rate is set for, whatever their other
    /// rules.
    private mutating func limit(
        of row: RowID,
        _ number: Int,
        _ text: String,
        _ rules: [UploadConditions]
    ) -> RateLimit {
        if volumes[row.volume]?.rules.isOfFile(number, .rateLimit) == true, let job = jobs[row] { return job.ownLimit }
        let number = rules.firstIndex { $0.rateLimit == text } ?? number
        let limit = volumes[row.volume]?.limits[number] ?? RateLimit()
        volumes[row.volume]?.limits[number] = limit
        return limit
    }

    /// How long requests with content of a row may take to connect, and may not move.
    func timeouts(of row: RowID) -> TransferTimeouts {
        let conditions = conditions(of: row)
        return TransferTimeouts(connect: conditions.connectTimeout, stall: conditions.stallTimeout)
    }

    /// Whether requests with content of a row are given up sooner than others of the volume.
    func isImpatient(_ row: RowID) -> Bool {
        guard let volume = volumes[row.volume]?.session.description else { return false }
        let own = timeouts(of: row)
        return own.connect < volume.connectTimeout || own.stall < volume.stallTimeout
    }

    /// The rates in force, for reports.
    var limitReports: [PolicyReport.Limit] {
        TrafficDirection.allCases.compactMap { direction in
            guard let limit = policy.limits.limits[direction] else { return nil }
            return PolicyReport.Limit(
                direction: direction == .up ? "upload" : "download",
                setting: limit.setting,
                rate: limit.rate,
                until: limit.until?.rfc3339
            )
        }
    }
}

extension TrafficDirection {
    fileprivate var option: OptionName { self == .up ? .maxRate : .maxDownloadRate }
}

extension TrafficRules.Values {
    fileprivate init(_ values: OptionValues) {
        let yields: TrafficClass? =
            switch values.text(.yields) {
            case "never": nil
            case "background": .background
            default: .discretionary
            }
        self.init(yieldsUpTo: yields, marksLowEffort: values.flag(.lowEffort))
    }
}
