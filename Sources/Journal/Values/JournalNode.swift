// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base

package enum NodeKind: Int64, Hashable, Sendable, CaseIterable {
    /// Also a FIFO, a socket or a device: its attributes say so, and it has no content.
    case file = 0
    case directory = 1
    case symbolicLink = 2
    /// Nothing shall be here; the remote has, or may get, something that must go.
    case tombstone = 3
    /// One more name of a file, a hard link: it gets its content and attributes once the first name is at the remote.
    case hardLink = 4
}

/// The desired state of one path that differs from the remote, or may.
package struct JournalNode: Hashable, Sendable {
    package internal(set) var id: NodeID
    package var path: ObjectKey
    package var kind: NodeKind
    /// Complete attributes; of no meaning for a tombstone.
    package var attributes: FileAttributes
    /// The text of a symbolic link; nil when only the remote has it (then `generation` names where).
    package var target: ObjectKey?
    /// The content of a file, and of a symbolic link whose text is not known here.
    package var generation: Generation?
    package var base: RemoteBase
    /// The remote has, or may have, a folder at this path (a marker or keys below it).
    package var hasRemoteDirectory: Bool
    /// Being written: not to be uploaded now.
    package var isOpen: Bool
    /// The time of the last change, from which the quiet period counts.
    package var changedAt: Timestamp
    /// Changes with every change of the attributes; 0 while they are those of the remote object the row came from.
    package var attributeSequence: ChangeSequence
    /// The newest change.
    package var sequence: ChangeSequence
    /// A lower bound of the oldest change that the remote lacks: `flush` waits while it is at most the one of its call.
    package var firstSequence: ChangeSequence
    /// What the user and the flusher noted about the upload.
    package var schedule: Schedule
    /// The path this is a conflict copy of.
    package var conflictOf: ObjectKey?

    /// When and whether a row is taken up, and how it went so far.
    package struct Schedule: Hashable, Sendable {
        package var isPaused = false
        package var notBefore: Timestamp?
        /// When it should be at the remote, as a person said.
        package var deadline: Timestamp?
        /// What else a person set for its upload, as a text of those who set and read it; nil: nothing.
        package var settings: String?
        /// Higher goes first; 0 normally.
        package var priority: Int64 = 0
        package var attempts: Int64 = 0
        package var nextAttempt: Timestamp?
        package var lastError: String?
        /// Why a person is needed; nil when none is.
        package var attention: String?

        package init() {}

        /// What a person wants of it, without how it went so far.
        package var wishes: Schedule {
            var wishes = Schedule()
            (wishes.notBefore, wishes.deadline) = (notBefore, deadline)
            (wishes.settings, wishes.priority) = (settings, priority)
            return wishes
        }
    }

    /// The size in bytes of the object to be: a file's content, a link's text, 0 otherwise.
    package var size: Int64 {
        switch kind {
        case .file: generation?.size ?? 0
        case .symbolicLink: target.map { Int64($0.bytes.count) } ?? generation?.size ?? 0
        case .directory, .tombstone, .hardLink: 0
        }
    }

    package var isTombstone: Bool { kind == .tombstone }
}
