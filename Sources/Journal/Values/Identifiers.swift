// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Database

/// Why a journal operation failed; `.notFound` means that the row changed or went away meanwhile.
package typealias JournalError = DatabaseError

/// The name of a row, never reused.
///
/// A path is an attribute of a row, so a rename loses nothing.
package struct NodeID: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let value: Int64
    package init(_ value: Int64) { self.value = value }
    package var description: String { String(value) }
    package static func < (left: NodeID, right: NodeID) -> Bool { left.value < right.value }
}

/// The name of one content of a file, and of its staging file; never reused.
package struct GenerationID: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let value: Int64
    package init(_ value: Int64) { self.value = value }
    package var description: String { String(value) }
    package static func < (left: GenerationID, right: GenerationID) -> Bool { left.value < right.value }
}

/// The name of an upload begun at the remote, never reused.
package struct TransferID: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let value: Int64
    package init(_ value: Int64) { self.value = value }
    package var description: String { String(value) }
    package static func < (left: TransferID, right: TransferID) -> Bool { left.value < right.value }
}

/// A point in the order of all changes: every change takes the next one, 0 is before all.
package typealias ChangeSequence = Int64
