// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Configuration
internal import Control

/// What is known and set, and what that holds up, as lines for people.
enum PolicyText {
    static func lines(_ report: PolicyReport) -> [String] {
        let rows = report.conditions.sorted { $0.key < $1.key }.map { name, fact in
            ["  \(name)", fact.value, source(fact)]
        }
        return ["what is known of this machine:"] + columns(rows) + changes(report)
    }

    /// What is told of when something was set.
    static func changes(_ report: PolicyReport) -> [String] {
        overrides(report) + limits(report) + budget(report) + volumes(report)
    }

    /// What was set by hand.
    private static func overrides(_ report: PolicyReport) -> [String] {
        guard !report.overrides.isEmpty else { return ["nothing is set by hand"] }
        return ["set by hand:"]
            + report.overrides.map { entry in
                "  \(entry.key)=\(entry.value)" + (entry.until.map { " until \($0)" } ?? "")
            }
    }

    /// The rates that count now.
    private static func limits(_ report: PolicyReport) -> [String] {
        (report.limits ?? []).filter { $0.rate != nil || $0.until != nil }.map { limit in
            let rate = limit.rate.map { "at most \(humanBytes($0)) a second" } ?? "no limit"
            let end = limit.until.map { " until \($0)" } ?? ""
            return "\(limit.direction)s: \(rate)\(end) (\(Console.oneLine(limit.setting)))"
        }
    }

    /// What may go of all volumes together over networks that cost.
    private static func budget(_ report: PolicyReport) -> [String] {
        report.budget.map { lines($0, "metered networks, all volumes") } ?? []
    }

    /// What holds the uploads of each volume, also by rules of paths and files, and what may go over networks that cost.
    private static func volumes(_ report: PolicyReport) -> [String] {
        report.volumes.flatMap { volume in
            let way = volume.interface.map { ", through \(Console.oneLine($0))" } ?? ""
            let remote = "\(Console.oneLine(volume.remote)) (\(volume.transferClass)\(way))"
            let state = volume.holds.isEmpty ? "nothing holds uploads" : "uploads are held"
            let budget = volume.budget.map { lines($0, "  metered networks") } ?? []
            let others = (volume.otherRules ?? []).flatMap(lines)
            let more = volume.moreRules.map { $0 > 0 ? ["  and \($0) more rules of paths and files"] : [] } ?? []
            return ["\(remote): \(state)"] + volume.holds.map { line($0, "  ") } + budget + others + more
        }
    }

    private static func lines(_ rules: PolicyReport.Rules) -> [String] {
        let state = rules.holds.isEmpty ? "nothing holds them" : "they are held"
        let settings = rules.settings.names.map { name in
            "\(name.rawValue)=\(rules.settings[name]?.text(name.definition.kind) ?? "automatic")"
        }
        let difference = settings.isEmpty ? [] : ["    otherwise: \(Console.oneLine(settings.joined(separator: ", ")))"]
        let budgets = (rules.budgets ?? []).flatMap { budget in
            lines(budget, "    metered networks, \(Console.oneLine(budget.name ?? rules.name))")
        }
        return ["  uploads of \(Console.oneLine(rules.name)) (\(rules.transferClass)): \(state)"]
            + rules.holds.map { line($0, "    ") } + budgets + difference
    }

    private static func line(_ hold: UploadReport.Waiting, _ indent: String) -> String {
        let until = hold.until.map { " until \($0)" } ?? ""
        return Console.oneLine(
            "\(indent)\(hold.reason) since \(hold.since)\(until)\(hold.detail.map { ": \($0)" } ?? "")"
        )
    }

    /// A day and a month of which nothing is to be told have no line.
    private static func lines(_ budget: PolicyReport.Budget, _ whose: String) -> [String] {
        [("day", budget.daily), ("month", budget.monthly)].compactMap { name, amount in
            guard amount.limit != nil || amount.used > 0 else { return nil }
            let limit = amount.limit.map { "of \(humanBytes($0))" } ?? "without limit"
            return "\(whose): \(humanBytes(amount.used)) \(limit) sent this \(name), until \(amount.until)"
        }
    }

    private static func source(_ fact: ConditionReport) -> String {
        fact.source == "none" ? "nobody tells" : "\(Console.oneLine(fact.source)), \(humanSeconds(fact.age)) ago"
    }
}
