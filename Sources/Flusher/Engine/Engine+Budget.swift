// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Conditions
internal import Configuration
internal import Control
internal import Platform
internal import Policy
internal import Synchronization

/// The bytes of content that went to a volume's remote since this process began.
package final class SentBytes: Sendable {
    private let count = Atomic<Int64>(0)

    package init() {}

    func add(_ bytes: Int64) { count.add(max(0, bytes), ordering: .relaxed) }
    var total: Int64 { count.load(ordering: .relaxed) }
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
        let clock = SystemLocalClock()
        let budgets: ByteBudgets? = state.inspect { state in
            let now = Timestamp.now()
            let news = state.takeCostlyBytes(now)
            guard !news.isEmpty else {
                return isLast && state.policy.budgets != state.policy.savedBudgets ? state.policy.budgets : nil
            }
            for (volume, bytes) in news { state.policy.budgets.note(bytes, of: volume, at: now, clock) }
            let unsaved = state.policy.budgets.all.monthBytes - state.policy.savedBudgets.all.monthBytes
            return isLast || !(0..<Self.uncounted).contains(unsaved) ? state.policy.budgets : nil
        }
        if let budgets { save(budgets) }
    }

    private func save(_ budgets: ByteBudgets) {
        do throws(ConfigurationError) {
            try BudgetRecord.save(budgets, to: options.directories.budget)
            state.inspect { $0.policy.savedBudgets = budgets }
        } catch {
            Log.warning("flusher", error.description)
        }
    }
}

extension Engine.PolicyState {
    /// Begins new days and months when their time has come.
    mutating func turnBudgets(at now: Timestamp) { budgets.turn(at: now, clock) }

    /// Whether anything bounds how much of a volume goes over networks that cost.
    func isBudgeted(_ volume: Volume) -> Bool { !limits(of: volume).isEmpty }

    /// Why nothing more of a volume may go over networks that cost, as far as amounts go: what lasts longest.
    func quota(of volume: Volume, now: Timestamp) -> Waiting? {
        limits(of: volume).compactMap { $0.budget.hold($0.limits, at: now, clock) }.max {
            $0.until ?? now < $1.until ?? now
        }
    }

    /// As ``ByteBudget/room(_:at:_:)``, of all that bounds a volume.
    func budgetRoom(of volume: Volume, at moment: PolicyMoment) -> (bytes: Int64, until: Timestamp, refill: Int64)? {
        limits(of: volume).compactMap { $0.budget.room($0.limits, at: moment.now, moment.clock) }.min {
            $0.bytes < $1.bytes
        }
    }

    /// What bounds a volume: the amounts of all, and its own.
    private func limits(of volume: Volume) -> [(budget: ByteBudget, limits: ByteBudget.Limits)] {
        let own = (budgets[volume.session.id], ownLimits(of: volume))
        return [(budgets.all, commonLimits), own].filter { !$0.limits.isEmpty }
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
        // Where nothing is bounded nobody begins new days, nor asks which clock counts.
        let clock = SystemLocalClock()
        var budget = volume.map { budgets[$0.session.id] } ?? budgets.all
        budget.turn(at: now, clock)
        let limits = volume.map(ownLimits) ?? commonLimits
        let ends = ByteBudget.ends(after: now, clock)
        return PolicyReport.Budget(
            daily: .init(limit: limits.daily, used: budget.dayBytes, until: ends.day.rfc3339),
            monthly: .init(limit: limits.monthly, used: budget.monthBytes, until: ends.month.rfc3339)
        )
    }
}

extension Engine.State {
    /// How many bytes of each volume went over networks that cost since the last time.
    fileprivate mutating func takeCostlyBytes(_ now: Timestamp) -> [String: Int64] {
        var costly: [String: Int64] = [:]
        for (id, volume) in volumes {
            let total = volume.session.sent.total
            let news = max(0, total - volume.countedBytes)
            volumes[id]?.countedBytes = total
            guard news > 0, policy.facts(now: now, through: volume.interface).metered.value.isMetered else { continue }
            costly[id] = news
        }
        return costly
    }
}
