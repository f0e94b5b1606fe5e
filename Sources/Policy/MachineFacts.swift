// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What is known of the machine: its network, its power.
///
/// Nothing in here holds work by being unknown.
package struct MachineFacts: Hashable, Sendable {
    /// Whether what goes over the network is paid for by its amount; NetworkManager's words for it.
    package enum Metering: String, Hashable, Sendable, CaseIterable {
        case unknown
        case no
        case guessedNo = "guess-no"
        case guessedYes = "guess-yes"
        case yes

        /// Guesses count.
        package var isMetered: Bool { self == .yes || self == .guessedYes }
    }

    /// Whether something is so, as far as anybody knows.
    package enum Answer: String, Hashable, Sendable, CaseIterable {
        case unknown
        case no
        case yes
    }

    /// How far the network leads, as NetworkManager finds out where it is set up to.
    package enum Connectivity: String, Hashable, Sendable, CaseIterable {
        case unknown
        case none
        /// A login page stands between us and the rest.
        case portal
        case limited
        case full
    }

    /// Where the kernel would send what is meant for another network.
    package enum Route: String, Hashable, Sendable, CaseIterable {
        case unknown
        /// Only to this machine itself.
        case none
        /// To the networks that this machine has an address in.
        case local
        case standard = "default"
    }

    package enum Power: String, Hashable, Sendable, CaseIterable {
        case unknown
        case external
        case battery
    }

    package enum Profile: String, Hashable, Sendable, CaseIterable {
        case unknown
        case powerSaver = "power-saver"
        case balanced
        case performance
    }

    /// The network's name and kind, such as `Home (802-11-wireless)`; empty when nobody tells.
    package var connection: Fact<String>
    package var metered: Fact<Metering>
    /// Whether the user wants little sent over this network.
    package var lowData: Fact<Answer>
    package var cellular: Fact<Answer>
    package var connectivity: Fact<Connectivity>
    package var route: Fact<Route>
    package var power: Fact<Power>
    /// The charge of the battery in percent, 0 to 100; nil: unknown, or none there.
    package var charge: Fact<Int?>
    package var profile: Fact<Profile>
    /// Whether programs wait for a processor, a disk or memory.
    package var pressure: Fact<Answer>
    /// Whether the machine is so hot that it is slowed down.
    package var heat: Fact<Answer>

    /// The networks behind other interfaces than that of the usual way, where a remote is reached through them.
    package var others: [String: NetworkFacts] = [:]

    /// How often the way to others changed since somebody looks: an interface went up or down, an address came.
    package var networkChanges = 0
    /// How often the kernel had news of its routes since somebody looks, whatever they were.
    package var routeNews = 0

    /// Nothing is known.
    package init(at now: Timestamp) {
        connection = Fact("", source: "none", at: now)
        metered = Fact(.unknown, source: "none", at: now)
        lowData = Fact(.unknown, source: "none", at: now)
        cellular = Fact(.unknown, source: "none", at: now)
        connectivity = Fact(.unknown, source: "none", at: now)
        route = Fact(.unknown, source: "none", at: now)
        power = Fact(.unknown, source: "none", at: now)
        charge = Fact(nil, source: "none", at: now)
        profile = Fact(.unknown, source: "none", at: now)
        pressure = Fact(.unknown, source: "none", at: now)
        heat = Fact(.unknown, source: "none", at: now)
    }
}
