// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Configuration
import Policy
import Testing

@testable import Flusher

@Suite struct RuleTableTests {
    private func table(_ paths: [PathConditions] = [], overrides: [(String, String)] = []) throws -> RuleTable {
        var description = try VolumeDescription(bucket: "b", prefix: "", values: OptionValues(), environment: [:])
        description.paths = paths
        var set = PolicyOverrides()
        for (key, value) in overrides { try set.set(key, to: value, for: nil, now: Timestamp(seconds: 1)) }
        return RuleTable(description, overrides: set.values)
    }

    @Test func whatIsSetForAFileGoesBeforeAllElse() throws {
        let paths = [PathConditions(pattern: "*.raw", settings: ["battery_min": "50", "require_power": "true"])]
        var table = try table(paths, overrides: [("battery_min", "60")])
        let plain = table.number(for: ObjectKey("a.raw"))
        let special = table.number(for: ObjectKey("a.raw"), settings: "battery_min=70\nwindow=22:00-06:00")
        #expect(table.rules[plain].minimumCharge == 60 && table.rules[plain].requiresPower)
        #expect(table.rules[special].minimumCharge == 70 && table.rules[special].requiresPower)
        #expect(table.rules[special].windows != nil && table.rules[plain].windows == nil)
        #expect(table.number(for: ObjectKey("b.txt"), settings: "battery_min=70\nwindow=22:00-06:00") != special)
        #expect(table.number(for: ObjectKey("c.raw"), settings: "battery_min=70\nwindow=22:00-06:00") == special)
        #expect(table.isOfFile(special, .window) && !table.isOfFile(special, .requirePower))
        #expect(table.name(of: special) == "*.raw with battery_min=70, window=22:00-06:00")
    }

    @Test func everyPatternThatMeansAPathAndTheFileItselfBoundWhatGoes() throws {
        let paths = [
            PathConditions(pattern: "*.raw", settings: ["expensive_daily": "5M"]),
            PathConditions(pattern: "/big/", settings: ["expensive_daily": "7M", "expensive_monthly": "9M"]),
        ]
        func bounds(_ table: RuleTable, _ number: Int) -> [String] {
            table.bounds[number].map { "\($0.name): \($0.limits.daily ?? 0) \($0.limits.monthly ?? 0)" }
        }
        var table = try table(paths)
        #expect(!table.isBounded && table.bounds[0].isEmpty)
        let both = table.number(for: ObjectKey("big/a.raw"), settings: "expensive_daily=2M")
        let own = "files with expensive_daily=2097152: 2097152 0"
        #expect(bounds(table, both) == ["*.raw: 5242880 0", "/big/: 7340032 9437184", own] && table.isBounded)
        // Files for which the same is set share it, whatever else is set.
        let other = table.number(for: ObjectKey("b.raw"), settings: "battery_min=3\nexpensive_daily=2048K")
        #expect(Set(table.bounds[other].map(\.owner)).subtracting(table.bounds[both].map(\.owner)).isEmpty)
        #expect(bounds(table, other) == ["*.raw: 5242880 0", own])
        let monthly = table.number(for: ObjectKey("b"), settings: "expensive_daily=2MiB\nexpensive_monthly=3M")
        #expect(bounds(table, monthly) == [own, "files with expensive_monthly=3145728: 0 3145728"])
        #expect(table.bounds[monthly].first?.owner == table.bounds[other].last?.owner)
        // What is set for now stands in place of what is set for paths, where it is counted all the same.
        table.override(by: try PolicyOverrides.daily("1G"))
        #expect(bounds(table, both) == ["*.raw: 0 0", "/big/: 0 9437184", own])
        let plain = table.number(for: ObjectKey("c.raw"))
        table.keep(only: [plain])
        #expect(bounds(table, plain) == ["*.raw: 0 0"] && !table.isBounded)
    }

    @Test func rulesThatRowsGoByAreTheOnesOfPathsAndThenThoseOfFiles() throws {
        let paths = [PathConditions(pattern: "*.raw", settings: ["priority": "1"])]
        var table = try table(paths)
        #expect(table.special.isEmpty)
        let numbers = (0..<3).map { table.number(for: ObjectKey("a"), settings: "battery_min=\($0)") }
        let path = table.number(for: ObjectKey("a.raw"))
        _ = table.number(for: ObjectKey("b"))
        #expect(table.special == [path] + numbers)
        table.keep(only: [0, path, numbers[2]])
        #expect(table.special == [path, numbers[2]])
    }

    @Test func aFileThatHasNoTimeHasNoneHoweverLargeItIs() throws {
        var table = try table(overrides: [("discretionary", "true"), ("discretionary_above", "1M")])
        let number = table.number(for: ObjectKey("a"), settings: "discretionary=no")
        let rules = table.rules[number]
        #expect(!rules.isDiscretionary && rules.discretionarySize == nil)
        #expect(table.rules[0].isDiscretionary && table.rules[0].discretionarySize == 1 << 20)
    }

    @Test func timeoutsOfADescriptionOfAnEarlierVersionCount() throws {
        let path = PathConditions(pattern: "*.raw", settings: ["stall_timeout": "7m"])
        var description = try VolumeDescription(bucket: "b", prefix: "", values: OptionValues(), environment: [:])
        (description.connectTimeout, description.stallTimeout, description.paths) = (20, 300, [path])
        description.conditions = UploadConditions()
        var table = RuleTable(description, overrides: OptionValues())
        #expect(table.conditions[0].connectTimeout == 20 && table.conditions[0].stallTimeout == 300)
        let number = table.number(for: ObjectKey("a.raw"))
        #expect(table.conditions[number].connectTimeout == 20 && table.conditions[number].stallTimeout == 420)
    }

    @Test func whatCannotBeReadIsLeftOut() throws {
        var table = try table()
        let number = table.number(
            for: ObjectKey("a"),
            settings: "battery_min=x\nfuture=1\nendpoint=http://x\nrequire_power=1\n\n="
        )
        #expect(table.rules[number].requiresPower && table.rules[number].minimumCharge == 20)
    }

    @Test func numbersThatNoRowGoesByAreUsedAgain() throws {
        var table = try table()
        let numbers = (0..<150).map {
            table.number(for: ObjectKey("a"), settings: "battery_min=\($0 % 100)\npriority=\($0)")
        }
        #expect(Set(numbers).count == 150 && table.count == 151)
        let before = table.revision
        table.keep(only: [0, numbers[7]])
        #expect(table.revision != before && table.rules[numbers[7]].minimumCharge == 7)
        let again = (200..<349).map {
            table.number(for: ObjectKey("a"), settings: "battery_min=\($0 % 100)\npriority=\($0)")
        }
        #expect(table.count == 151 && !again.contains(numbers[7]) && Set(again).count == 149)
        #expect(table.number(for: ObjectKey("a"), settings: "battery_min=7\npriority=7") == numbers[7])
        #expect(!table.isFree(numbers[7]))
        for (index, number) in again.enumerated() {
            #expect(table.rules[number].minimumCharge == (200 + index) % 100)
        }
    }
}

extension PolicyOverrides {
    /// What somebody set by hand for a day.
    fileprivate static func daily(_ text: String) throws -> OptionValues {
        var set = PolicyOverrides()
        try set.set("expensive_daily", to: text, for: nil, now: Timestamp(seconds: 1))
        return set.values
    }
}
