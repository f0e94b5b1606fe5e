// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import Policy

/// Makes facts out of what sources say: a pure value, told of observations and of time.
///
/// Of several sources for one fact the best that says something counts. What was bad and is not known any more, as its
/// source went away, is not held against anybody, after the settling time: a daemon that is restarted opens no gate.
package struct ConditionState: Sendable {
    /// How long something must have been better before it counts, in seconds.
    package static let settlingTime = 5.0

    private var metered: SettlingFact<MachineFacts.Metering>
    private var lowData: SettlingFact<MachineFacts.Answer>
    private var cellular: SettlingFact<MachineFacts.Answer>
    private var connectivity: SettlingFact<MachineFacts.Connectivity>
    private var route: SettlingFact<MachineFacts.Route>
    private var power: SettlingFact<MachineFacts.Power>
    private var charge: SettlingFact<Int?>
    private var profile: SettlingFact<MachineFacts.Profile>
    private var known: MachineFacts
    private let lowDataNetworks: Set<String>

    private var upower: PowerReading?
    private var supplies: PowerReading?
    private var externalPower: Bool?
    private var profiles: [String: MachineFacts.Profile] = [:]

    /// `lowDataNetworks` names the connections, or wireless networks, over which the user wants little sent.
    package init(
        at now: Timestamp,
        lowDataNetworks: Set<String> = [],
        settlingTime: Double = Self.settlingTime
    ) {
        self.lowDataNetworks = lowDataNetworks
        let none = MachineFacts(at: now)
        known = none
        lowData = SettlingFact(none.lowData, settlingTime: settlingTime) { $0 == .yes ? 1 : 0 }
        metered = SettlingFact(none.metered, settlingTime: settlingTime) { $0.isMetered ? 1 : 0 }
        cellular = SettlingFact(none.cellular, settlingTime: settlingTime) { $0 == .yes ? 1 : 0 }
        connectivity = SettlingFact(none.connectivity, settlingTime: settlingTime) { $0 == .portal ? 1 : 0 }
        route = SettlingFact(none.route, settlingTime: settlingTime) { $0 == .none ? 1 : 0 }
        power = SettlingFact(none.power, settlingTime: settlingTime) { $0 == .battery ? 1 : 0 }
        charge = SettlingFact(none.charge, settlingTime: settlingTime) { $0.map { 101 - $0 } ?? 0 }
        profile = SettlingFact(none.profile, settlingTime: settlingTime) { $0 == .powerSaver ? 1 : 0 }
    }

    /// What is known now.
    package var facts: MachineFacts {
        var facts = known
        facts.metered = metered.fact
        facts.lowData = lowData.fact
        facts.cellular = cellular.fact
        facts.connectivity = connectivity.fact
        facts.route = route.fact
        facts.power = power.fact
        facts.charge = charge.fact
        facts.profile = profile.fact
        return facts
    }

    /// Takes in what a source says.
    package mutating func observe(_ observation: Observation, at now: Moment) {
        switch observation {
        case .network(let reading): observe(reading, at: now)
        case .route(let reading): route.observe(reading, source: reading == .unknown ? "none" : "kernel", at: now)
        case .power(let reading):
            upower = reading
            weighPower(at: now)
        case .supplies(let readings):
            supplies = readings.power
            weighPower(at: now)
        case .externalPower(let reading):
            externalPower = reading
            weighPower(at: now)
        case .profile(let name, let service):
            profiles[service] = name.map { MachineFacts.Profile(rawValue: $0) ?? .unknown }
            weighProfiles(at: now)
        }
    }

    /// The machine's connections with others are not what they were.
    package mutating func noteNetworkChange() { known.networkChanges += 1 }

    /// Lets time pass.
    package mutating func advance(to now: Moment) {
        metered.advance(to: now)
        lowData.advance(to: now)
        cellular.advance(to: now)
        connectivity.advance(to: now)
        route.advance(to: now)
        power.advance(to: now)
        charge.advance(to: now)
        profile.advance(to: now)
    }

    /// When ``advance(to:)`` changes something, in seconds of uptime; nil: not by time alone.
    package var settlesAt: Double? {
        [
            metered.settlesAt, lowData.settlesAt, cellular.settlesAt, connectivity.settlesAt, route.settlesAt,
            power.settlesAt,
            charge.settlesAt, profile.settlesAt,
        ].compactMap(\.self).min()
    }

    private mutating func observe(_ reading: NetworkReading?, at now: Moment) {
        let source = reading == nil ? "none" : "NetworkManager"
        known.connection.observe(reading?.title ?? "", source: source, at: now.time)
        if !lowDataNetworks.isEmpty {
            let names = reading?.names ?? []
            let isNamed = !names.isDisjoint(with: lowDataNetworks)
            let answer: MachineFacts.Answer = names.isEmpty ? .unknown : isNamed ? .yes : .no
            lowData.observe(answer, source: answer == .unknown ? "none" : "low_data_networks", at: now)
        }
        metered.observe(reading?.metering ?? .unknown, source: source, at: now)
        cellular.observe(reading?.cellular ?? .unknown, source: source, at: now)
        connectivity.observe(reading?.reach ?? .unknown, source: source, at: now)
    }

    /// UPower knows batteries best, the kernel's files tell the same without it, logind only where power comes from.
    private mutating func weighPower(at now: Moment) {
        let reading = upower ?? supplies
        let source = upower == nil ? "sysfs" : "UPower"
        if let reading {
            power.observe(reading.isOnBattery ? .battery : .external, source: source, at: now)
        } else if let externalPower {
            power.observe(externalPower ? .external : .battery, source: "logind", at: now)
        } else {
            power.observe(.unknown, source: "none", at: now)
        }
        let percent = (reading?.charge ?? supplies?.charge).map { Int(max(0, min(100, $0))) }
        let teller = reading?.charge == nil ? "sysfs" : source
        charge.observe(percent, source: percent == nil ? "none" : teller, at: now)
    }

    /// Two services have it under their names, of which the one that saves power is believed.
    private mutating func weighProfiles(at now: Moment) {
        let told = profiles.sorted { $0.key < $1.key }
        let chosen =
            told.first { $0.value == .powerSaver } ?? told.first { $0.value != .unknown } ?? told.first
        profile.observe(chosen?.value ?? .unknown, source: chosen?.key ?? "none", at: now)
    }
}
