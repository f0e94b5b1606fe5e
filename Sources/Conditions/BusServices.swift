// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// A service on the system bus that is asked for observations, and when it is to be asked again.
struct BusService {
    let name: String
    /// The interfaces whose changed properties are a reason to ask it again.
    let interfaces: [String]
    /// Asks it; with nil for the bus, what there is to say of it when it is not there.
    let read: (BusConnection?) throws(BusError) -> [Observation]
}

extension BusService {
    /// What is asked for, in this order.
    ///
    /// `interface` names the network interface that traffic leaves by.
    static func all(interface: @escaping () -> String?) -> [BusService] {
        [
            networkManager(interface), upower, login,
            profiles("org.freedesktop.UPower.PowerProfiles", "/org/freedesktop/UPower/PowerProfiles"),
            profiles("net.hadess.PowerProfiles", "/net/hadess/PowerProfiles"),
        ]
    }

    // MARK: NetworkManager

    private static let manager = "org.freedesktop.NetworkManager"
    private static let managerPath = "/org/freedesktop/NetworkManager"

    private static func networkManager(_ interface: @escaping () -> String?) -> BusService {
        let interfaces = [manager, manager + ".Device", manager + ".Connection.Active"]
        return BusService(name: manager, interfaces: interfaces) { bus throws(BusError) in
            guard let bus else { return [.network(nil)] }
            let properties = try bus.properties(of: manager, at: managerPath, service: manager)
            var reading = NetworkReading(
                metered: properties.number("Metered") ?? 0,
                connectivity: properties.number("Connectivity") ?? 0,
                connectionType: properties.text("PrimaryConnectionType") ?? ""
            )
            var connection = properties.text("PrimaryConnection")
            if let device = device(of: interface(), bus) {
                if let metered = device.number("Metered"), metered != 0 { reading.metered = metered }
                if let own = device.text("ActiveConnection"), own != "/" {
                    connection = own
                    reading.connectionType = ""
                }
            }
            describe(connection, &reading, bus)
            return [.network(reading)]
        }
    }

    /// What NetworkManager knows of the interface that our traffic takes.
    ///
    /// The manager's own word is about its primary connection, which policy routing and VPNs may pass by.
    private static func device(of interface: String?, _ bus: BusConnection) -> [String: BusValue]? {
        guard let interface,
            let path = try? bus.object(
                "GetDeviceByIpIface",
                interface,
                interface: manager,
                at: managerPath,
                service: manager
            )
        else { return nil }
        return try? bus.properties(of: manager + ".Device", at: path, service: manager)
    }

    private static func describe(_ connection: String?, _ reading: inout NetworkReading, _ bus: BusConnection) {
        guard let connection, connection != "/",
            let active = try? bus.properties(of: manager + ".Connection.Active", at: connection, service: manager)
        else { return }
        reading.connectionName = active.text("Id") ?? ""
        reading.connectionID = active.text("Uuid") ?? ""
        if reading.connectionType.isEmpty { reading.connectionType = active.text("Type") ?? "" }
        guard active.text("Type") == "802-11-wireless", let point = active.text("SpecificObject"), point != "/",
            let properties = try? bus.properties(of: manager + ".AccessPoint", at: point, service: manager),
            case .bytes(let name) = properties["Ssid"]
        else { return }
        // It has no encoding (IEEE 802.11); nearly everybody means UTF-8.
        reading.wirelessName = String(decoding: name.prefix(32), as: UTF8.self)
    }

    // MARK: power

    private static var upower: BusService {
        let name = "org.freedesktop.UPower"
        let path = "/org/freedesktop/UPower"
        let display = path + "/devices/DisplayDevice"
        return BusService(name: name, interfaces: [name, name + ".Device"]) { bus throws(BusError) in
            guard let bus else { return [.power(nil)] }
            guard let isOnBattery = try bus.properties(of: name, at: path, service: name).boolean("OnBattery") else {
                return [.power(nil)]
            }
            let device = (try? bus.properties(of: name + ".Device", at: display, service: name)) ?? [:]
            // 2: a battery, 3: an uninterruptible supply.
            let isBattery = device.boolean("IsPresent") ?? false && [2, 3].contains(device.number("Type") ?? 0)
            let charge = isBattery ? device.double("Percentage") : nil
            return [.power(PowerReading(isOnBattery: isOnBattery, charge: charge))]
        }
    }

    private static var login: BusService {
        let name = "org.freedesktop.login1"
        let path = "/org/freedesktop/login1"
        return BusService(name: name, interfaces: [name + ".Manager"]) { bus throws(BusError) in
            let manager = try bus?.properties(of: name + ".Manager", at: path, service: name)
            return [.externalPower(manager?.boolean("OnExternalPower"))]
        }
    }

    private static func profiles(_ name: String, _ path: String) -> BusService {
        BusService(name: name, interfaces: [name]) { bus throws(BusError) in
            let profile = try bus?.properties(of: name, at: path, service: name).text("ActiveProfile")
            return [.profile(profile, service: name)]
        }
    }
}

extension [String: BusValue] {
    fileprivate func number(_ name: String) -> UInt32? {
        if case .number(let value) = self[name] { value } else { nil }
    }
    fileprivate func double(_ name: String) -> Double? {
        if case .double(let value) = self[name] { value } else { nil }
    }
    fileprivate func boolean(_ name: String) -> Bool? {
        if case .boolean(let value) = self[name] { value } else { nil }
    }
    fileprivate func text(_ name: String) -> String? { if case .text(let value) = self[name] { value } else { nil } }
}
