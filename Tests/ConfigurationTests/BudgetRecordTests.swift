// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Configuration
import Platform
import Policy
import Testing

@Suite struct BudgetRecordTests {
    private let path = "/tmp/moorage-budget-" + Randomness.hexadecimal(bytes: 8)
    private let now = Timestamp(seconds: 1_795_000_000)
    private let clock = SystemLocalClock()

    @Test func whatWentIsKeptOfAllAndOfEachVolume() throws {
        defer { try? Files.removeIfPresent(path) }
        #expect(try BudgetRecord.load(path) == nil)
        var budgets = ByteBudgets()
        budgets.note(5, of: .volume("one"), at: now, clock)
        budgets.note(7, of: .volume("two"), at: now, clock)
        budgets.note(3, of: .pattern("*.iso", volume: "two"), at: now, clock)
        budgets.note(2, of: .files("2M", volume: "two"), at: now, clock)
        budgets.note(1, of: .files("2M", volume: "one"), at: now, clock)
        try BudgetRecord.save(budgets, to: path)
        let loaded = try #require(try BudgetRecord.load(path))
        #expect(loaded == budgets && loaded.all.dayBytes == 12 && loaded[.volume("two")].monthBytes == 7)
        #expect(loaded[.volume("three")].hold(.init(daily: 1), at: now, clock) == nil)
        #expect(loaded[.volume("two")].hold(.init(daily: 7), at: now, clock)?.reason == .quota)
        let files = loaded[.files("2M", volume: "two")]
        #expect(
            files.hold(.init(daily: 2), at: now, clock, name: "this file")?.detail
                == "of the day, 2 bytes for this file"
        )
        // A month later nothing is left of it.
        budgets.turn(at: now.advanced(bySeconds: 40 * 86_400), clock)
        #expect(budgets.owners.isEmpty && budgets.all.monthBytes == 0)
    }

    @Test func ownersAreOfABoundedNumber() {
        var budgets = ByteBudgets()
        for volume in ["one", "two"] { budgets.note(1, of: .volume(volume), at: now, clock) }
        for number in 0..<5_100 { budgets.note(1, of: .files("\(number)", volume: "one"), at: now, clock) }
        #expect(budgets.owners.count == 5_000 && budgets[.files("5099", volume: "one")].dayBytes == 1)
        #expect(budgets[.volume("one")].dayBytes == 1 && budgets[.volume("two")].dayBytes == 1)
    }

    @Test func aRecordOfAnEarlierVersionCountsForAll() throws {
        defer { try? Files.removeIfPresent(path) }
        try Files.writeAtomically(path, Array(#"{"day":20775,"dayBytes":3,"month":24310,"monthBytes":9}"#.utf8))
        let loaded = try #require(try BudgetRecord.load(path))
        #expect(loaded.all.monthBytes == 9 && loaded.owners == [:])
        try Files.writeAtomically(path, Array("{".utf8))
        #expect(throws: ConfigurationError.self) { try BudgetRecord.load(path) }
    }
}
