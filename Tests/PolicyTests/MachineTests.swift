// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Policy
import Testing

@Suite struct MachineTests {
    private let now = Timestamp(seconds: 1_000_000)

    private func reasons(_ change: (inout MachineFacts) -> Void) -> [WaitingReason] {
        reasons(TransferRules(), change)
    }

    private func reasons(
        _ rules: TransferRules,
        isLocal: Bool = false,
        _ change: (inout MachineFacts) -> Void
    ) -> [WaitingReason] {
        var facts = MachineFacts(at: now)
        change(&facts)
        return Policy.holds(facts, rules: rules, isLocal: isLocal).map(\.reason)
    }

    private func set<Value>(_ fact: inout Fact<Value>, _ value: Value) {
        fact.observe(value, source: "test", at: now)
    }

    private func onBattery(_ charge: Int?) -> (inout MachineFacts) -> Void {
        { facts in
            self.set(&facts.power, .battery)
            self.set(&facts.charge, charge)
        }
    }

    private let discretionary = TransferRules(
        allowsExpensive: true,
        allowsConstrained: true,
        allowsPowerSaver: true,
        isDiscretionary: true,
        minimumCharge: 0
    )

    @Test func whatIsNotKnownHoldsNothing() {
        #expect(reasons { _ in }.isEmpty)
        #expect(reasons(discretionary) { _ in }.isEmpty)
    }

    @Test func aServerSeesNoDifference() {
        let server: (inout MachineFacts) -> Void = { facts in
            self.set(&facts.metered, .guessedNo)
            self.set(&facts.route, .standard)
            self.set(&facts.power, .external)
            self.set(&facts.profile, .balanced)
            self.set(&facts.connectivity, .full)
        }
        #expect(reasons(server).isEmpty)
        #expect(reasons(discretionary, server).isEmpty)
    }

    @Test(arguments: MachineFacts.Metering.allCases)
    func meteredNetworksAreExpensive(_ metering: MachineFacts.Metering) {
        let isMetered = metering == .yes || metering == .guessedYes
        #expect(reasons { set(&$0.metered, metering) } == (isMetered ? [.expensive] : []))
        #expect(reasons(TransferRules(allowsExpensive: true)) { set(&$0.metered, metering) }.isEmpty)
        #expect(reasons(discretionary) { set(&$0.metered, metering) } == (isMetered ? [.expensive] : []))
    }

    @Test func onlyWhatHasTimeWaitsForABusyOrHotMachine() {
        let stressed: (inout MachineFacts) -> Void = { facts in
            self.set(&facts.pressure, .yes)
            self.set(&facts.heat, .yes)
        }
        #expect(reasons(discretionary, stressed) == [.load, .thermal])
        #expect(reasons(stressed).isEmpty)
    }

    @Test func lowDataConstrains() {
        #expect(reasons { set(&$0.lowData, .yes) } == [.constrained])
        #expect(reasons { set(&$0.lowData, .no) }.isEmpty)
        #expect(reasons(TransferRules(allowsConstrained: true)) { set(&$0.lowData, .yes) }.isEmpty)
    }

    @Test func mobileNetworksAreUsedUnlessTheyAreNotAllowed() {
        #expect(reasons { set(&$0.cellular, .yes) }.isEmpty)
        #expect(reasons(TransferRules(allowsCellular: false)) { set(&$0.cellular, .yes) } == [.cellular])
        #expect(reasons(discretionary) { set(&$0.cellular, .yes) } == [.cellular])
    }

    @Test func aPortalIsNotTheNet() {
        for value in MachineFacts.Connectivity.allCases {
            #expect(reasons { set(&$0.connectivity, value) } == (value == .portal ? [.captivePortal] : []))
        }
    }

    @Test func withoutARouteOnlyThisMachineIsReached() {
        for value in MachineFacts.Route.allCases {
            #expect(reasons { set(&$0.route, value) } == (value == .none ? [.offline] : []))
            #expect(reasons(TransferRules(), isLocal: true) { set(&$0.route, value) }.isEmpty)
        }
    }

    @Test func aLowBatteryHoldsBelowTheLimit() {
        #expect(reasons(onBattery(19)) == [.battery])
        #expect(reasons(onBattery(20)).isEmpty)
        #expect(reasons(onBattery(nil)).isEmpty)
        #expect(reasons(TransferRules(minimumCharge: 0), onBattery(0)).isEmpty)
        #expect(reasons(TransferRules(minimumCharge: 100), onBattery(99)) == [.battery])
        #expect(reasons { set(&$0.charge, 5) }.isEmpty, "low, but not on battery as far as is known")
        let plugged: (inout MachineFacts) -> Void = { facts in
            self.set(&facts.power, .external)
            self.set(&facts.charge, 5)
        }
        #expect(reasons(plugged).isEmpty)
    }

    @Test func powerMayBeRequired() {
        #expect(reasons(TransferRules(requiresPower: true), onBattery(100)) == [.battery])
        #expect(reasons(TransferRules(requiresPower: true)) { set(&$0.power, .external) }.isEmpty)
        #expect(reasons(discretionary, onBattery(100)) == [.battery])
    }

    @Test func savingPowerHolds() {
        for value in MachineFacts.Profile.allCases {
            #expect(reasons { set(&$0.profile, value) } == (value == .powerSaver ? [.powerSaver] : []))
        }
        #expect(reasons(TransferRules(allowsPowerSaver: true)) { set(&$0.profile, .powerSaver) }.isEmpty)
        #expect(reasons(discretionary) { set(&$0.profile, .powerSaver) } == [.powerSaver])
    }

    @Test func allReasonsAreToldWithWhoSaysSo() {
        var facts = MachineFacts(at: now.advanced(bySeconds: -50))
        set(&facts.route, .none)
        set(&facts.connectivity, .portal)
        set(&facts.metered, .guessedYes)
        set(&facts.lowData, .yes)
        set(&facts.cellular, .yes)
        set(&facts.profile, .powerSaver)
        onBattery(10)(&facts)
        let holds = Policy.holds(facts, rules: TransferRules(allowsCellular: false))
        let all: [WaitingReason] = [
            .offline, .captivePortal, .expensive, .constrained, .cellular, .battery, .powerSaver,
        ]
        #expect(holds.map(\.reason) == all)
        #expect(holds.allSatisfy { $0.since == now && $0.detail?.hasSuffix("says test") == true && $0.until == nil })
    }

    @Test func aReasonThatStaysIsAsOldAsItWas() {
        let old = [Waiting(.battery, since: now.advanced(bySeconds: -60), detail: "11 %")]
        let new = [Waiting(.expensive, since: now), Waiting(.battery, since: now, detail: "10 %")]
        let continued = Policy.continued(new, from: old)
        #expect(continued.map(\.since) == [now, now.advanced(bySeconds: -60)])
        #expect(continued.map(\.detail) == [nil, "10 %"])
    }

    @Test func whoIsWaitedForIsNotHeldUnlessThereIsNoWay() {
        var volume = VolumeFacts(at: now)
        let holds = [Waiting(.offline, since: now), Waiting(.expensive, since: now), Waiting(.battery, since: now)]
        volume.held = [HeldRules(risen: holds)]
        var work = WorkFacts(changed: now.advanced(bySeconds: -60))
        func names() -> [WaitingReason] {
            Policy.reasons(work, volume: volume, settings: PolicySettings(), now: now).map(\.reason)
        }
        #expect(names() == [.offline, .expensive, .battery])
        work.isForced = true
        #expect(names() == [.offline])
        volume.connection.observe(.offline, source: "requests", at: now)
        work.isForced = false
        #expect(names() == [.offline, .expensive, .battery], "one reason is told once")
    }

    @Test func whatIsNearlyDoneIsLetFinish() {
        #expect(Preemption.letsFinish(remaining: Preemption.small, rate: 0))
        #expect(!Preemption.letsFinish(remaining: Preemption.small + 1, rate: 0))
        #expect(Preemption.letsFinish(remaining: 5_000_000, rate: 1_000_000))
        #expect(!Preemption.letsFinish(remaining: 5_000_001, rate: 1_000_000))
    }
}

@Suite struct DepartedNetworkTests {
    private func network(_ change: (inout NetworkFacts) -> Void) -> NetworkFacts {
        var facts = NetworkFacts(at: Timestamp(seconds: 5))
        change(&facts)
        return facts
    }

    @Test func whatWasWorseCountsUntilTheEnd() {
        let now = Timestamp(seconds: 6)
        let bad = network {
            $0.metered.observe(.guessedYes, source: "old", at: now)
            $0.lowData.observe(.yes, source: "old", at: now)
            $0.cellular.observe(.yes, source: "old", at: now)
        }
        let good = network {
            $0.metered.observe(.no, source: "new", at: now)
            $0.cellular.observe(.no, source: "new", at: now)
        }
        let departed = DepartedNetwork(bad, at: 100, settlingTime: 5)
        #expect(departed.limit(good).metered == bad.metered && departed.limit(good).lowData == bad.lowData)
        #expect(departed.limit(good).cellular == bad.cellular && departed.limit(good).connection == good.connection)
        #expect(!departed.isOver(at: 104.9) && departed.isOver(at: 105))
        #expect(DepartedNetwork(good, at: 0, settlingTime: 5).limit(bad) == bad, "what gets worse counts at once")
    }
}
