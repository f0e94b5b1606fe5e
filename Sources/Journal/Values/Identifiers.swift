// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Database

/// Why a journal operation failed; `.notFound` means that the row changed or went away meanwhile.
package typealias JournalError = DatabaseError

/// Names a row for ever: a path is an attribute of it, so a rename loses nothing. Never reused.
package struct NodeID: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let value: Int64
    package init(_ value: Int64) { self.value = value }
    package var description: String { String(value) }
    package static func < (left: NodeID, right: NodeID) -> Bool { left.value < right.value }
}

/// Names one content of a file, and its staging file. Never reused.
package struct GenerationID: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let value: Int64
    package init(_ value: Int64) { self.value = value }
    package var description: String { String(value) }
    package static func < (left: GenerationID, right: GenerationID) -> Bool { left.value < right.value }
}

/// Names an upload begun at the remote. Never reused.
package struct TransferID: Hashable, Sendable, Comparable, CustomStringConvertible {
    package let value: Int64
    package init(_ value: Int64) { self.value = value }
    package var description: String { String(value) }
    package static func < (left: TransferID, right: TransferID) -> Bool { left.value < right.value }
}

/// A point in the order of all changes; every change takes the next one. 0 is before all.
package typealias ChangeSequence = Int64
