// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

extension Policy {
    /// Every reason why the machine's conditions hold work that nobody waits for; none: it may go.
    ///
    /// `isLocal`: the remote is on this machine, to which there is always a way. Without `moment` neither windows nor
    /// budgets count.
    package static func holds(
        _ machine: MachineFacts,
        rules: TransferRules,
        isLocal: Bool = false,
        at moment: PolicyMoment? = nil
    ) -> [Waiting] {
        let windows = rules.windows
        let rules = rules.inForce
        var holds: [Waiting] = []
        appendNetwork(machine, rules, isLocal, to: &holds)
        appendPower(machine, rules, to: &holds)
        if rules.isDiscretionary { appendStress(machine, to: &holds) }
        guard let moment else { return holds }
        // Where nothing goes at all because the network costs, the amount does not matter.
        if machine.metered.value.isMetered, rules.allowsExpensive, let quota = moment.quota { holds.append(quota) }
        if let windows, !windows.isOpen(at: moment.now, moment.clock) {
            let opening = windows.nextOpening(after: moment.now, moment.clock)
            holds.append(Waiting(.window, since: moment.now, until: opening, detail: "no window is open"))
        }
        return holds
    }

    /// Reasons as they are now, since the time they had before when they are not new.
    ///
    /// A battery that goes down by another percent has been low since it was first.
    package static func continued(_ holds: [Waiting], from before: [Waiting]) -> [Waiting] {
        holds.map { hold in
            var hold = hold
            if let old = before.first(where: { $0.reason == hold.reason }) { hold.since = min(hold.since, old.since) }
            return hold
        }
    }

    private static func appendNetwork(
        _ machine: MachineFacts,
        _ rules: TransferRules,
        _ isLocal: Bool,
        to holds: inout [Waiting]
    ) {
        if machine.route.value == .none, !isLocal {
            holds.append(Waiting(.offline, machine.route, "there is no way out of this machine"))
        }
        if machine.connectivity.value == .portal {
            holds.append(Waiting(.captivePortal, machine.connectivity, "the network wants a login"))
        }
        if machine.metered.value.isMetered, !rules.allowsExpensive {
            holds.append(Waiting(.expensive, machine.metered, "the network is metered"))
        }
        if machine.lowData.value == .yes, !rules.allowsConstrained {
            holds.append(Waiting(.constrained, machine.lowData, "little is to be sent"))
        }
        if machine.cellular.value == .yes, !rules.allowsCellular {
            holds.append(Waiting(.cellular, machine.cellular, "the network is a mobile one"))
        }
    }

    private static func appendStress(_ machine: MachineFacts, to holds: inout [Waiting]) {
        if machine.pressure.value == .yes {
            holds.append(Waiting(.load, machine.pressure, "programs wait for a processor, a disk or memory"))
        }
        if machine.heat.value == .yes { holds.append(Waiting(.thermal, machine.heat, "the machine is hot")) }
    }

    private static func appendPower(_ machine: MachineFacts, _ rules: TransferRules, to holds: inout [Waiting]) {
        if machine.power.value == .battery {
            if rules.requiresPower {
                holds.append(Waiting(.battery, machine.power, "on battery"))
            } else if let charge = machine.charge.value, charge < rules.minimumCharge {
                // It waits since either became so, whichever was last.
                let fact = machine.charge.since > machine.power.since ? machine.charge.since : machine.power.since
                let detail = "on battery at \(charge) %, below \(rules.minimumCharge) %, says \(machine.charge.source)"
                holds.append(Waiting(.battery, since: fact, detail: detail))
            }
        }
        if machine.profile.value == .powerSaver, !rules.allowsPowerSaver {
            holds.append(Waiting(.powerSaver, machine.profile, "the machine saves power"))
        }
    }
}

extension Waiting {
    /// A reason that a fact gives, with who says so.
    fileprivate init<Value>(_ reason: WaitingReason, _ fact: Fact<Value>, _ detail: String) {
        self.init(reason, since: fact.since, detail: "\(detail), says \(fact.source)")
    }
}

/// What becomes of the requests that are under way when work is to stop.
package enum Preemption {
    /// The longest that what is nearly done may still take, in seconds.
    package static let patience = 5.0
    /// What is no more than this is tried to its end in any case, in bytes: a small request that is cut leaves a doubt
    /// whether the server took it, which costs more than its end.
    package static let small: Int64 = 2 << 20

    /// Whether requests that have `remaining` bytes to go, at `rate` bytes a second, are let finish.
    ///
    /// What is far from done would only cost more and be thrown away all the same.
    package static func letsFinish(remaining: Int64, rate: Double) -> Bool {
        remaining <= small || rate > 0 && Double(remaining) / rate <= patience
    }
}
