// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// Texts made from the option table: help and Docs/Configuration.md.
package enum OptionDocumentation {
    /// The settings in the order of the table, grouped for people.
    package static let groups: [(title: String, names: [OptionName])] = [
        ("The remote", [.endpoint, .region, .profile, .pathStyle, .anonymous, .connectTimeout, .stallTimeout]),
        (
            "Web servers",
            [.username, .password, .bearerToken, .authorityFile, .clientCertificate, .clientKey]
        ),
        ("Uploads", [.uploadProtocol, .partSize, .quietPeriod, .lateRequests, .parallelFiles, .parallelParts]),
        ("Conditions of uploads", conditions + OptionName.budgets + [.lowDataNetworks]),
        ("Bandwidth", OptionName.limits),
        ("What is told unasked", OptionName.watching),
        (
            "The mount",
            [
                .readOnly, .noExecution, .allowOther, .uid, .gid, .umask, .metadataAge, .kernelAge,
                .serverModificationTime, .readahead, .fsync, .close,
            ]
        ),
        (
            "Local state",
            [.stateDirectory, .cacheDirectory, .cacheSize, .cacheFree, .blockSize, .stagingLimit, .stagingWait]
        ),
    ]

    private static var conditions: [OptionName] {
        OptionName.conditions.filter { $0 != .connectTimeout && $0 != .stallTimeout }
    }

    /// One line a setting for `moorage mount --help`.
    package static func help() -> String {
        var lines: [String] = []
        for group in groups {
            for definition in group.names.map(\.definition)
            where definition.scope != .flusher && definition.scope != .section {
                let standard = definition.standard.map { $0 == "false" ? "" : " [\($0)]" } ?? ""
                let name =
                    definition.placeholder.isEmpty
                    ? definition.name.rawValue : "\(definition.name.rawValue)=\(definition.placeholder)"
                lines.append("  " + padding(name, 22) + definition.summary + standard)
            }
        }
        return lines.joined(separator: "\n")
    }

    /// The tables of Docs/Configuration.md.
    package static func markdown() -> String {
        groups.map { "### \($0.title)\n\n" + table($0.names) }.joined(separator: "\n")
    }

    private static func table(_ names: [OptionName]) -> String {
        var lines = ["| key | value | default | where | meaning |", "|---|---|---|---|---|"]
        for definition in names.map(\.definition) {
            lines.append(
                "| `\(definition.name.rawValue)` | \(definition.kind.expectation) "
                    + "| \(definition.standard.map { "`\($0)`" } ?? "") | \(definition.scope.places) "
                    + "| \(definition.summary) |"
            )
        }
        return lines.joined(separator: "\n") + "\n"
    }
}

extension OptionScope {
    fileprivate var places: String {
        switch self {
        case .volume: "`-o`, `[volume]`"
        case .section: "`[volume]`"
        case .policy: "`-o`, `[volume]`, `[policy]`"
        case .flusher: "`[policy]`"
        }
    }
}

/// `text` with spaces behind it up to `width` characters, and at least one.
package func padding(_ text: String, _ width: Int) -> String {
    text + String(repeating: " ", count: max(1, width - text.count))
}
