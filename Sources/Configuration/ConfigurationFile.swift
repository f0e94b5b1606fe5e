// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Platform
internal import Policy

/// The configuration file, read and checked: INI sections as in the AWS files and rclone.conf.
package struct ConfigurationFile: Sendable {
    /// One `[volume NAME]` section.
    package struct Volume: Sendable {
        package var name: String
        package var remote: RemoteName
        package var values: OptionValues
    }

    /// One `[path NAME:GLOB]` section.
    package struct Path: Sendable {
        /// The volume's name; `*`: every volume.
        package var volume: String
        package var conditions: PathConditions
    }

    /// `[policy]`: what holds for all volumes.
    package var policy = OptionValues()
    package var volumes: [Volume] = []
    package var paths: [Path] = []
    /// Whether the file has passwords in it.
    package private(set) var holdsSecrets = false

    package init() {}

    /// Reads the file at `path`; a missing file is an empty configuration.
    package init(reading path: String) throws(ConfigurationError) {
        var text = ""
        var mode: UInt32 = 0
        do throws(SystemError) {
            if let status = try FileStatus.of(path) {
                mode = status.mode
                text = String(decoding: try Files.read(path, limit: 1 << 20), as: UTF8.self)
            }
        } catch {
            throw ConfigurationError("configuration file", error.description)
        }
        try self.init(text: text, path: path)
        guard !holdsSecrets || mode & 0o077 == 0 else {
            throw ConfigurationError(path, "holds a password and others may read it; run chmod 600 on it")
        }
    }

    /// Reads the text of a file; `path` is for messages.
    package init(text: String, path: String) throws(ConfigurationError) {
        for section in try INIFile(text: text, path: path).sections {
            try add(section, path)
        }
    }

    package func volume(named name: String) -> Volume? { volumes.first { $0.name == name } }

    /// What is set for paths of a volume; `name` nil: one that was not mounted by a name.
    package func paths(ofVolume name: String?) -> [PathConditions] {
        paths.filter { $0.volume == "*" || $0.volume == name }.map(\.conditions)
    }

    private mutating func add(_ section: INIFile.Section, _ path: String) throws(ConfigurationError) {
        let place = "\(path):\(section.line)"
        let words = section.title.split(separator: " ", maxSplits: 1).map(String.init)
        switch (words.first, words.dropFirst().first?.trimmed) {
        case ("policy", nil):
            policy = try values(of: section, path, allowed: [.policy, .flusher])
        case ("volume", let name?):
            guard RemoteName.isSectionName(name) else {
                throw ConfigurationError(place, "volume name \(name): use letters, digits, - _ and .")
            }
            volumes.append(try volume(named: name, section, path))
        case ("path", let words?):
            paths.append(try rules(forPaths: words, section, path))
        default:
            throw ConfigurationError(
                place,
                "unknown section [\(section.title)]: [policy], [volume NAME] or [path NAME:GLOB] is meant"
            )
        }
    }

    private mutating func rules(
        forPaths words: String,
        _ section: INIFile.Section,
        _ path: String
    ) throws(ConfigurationError) -> Path {
        let place = "\(path):\(section.line)"
        let parts = words.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, parts[0] == "*" || RemoteName.isSectionName(parts[0]),
            let pattern = PathPattern(parts[1])
        else {
            throw ConfigurationError(
                place,
                "[\(section.title)]: [path NAME:GLOB] is meant, where NAME is that of a [volume NAME], or * for all"
            )
        }
        guard paths.count < Self.longestPathList else {
            throw ConfigurationError(place, "more than \(Self.longestPathList) [path NAME:GLOB] are too many")
        }
        _ = try values(of: section, path, allowed: [.policy])
        var settings: [String: String] = [:]
        for entry in section.entries {
            guard OptionName.pathSettings.contains(where: { $0.rawValue == entry.key }) else {
                throw ConfigurationError("\(path):\(entry.line)", Self.misplaced(entry.key, section))
            }
            settings[entry.key] = entry.value
        }
        return Path(volume: parts[0], conditions: PathConditions(pattern: pattern.text, settings: settings))
    }

    private static func misplaced(_ key: String, _ section: INIFile.Section) -> String {
        let text = "\(key) does not belong in [\(section.title)]"
        guard key == OptionName.maxRate.rawValue else { return text }
        return "\(text): it is for all uploads together; rate_limit is for those of a volume, or of paths"
    }

    /// How many sections for paths a file may have.
    private static let longestPathList = 100

    private mutating func volume(
        named name: String,
        _ section: INIFile.Section,
        _ path: String
    ) throws(ConfigurationError) -> Volume {
        guard let entry = section.entries.first(where: { $0.key == "remote" }) else {
            throw ConfigurationError(
                "\(path):\(section.line)",
                "[volume \(name)] has no remote = s3://BUCKET or http://HOST/PATH/"
            )
        }
        let remote: RemoteName
        do throws(ConfigurationError) {
            remote = try RemoteName(entry.value)
        } catch {
            throw ConfigurationError("\(path):\(entry.line)", error.description)
        }
        let values = try values(of: section, path, allowed: [.volume, .section, .policy])
        return Volume(name: name, remote: remote, values: values)
    }

    private mutating func values(
        of section: INIFile.Section,
        _ path: String,
        allowed: Set<OptionScope>
    ) throws(ConfigurationError) -> OptionValues {
        var values = OptionValues()
        for entry in section.entries where !(entry.key == "remote" && allowed.contains(.volume)) {
            let place = "\(path):\(entry.line)"
            guard let name = OptionName(rawValue: entry.key) else {
                throw ConfigurationError(
                    place,
                    "unknown key \(entry.key)\(suggestion(for: entry.key)) in [\(section.title)]"
                )
            }
            guard allowed.contains(name.definition.scope) else {
                throw ConfigurationError(place, Self.misplaced(entry.key, section))
            }
            holdsSecrets = holdsSecrets || name.definition.scope == .section
            values.set(name, try OptionValue(parsing: entry.value, for: name.definition, at: place))
        }
        return values
    }
}
