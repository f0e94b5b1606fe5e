// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Conditions
internal import Configuration
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
            guard let budget = try BudgetRecord.load(options.directories.budget) else { return }
            state.inspect { state in
                state.policy.budget = budget
                state.policy.savedBudget = budget
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
        let budget: ByteBudget? = state.inspect { state in
            let now = Timestamp.now()
            let news = state.takeCostlyBytes(now)
            guard news > 0 else {
                return isLast && state.policy.budget != state.policy.savedBudget ? state.policy.budget : nil
            }
            state.policy.budget.note(news, at: now, clock)
            let unsaved = state.policy.budget.monthBytes - state.policy.savedBudget.monthBytes
            return isLast || !(0..<Self.uncounted).contains(unsaved) ? state.policy.budget : nil
        }
        if let budget { save(budget) }
    }

    private func save(_ budget: ByteBudget) {
        do throws(ConfigurationError) {
            try BudgetRecord.save(budget, to: options.directories.budget)
            state.inspect { $0.policy.savedBudget = budget }
        } catch {
            Log.warning("flusher", error.description)
        }
    }
}

extension Engine.State {
    /// How many bytes went over networks that cost since the last time.
    fileprivate mutating func takeCostlyBytes(_ now: Timestamp) -> Int64 {
        var costly: Int64 = 0
        for (id, volume) in volumes {
            let total = volume.session.sent.total
            let news = max(0, total - volume.countedBytes)
            volumes[id]?.countedBytes = total
            if policy.facts(now: now, through: volume.interface).metered.value.isMetered { costly += news }
        }
        return costly
    }
}
