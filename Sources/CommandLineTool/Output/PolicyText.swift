// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Control

/// What is known and set, and what that holds up, as lines for people.
enum PolicyText {
    static func lines(_ report: PolicyReport) -> [String] {
        let rows = report.conditions.sorted { $0.key < $1.key }.map { name, fact in
            ["  \(name)", fact.value, source(fact)]
        }
        return ["what is known of this machine:"] + columns(rows) + overrides(report) + limits(report)
            + volumes(report)
    }

    /// What was set by hand.
    static func overrides(_ report: PolicyReport) -> [String] {
        guard !report.overrides.isEmpty else { return ["nothing is set by hand"] }
        return ["set by hand:"]
            + report.overrides.map { entry in
                "  \(entry.key)=\(entry.value)" + (entry.until.map { " until \($0)" } ?? "")
            }
    }

    /// The rates that count now.
    static func limits(_ report: PolicyReport) -> [String] {
        (report.limits ?? []).filter { $0.rate != nil || $0.until != nil }.map { limit in
            let rate = limit.rate.map { "at most \(humanBytes($0)) a second" } ?? "no limit"
            let end = limit.until.map { " until \($0)" } ?? ""
            return "\(limit.direction)s: \(rate)\(end) (\(Console.oneLine(limit.setting)))"
        }
    }

    /// What holds the uploads of each volume.
    static func volumes(_ report: PolicyReport) -> [String] {
        report.volumes.flatMap { volume in
            let way = volume.interface.map { ", through \(Console.oneLine($0))" } ?? ""
            let remote = "\(Console.oneLine(volume.remote)) (\(volume.transferClass)\(way))"
            guard !volume.holds.isEmpty else { return ["\(remote): nothing holds uploads"] }
            let reasons = volume.holds.map { hold in
                Console.oneLine("  \(hold.reason) since \(hold.since)\(hold.detail.map { ": \($0)" } ?? "")")
            }
            return ["\(remote): uploads are held"] + reasons
        }
    }

    private static func source(_ fact: ConditionReport) -> String {
        fact.source == "none" ? "nobody tells" : "\(Console.oneLine(fact.source)), \(humanSeconds(fact.age)) ago"
    }
}
