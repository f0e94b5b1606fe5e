// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

extension OptionName {
    /// The settings that say under which conditions uploads go that nobody waits for.
    package static let conditions: [OptionName] = [
        .allowExpensive, .allowConstrained, .allowCellular, .allowPowerSaver, .discretionary, .requirePower,
        .batteryMinimum,
    ]
}

/// Under which conditions the uploads of a volume go that nobody waits for, as its settings have it.
package struct UploadConditions: Codable, Hashable, Sendable {
    package var allowExpensive: Bool
    package var allowConstrained: Bool
    package var allowCellular: Bool
    package var allowPowerSaver: Bool
    package var discretionary: Bool
    package var requirePower: Bool
    /// Percent, 0 to 100.
    package var batteryMinimum: Int

    /// The values, or the defaults of the option table.
    package init(_ values: OptionValues = OptionValues()) {
        allowExpensive = values.flag(.allowExpensive)
        allowConstrained = values.flag(.allowConstrained)
        allowCellular = values.flag(.allowCellular)
        allowPowerSaver = values.flag(.allowPowerSaver)
        discretionary = values.flag(.discretionary)
        requirePower = values.flag(.requirePower)
        batteryMinimum = Int(values.number(.batteryMinimum) ?? 20)
    }

    /// The same with what a person set for now.
    package func overridden(by overrides: PolicyOverrides) -> UploadConditions {
        let values = overrides.values
        var result = self
        func replace(_ path: WritableKeyPath<UploadConditions, Bool>, _ name: OptionName) {
            if values[name] != nil { result[keyPath: path] = values.flag(name) }
        }
        replace(\.allowExpensive, .allowExpensive)
        replace(\.allowConstrained, .allowConstrained)
        replace(\.allowCellular, .allowCellular)
        replace(\.allowPowerSaver, .allowPowerSaver)
        replace(\.discretionary, .discretionary)
        replace(\.requirePower, .requirePower)
        if values[.batteryMinimum] != nil, let charge = values.number(.batteryMinimum) {
            result.batteryMinimum = Int(charge)
        }
        return result
    }

    private enum CodingKeys: String, CodingKey {
        case allowExpensive = "allow_expensive"
        case allowConstrained = "allow_constrained"
        case allowCellular = "allow_cellular"
        case allowPowerSaver = "allow_power_saver"
        case discretionary
        case requirePower = "require_power"
        case batteryMinimum = "battery_min"
    }
}
