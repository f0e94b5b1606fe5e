// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What a budget is for besides that of all volumes together.
package enum BudgetOwner: Hashable, Sendable {
    case volume(String)
    /// The files of a volume that a pattern means.
    case pattern(String, volume: String)
    /// The files of a volume for which themselves the same is set, by what that is.
    case files(String, volume: String)
}

/// What went over networks that cost, of all volumes together and of each owner of a budget; a pure value.
package struct ByteBudgets: Hashable, Sendable {
    package private(set) var all: ByteBudget
    /// Of those of which something went this month.
    package private(set) var owners: [BudgetOwner: ByteBudget]

    package init(all: ByteBudget = ByteBudget(), owners: [BudgetOwner: ByteBudget] = [:]) {
        self.all = all
        self.owners = owners
    }

    package subscript(_ owner: BudgetOwner) -> ByteBudget { owners[owner] ?? ByteBudget() }

    /// Counts bytes that went: those of a volume for all as well, others for that owner alone.
    package mutating func note(_ bytes: Int64, of owner: BudgetOwner, at now: Timestamp, _ clock: any LocalClock) {
        if case .volume = owner { all.note(bytes, at: now, clock) }
        owners[owner, default: ByteBudget()].note(bytes, at: now, clock)
        guard owners.count > Self.limit else { return }
        let other = owners.keys.first { if case .volume = $0 { false } else { $0 != owner } }
        if let other { owners[other] = nil }
    }

    /// Of more owners any is forgotten, hardly ever one of the few hundred that are in use.
    private static let limit = 5_000

    /// Begins new days and months when their time has come, and forgets those of which nothing went.
    package mutating func turn(at now: Timestamp, _ clock: any LocalClock) {
        all.turn(at: now, clock)
        for owner in owners.keys { owners[owner]?.turn(at: now, clock) }
        owners = owners.filter { $0.value.monthBytes > 0 }
    }
}
