// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Configuration

extension PolicyReport {
    /// Rules that some uploads of a volume go by in place of its own.
    package struct Rules: Codable, Sendable, Hashable {
        /// The pattern of the paths that they are for, and what is set for files themselves.
        package var name: String
        /// `background` or `discretionary`.
        package var transferClass: String
        /// What is otherwise than with the volume.
        package var settings: UploadConditions.Difference
        /// Why uploads that go by them wait now.
        package var holds: [UploadReport.Waiting]
        /// What went of what may go over networks that cost, for each such budget of paths or files.
        package var budgets: [Budget]?

        package init(
            name: String,
            transferClass: String,
            settings: UploadConditions.Difference,
            holds: [UploadReport.Waiting]
        ) {
            self.name = name
            self.transferClass = transferClass
            self.settings = settings
            self.holds = holds
        }

        private enum CodingKeys: String, CodingKey {
            case name
            case transferClass = "class"
            case settings
            case holds
            case budgets
        }
    }

    /// How much went over networks that cost, of what may go.
    package struct Budget: Codable, Sendable, Hashable {
        /// That of a day or a month.
        package struct Amount: Codable, Sendable, Hashable {
            /// Bytes; nil: any number.
            package var limit: Int64?
            /// Bytes that went.
            package var used: Int64
            /// RFC 3339, UTC: when it begins anew.
            package var until: String

            package init(limit: Int64?, used: Int64, until: String) {
                self.limit = limit
                self.used = used
                self.until = until
            }

            package func encode(to encoder: any Encoder) throws {
                var container = encoder.container(keyedBy: CodingKeys.self)
                try container.encode(limit, forKey: .limit)
                try container.encode(used, forKey: .used)
                try container.encode(until, forKey: .until)
            }
        }

        /// The pattern of the paths that it is for, or `files with` what is set for them; nil: all volumes, or the one it stands with.
        package var name: String?
        package var daily: Amount
        package var monthly: Amount

        package init(daily: Amount, monthly: Amount) {
            self.daily = daily
            self.monthly = monthly
        }
    }
}
