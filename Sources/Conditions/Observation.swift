// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Policy

/// What a source says when it is asked; nil: it is not there, or says nothing.
package enum Observation: Hashable, Sendable {
    /// NetworkManager.
    case network(NetworkReading?)
    /// The same for the network behind an interface that is not the usual way; nil where it knows nothing of it.
    case device(String, NetworkReading?)
    /// The kernel's routes and addresses.
    case route(MachineFacts.Route)
    /// UPower.
    case power(PowerReading?)
    /// logind: whether power comes from outside.
    case externalPower(Bool?)
    /// /sys/class/power_supply.
    case supplies([SupplyReading])
    /// The power profile's name, under the name of the service that says it.
    case profile(String?, service: String)
}
