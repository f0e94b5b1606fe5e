// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// One of the names of a file that has several: hard links, as link(2) makes them.
///
/// The remote has an object by each name. The file's row and content are those of its first name; the objects by the others
/// are copies, made by the server where it can, each time that of the first name has changed.
package struct LinkedName: Hashable, Sendable {
    package var path: ObjectKey
    /// Names the file among those that have several names.
    package internal(set) var file: Int64
    /// The file's row, if it has one, is by this name, and what the remote has by this name is the file.
    package var isFirst: Bool
    /// Of the first name: which content of the file its object is, counted from 0; of another: which one it is a copy
    /// of, or becomes one of by the row that it has; -1 before the first.
    package var content: Int64
    /// What the remote has by this name where no row tells.
    package var base: RemoteBase
    /// How many names a file may have.
    package static let limit = 4096
}
