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

    private var network: NetworkState
    /// The networks behind other interfaces than that of the usual way.
    private var others: [String: NetworkState] = [:]
    private var connectivity: SettlingFact<MachineFacts.Connectivity>
    private var route: SettlingFact<MachineFacts.Route>
    private var power: SettlingFact<MachineFacts.Power>
    private var charge: SettlingFact<Int?>
    private var profile: SettlingFact<MachineFacts.Profile>
    private var known: MachineFacts
    private let lowDataNetworks: Set<String>
    private let settlingTime: Double

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
        self.settlingTime = settlingTime
        let none = MachineFacts(at: now)
        known = none
        network = NetworkState(at: now, lowDataNetworks: lowDataNetworks, settlingTime: settlingTime)
        connectivity = SettlingFact(none.connectivity, settlingTime: settlingTime) { $0 == .portal ? 1 : 0 }
        route = SettlingFact(none.route, settlingTime: settlingTime) { $0 == .none ? 1 : 0 }
        power = SettlingFact(none.power, settlingTime: settlingTime) { $0 == .battery ? 1 : 0 }
        charge = SettlingFact(none.charge, settlingTime: settlingTime) { $0.map { 101 - $0 } ?? 0 }
        profile = SettlingFact(none.profile, settlingTime: settlingTime) { $0 == .powerSaver ? 1 : 0 }
    }

    /// What is known now.
    package var facts: MachineFacts {
        var facts = known
        facts.network = network.facts
        facts.others = others.mapValues(\.facts)
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
        case .network(let reading):
            network.observe(reading, at: now)
            connectivity.observe(
                reading?.reach ?? .unknown,
                source: reading == nil ? "none" : "NetworkManager",
                at: now
            )
        case .device(let interface, let reading): others[interface]?.observe(reading, at: now)
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

    /// What is told of the networks behind other interfaces counts for these.
    package mutating func watch(_ interfaces: Set<String>, at now: Timestamp) {
        others = others.filter { interfaces.contains($0.key) }
        for interface in interfaces where others[interface] == nil {
            others[interface] = NetworkState(at: now, lowDataNetworks: lowDataNetworks, settlingTime: settlingTime)
        }
    }

    /// The machine's connections with others are not what they were.
    package mutating func noteNetworkChange() { known.networkChanges += 1 }

    /// The kernel has other routes, to wherever.
    package mutating func noteRoutes() { known.routeNews += 1 }

    /// Lets time pass.
    package mutating func advance(to now: Moment) {
        network.advance(to: now)
        for interface in others.keys { others[interface]?.advance(to: now) }
        connectivity.advance(to: now)
        route.advance(to: now)
        power.advance(to: now)
        charge.advance(to: now)
        profile.advance(to: now)
    }

    /// When ``advance(to:)`` changes something, in seconds of uptime; nil: not by time alone.
    package var settlesAt: Double? {
        let networks = [network.settlesAt] + others.values.map(\.settlesAt)
        let times = [
            connectivity.settlesAt, route.settlesAt, power.settlesAt, charge.settlesAt, profile.settlesAt,
        ]
        return (networks + times).compactMap(\.self).min()
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
