// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// A layer of settings: what one place (the command line, a section of the file) says.
package struct OptionValues: Hashable, Sendable {
    package private(set) var values: [OptionName: OptionValue] = [:]

    package init() {}

    package subscript(_ name: OptionName) -> OptionValue? { values[name] }

    package mutating func set(_ name: OptionName, _ value: OptionValue) {
        values[name] = value
    }

    /// These values, with those of `stronger` in their place where it has some.
    package func overridden(by stronger: OptionValues) -> OptionValues {
        var result = self
        result.values.merge(stronger.values) { _, new in new }
        return result
    }

    /// Only those of these names.
    package func limited(to names: [OptionName]) -> OptionValues {
        var result = self
        result.values = values.filter { names.contains($0.key) }
        return result
    }

    /// All but those of these names.
    package func without(_ names: [OptionName]) -> OptionValues {
        var result = self
        result.values = values.filter { !names.contains($0.key) }
        return result
    }

    /// The value, or the table's default; nil when there is neither.
    package func effective(_ name: OptionName) -> OptionValue? {
        if let value = values[name] { return value }
        let definition = name.definition
        guard let standard = definition.standard else { return nil }
        return try? OptionValue(parsing: standard, for: definition, at: "default")
    }

    package func flag(_ name: OptionName) -> Bool {
        if case .flag(let value) = effective(name) { return value }
        return false
    }

    package func text(_ name: OptionName) -> String? {
        if case .text(let value) = effective(name) { return value }
        return nil
    }

    /// The names in a list that commas separate, without spaces around them.
    package func names(_ name: OptionName) -> [String] {
        (text(name) ?? "").split(separator: ",").map { String($0).trimmed }.filter { !$0.isEmpty }
    }

    package func number(_ name: OptionName) -> Int64? {
        if case .number(let value) = effective(name) { return value }
        return nil
    }

    package func seconds(_ name: OptionName) -> Double? {
        if case .seconds(let value) = effective(name) { return value }
        return nil
    }
}

extension OptionValues {
    /// Reads the argument of `-o`: comma-separated `key` and `key=value`; `\,` stands for a comma.
    ///
    /// Words that mount(8), fstab(5) and systemd.mount(5) give to every helper are skipped.
    package init(mountOptions text: String, at place: String = "-o") throws(ConfigurationError) {
        for item in OptionValues.split(text) where !item.isEmpty {
            let equals = item.firstIndex(of: "=")
            let key = equals.map { String(item[..<$0]) } ?? item
            if key == "exec" { values[.noExecution] = .flag(false) }
            if OptionValues.isForeign(key) { continue }
            let value = equals.map { String(item[item.index(after: $0)...]) }
            guard let name = OptionName(rawValue: key) else {
                throw ConfigurationError(
                    "\(place) \(key)",
                    "unknown option\(suggestion(for: key)); see moorage mount --help"
                )
            }
            guard name.definition.scope != .section else {
                throw ConfigurationError(
                    "\(place) \(key)",
                    "is secret and belongs into a [volume NAME] of the configuration file, where nobody else sees it"
                )
            }
            guard name.definition.scope != .flusher else {
                throw ConfigurationError(
                    "\(place) \(key)",
                    "belongs to all volumes; set it in [policy] of the configuration file"
                )
            }
            values[name] = try OptionValue(parsing: value, for: name.definition, at: place)
        }
    }

    private static func split(_ text: String) -> [String] {
        var items = [""]
        var isEscaped = false
        for character in text {
            if isEscaped {
                items[items.count - 1].append(character)
                isEscaped = false
            } else if character == "\\" {
                isEscaped = true
            } else if character == "," {
                items.append("")
            } else {
                items[items.count - 1].append(character)
            }
        }
        return items
    }

    private static let foreign: Set<String> = [
        "rw", "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev", "exec",
        "suid", "nosuid", "dev", "nodev", "sync", "async", "dirsync", "atime", "noatime", "relatime", "norelatime",
        "strictatime", "nostrictatime", "lazytime", "nolazytime", "diratime", "nodiratime", "silent", "loud", "comment",
        "mand", "nomand", "iversion", "noiversion", "symfollow", "nosymfollow",
    ]

    private static func isForeign(_ key: String) -> Bool {
        foreign.contains(key) || key.hasPrefix("x-") || key.hasPrefix("X-")
    }
}

/// ` (did you mean NAME?)` when a known setting is within two edits of `word`, else nothing.
package func suggestion(for word: String, among names: [String] = OptionName.allCases.map(\.rawValue)) -> String {
    let best = names.map { (editDistance(Array(word.utf8), Array($0.utf8)), $0) }.min { $0.0 < $1.0 }
    guard let best, best.0 <= 2, word.utf8.count > 2 else { return "" }
    return " (did you mean \(best.1)?)"
}

/// The least number of inserted, removed and replaced bytes between two words.
private func editDistance(_ left: [UInt8], _ right: [UInt8]) -> Int {
    var row = Array(0...right.count)
    for (i, a) in left.enumerated() {
        var diagonal = row[0]
        row[0] = i + 1
        for (j, b) in right.enumerated() {
            let cost = min(row[j + 1] + 1, row[j] + 1, diagonal + (a == b ? 0 : 1))
            diagonal = row[j + 1]
            row[j + 1] = cost
        }
    }
    return row[right.count]
}
