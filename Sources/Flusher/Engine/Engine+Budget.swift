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
}

/// What was sent for an owner of a budget, and how much of it was counted.
struct BudgetCount: Sendable {
    let sent = SentBytes()
    var counted: Int64 = 0

    /// How much went since the last time.
    mutating func take() -> Int64 {
        let total = sent.total
        defer { counted = total }
        return max(0, total - counted)
    }
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
            for (owner, bytes) in news { state.policy.budgets.note(bytes, of: owner, at: now, clock) }
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

    /// Whether anything bounds how much of a volume, or of paths in it, goes over networks that cost.
    func isBudgeted(_ volume: Volume) -> Bool { !bounds(of: volume).isEmpty || volume.rules.isBounded }

    /// Whether anything bounds what goes by rules of a number.
    func isBudgeted(_ volume: Volume, _ number: Int) -> Bool {
        !bounds(of: volume).isEmpty || !volume.rules.bounds[number].isEmpty
    }

    typealias Bound = (budget: ByteBudget, limits: ByteBudget.Limits, name: String?)

    /// What bounds all that goes of a volume: the amounts of all, and its own.
    func bounds(of volume: Volume) -> [Bound] {
        let own: Bound = (budgets[.volume(volume.session.id)], ownLimits(of: volume), nil)
        return [(budgets.all, commonLimits, nil), own].filter { !$0.limits.isEmpty }
    }

    /// What bounds besides what goes by rules of a number: the amounts of paths, and of the file.
    func bounds(of volume: Volume, _ number: Int) -> [Bound] {
        volume.rules.bounds[number].map { (budgets[$0.owner], $0.limits, $0.name) }
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
    /// Where what is sent of a row is counted; nil: for its volume alone.
    mutating func counter(of row: RowID) -> SentBytes? {
        guard var volume = volumes[row.volume] else { return nil }
        let number = scheduler.row(row)?.facts.rules ?? 0
        guard volume.rules.bounds.indices.contains(number), !volume.rules.bounds[number].isEmpty else { return nil }
        let counts = volume.rules.bounds[number].map { bound in
            let count = volume.budgetCounts[bound.owner] ?? BudgetCount()
            volume.budgetCounts[bound.owner] = count
            return count.sent
        }
        volumes[row.volume] = volume
        return SentBytes(of: [volume.session.sent] + counts)
    }

    /// Forgets what went of files that are not waited for any more.
    mutating func forgetBudgets(of id: String) {
        guard let files = volumes[id]?.rules.filesWithBudgets else { return }
        policy.budgets.keepFiles(files, of: id)
        let counts = volumes[id]?.budgetCounts.filter { owner, _ in
            guard case .file(let file, _) = owner else { return true }
            return files.contains(file)
        }
        volumes[id]?.budgetCounts = counts ?? [:]
    }

    /// How many bytes went over networks that cost since the last time, by whose budget they count for.
    fileprivate mutating func takeCostlyBytes(_ now: Timestamp) -> [BudgetOwner: Int64] {
        var costly: [BudgetOwner: Int64] = [:]
        for (id, known) in volumes {
            var volume = known
            let isCostly = policy.facts(now: now, through: volume.interface).metered.value.isMetered
            let total = volume.session.sent.total
            var news = [BudgetOwner.volume(id): max(0, total - volume.countedBytes)]
            volume.countedBytes = total
            for owner in known.budgetCounts.keys { news[owner] = volume.budgetCounts[owner]?.take() }
            volumes[id] = volume
            if isCostly { costly.merge(news.filter { $0.value > 0 }) { $1 } }
        }
        return costly
    }
}
