// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Platform

/// The network interfaces that traffic leaves by.
struct Ways: Hashable {
    /// Where what is meant for other networks leaves; nil: nowhere.
    var usual: String?
    /// Others, that remotes are reached through.
    var others: Set<String> = []
}

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
    /// `ways` names the network interfaces that traffic leaves by.
    static func all(ways: @escaping () -> Ways) -> [BusService] {
        [
            networkManager(ways), upower, login,
            profiles("org.freedesktop.UPower.PowerProfiles", "/org/freedesktop/UPower/PowerProfiles"),
            profiles("net.hadess.PowerProfiles", "/net/hadess/PowerProfiles"),
        ]
    }

    // MARK: NetworkManager

    private static let manager = "org.freedesktop.NetworkManager"
    private static let managerPath = "/org/freedesktop/NetworkManager"

    private static func networkManager(_ ways: @escaping () -> Ways) -> BusService {
        let interfaces = [manager, manager + ".Device", manager + ".Connection.Active"]
        return BusService(name: manager, interfaces: interfaces) { bus throws(BusError) in
            let ways = ways()
            guard let bus else { return [.network(nil)] + ways.others.map { .device($0, nil) } }
            let properties = try bus.properties(of: manager, at: managerPath, service: manager)
            var reading = NetworkReading(
                metered: properties.number("Metered") ?? 0,
                connectivity: properties.number("Connectivity") ?? 0,
                connectionType: properties.text("PrimaryConnectionType") ?? ""
            )
            var connection = properties.text("PrimaryConnection")
            if let device = device(of: ways.usual, bus) {
                if let metered = device.number("Metered"), metered != 0 { reading.metered = metered }
                if let own = device.text("ActiveConnection"), own != "/" {
                    connection = own
                    reading.connectionType = ""
                }
            }
            describe(connection, &reading, bus)
            return [.network(reading)] + ways.others.sorted().map { .device($0, network(behind: $0, reading, bus)) }
        }
    }

    /// What NetworkManager knows of the network behind an interface; `usual` is that of the usual way.
    private static func network(
        behind interface: String,
        _ usual: NetworkReading,
        _ bus: BusConnection
    ) -> NetworkReading? {
        guard let device = device(of: interface, bus) else { return nil }
        var reading = NetworkReading(metered: device.number("Metered") ?? 0)
        // What goes through a tunnel goes over another network as well, most likely the usual one.
        if reading.metered == 0, tunnels.contains(device.number("DeviceType") ?? 0) { return usual }
        describe(device.text("ActiveConnection"), &reading, bus)
        return reading
    }

    /// NM_DEVICE_TYPE_TUN, IP_TUNNEL and WIREGUARD (nm-dbus-interface.h).
    private static let tunnels: Set<UInt32> = [16, 17, 29]

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
