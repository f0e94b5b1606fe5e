// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Policy

/// What NetworkManager says of the network that our traffic takes.
package struct NetworkReading: Hashable, Sendable {
    /// NMMetered: 0 unknown, 1 yes, 2 no, 3 guessed yes, 4 guessed no.
    package var metered: UInt32
    /// NMConnectivityState: 0 unknown, 1 none, 2 portal, 3 limited, 4 full.
    package var connectivity: UInt32
    /// The type of the connection, such as `802-3-ethernet` or `gsm`; empty when there is none.
    package var connectionType: String
    /// The connection's name for people; empty when it is not known.
    package var connectionName: String
    /// The connection's UUID; empty when it is not known.
    package var connectionID: String
    /// The name of the wireless network (SSID); empty when there is none.
    package var wirelessName: String

    package init(
        metered: UInt32 = 0,
        connectivity: UInt32 = 0,
        connectionType: String = "",
        connectionName: String = "",
        connectionID: String = "",
        wirelessName: String = ""
    ) {
        self.metered = metered
        self.connectivity = connectivity
        self.connectionType = connectionType
        self.connectionName = connectionName
        self.connectionID = connectionID
        self.wirelessName = wirelessName
    }

    /// What people may name the network by.
    var names: Set<String> { Set([connectionName, connectionID, wirelessName]).subtracting([""]) }

    /// The name and the kind, for people.
    var title: String {
        connectionName.isEmpty || connectionType.isEmpty
            ? connectionName + connectionType : "\(connectionName) (\(connectionType))"
    }

    /// NetworkManager's own word, or, where it has none, what the kind of the connection says.
    var metering: MachineFacts.Metering {
        switch metered {
        case 1: .yes
        case 2: .no
        case 3: .guessedYes
        default: isShared ? .guessedYes : metered == 4 ? .guessedNo : .unknown
        }
    }

    var cellular: MachineFacts.Answer {
        if connectionType.isEmpty { return .unknown }
        return isMobile ? .yes : .no
    }

    var reach: MachineFacts.Connectivity {
        switch connectivity {
        case 1: .none
        case 2: .portal
        case 3: .limited
        case 4: .full
        default: .unknown
        }
    }

    private var isMobile: Bool { connectionType == "gsm" || connectionType == "cdma" }
    /// What comes over Bluetooth is most likely a telephone's.
    private var isShared: Bool { isMobile || connectionType == "bluetooth" }
}

/// What UPower says of the machine's power.
package struct PowerReading: Hashable, Sendable {
    package var isOnBattery: Bool
    /// Percent; nil when there is no battery, or it does not tell.
    package var charge: Double?

    package init(isOnBattery: Bool, charge: Double? = nil) {
        self.isOnBattery = isOnBattery
        self.charge = charge
    }
}

/// One folder of /sys/class/power_supply; see Documentation/ABI/testing/sysfs-class-power of the kernel.
package struct SupplyReading: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        /// `Mains`, `USB` and the like: brings power.
        case source(isOnline: Bool)
        case battery(isDischarging: Bool, charge: Double?)
        case other
    }

    package var kind: Kind

    package init(_ kind: Kind) {
        self.kind = kind
    }

    /// Reads the attributes; nil for what feeds a device (a mouse, a headset) and not the machine.
    package init?(attributes: [String: String]) {
        guard attributes["scope"] != "Device" else { return nil }
        switch attributes["type"] {
        case "Mains", "USB", "Wireless": kind = .source(isOnline: attributes["online"].map { $0 != "0" } ?? false)
        case "Battery" where attributes["present"] != "0", "UPS" where attributes["present"] != "0":
            let charge = attributes["capacity"].flatMap(Double.init)
            kind = .battery(isDischarging: attributes["status"] == "Discharging", charge: charge)
        default: kind = .other
        }
    }
}

extension [SupplyReading] {
    /// What the supplies together say; nil when they say nothing of where the power comes from.
    package var power: PowerReading? {
        var sources: [Bool] = []
        var discharging = false
        var charges: [Double] = []
        for supply in self {
            switch supply.kind {
            case .source(let isOnline): sources.append(isOnline)
            case .battery(let isDischarging, let charge):
                discharging = discharging || isDischarging
                if let charge { charges.append(charge) }
            case .other: break
            }
        }
        guard !sources.isEmpty || discharging || !charges.isEmpty else { return nil }
        // A machine without a battery is never on it, whatever its unused sockets say.
        let isOnBattery = sources.isEmpty ? discharging : !sources.contains(true) && (discharging || !charges.isEmpty)
        let charge = charges.isEmpty ? nil : charges.reduce(0, +) / Double(charges.count)
        return PowerReading(isOnBattery: isOnBattery, charge: charge)
    }
}
