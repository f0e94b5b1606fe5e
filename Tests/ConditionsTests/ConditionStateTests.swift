// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

import Base
import Conditions
import Policy
import Testing

@Suite struct ConditionStateTests {
    private let start = Timestamp(seconds: 1_000_000)

    private func at(_ seconds: Double) -> Moment {
        Moment(time: start.advanced(bySeconds: seconds), uptime: 50 + seconds)
    }

    /// The facts after observations that settle at once.
    private func facts(_ observations: Observation...) -> MachineFacts {
        var state = ConditionState(at: start, settlingTime: 0)
        for observation in observations { state.observe(observation, at: at(1)) }
        return state.facts
    }

    @Test func nothingIsKnownAtFirst() {
        let facts = facts()
        #expect(facts.metered.value == .unknown && facts.metered.source == "none")
        #expect(facts.power.value == .unknown && facts.charge.value == nil && facts.route.value == .unknown)
    }

    @Test(arguments: [
        (UInt32(0), "802-3-ethernet", MachineFacts.Metering.unknown), (1, "802-3-ethernet", .yes),
        (2, "802-3-ethernet", .no), (3, "802-11-wireless", .guessedYes), (4, "802-11-wireless", .guessedNo),
        (0, "gsm", .guessedYes), (4, "bluetooth", .guessedYes), (2, "gsm", .no), (1, "cdma", .yes), (9, "", .unknown),
    ])
    func meteringIsWhatNetworkManagerSaysOrTheConnectionsKind(
        _ number: UInt32,
        _ type: String,
        _ expected: MachineFacts.Metering
    ) {
        let facts = facts(.network(NetworkReading(metered: number, connectionType: type)))
        #expect(facts.metered.value == expected && facts.metered.source == "NetworkManager")
        #expect(facts.cellular.value == (type.isEmpty ? .unknown : type == "gsm" || type == "cdma" ? .yes : .no))
    }

    @Test func networksBehindOtherInterfacesAreToldApart() throws {
        var state = ConditionState(at: start, lowDataNetworks: ["Train"], settlingTime: 5)
        state.observe(.network(NetworkReading(metered: 1, connectionType: "gsm", connectionName: "Modem")), at: at(0))
        state.observe(.device("cable", NetworkReading(metered: 4)), at: at(0))
        #expect(state.facts.others.isEmpty && state.facts.through("cable") == state.facts)

        state.watch(["cable", "wifi"], at: start)
        state.observe(.device("cable", NetworkReading(metered: 4, connectionType: "802-3-ethernet")), at: at(1))
        state.observe(.device("wifi", NetworkReading(metered: 3, connectionName: "Train")), at: at(1))
        let (cable, wifi) = (state.facts.through("cable"), state.facts.through("wifi"))
        #expect(cable.metered.value == .guessedNo && cable.cellular.value == .no && cable.lowData.value == .unknown)
        #expect(wifi.metered.value == .guessedYes && wifi.lowData.value == .yes && wifi.connection.value == "Train")
        #expect(state.facts.metered.value == .yes && state.facts.through(nil).cellular.value == .yes)
        #expect(cable.power == state.facts.power && cable.route == state.facts.route)

        // Each settles by itself, and what is not watched any more is forgotten.
        state.observe(.device("wifi", nil), at: at(10))
        #expect(state.facts.through("wifi").metered.value == .guessedYes && state.settlesAt == 65)
        state.advance(to: at(16))
        #expect(state.facts.through("wifi").metered.value == .unknown)
        state.watch(["cable"], at: start)
        #expect(state.facts.others.keys.sorted() == ["cable"])
        #expect(state.facts.through("wifi").metered.value == .yes)
    }

    @Test func connectivityHasTheNumbersOfNetworkManager() {
        let expected: [MachineFacts.Connectivity] = [.unknown, .none, .portal, .limited, .full, .unknown]
        for (number, value) in expected.enumerated() {
            #expect(facts(.network(NetworkReading(connectivity: UInt32(number)))).connectivity.value == value)
        }
    }

    @Test func aDaemonThatGoesAwayOpensNoGateBeforeTheSettlingTime() {
        var state = ConditionState(at: start, settlingTime: 5)
        state.observe(.network(NetworkReading(metered: 1)), at: at(0))
        state.observe(.network(nil), at: at(10))
        #expect(state.facts.metered.value == .yes)
        #expect(state.settlesAt == 65)
        state.observe(.network(NetworkReading(metered: 1)), at: at(12))
        state.advance(to: at(100))
        #expect(state.facts.metered.value == .yes && state.settlesAt == nil)
        state.observe(.network(nil), at: at(200))
        state.advance(to: at(205))
        #expect(state.facts.metered.value == .unknown && state.facts.metered.source == "none")
    }

    @Test func networksAreLowDataByTheirNames() {
        var state = ConditionState(at: start, lowDataNetworks: ["Train", "Phone"], settlingTime: 5)
        #expect(state.facts.lowData.value == .unknown)
        state.observe(.network(NetworkReading(connectionType: "802-11-wireless", connectionName: "Phone")), at: at(0))
        #expect(state.facts.lowData.value == .yes && state.facts.lowData.source == "low_data_networks")
        #expect(state.facts.connection.value == "Phone (802-11-wireless)")
        state.observe(.network(NetworkReading(connectionName: "Home")), at: at(1))
        #expect(state.facts.connection.value == "Home" && state.facts.lowData.value == .yes)
        state.advance(to: at(6))
        #expect(state.facts.lowData.value == .no)
        state.observe(.network(nil), at: at(7))
        #expect(state.facts.lowData.value == .unknown && state.facts.connection.source == "none")
        for other in [
            NetworkReading(connectionID: "Phone"), NetworkReading(connectionName: "a", wirelessName: "Train"),
        ] {
            state.observe(.network(other), at: at(8))
            #expect(state.facts.lowData.value == .yes)
            state.observe(.network(NetworkReading(connectionName: "Home", wirelessName: "home")), at: at(9))
            state.advance(to: at(20))
            #expect(state.facts.lowData.value == .no)
        }
        #expect(facts(.network(NetworkReading(connectionName: "Phone"))).lowData.source == "none", "nothing is named")
    }

    @Test func ofThePowersSourcesTheBestCounts() {
        let upower = Observation.power(PowerReading(isOnBattery: true, charge: 41.9))
        let sysfs = Observation.supplies([
            SupplyReading(.source(isOnline: true)), SupplyReading(.battery(isDischarging: false, charge: 77)),
        ])
        let all = facts(.externalPower(true), sysfs, upower)
        #expect(all.power.value == .battery && all.power.source == "UPower")
        #expect(all.charge.value == 41 && all.charge.source == "UPower")
        let withoutUPower = facts(.externalPower(false), sysfs, upower, .power(nil))
        #expect(withoutUPower.power.value == .external && withoutUPower.power.source == "sysfs")
        #expect(withoutUPower.charge.value == 77)
        let login = facts(.externalPower(false), .supplies([]))
        #expect(login.power.value == .battery && login.power.source == "logind" && login.charge.value == nil)
        let chargeOfSysfs = facts(sysfs, .power(PowerReading(isOnBattery: true)))
        #expect(chargeOfSysfs.power.source == "UPower" && chargeOfSysfs.charge.source == "sysfs")
    }

    @Test func aChargeThatFallsCountsAtOnceAndOneThatRisesLater() {
        var state = ConditionState(at: start, settlingTime: 5)
        state.observe(.power(PowerReading(isOnBattery: true, charge: 50)), at: at(0))
        state.observe(.power(PowerReading(isOnBattery: true, charge: 9)), at: at(1))
        #expect(state.facts.charge.value == 9)
        state.observe(.power(PowerReading(isOnBattery: false, charge: 10)), at: at(2))
        #expect(state.facts.charge.value == 9 && state.facts.power.value == .battery)
        state.advance(to: at(7))
        #expect(state.facts.charge.value == 10 && state.facts.power.value == .external)
    }

    @Test func eitherNameOfThePowerProfilesMaySaySaving() {
        let (old, new) = ("net.hadess.PowerProfiles", "org.freedesktop.UPower.PowerProfiles")
        #expect(facts(.profile("power-saver", service: old), .profile(nil, service: new)).profile.value == .powerSaver)
        let both = facts(.profile("balanced", service: old), .profile("performance", service: new))
        #expect(both.profile.value == .balanced && both.profile.source == old)
        #expect(facts(.profile("turbo", service: new)).profile.value == .unknown)
        #expect(facts(.profile(nil, service: new)).profile.source == "none")
    }

    @Test func theKernelsRouteIsAFact() {
        var state = ConditionState(at: start, settlingTime: 5)
        state.observe(.route(.standard), at: at(0))
        state.observe(.route(.none), at: at(1))
        #expect(state.facts.route.value == .none && state.facts.route.since == at(1).time)
        state.observe(.route(.local), at: at(2))
        #expect(state.facts.route.value == .none)
        state.advance(to: at(7))
        #expect(state.facts.route.value == .local)
    }
}

@Suite struct SupplyTests {
    private func power(_ supplies: [String: String]...) -> PowerReading? {
        supplies.compactMap { SupplyReading(attributes: $0) }.power
    }

    private let plug = ["type": "Mains", "online": "1"]
    private let noPlug = ["type": "Mains", "online": "0"]
    private let battery = ["type": "Battery", "status": "Discharging", "capacity": "30", "present": "1"]

    @Test func aLaptopIsOnBatteryWhenItsPlugIsOut() {
        #expect(power(noPlug, battery) == PowerReading(isOnBattery: true, charge: 30))
        #expect(power(plug, battery) == PowerReading(isOnBattery: false, charge: 30))
        #expect(power(noPlug, plug, battery)?.isOnBattery == false, "one of several is enough")
    }

    @Test func whatHasNoPlugTellsByDischarging() {
        #expect(power(battery)?.isOnBattery == true)
        #expect(power(["type": "Battery", "status": "Full", "capacity": "100"])?.isOnBattery == false)
        #expect(power(["type": "UPS", "status": "Discharging"])?.isOnBattery == true)
    }

    @Test func aMachineWithoutBatteryIsNeverOnIt() {
        #expect(power(["type": "USB", "online": "0"])?.isOnBattery == false)
        #expect(power(noPlug, ["type": "Battery", "present": "0", "status": "Unknown"])?.isOnBattery == false)
    }

    @Test func theBatteriesOfMiceDoNotCount() {
        let mouse = ["type": "Battery", "scope": "Device", "status": "Discharging", "capacity": "3"]
        #expect(power(mouse) == nil)
        #expect(power(plug, mouse) == PowerReading(isOnBattery: false))
    }

    @Test func nothingThereSaysNothing() {
        #expect(power() == nil)
        #expect(power(["type": "Something"]) == nil)
    }

    @Test func severalBatteriesHaveTheirMean() {
        #expect(power(noPlug, battery, battery.merging(["capacity": "50"]) { $1 })?.charge == 40)
    }
}
