// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

extension PolicyReport {
    /// The most that goes in a direction now.
    package struct Limit: Codable, Sendable, Hashable {
        /// `upload` or `download`.
        package var direction: String
        /// The rate or timetable, as it was set.
        package var setting: String
        /// Bytes a second; nil: no limit now.
        package var rate: Int64?
        /// RFC 3339, UTC: when the timetable has another rate; nil: never.
        package var until: String?

        package init(direction: String, setting: String, rate: Int64?, until: String?) {
            self.direction = direction
            self.setting = setting
            self.rate = rate
            self.until = until
        }

        package func encode(to encoder: any Encoder) throws {
            var container = encoder.container(keyedBy: CodingKeys.self)
            try container.encode(direction, forKey: .direction)
            try container.encode(setting, forKey: .setting)
            try container.encode(rate, forKey: .rate)
            try container.encode(until, forKey: .until)
        }
    }
}
