// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Conditions
internal import Configuration
internal import Control
internal import Platform
internal import Policy
internal import Synchronization

/// The bytes of content that went to a volume's remote since this process began, or some of them.
package final class SentBytes: Sendable {
    private let count = Atomic<Int64>(0)
    /// What they count for too.
    private let others: [SentBytes]

    package init() { others = [] }

    init(of others: [SentBytes]) { self.others = others }

    func add(_ bytes: Int64) {
        count.add(max(0, bytes), ordering: .relaxed)
        for other in others { other.add(bytes) }
    }
    var total: Int64 { count.load(ordering: .relaxed) }

    /// The bytes since this was asked last.
    func take() -> Int64 { count.exchange(0, ordering: .relaxed) }
}

extension Engine {
    /// How much may go uncounted when the flusher is killed, in bytes.
    private static let uncounted: Int64 = 4 << 20

    /// Reads what went over networks that cost before this process began.
    func loadBudget() {
        do throws(ConfigurationError) {
            guard let budgets = try BudgetRecord.load(options.directories.budget) else { return }
            state.inspect { state in
                state.policy.budgets = budgets
                state.policy.savedBudgets = budgets
            }
        } catch {
            Log.warning("flusher", error.description)
        }
    }

    /// Counts what went since the last time, where that costs.
    ///
    /// `isLast`: all of it is written down, otherwise only what is worth it.
    func countSentBytes(isLast: Bool = false) {
        let budgets: ByteBudgets? = state.inspect { state in
            state.noteSent()
            let (budgets, saved) = (state.policy.budgets, state.policy.savedBudgets)
            let unsaved = budgets.all.monthBytes - saved.all.monthBytes
            let isDue = !(0..<Self.uncounted).contains(unsaved) && monotonicSeconds() >= state.policy.budgetSaveAt
            guard isLast || isDue, budgets != saved else { return nil }
            return budgets
        }
        if let budgets { save(budgets) }
    }

    private func save(_ budgets: ByteBudgets) {
        do throws(ConfigurationError) {
            try BudgetRecord.save(budgets, to: options.directories.budget)
            state.inspect { $0.policy.savedBudgets = budgets }
        } catch {
            // A disk that is full is so for a while.
            state.inspect { $0.policy.budgetSaveAt = monotonicSeconds() + 30 }
            Log.warning("flusher", error.description)
        }
    }
}

extension Engine.PolicyState {
    /// Begins new days and months when their time has come.
    mutating func turnBudgets(at now: Timestamp) { budgets.turn(at: now, clock) }

    /// Whether anything bounds how much of a volume, or of paths in it, goes over networks that cost.
    func isBudgeted(_ volume: Volume) -> Bool { !bounds(of: volume).isEmpty || volume.rules.isBounded }

    /// Whether anything bounds what goes by rules of a number.
    func isBudgeted(_ volume: Volume, _ number: Int) -> Bool {
        !bounds(of: volume).isEmpty || !bounds(of: volume, number).isEmpty
    }

    typealias Bound = (budget: ByteBudget, limits: ByteBudget.Limits, name: String?)

    /// What bounds all that goes of a volume: the amounts of all, and its own.
    func bounds(of volume: Volume) -> [Bound] {
        let own: Bound = (budgets[.volume(volume.session.id)], ownLimits(of: volume), nil)
        return [(budgets.all, commonLimits, nil), own].filter { !$0.limits.isEmpty }
    }

    /// What bounds besides what goes by rules of a number: the amounts of paths, and of the file.
    func bounds(of volume: Volume, _ number: Int) -> [Bound] {
        volume.rules.bounds[number].map { (budgets[$0.owner], $0.limits, $0.name) }.filter { !$0.limits.isEmpty }
    }

    /// Why nothing more may go over networks that cost, as far as amounts go: what lasts longest.
    func quota(_ bounds: [Bound], now: Timestamp) -> Waiting? {
        bounds.compactMap { $0.budget.hold($0.limits, at: now, clock, name: $0.name) }.max {
            $0.until ?? now < $1.until ?? now
        }
    }

    /// As ``ByteBudget/room(_:at:_:)``, of all that bounds.
    func amount(_ bounds: [Bound], at moment: PolicyMoment) -> (bytes: Int64, until: Timestamp, refill: Int64)? {
        bounds.compactMap { $0.budget.room($0.limits, at: moment.now, moment.clock) }.min { $0.bytes < $1.bytes }
    }

    /// What bounds all volumes together.
    private var commonLimits: ByteBudget.Limits { overridden(budgetLimits) }

    /// What bounds a volume besides.
    private func ownLimits(of volume: Volume) -> ByteBudget.Limits {
        let description = volume.session.description
        return overridden(.init(daily: description.expensiveDaily, monthly: description.expensiveMonthly))
    }

    /// What a person set for now goes before both.
    private func overridden(_ limits: ByteBudget.Limits) -> ByteBudget.Limits {
        let values = overrides.values
        return ByteBudget.Limits(
            daily: values.number(.expensiveDaily) ?? limits.daily,
            monthly: values.number(.expensiveMonthly) ?? limits.monthly
        )
    }

    /// How much went of what may go, of all volumes together; of one, where one is named.
    func budgetReport(of volume: Volume? = nil, now: Timestamp) -> PolicyReport.Budget {
        guard let volume else { return budgetReport(budgets.all, commonLimits, now: now) }
        return budgetReport(budgets[.volume(volume.session.id)], ownLimits(of: volume), now: now)
    }

    /// How much went of what may go besides by rules of a number.
    func budgetReports(of volume: Volume, _ number: Int, now: Timestamp) -> [PolicyReport.Budget] {
        volume.rules.bounds[number].map { bound in
            var report = budgetReport(budgets[bound.owner], bound.limits, now: now)
            report.name = bound.name
            return report
        }
    }

    private func budgetReport(
        _ budget: ByteBudget,
        _ limits: ByteBudget.Limits,
        now: Timestamp
    ) -> PolicyReport.Budget {
        // Where nothing is bounded nobody begins new days, nor asks which clock counts.
        let clock = SystemLocalClock()
        var budget = budget
        budget.turn(at: now, clock)
        let ends = ByteBudget.ends(after: now, clock)
        return PolicyReport.Budget(
            daily: .init(limit: limits.daily, used: budget.dayBytes, until: ends.day.rfc3339),
            monthly: .init(limit: limits.monthly, used: budget.monthBytes, until: ends.month.rfc3339)
        )
    }
}

extension Engine.State {
    /// Counts what went until now: something that it is counted by is about to be another.
    mutating func noteSent() {
        for row in jobs.keys { noteSent(of: row) }
    }

    /// Counts what went of a row that is worked on since the last time, where that costs, for all that it goes by now.
    mutating func noteSent(of row: RowID) {
        guard let bytes = jobs[row]?.sent.take(), bytes > 0 else { return }
        let now = Timestamp.now()
        guard policy.facts(now: now, through: volumes[row.volume]?.interface).metered.value.isMetered else { return }
        var owners: Set<BudgetOwner> = [.volume(row.volume)]
        if let bounds = volumes[row.volume]?.rules.bounds, let number = scheduler.row(row)?.facts.rules,
            bounds.indices.contains(number)
        {
            owners.formUnion(bounds[number].map(\.owner))
        }
        let clock = SystemLocalClock()
        for owner in owners { policy.budgets.note(bytes, of: owner, at: now, clock) }
    }
}
