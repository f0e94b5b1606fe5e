// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Configuration
import Control
import Testing

@testable import CommandLineTool

@Suite struct PolicyTextTests {
    private func conditions(_ settings: [(OptionName, String)]) throws -> UploadConditions {
        var values = OptionValues()
        for (name, text) in settings {
            values.set(name, try OptionValue(parsing: text, for: name.definition, at: "test"))
        }
        return UploadConditions(values)
    }

    private func report(_ volume: PolicyReport.Volume, budget: PolicyReport.Budget? = nil) -> PolicyReport {
        var report = PolicyReport(conditions: [:], overrides: [], volumes: [volume])
        report.budget = budget
        return report
    }

    private func volume(_ rules: [PolicyReport.Rules]? = nil, more: Int? = nil) -> PolicyReport.Volume {
        var volume = PolicyReport.Volume(
            id: "v",
            remote: "s3://b",
            transferClass: "background",
            rules: UploadConditions(),
            holds: []
        )
        (volume.otherRules, volume.moreRules) = (rules, more)
        return volume
    }

    @Test func rulesOfPathsAreToldWithWhatHoldsThem() throws {
        let own = try conditions([(.window, "22:00-06:00"), (.batteryMinimum, "30")])
        let special = try conditions([(.priority, "5"), (.retryBase, "90s"), (.batteryMinimum, "30")])
        let hold = UploadReport.Waiting(reason: "battery", since: "S", until: "U", detail: "on\u{1B}battery")
        let rules = [
            PolicyReport.Rules(
                name: "*.r\naw",
                transferClass: "discretionary",
                settings: .init(of: special, from: own),
                holds: [hold]
            ),
            PolicyReport.Rules(
                name: "*.tmp",
                transferClass: "background",
                settings: .init(of: own, from: own),
                holds: []
            ),
        ]
        #expect(
            PolicyText.changes(report(volume(rules, more: 7))) == [
                "nothing is set by hand",
                "s3://b (background): nothing holds uploads",
                "  uploads of *.r aw (discretionary): they are held",
                "    battery since S until U: on battery",
                "    otherwise: window=automatic, priority=5, retry_base=90s",
                "  uploads of *.tmp (background): nothing holds them",
                "  and 7 more rules of paths and files",
            ]
        )
    }

    @Test func budgetsAreToldWhereThereIsOneOrSomethingWent() {
        var bounded = volume([], more: 0)
        bounded.budget = .init(
            daily: .init(limit: 6 << 20, used: 3 << 20, until: "D"),
            monthly: .init(limit: nil, used: 5 << 20, until: "M")
        )
        let all = PolicyReport.Budget(
            daily: .init(limit: nil, used: 0, until: "D"),
            monthly: .init(limit: 1 << 30, used: 0, until: "M")
        )
        #expect(
            PolicyText.changes(report(bounded, budget: all)) == [
                "nothing is set by hand",
                "metered networks, all volumes: 0 B of 1 GiB sent this month, until M",
                "s3://b (background): nothing holds uploads",
                "  metered networks: 3 MiB of 6 MiB sent this day, until D",
                "  metered networks: 5 MiB without limit sent this month, until M",
            ]
        )
    }

    @Test func whatAFlusherOfAnEarlierVersionTellsIsShown() throws {
        let text = """
            {"conditions": {}, "overrides": [], "volumes": [{"id": "v", "remote": "s3://b", "class": "background",
              "rules": {}, "holds": []}]}
            """
        let report = try JSON.decode(PolicyReport.self, from: Array(text.utf8))
        #expect(report.volumes[0].otherRules == nil && report.budget == nil)
        #expect(PolicyText.changes(report) == ["nothing is set by hand", "s3://b (background): nothing holds uploads"])
    }

    @Test func aDifferenceOfSettingsIsReadBack() throws {
        let own = try conditions([(.window, "22:00-06:00"), (.allowExpensive, "true")])
        let special = try conditions([(.lifetime, "2h"), (.discretionaryAbove, "1M"), (.deadline, "+8h")])
        let difference = UploadConditions.Difference(of: special, from: own)
        let bytes = try JSON.encode(difference)
        #expect(
            String(decoding: bytes, as: UTF8.self)
                == #"{"allow_expensive":false,"deadline":"+8h","discretionary_above":1048576,"lifetime":7200,"window":null}"#
        )
        #expect(try JSON.decode(UploadConditions.Difference.self, from: bytes) == difference)
    }
}
