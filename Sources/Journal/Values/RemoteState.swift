// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

/// What the remote has at a path, as the caller knows it from the catalog.
///
/// It describes the remote, not the local wish: where a row exists, pass what
/// the catalog says of the path all the same (a tombstone does not make it
/// `.absent`); the row's own observations win where they differ. The journal asks
/// for it within its transaction: the flusher writes the catalog before it
/// removes a row, so whoever finds no row then reads what the upload left.
package enum RemoteState: Hashable, Sendable {
    case absent
    /// An object; `target` is the text of a symbolic link where it is known.
    ///
    /// Without attributes where the remote has to tell them first: no row is made of it then, which would keep others.
    case file(ObjectVersion, FileAttributes?, target: ObjectKey? = nil)
    /// A folder, with its marker object or only implied by the keys below it; attributes as for a file.
    case directory(hasMarker: Bool, FileAttributes?)
}

/// A path and what the remote has there.
package struct RemoteEntry: Hashable, Sendable {
    package var path: ObjectKey
    package var state: RemoteState

    package init(path: ObjectKey, state: RemoteState) {
        self.path = path
        self.state = state
    }
}

/// What the remote object at a row's key was when the row was derived from it: the condition of every commit.
package enum RemoteBase: Hashable, Sendable {
    /// No object.
    case absent
    case version(ObjectVersion)
    /// Not known: the flusher asks before it commits.
    case unknown
}
