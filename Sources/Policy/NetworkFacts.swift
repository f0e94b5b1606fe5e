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
