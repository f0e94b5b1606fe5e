// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Journal
internal import Platform
internal import Synchronization

/// A file, folder, symbolic link or special file as the kernel knows it: a lineage of content, not a name.
///
/// What this mount writes, and its upload, keep the inode. A version that came
/// from elsewhere gets a new inode, so the kernel's pages of the old one are
/// never mixed with the new one's. Lock order: `commit` before `state`.
final class Inode: Sendable {
    enum Kind: Sendable {
        case file
        case directory
        case symbolicLink
        /// A FIFO, a socket or a device: attributes only, the kernel does the rest.
        case special
    }

    struct State: Sendable {
        var attributes: FileAttributes
        var times = LocalTimes()
        /// The row that holds the desired state; nil while nothing differs from the remote.
        var node: NodeID?
        /// What a file's reads show.
        var content: FileContent {
            didSet {
                contentWatch?.hasChanged.store(true, ordering: .releasing)
                contentWatch = nil
            }
        }
        /// Of the present content; nil while nobody wants to know.
        var contentWatch: ContentWatch?
        /// The text of a symbolic link, once known.
        var target: ObjectKey?
        /// A folder of which the remote has nothing: no listing needs to be asked for.
        var isLocalOnly = false
        /// When that was last seen in the journal, in monotonic seconds.
        var localOnlyCheckedAt = 0.0
        /// How many folders are in a folder, once somebody has looked.
        var subfolders: SubfolderCount?
        /// Its name was removed or given to another; it lives while it is open.
        var isDetached = false
        /// What the remote has of it that is held there, from before it is detached until nobody has it open.
        var kept: [KeptVersion] = []

        /// A remote change took its name: where that is, so that a write can still become a conflict copy there.
        var supersededAt: SupersededPlace?
        /// The revision at which the open content was copied, as others had the file's name: while it is the present one
        /// nothing was written to the copy.
        var copied: Int64?
        /// Where it was before that, and the path of the copy then.
        var copiedFrom: SupersededPlace?
        var copiedTo: ObjectKey?

        /// `content` has its staging files open and its whole chain below; false: it must be loaded before use.
        var isLoaded = true
        /// The top of `content` is an unsealed generation of ours.
        var isWritable = false
        /// Counts changes of content and time; what is above `recorded` is not in the journal yet.
        var revision: Int64 = 0
        var recorded: Int64 = 0
        /// How often a time of modification was set (utimensat(2)), and how often that is still going on.
        var timesSet = 0
        var timesBeingSet = 0
        /// The revision at the last sync, or when the content was opened for changes: nothing was written since while
        /// it is the present one.
        var synced: Int64 = 0
        /// The end of the bytes of the open content that power loss would bring back, in bytes; `.max`: nobody knows.
        var syncedEnd: Int64 = 0
        /// Power loss would bring back an older content, which can go once the open one is synced.
        var isOverSynced = false
        /// The rows under which the file system knows it as open.
        var openRows: [NodeID] = []
        /// Open handles, those for writing among them, and writes under way.
        var handles = 0
        var writers = 0
        /// Open handles for both directions: through them the kernel may hold written pages that it has not sent yet.
        var mappers = 0
        var activeWrites = 0
        /// A sync that failed; it stays failed for that content.
        var failure: SyncFailure?
    }

    /// A name that another inode has by now; the folder may have got another one.
    struct SupersededPlace: Sendable {
        var folder: InodeNumber
        var name: ObjectKey
    }

    /// A sync of a content that failed.
    struct SyncFailure: Sendable {
        var generation: GenerationID?
        /// The disk refused the bytes themselves, not just the record of them.
        var isOfData: Bool
    }

    /// Tells without the lock whether a content is still what it was, all of it.
    final class ContentWatch: Sendable {
        /// Becomes true within the lock.
        let hasChanged = Atomic<Bool>(false)
    }

    let number: InodeNumber
    let kind: Kind
    let state: Lock<State>
    /// The number by which the journal knows a file that has several names, or had; 0: there was never more than one.
    let linkedFile = Atomic<Int64>(0)
    /// Something of it went through the kernel's memory; never false again.
    let mayHavePages = Atomic<Bool>(false)
    /// Held across journal commits of this file's content, so that they happen in order.
    let commit = Lock(())

    init(number: InodeNumber, kind: Kind, attributes: FileAttributes, content: FileContent = .empty) {
        self.number = number
        self.kind = kind
        state = Lock(State(attributes: attributes, content: content))
    }
}

extension Inode.State {
    /// A watch of the present content.
    mutating func watchContent() -> Inode.ContentWatch {
        let watch = contentWatch ?? Inode.ContentWatch()
        contentWatch = watch
        return watch
    }

    /// Why a sync of the present content can never succeed again; nil when it can.
    var lastingFailure: Inode.SyncFailure? {
        failure.flatMap { $0.generation == content.generation ? $0 : nil }
    }

    /// Lets go of the bytes of a removed file that nobody has open: the kernel may keep the inode for long.
    ///
    /// Returns what is to be ended, outside of the lock.
    mutating func dropContent() -> [KeptVersion] {
        content = FileContent(generation: nil, map: ContentMap(size: content.map.size))
        isWritable = false
        isLoaded = true
        return takeKept()
    }
}
