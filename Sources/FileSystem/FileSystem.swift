// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

package import Base
package import BlockCache
package import Catalog
package import Journal
internal import Platform

/// A volume as a tree of files: what the journal wants, over what the catalog knows of the remote.
///
/// Operations are called on many threads at once and may block. Locks, in order:
/// `namespace` (shared by what relies on names, alone by what changes them), an
/// inode's `commit`, an inode's `state`, `openNodes` and the inode table, the journal's and the
/// catalog's own. No lock is held across the network, a reply or a copy of data.
package final class FileSystem: Sendable {
    package let options: FileSystemOptions
    let journal: Journal
    let cache: BlockCache
    let view: RemoteView
    let table: InodeTable
    let namespace = ReadWriteLock()
    /// The inode of each row whose file is open: a row that moves must keep its inode.
    let openNodes = Lock<[NodeID: Inode]>([:])
    let committer: GroupCommitter
    let flushed = FlushedFiles()
    let unfinished = UnfinishedFiles()
    let newFiles: NewFileKeeper
    /// The files of which a copy is being made, as others took their names.
    let separating = Lock<[InodeNumber: Separation]>([:])
    /// What open files without a name need of the remote.
    let held: HeldVersions
    let keeper: OpenFileKeeper
    /// The last name that was asked for in vain.
    let vacancy = Lock<Vacancy?>(nil)
    let reserve: DiskReserve
    /// The list of pinned paths.
    let pins: PinStore
    private let pinner: Pinner
    /// Called after each change that the flusher should look at; must not block.
    let onChange: @Sendable () -> Void
    /// Called when it was changed when and in which order what is pending is to go; must not block.
    let onReschedule: @Sendable () -> Void
    /// What the flusher says about a path's upload, for the extended attributes.
    let uploadState: @Sendable (ObjectKey) -> UploadState?
    /// Has what is complete at or below a path sent now, and waits until it is at the remote.
    let send: @Sendable (ObjectKey) throws(FileError) -> Void
    let stagingBound: StagingBound?

    package init(
        options: FileSystemOptions,
        remote: Remote,
        journal: Journal,
        catalog: Catalog,
        cache: BlockCache,
        pins: PinStore,
        onChange: @escaping @Sendable () -> Void,
        onReschedule: @escaping @Sendable () -> Void = {},
        uploadState: @escaping @Sendable (ObjectKey) -> UploadState? = { _ in nil },
        send: @escaping @Sendable (ObjectKey) throws(FileError) -> Void = { _ in }
    ) {
        self.options = options
        self.journal = journal
        self.cache = cache
        let committer = GroupCommitter(journal: journal)
        self.committer = committer
        newFiles = NewFileKeeper(journal: journal)
        held = HeldVersions(directory: journal.directory)
        keeper = OpenFileKeeper(cache: cache)
        self.onChange = {
            committer.changed()
            onChange()
        }
        self.onReschedule = onReschedule
        self.uploadState = uploadState
        self.send = send
        // What is closed has to be safe here before it is sent.
        let hurry: @Sendable () -> Void = {
            committer.changed()
            onChange()
        }
        reserve = DiskReserve(
            directory: journal.directory,
            relief: DiskReserve.Relief(
                patience: options.stagingWait,
                giveWay: { count in cache.isOnDisk(of: journal.directory) && cache.giveWay(count) },
                reclaim: { committer.reclaim(everything: true) },
                isExpected: { count in
                    hurry()
                    return (try? journal.completeBytes(upTo: count)) ?? 0 >= count
                }
            )
        )
        stagingBound = options.stagingLimit.map { limit in
            StagingBound(limit: limit, patience: options.stagingWait, directory: journal.directory + "/staging") {
                committer.reclaim(everything: true)
                hurry()
            }
        }
        self.pins = pins
        view = RemoteView(
            remote: remote,
            catalog: catalog,
            options: options,
            journal: journal
        )
        pinner = Pinner(store: pins, cache: cache, view: view)
        table = InodeTable(
            root: FileAttributes(
                mode: FileAttributes.directoryType | 0o777 & ~options.umask,
                uid: options.uid,
                gid: options.gid,
                modified: .now()
            )
        )
    }

    /// Records and seals everything that is still open, and makes it durable.
    ///
    /// The last call.
    package func shutDown() {
        flushed.stop()
        keeper.stop()
        pinner.stop()
        for inode in table.all where inode.kind == .file {
            do throws(FileError) {
                try recordContent(of: inode, sealing: true)
            } catch {
                Log.error("mount", "a file could not be completed at the end of the mount: \(error)")
            }
        }
        newFiles.stop()
        committer.stop()
        view.stop()
        cache.close()
    }

    /// Starts the threads that sync and prefetch.
    package func start() throws(FileError) {
        try translating {
            try newFiles.start()
            try committer.start { [weak self] in self?.reopenFlushed() ?? false }
            try view.start()
            try pinner.start()
        }
    }

    /// Somebody else reached the remote: there is no need to wait any longer.
    package func remoteBecameReachable() {
        view.remote.becameReachable()
    }

    /// Trims the cache, and completes what could not be completed before; to be called every few seconds.
    package func maintain() {
        cache.maintain()
        completeUnfinished()
    }

    // MARK: What every operation needs

    func inode(_ number: InodeNumber) throws(FileError) -> Inode {
        guard let inode = table[number] else { throw .stale }
        try followNames(of: inode)
        // The kernel looks the name up anew.
        if hasLostNames(inode) { throw .stale }
        return inode
    }

    func path(of number: InodeNumber) throws(FileError) -> ObjectKey {
        guard let path = table.path(of: number) else { throw .noEntry }
        return path
    }

    /// A folder's inode by number; fails for anything else.
    func folder(_ number: InodeNumber) throws(FileError) -> Inode {
        let inode = try inode(number)
        guard inode.kind == .directory else { throw .notDirectory }
        return inode
    }

    func ensureWritable() throws(FileError) {
        if options.isReadOnly { throw .readOnly }
    }

    /// Refuses names that no folder of the remote can hold.
    func checked(_ name: ObjectKey) throws(FileError) {
        if name.bytes.count > 255 { throw .nameTooLong }
        if name.bytes.isEmpty || name.bytes.contains(UInt8(ascii: "/")) { throw .invalidArgument }
        if name.validated == nil { throw .illegalName }
    }

    /// Refuses paths whose key would be longer than any may be.
    func checkedNew(_ name: ObjectKey, in folder: ObjectKey, isFolder: Bool) throws(FileError) -> ObjectKey {
        try checked(name)
        let path = folder.appending(name)
        if path.keyLength(isFolder: isFolder) > options.longestPath { throw .nameTooLong }
        return path
    }
}

extension ObjectKey {
    /// How long the key of something by this path is, in bytes: that of a folder ends with a slash.
    func keyLength(isFolder: Bool) -> Int { bytes.count + (isFolder ? 1 : 0) }
}

/// The process that asks for an operation.
package struct Caller: Hashable, Sendable {
    package var uid: UInt32
    package var gid: UInt32
    package var umask: UInt32

    package init(uid: UInt32, gid: UInt32, umask: UInt32) {
        self.uid = uid
        self.gid = gid
        self.umask = umask
    }

    /// The attributes of something this process makes.
    func attributes(type: UInt32, mode: UInt32, now: Timestamp) -> FileAttributes {
        FileAttributes(mode: type | mode & 0o7777 & ~umask, uid: uid, gid: gid, modified: now)
    }
}

/// What stat(2) tells of an inode.
package struct InodeStatus: Hashable, Sendable {
    package var number: InodeNumber
    package var attributes: FileAttributes
    /// The last change of content, attributes or name.
    package var changed: Timestamp
    package var accessed: Timestamp
    /// In bytes.
    package var size: Int64
    /// It has no name any more, and lives only while it is open.
    package var isRemoved: Bool
    /// How many names a file has.
    package var links = 1
    /// How many folders are in a folder; nil while that is unknown, and of anything else.
    package var subfolders: Int?
}

/// The room there is: a bucket has no bounds, so it is what the local disk can still stage.
package struct FileSystemStatistics: Hashable, Sendable {
    package var totalBytes: Int64
    package var freeBytes: Int64
}

/// How a file is opened.
package struct OpenMode: Hashable, Sendable {
    package var isReadable: Bool
    package var isWritable: Bool
    package var isTruncating: Bool
    package var isExclusive: Bool

    package init(isReadable: Bool, isWritable: Bool, isTruncating: Bool = false, isExclusive: Bool = false) {
        self.isReadable = isReadable
        self.isWritable = isWritable
        self.isTruncating = isTruncating
        self.isExclusive = isExclusive
    }
}

/// What the flusher says about the upload of a path.
package struct UploadState: Hashable, Sendable {
    /// As in `uploads list`: queued, waiting, uploading, paused, attention, conflict.
    package var state: String
    /// 0 to 1.
    package var progress: Double
    /// The reasons it waits, separated by commas.
    package var waiting: String

    package init(state: String, progress: Double, waiting: String) {
        self.state = state
        self.progress = progress
        self.waiting = waiting
    }
}
