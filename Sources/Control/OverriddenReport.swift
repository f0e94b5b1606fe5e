// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

/// What would hold uploads of a volume that go because somebody asked for them.
package struct OverriddenReport: Codable, Sendable, Hashable {
    package var volume: String
    package var remote: String
    /// As `waiting` names them.
    package var reasons: [String]

    package init(volume: String, remote: String, reasons: [String]) {
        self.volume = volume
        self.remote = remote
        self.reasons = reasons
    }
}
