// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Configuration

/// One key that `policy set` is to set.
package struct PolicyChange: Codable, Sendable, Hashable {
    package var key: String
    package var value: String

    package init(key: String, value: String) {
        self.key = key
        self.value = value
    }
}

/// The document of `policy show --json`: what is known, what is set, and what that holds up now.
package struct PolicyReport: Codable, Sendable {
    /// Something set with `policy set`.
    package struct Override: Codable, Sendable, Hashable {
        package var key: String
        package var value: String
        /// RFC 3339, UTC.
        package var since: String
        /// When it ends by itself; nil: when it is unset.
        package var until: String?

        package init(key: String, value: String, since: String, until: String?) {
            self.key = key
            self.value = value
            self.since = since
            self.until = until
        }

        package func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(key, forKey: .key)
            try container.encode(value, forKey: .value)
            try container.encode(since, forKey: .since)
            try container.encode(until, forKey: .until)
        }
    }

    package struct Volume: Codable, Sendable, Hashable {
        package var id: String
        package var remote: String
        /// `background` or `discretionary`: the class of uploads that nobody waits for.
        package var transferClass: String
        /// The rules in force for it, under the names of the configuration file.
        package var rules: UploadConditions
        /// Why those wait now; empty: nothing of the machine's conditions is in their way.
        package var holds: [UploadReport.Waiting]
        /// The network interface that it is reached through; nil: unknown, or none but this machine's own.
        package var interface: String?
        /// The rules that some of its uploads go by in place of its own; nil from a flusher that does not tell.
        package var otherRules: [Rules]?
        /// How many of those are left out.
        package var moreRules: Int?
        /// What may go of it over networks that cost; nil from a flusher that does not tell.
        package var budget: Budget?

        package init(
            id: String,
            remote: String,
            transferClass: String,
            rules: UploadConditions,
            holds: [UploadReport.Waiting]
        ) {
            self.id = id
            self.remote = remote
            self.transferClass = transferClass
            self.rules = rules
            self.holds = holds
        }

        private enum CodingKeys: String, CodingKey {
            case id
            case remote
            case transferClass = "class"
            case rules
            case holds
            case interface
            case otherRules = "other_rules"
            case moreRules = "more_rules"
            case budget
        }
    }

    /// Every fact about the machine, by name.
    package var conditions: [String: ConditionReport]
    package var overrides: [Override]
    package var volumes: [Volume]
    /// The most that goes in each direction; nil from a flusher that knows of none.
    package var limits: [Limit]?
    /// What may go of all volumes together over networks that cost; nil from a flusher that does not tell.
    package var budget: Budget?

    package init(conditions: [String: ConditionReport], overrides: [Override], volumes: [Volume]) {
        self.conditions = conditions
        self.overrides = overrides
        self.volumes = volumes
    }
}
