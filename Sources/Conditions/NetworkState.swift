// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Policy

/// Makes facts of one network out of what NetworkManager says.
struct NetworkState: Sendable {
    private var metered: SettlingFact<MachineFacts.Metering>
    private var lowData: SettlingFact<MachineFacts.Answer>
    private var cellular: SettlingFact<MachineFacts.Answer>
    private var connection: Fact<String>
    private let lowDataNetworks: Set<String>

    init(at now: Timestamp, lowDataNetworks: Set<String>, settlingTime: Double) {
        self.lowDataNetworks = lowDataNetworks
        let none = NetworkFacts(at: now)
        connection = none.connection
        metered = SettlingFact(none.metered, settlingTime: settlingTime) { $0.isMetered ? 1 : 0 }
        lowData = SettlingFact(none.lowData, settlingTime: settlingTime) { $0 == .yes ? 1 : 0 }
        cellular = SettlingFact(none.cellular, settlingTime: settlingTime) { $0 == .yes ? 1 : 0 }
    }

    var facts: NetworkFacts {
        var facts = NetworkFacts(at: connection.since)
        facts.connection = connection
        facts.metered = metered.fact
        facts.lowData = lowData.fact
        facts.cellular = cellular.fact
        return facts
    }

    mutating func observe(_ reading: NetworkReading?, at now: Moment) {
        let source = reading == nil ? "none" : "NetworkManager"
        connection.observe(reading?.title ?? "", source: source, at: now.time)
        if !lowDataNetworks.isEmpty {
            let names = reading?.names ?? []
            let isNamed = !names.isDisjoint(with: lowDataNetworks)
            let answer: MachineFacts.Answer = names.isEmpty ? .unknown : isNamed ? .yes : .no
            lowData.observe(answer, source: answer == .unknown ? "none" : "low_data_networks", at: now)
        }
        metered.observe(reading?.metering ?? .unknown, source: source, at: now)
        cellular.observe(reading?.cellular ?? .unknown, source: source, at: now)
    }

    mutating func advance(to now: Moment) {
        metered.advance(to: now)
        lowData.advance(to: now)
        cellular.advance(to: now)
    }

    var settlesAt: Double? { [metered.settlesAt, lowData.settlesAt, cellular.settlesAt].compactMap(\.self).min() }
}
