// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Configuration
internal import Control
internal import Platform
internal import Policy

extension Engine {
    /// The document of `policy show --json`.
    func policyReport() -> PolicyReport {
        _ = sessions(UploadSelection())
        let now = Timestamp.now()
        return state.inspect { state in
            let volumes = state.volumes.values.sorted { $0.session.id < $1.session.id }.map { volume in
                let conditions = volume.rules.conditions[0]
                var report = PolicyReport.Volume(
                    id: volume.session.id,
                    remote: volume.session.description.remote,
                    transferClass: TransferRules(conditions).transferClass.rawValue,
                    rules: conditions,
                    holds: volume.facts.holds.map { UploadReport.Waiting($0) }
                )
                report.interface = volume.interface
                report.otherRules = state.policy.otherRules(of: volume, limit: Self.rulesLimit, now: now)
                report.moreRules = max(0, volume.rules.special.count - Self.rulesLimit)
                report.budget = state.policy.budgetReport(of: volume, now: now)
                return report
            }
            var report = PolicyReport(
                conditions: state.policy.conditionReports(now),
                overrides: state.policy.overrides.entries.map { PolicyReport.Override($0) },
                volumes: volumes
            )
            report.limits = state.limitReports
            report.budget = state.policy.budgetReport(now: now)
            return report
        }
    }

    /// Of so many rules of paths and files each volume tells at most.
    private static let rulesLimit = 100
}

extension Engine.PolicyState {
    /// The rules that some of a volume's uploads go by in place of its own.
    fileprivate func otherRules(of volume: Volume, limit: Int, now: Timestamp) -> [PolicyReport.Rules] {
        let (rules, facts) = (volume.rules, volume.facts)
        return rules.special.prefix(limit).map { number in
            let conditions = rules.conditions[number]
            let held = facts.held.indices.contains(number) ? facts.held[number] : HeldRules()
            let budgets = budgetReports(of: volume, number, now: now)
            var report = PolicyReport.Rules(
                name: rules.name(of: number) ?? "",
                transferClass: rules.rules[number].transferClass.rawValue,
                settings: UploadConditions.Difference(of: conditions, from: rules.conditions[0]),
                holds: held.usual.map { UploadReport.Waiting($0) }
            )
            report.budgets = budgets.isEmpty ? nil : budgets
            return report
        }
    }
}

extension Engine.PolicyState {
    /// Every fact, also of the networks that are not the usual way, by its name and their interface.
    func conditionReports(_ now: Timestamp) -> [String: ConditionReport] {
        var reports = facts(now: now).report(now)
        for interface in observed.others.keys {
            let own = facts(now: now, through: interface).report(now)
            for name in ["metered", "low-data", "cellular"] { reports["\(name):\(interface)"] = own[name] }
            reports["network:\(interface)"] = own["connection"]
        }
        return reports
    }
}

extension MachineFacts {
    /// Every fact with its value, source and age, by the names that `status` and `policy show` have for them.
    func report(_ now: Timestamp) -> [String: ConditionReport] {
        [
            "connection": ConditionReport(connection, now) { $0.isEmpty ? "unknown" : $0 },
            "metered": ConditionReport(metered, now, \.rawValue),
            "low-data": ConditionReport(lowData, now, \.rawValue),
            "cellular": ConditionReport(cellular, now, \.rawValue),
            "connectivity": ConditionReport(connectivity, now, \.rawValue),
            "route": ConditionReport(route, now, \.rawValue),
            "power": ConditionReport(power, now, \.rawValue),
            "battery": ConditionReport(charge, now) { $0.map { "\($0)%" } ?? "unknown" },
            "power-profile": ConditionReport(profile, now, \.rawValue),
            "pressure": ConditionReport(pressure, now, \.rawValue),
            "heat": ConditionReport(heat, now, \.rawValue),
        ]
    }
}

extension PolicyReport.Override {
    init(_ entry: PolicyOverride) {
        self.init(
            key: entry.key,
            value: entry.value,
            since: Timestamp(seconds: entry.set).rfc3339,
            until: entry.until.map { Timestamp(seconds: $0).rfc3339 }
        )
    }
}
