// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

extension OptionName {
    /// The settings that say when uploads go that nobody waits for, of all volumes, of one, or of paths in it.
    package static let conditions: [OptionName] = [
        .allowExpensive, .allowConstrained, .allowCellular, .allowPowerSaver, .discretionary, .discretionaryAbove,
        .requirePower, .batteryMinimum, .window, .notBefore, .deadline, .priority, .lifetime, .retryBase, .retryCap,
        .rateLimit, .connectTimeout, .stallTimeout,
    ]
    /// The settings that bound what goes over networks that cost, of all volumes together, of one, or of paths in it.
    package static let budgets: [OptionName] = [.expensiveDaily, .expensiveMonthly]
    /// The settings that paths may have of their own.
    package static let pathSettings = conditions + budgets

    /// The settings that say how fast transfers go, for all volumes.
    package static let limits: [OptionName] = [.maxRate, .maxDownloadRate, .yields, .lowEffort]
}

/// When the uploads of a volume, or of paths in it, go that nobody waits for, as the settings have it.
package struct UploadConditions: Hashable, Sendable {
    /// Those of ``OptionName/conditions`` that are not the defaults of the option table.
    package private(set) var values: OptionValues

    /// The values, or the defaults of the option table; other settings are left out.
    package init(_ values: OptionValues = OptionValues()) {
        let defaults = OptionValues()
        self.values = values.limited(to: OptionName.conditions.filter { values[$0] != defaults.effective($0) })
    }

    package var allowExpensive: Bool { values.flag(.allowExpensive) }
    package var allowConstrained: Bool { values.flag(.allowConstrained) }
    package var allowCellular: Bool { values.flag(.allowCellular) }
    package var allowPowerSaver: Bool { values.flag(.allowPowerSaver) }
    package var discretionary: Bool { values.flag(.discretionary) }
    /// Bytes; nil: however large.
    package var discretionaryAbove: Int64? { values.number(.discretionaryAbove) }
    package var requirePower: Bool { values.flag(.requirePower) }
    /// Percent, 0 to 100.
    package var batteryMinimum: Int { Int(values.number(.batteryMinimum) ?? 20) }
    /// As `TransferWindows` reads it.
    package var window: String? { values.text(.window) }
    /// As `TimeRule` reads it.
    package var notBefore: String? { values.text(.notBefore) }
    package var deadline: String? { values.text(.deadline) }
    package var priority: Int { Int(values.number(.priority) ?? 0) }
    /// Seconds.
    package var lifetime: Double { values.seconds(.lifetime) ?? 604_800 }
    package var retryBase: Double { values.seconds(.retryBase) ?? 1 }
    /// As `Timetable` reads it; nil: none but that of all.
    package var rateLimit: String? { values.text(.rateLimit) }
    package var retryCap: Double { values.seconds(.retryCap) ?? 300 }
    package var connectTimeout: Double {
        get { values.seconds(.connectTimeout) ?? 10 }
        set { values.set(.connectTimeout, .seconds(newValue)) }
    }
    package var stallTimeout: Double {
        get { values.seconds(.stallTimeout) ?? 30 }
        set { values.set(.stallTimeout, .seconds(newValue)) }
    }

    /// The same with what a person set for now, or with what is set for some paths.
    package func overridden(by stronger: OptionValues) -> UploadConditions {
        UploadConditions(values.overridden(by: stronger))
    }
}

/// An object with a member for each setting: true or false, a number (times in seconds), or a text; null where nothing
/// is set and there is no default.
extension UploadConditions: Codable {
    fileprivate struct Key: CodingKey {
        let stringValue: String
        let intValue: Int? = nil

        init(_ name: OptionName) { stringValue = name.rawValue }
        init?(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    package init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: Key.self)
        var values = OptionValues()
        // One of an earlier version has fewer of them.
        for name in OptionName.conditions where container.contains(Key(name)) {
            if try container.decodeNil(forKey: Key(name)) { continue }
            values.set(name, try Self.value(of: name, container))
        }
        self.init(values)
    }

    fileprivate static func value(
        of name: OptionName,
        _ container: KeyedDecodingContainer<Key>
    ) throws -> OptionValue {
        switch name.definition.kind {
        case .flag: .flag(try container.decode(Bool.self, forKey: Key(name)))
        case .number, .octal, .bytes: .number(try container.decode(Int64.self, forKey: Key(name)))
        case .seconds: .seconds(try container.decode(Double.self, forKey: Key(name)))
        default: .text(try container.decode(String.self, forKey: Key(name)))
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: Key.self)
        for name in OptionName.conditions { try Self.encode(values.effective(name), of: name, &container) }
    }

    fileprivate static func encode(
        _ value: OptionValue?,
        of name: OptionName,
        _ container: inout KeyedEncodingContainer<Key>
    ) throws {
        switch value {
        case .flag(let value): try container.encode(value, forKey: Key(name))
        case .number(let value): try container.encode(value, forKey: Key(name))
        case .seconds(let value): try container.encode(value, forKey: Key(name))
        case .text(let value): try container.encode(value, forKey: Key(name))
        case nil: try container.encodeNil(forKey: Key(name))
        }
    }
}

extension UploadConditions {
    /// The settings that are otherwise than in others, such as those of paths than their volume's.
    ///
    /// An object with a member for each of them, as that of all settings has it.
    package struct Difference: Hashable, Sendable {
        /// In the order of ``OptionName/conditions``.
        package private(set) var names: [OptionName] = []
        private var values = OptionValues()

        package init(of conditions: UploadConditions, from others: UploadConditions) {
            for name in OptionName.conditions where conditions.values.effective(name) != others.values.effective(name) {
                note(name, conditions.values.effective(name))
            }
        }

        /// What one of ``names`` is; nil: nothing is set, and there is no default.
        package subscript(_ name: OptionName) -> OptionValue? { values[name] }

        private mutating func note(_ name: OptionName, _ value: OptionValue?) {
            names.append(name)
            if let value { values.set(name, value) }
        }
    }
}

extension UploadConditions.Difference: Codable {
    package init(from decoder: any Decoder) throws {
        self.init(of: UploadConditions(), from: UploadConditions())
        let container = try decoder.container(keyedBy: UploadConditions.Key.self)
        for name in OptionName.conditions where container.contains(.init(name)) {
            let isSet = try !container.decodeNil(forKey: .init(name))
            note(name, isSet ? try UploadConditions.value(of: name, container) : nil)
        }
    }

    package func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: UploadConditions.Key.self)
        for name in names { try UploadConditions.encode(values[name], of: name, &container) }
    }
}

/// What is set for the paths of a volume that a pattern means.
package struct PathConditions: Codable, Hashable, Sendable {
    /// As `PathPattern` reads it.
    package var pattern: String
    /// The settings as they stand in the file, by name.
    package var settings: [String: String]

    package init(pattern: String, settings: [String: String]) {
        self.pattern = pattern
        self.settings = settings
    }

    /// The settings that can be read.
    package var values: OptionValues {
        var values = OptionValues()
        for name in OptionName.pathSettings {
            guard let text = settings[name.rawValue] else { continue }
            if let value = try? OptionValue(parsing: text, for: name.definition, at: "path") { values.set(name, value) }
        }
        return values
    }
}
