// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What is known of one network that this machine is connected with.
package struct NetworkFacts: Hashable, Sendable {
    /// The network's name and kind, such as `Home (802-11-wireless)`; empty when nobody tells.
    package var connection: Fact<String>
    package var metered: Fact<MachineFacts.Metering>
    /// Whether the user wants little sent over this network.
    package var lowData: Fact<MachineFacts.Answer>
    package var cellular: Fact<MachineFacts.Answer>

    /// Nothing is known.
    package init(at now: Timestamp) {
        connection = Fact("", source: "none", at: now)
        metered = Fact(.unknown, source: "none", at: now)
        lowData = Fact(.unknown, source: "none", at: now)
        cellular = Fact(.unknown, source: "none", at: now)
    }
}

extension MachineFacts {
    /// The facts for what leaves by an interface: of the network behind that one, where it is not the usual way.
    package func through(_ interface: String?) -> MachineFacts {
        guard let interface, let network = others[interface] else { return self }
        var facts = self
        facts.network = network
        return facts
    }

    /// The network that traffic takes if nothing else is said.
    package var network: NetworkFacts {
        get {
            var network = NetworkFacts(at: metered.since)
            network.connection = connection
            network.metered = metered
            network.lowData = lowData
            network.cellular = cellular
            return network
        }
        set {
            connection = newValue.connection
            metered = newValue.metered
            lowData = newValue.lowData
            cellular = newValue.cellular
        }
    }
}

/// The network that a remote was reached through until a moment ago; a pure value.
///
/// When the way moves to another one, what gets worse by that counts at once, what gets better after the settling time:
/// a telephone that comes and goes is not to start and stop work each time.
package struct DepartedNetwork: Hashable, Sendable {
    private let network: NetworkFacts
    /// Until when it counts, in monotonic seconds.
    private let end: Double

    /// `network` is what counted when the way moved, at `now`.
    package init(_ network: NetworkFacts, at now: Double, settlingTime: Double) {
        self.network = network
        end = now + settlingTime
    }

    package func isOver(at now: Double) -> Bool { now >= end }

    /// What counts while the facts of the network of now are these.
    package func limit(_ facts: NetworkFacts) -> NetworkFacts {
        var facts = facts
        if network.metered.value.isMetered, !facts.metered.value.isMetered { facts.metered = network.metered }
        if network.lowData.value == .yes { facts.lowData = network.lowData }
        if network.cellular.value == .yes { facts.cellular = network.cellular }
        return facts
    }
}
