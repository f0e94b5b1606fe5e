// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// The name of a request that has no answer, never reused.
package typealias DoubtID = Int64

/// What a request does to the object at its key.
package enum DoubtKind: Int64, Hashable, Sendable, CaseIterable {
    /// It makes or replaces the object.
    case write = 0
    case deletion = 1
}

/// A request that was sent and not answered: the server may carry it out after whoever sent it is gone, and after
/// a look at the remote that showed nothing of it.
package struct Doubt: Hashable, Sendable {
    package let id: DoubtID
    /// The object's key; that of a folder's marker ends with a slash.
    package let key: ObjectKey
    package let kind: DoubtKind
    /// How the object is recognised if the request was carried out; nil: not at all.
    package let tag: String?
    /// The size of that object.
    package let size: Int64
    /// When the request can be alive no more; nil while its answer is waited for.
    package let endsAt: Timestamp?
    /// Something newer was made at the key since: it is known for as long as it may be carried out, and no longer.
    package let isReplaced: Bool
    /// The tag of the version that the request was to replace, and no other; nil where it named none.
    package let base: String?
}
