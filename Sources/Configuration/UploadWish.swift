// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
internal import Policy

/// What a person, or the program that is asked before an upload, wants of the upload of one file.
package enum UploadWish: Hashable, Sendable {
    /// Nothing is sent before; nil: whenever its path's settings let it go, as with the others.
    case notBefore(Timestamp?)
    /// When it should be at the remote.
    case deadline(Timestamp?)
    /// Higher goes first, -100 to 100; 0 as its path has it.
    case priority(Int64)
    /// Another one of ``names``, as text; nil: as its path has it.
    case setting(OptionName, String?)

    /// The settings that a file may have of its own.
    package static let names = OptionName.pathSettings.filter { $0 != .discretionaryAbove }
    /// The most bytes that a text may have.
    private static let limit = 512

    /// The setting that is meant: by its name in the configuration file, or with hyphens in it; nil when there is none.
    package static func name(_ key: String) -> OptionName? {
        names.first { $0.rawValue == key || $0.hyphenated == key }
    }

    /// Reads a wish; nil when the text says none.
    ///
    /// An empty text takes it back. A time with `+` counts from `now`.
    package init?(_ name: OptionName, _ text: String, now: Timestamp) {
        guard Self.names.contains(name), text.utf8.count <= Self.limit, !text.utf8.contains(where: { $0 < 0x20 }) else {
            return nil
        }
        let value = try? OptionValue(parsing: text, for: name.definition, at: name.rawValue)
        guard text.isEmpty || value != nil else { return nil }
        switch (name, value) {
        case (.notBefore, _): self = .notBefore(TimeRule(parsing: text)?.moment(changed: now))
        case (.deadline, _): self = .deadline(TimeRule(parsing: text)?.moment(changed: now))
        case (.priority, .number(let number)): self = .priority(number)
        case (.priority, _): self = .priority(0)
        case (_, nil): self = .setting(name, nil)
        default: self = .setting(name, text)
        }
    }
}

extension UploadWish {
    /// Whether it is one of those that are kept as text.
    package var isSetting: Bool {
        if case .setting = self { true } else { false }
    }

    /// Reads `KEY=VALUE`; nil when there is no such key, or it takes no such value.
    package init?(line: String, now: Timestamp) {
        guard let equals = line.firstIndex(of: "="), let name = Self.name(String(line[..<equals]).trimmed) else {
            return nil
        }
        self.init(name, String(line[line.index(after: equals)...]).trimmed, now: now)
    }

    /// Notes it where the journal keeps such things.
    package func apply(
        notBefore: inout Timestamp?,
        deadline: inout Timestamp?,
        priority: inout Int64,
        settings: inout String?
    ) {
        switch self {
        case .notBefore(let time): notBefore = time
        case .deadline(let time): deadline = time
        case .priority(let number): priority = number
        case .setting(let name, let text):
            var own = FileSettings(settings)
            own[name] = text
            settings = own.text
        }
    }
}

extension OptionName {
    /// The name as extended attributes have it.
    package var hyphenated: String { rawValue.replacing("_", with: "-") }
}

/// The settings that one file has of its own, as the journal keeps them: a line `NAME=TEXT` for each.
package struct FileSettings: Hashable, Sendable {
    private var texts: [OptionName: String] = [:]

    /// Reads them; what cannot be read, such as what a later version wrote, is left out.
    package init(_ text: String?) {
        for line in (text ?? "").split(separator: "\n") {
            guard let equals = line.firstIndex(of: "="), let name = UploadWish.name(String(line[..<equals])) else {
                continue
            }
            texts[name] = String(line[line.index(after: equals)...])
        }
    }

    package subscript(_ name: OptionName) -> String? {
        get { texts[name] }
        set { texts[name] = newValue }
    }

    /// As the journal keeps them, one spelling for the same settings; nil when there are none.
    package var text: String? {
        guard !texts.isEmpty else { return nil }
        return texts.map { "\($0.key.rawValue)=\($0.value)" }.sorted().joined(separator: "\n")
    }

    /// The texts by the names of the configuration file.
    package var entries: [String: String] {
        Dictionary(uniqueKeysWithValues: texts.map { ($0.key.rawValue, $0.value) })
    }

    /// As the other layers of settings are.
    package var values: OptionValues {
        var values = OptionValues()
        for (name, text) in texts {
            if let value = try? OptionValue(parsing: text, for: name.definition, at: "file") { values.set(name, value) }
        }
        return values
    }
}
