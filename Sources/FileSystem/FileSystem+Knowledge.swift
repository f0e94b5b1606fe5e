// SPDX-License-Identifier: Apache-2.0
// Copyright the Moorage authors

internal import Base
internal import Catalog
internal import Database
internal import Journal
internal import Platform

/// What is known of the remote's names, as of one catalog: when that is lost, nothing that was concluded holds.
struct Knowledge: Sendable {
    let epoch: Int
}

extension FileSystem {
    /// Changes names in folders of which it is known what the remote has in them.
    ///
    /// The cache may be deleted or fail at any moment. The catalog is then empty, which does not mean that the remote
    /// is: the folders are listed anew first, and what was begun with the old catalog is begun again. `body` hands its
    /// argument to ``RemoteView/state(of:as:)``, which makes sure of that in the journal's transaction. From the second
    /// time on the attributes of the folders, and of what is at `path`, are known too.
    func knowing<Value>(
        _ folders: [InodeNumber],
        and path: ObjectKey? = nil,
        _ body: (Knowledge) throws(FileError) -> Value
    ) throws(FileError) -> Value {
        for attempt in 0..<4 {
            let knowledge = view.knowledge
            do throws(FileError) {
                for folder in folders { try know(folder) }
                if attempt > 0 {
                    for folder in folders { try describe(folder) }
                    if let path { try view.describe(path) }
                }
                return try body(knowledge)
            } catch {
                if case .unknown = error {
                    for folder in folders { try distrust(self.folder(folder)) }
                } else if view.knowledge.epoch == knowledge.epoch {
                    throw error
                }
            }
        }
        throw .unknown
    }

    /// Has the remote asked what is in a folder before its names are believed: it may have been uploaded meanwhile.
    func distrust(_ folder: Inode) throws(FileError) {
        folder.state.withLock { $0.isLocalOnly = false }
        try view.distrust(path(of: folder.number))
    }

    /// Learns the attributes of a folder, and whether it has a marker, where no row tells.
    private func describe(_ number: InodeNumber) throws(FileError) {
        guard let path = table.path(of: number), !path.isRoot else { return }
        guard try translating({ try journal.node(at: path) }) == nil else { return }
        if try translating({ try view.entry(path) }) == nil, let parent = table.inode(at: path.parent) {
            try freshen(path.name, in: parent)
        }
        try view.describe(path)
    }

    private func know(_ number: InodeNumber) throws(FileError) {
        let folder = try folder(number)
        if try isLocalOnly(folder) { return }
        let path = try path(of: number)
        if view.isFresh(path) { return }
        if try translating({ try view.isListed(path) }) { return }
        try freshen(folder)
    }
}

extension FileSystem {
    /// Whether the remote has nothing of a folder, so that it need not be asked.
    func isLocalOnly(_ folder: Inode) throws(FileError) -> Bool {
        let (isLocalOnly, checkedAt) = folder.state.withLock { ($0.isLocalOnly, $0.localOnlyCheckedAt) }
        guard isLocalOnly else { return false }
        let now = monotonicSeconds()
        // What has been uploaded into it since was noted in the catalog, as long as there was one. Others may put names
        // into it from then on, and the kernel need not ask for its name before it asks what is in it.
        if !view.hasLostCatalog, now < checkedAt + options.kernelAge { return true }
        guard let path = table.path(of: folder.number) else { return true }
        let isStill = try translating {
            // Somebody else may have put a name into it: a listing of the folder above then has this one's.
            try journal.node(at: path)?.isLocalOnly == true && view.entry(path)?.kind != .directory
        }
        folder.state.withLock { state in
            state.isLocalOnly = state.isLocalOnly && isStill
            // A row may say so again, which is not to be believed without another look.
            state.localOnlyCheckedAt = isStill ? now : -.infinity
        }
        return isStill
    }

    /// Asks what others have in a folder; of one made here, where nobody answers, what is in it from here is all.
    func orAsMadeHere(_ path: ObjectKey, _ body: () throws(FileError) -> Void) throws(FileError) {
        do throws(FileError) {
            try body()
        } catch {
            guard try isAllOfWhatIsKnown(path, error) else { throw error }
        }
    }

    /// Whether a folder that could not be listed is one of which nothing is at the remote but what others put there.
    func isAllOfWhatIsKnown(_ path: ObjectKey, _ error: FileError) throws(FileError) -> Bool {
        guard case .unreachable = error else { return false }
        return try translating { try isLocalOnly(path) }
    }

    /// Brings what is known of the names in a folder up to date before it is removed as empty: what was made here may
    /// have got some from others by now, as far as anybody answers.
    func freshenForRemoval(_ folder: Inode, in parent: Inode) throws(FileError) {
        if try isLocalOnly(folder) {
            do throws(FileError) {
                try freshen(parent)
            } catch {
                guard !error.isInterrupted else { throw error }
            }
            folder.state.withLock { $0.localOnlyCheckedAt = -.infinity }
        }
        try freshen(folder)
    }
}

extension RemoteView {
    /// Whether commits of the flusher may be missing in the catalog.
    var hasLostCatalog: Bool { catalog.epoch > 0 || catalog.isInMemory }

    var knowledge: Knowledge { Knowledge(epoch: catalog.epoch) }

    /// Whether a folder was ever listed in this catalog, which all commits are noted in.
    func isListed(_ folder: ObjectKey) throws(DatabaseError) -> Bool {
        if catalog.isInMemory { return false }
        return try catalog.folderState(folder) != nil
    }

    /// What the journal must know of the remote at a path; an error when the catalog was lost since `knowledge`.
    ///
    /// To be called within the journal's transaction, as it does by itself.
    func state(of path: ObjectKey, as knowledge: Knowledge) throws(DatabaseError) -> RemoteState {
        let state = try state(of: path)
        try confirm(knowledge)
        if catalog.isInMemory { unsettled.withLock { _ = $0.insert(path) } }
        return state
    }

    /// Everything known below a folder, as the journal needs it to move it; see ``state(of:as:)``.
    ///
    /// A catalog in memory lacks what was sent since `ground`: that is an error then, of the kind `incomplete`.
    func tree(
        _ folder: ObjectKey,
        as knowledge: Knowledge,
        on ground: ListingGround?
    ) throws(DatabaseError) -> [RemoteEntry] {
        let entries = try catalog.descendants(of: folder).map { RemoteEntry(path: $0.path, state: state(of: $0)) }
        try confirm(knowledge)
        guard ground == nil || groundInMemory == ground else {
            throw DatabaseError(.incomplete, "the catalog, which is in memory, may lack what was sent meanwhile")
        }
        return entries
    }

    /// What a catalog in memory rests on, which other processes tell nothing; nil while they share it.
    var groundInMemory: ListingGround? {
        guard catalog.isInMemory else { return nil }
        return ListingGround(epoch: catalog.epoch, journal: (try? journal.changeCounter()) ?? 0)
    }

    /// How long the longest key known below a folder is, in bytes.
    func longestKey(below folder: ObjectKey, except hidden: Set<ObjectKey>) throws(DatabaseError) -> Int {
        let entries = try catalog.descendants(of: folder).filter { !hidden.contains($0.path) }
        return entries.map { $0.path.keyLength(isFolder: $0.kind == .directory) }.max() ?? 0
    }

    /// Forgets what does not count any more; whether the flusher's commits are in this catalog.
    ///
    /// That is when the catalog is another one, or while it is in memory: there it does not learn what a row becomes
    /// that goes away, neither the names nor the attributes.
    func followCatalog() -> Bool {
        guard catalog.isInMemory else {
            listings.follow(ListingGround(epoch: catalog.epoch))
            return true
        }
        let counter = (try? journal.changeCounter()) ?? 0
        if listings.follow(ListingGround(epoch: catalog.epoch, journal: counter)) { forgetSettled() }
        return false
    }

    /// How many paths are kept apart before all attributes are asked for anew.
    private static let unsettledLimit = 1000

    private func forgetSettled() {
        let paths = unsettled.withLock { $0 }
        do throws(DatabaseError) {
            if paths.count > Self.unsettledLimit {
                unsettled.withLock { $0 = [] }
                return try catalog.clear()
            }
            for path in paths where try journal.node(at: path) == nil {
                unsettled.withLock { _ = $0.remove(path) }
                try catalog.forgetAttributes(of: path)
            }
        } catch {
            Log.warning("mount", "\(error)")
        }
    }

    /// An error when the catalog was lost since `knowledge`.
    func confirm(_ knowledge: Knowledge) throws(DatabaseError) {
        guard catalog.epoch == knowledge.epoch else {
            throw DatabaseError(.other, "the catalog was lost meanwhile; it is learned anew")
        }
    }
}
