// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What a recovery found and did, for the log and the status.
package struct RecoveryReport: Hashable, Sendable {
    package struct Item: Hashable, Sendable {
        package enum Outcome: Hashable, Sendable {
            /// Writes that neither close() nor fsync() acknowledged were dropped.
            case reverted
            /// An unfinished new file was kept with this many bytes.
            case kept(Int64)
            /// Data that power loss may have torn is not used; it lies in this file.
            case quarantined(String)
            /// Local data is missing; the row needs a person.
            case damaged
            /// The row could not be read and is lost.
            case lost
        }

        /// The path in the volume; nil when it is not known any more.
        package let path: ObjectKey?
        package let outcome: Outcome

        package init(path: ObjectKey?, outcome: Outcome) {
            self.path = path
            self.outcome = outcome
        }
    }

    package var items: [Item] = []
    /// The directory with the damaged database, when there was one.
    package var salvagedFrom: String?
    /// The machine was started anew since the journal was last in use.
    package var isNewBoot = false
    /// Staging files that no row named, and were deleted.
    package var orphans = 0

    package init() {}

    /// Whether a person should hear of it.
    package var isNotable: Bool { salvagedFrom != nil || !items.isEmpty }
}
