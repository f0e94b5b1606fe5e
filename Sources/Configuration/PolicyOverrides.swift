// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import FoundationEssentials
internal import Platform

/// One thing that a person set with `moorage policy set`.
package struct PolicyOverride: Codable, Hashable, Sendable {
    /// `metered`, `low-data`, or one of ``PolicyOverrides/settings``.
    package let key: String
    package let value: String
    /// When it was set, in seconds since 1970.
    package let set: Int64
    /// When it ends by itself, if it does.
    package let until: Int64?

    /// Whether it holds now.
    ///
    /// An end further ahead than it was when it was set comes of a clock that was set back: it does not count.
    func holds(at now: Timestamp) -> Bool {
        guard let until else { return true }
        return now.seconds < until && until - now.seconds <= until - set
    }
}

/// What a person set for now: it goes before what is observed and before the settings.
package struct PolicyOverrides: Hashable, Sendable {
    package private(set) var entries: [PolicyOverride] = []

    package init() {}

    /// The keys there are, with the words that each takes; nil: what its row of the option table says.
    package static let facts: [(key: String, words: [String])] = [
        ("metered", ["yes", "no", "auto"]), ("low-data", ["on", "off", "auto"]),
    ]

    package static let settings = OptionName.conditions + OptionName.budgets + OptionName.limits
    package static var keys: [String] { facts.map(\.key) + settings.map(\.rawValue) }

    /// Sets a key until the time that is `seconds` from now, or until it is unset.
    ///
    /// `auto` unsets it. Throws when there is no such key, or it takes no such value.
    package mutating func set(
        _ key: String,
        to value: String,
        for seconds: Double?,
        now: Timestamp
    ) throws(ConfigurationError) {
        if let fact = Self.facts.first(where: { $0.key == key }) {
            guard fact.words.contains(value) else {
                throw ConfigurationError(
                    "policy",
                    "\(key)=\(value) is not one of \(fact.words.joined(separator: ", "))"
                )
            }
        } else {
            guard let name = Self.settings.first(where: { $0.rawValue == key }) else {
                throw ConfigurationError("policy", "unknown key \(key)\(suggestion(for: key, among: Self.keys))")
            }
            _ = try OptionValue(parsing: value, for: name.definition, at: "policy")
        }
        entries.removeAll { $0.key == key }
        guard value != "auto" else { return }
        let end = seconds.map { now.advanced(bySeconds: $0).seconds }
        entries.append(PolicyOverride(key: key, value: value, set: now.seconds, until: end))
        entries.sort { $0.key < $1.key }
    }

    /// Unsets keys, all of them when none is named; throws when there is no such key.
    package mutating func unset(_ keys: [String]) throws(ConfigurationError) {
        for key in keys where !Self.keys.contains(key) {
            throw ConfigurationError("policy", "unknown key \(key)\(suggestion(for: key, among: Self.keys))")
        }
        entries.removeAll { keys.isEmpty || keys.contains($0.key) }
    }

    /// Lets go of what is over; whether there was any.
    package mutating func expire(at now: Timestamp) -> Bool {
        let before = entries.count
        entries.removeAll { !$0.holds(at: now) }
        return entries.count != before
    }

    package subscript(_ key: String) -> PolicyOverride? { entries.first { $0.key == key } }

    /// When the first of them ends by itself.
    package var nextEnd: Timestamp? { entries.compactMap(\.until).min().map { Timestamp(seconds: $0) } }

    /// Those that stand in the option table.
    package var values: OptionValues {
        var values = OptionValues()
        for name in Self.settings {
            guard let entry = self[name.rawValue],
                let value = try? OptionValue(parsing: entry.value, for: name.definition, at: "policy")
            else { continue }
            values.set(name, value)
        }
        return values
    }
}

extension PolicyOverrides {
    private struct Document: Codable {
        var overrides: [PolicyOverride]
    }

    /// Reads what ``save(to:)`` wrote; nothing where there is no file, throws where it cannot be understood.
    package init(loading path: String) throws(ConfigurationError) {
        do {
            guard try FileStatus.of(path) != nil else { return }
            let bytes = try Files.read(path, limit: 65_536)
            entries = try JSONDecoder().decode(Document.self, from: Data(bytes)).overrides.filter {
                Self.keys.contains($0.key)
            }
        } catch let error as SystemError {
            throw ConfigurationError(path, error.description)
        } catch {
            throw ConfigurationError(path, "is damaged; what was set with moorage policy set is forgotten")
        }
    }

    /// Writes them so that the next flusher goes by them, readable for this user only.
    package func save(to path: String) throws(ConfigurationError) {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys]
        do {
            let bytes = [UInt8](try encoder.encode(Document(overrides: entries))) + [0x0A]
            try Files.removeAbandoned(of: path)
            try Files.writeAtomically(path, bytes)
        } catch let error as SystemError {
            throw ConfigurationError(path, error.description)
        } catch {
            throw ConfigurationError(path, "cannot be written: \(error)")
        }
    }
}
